package web_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/memlane/memlane/internal/browser"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/render/web"
)

// TestBundle checks that the committed script and style match their sources.
func TestBundle(t *testing.T) {
	browser.CheckBundle(t, "doc.go", regexp.MustCompile(`(?m)^//go:generate go (tool esbuild .*) --outfile=(\S+)$`))
}

func read(t *testing.T, text string) *lifetime.Capture {
	t.Helper()
	b := build.New(build.Everything)
	if err := native.Read("text", strings.NewReader(text), b); err != nil {
		t.Fatal(err)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func page(t *testing.T, captures ...*judge.Capture) string {
	t.Helper()
	var out bytes.Buffer
	if err := web.Write(&out, captures); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestNothingActs checks that text of a capture is in the page only in base64, except in
// the escaped title.
func TestNothingActs(t *testing.T) {
	data, err := os.ReadFile("../../testdata/torchsnap/twodev.native")
	if err != nil {
		t.Fatal(err)
	}
	evil := `</script><script>alert(1)</script><img src=x onerror=alert(1)>`
	c := read(t, strings.ReplaceAll(string(data), "twodev.py", "evil</script><b>.py"))
	c.Sources[0].File = evil
	html := page(t, judge.Of(c))
	if strings.Contains(html, evil) || strings.Contains(html, "evil</script>") {
		t.Error("the page contains text of a capture")
	}
	if want := strings.Count(page(t), "</script>") + 2 + 2*len(c.Spaces); strings.Count(html, "</script>") != want {
		t.Errorf("%d elements end, want %d", strings.Count(html, "</script>"), want)
	}
	if !strings.Contains(html, "&lt;/script&gt;") {
		t.Error("the title does not name the capture")
	}
	if html != page(t, judge.Of(c)) {
		t.Error("the same capture gives different pages")
	}
}

// TestPolicy checks that the policy of the page forbids requests.
func TestPolicy(t *testing.T) {
	html := page(t)
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(html)
	if policy == nil {
		t.Fatal("no policy")
	}
	for _, want := range []string{"default-src 'none'", "connect-src 'none'", "base-uri 'none'", "form-action 'none'", "script-src 'sha256-", "style-src 'sha256-"} {
		if !strings.Contains(policy[1], want) {
			t.Errorf("the policy %q lacks %q", policy[1], want)
		}
	}
	if strings.Contains(policy[1], "unsafe") || strings.Contains(policy[1], "http") {
		t.Errorf("the policy %q allows too much", policy[1])
	}
}
