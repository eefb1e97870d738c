package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// served is a memlane serve process, which ends with the test.
type served struct {
	t       *testing.T
	address string
	token   string
	command *exec.Cmd
}

// startServe runs "memlane serve". The test program acts as memlane if its name is memlane.
func startServe(t *testing.T, args ...string) *served {
	t.Helper()
	acceptSignals(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: self, Args: append([]string{"memlane", "serve", "--no-browser"}, args...)}
	link := filepath.Join(t.TempDir(), "memlane")
	if err := os.Symlink(self, link); err != nil {
		t.Skip(err)
	}
	cmd.Path = link
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if m := regexp.MustCompile(`serving (http://[^\s?]+/)(?:\?token=(\S+))?`).FindStringSubmatch(lines.Text()); m != nil {
			go io.Copy(io.Discard, stderr)
			return &served{t, m[1], m[2], cmd}
		}
	}
	t.Fatal("it prints no address")
	return nil
}

// get returns a response. It sends the token, and a Host header if host is not "".
func (s *served) get(path, host string) (body string, status int) {
	s.t.Helper()
	request, err := http.NewRequest("GET", s.address+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Host = host
	if query := request.URL.Query(); s.token != "" {
		query.Set("token", s.token)
		request.URL.RawQuery = query.Encode()
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := (&http.Client{Jar: jar}).Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data), answer.StatusCode
}

// ready waits until the captures were read version times.
func (s *served) ready(version string) {
	s.t.Helper()
	s.shows(`"state":"ready","version":"` + version + `"`)
}

// shows waits until the status matches a pattern, and returns it.
func (s *served) shows(pattern string) (status string) {
	s.t.Helper()
	for range 6000 { // five minutes: a machine may be busy
		status, _ = s.get("api/status", "")
		if regexp.MustCompile(pattern).MatchString(status) {
			return status
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatalf("never shows %s, but %s", pattern, status)
	return ""
}

// TestServe checks that the API returns the output of the commands, that foreign host
// names are refused, and that Ctrl-C stops it.
func TestServe(t *testing.T) {
	t.Parallel()
	file := snapshots + "/leak_4mib_20steps.pickle"
	s := startServe(t, file)
	if !strings.HasPrefix(s.address, "http://127.0.0.1:") {
		t.Errorf("it listens on %s", s.address)
	}
	s.ready("1")
	for path, args := range map[string][]string{
		"api/info": {"info", "--json", file}, "api/leaks": {"leaks", "--json", file}, "api/peak": {"peak", "--json", file},
		"api/peak?at=end": {"peak", "--json", "--at", "end", file}, "api/model": {"export", "--to", "json", file},
	} {
		if got, status := s.get(path, ""); status != 200 || got != succeed(t, args...) {
			t.Errorf("/%s: status %d, not the output of memlane %s", path, status, strings.Join(args, " "))
		}
	}
	for host, want := range map[string]int{"": 200, "localhost:1": 200, "[::1]:1": 200, "memlane.example": 421, "127.0.0.1.example:80": 421} {
		for _, path := range []string{"", "api/info"} {
			if _, got := s.get(path, host); got != want {
				t.Errorf("/%s requested as %q: status %d, want %d", path, host, got, want)
			}
		}
	}
	token := s.token
	for _, s.token = range []string{"", "wrong", strings.ToLower(token)} {
		for _, path := range []string{"", "api/info", "api/status", "api/model", "api/nothing"} {
			if body, got := s.get(path, ""); got != 403 || strings.Contains(body, token) {
				t.Errorf("/%s with the token %q: status %d, %s", path, s.token, got, body)
			}
		}
	}
	s.token = token
	for path, want := range map[string]int{"api/info?at=end": 400, "api/peak?at=end&at=peak": 400, "api/peak?when=end": 400, "?capture=1": 400,
		"api/nothing": 404, "etc/passwd": 404, "api/model?capture=7": 400, "api/peak?at=never": 400} {
		if _, got := s.get(path, ""); got != want {
			t.Errorf("/%s: status %d, want %d", path, got, want)
		}
	}
	if err := s.command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := s.command.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
}

// TestServeErrors checks the exit status of each error.
func TestServeErrors(t *testing.T) {
	for _, c := range []struct {
		args   []string
		status int
	}{
		{[]string{}, statusUsage}, {[]string{"--http", "8080", "a"}, statusUsage}, {[]string{"--http", ":8080", "a"}, statusUsage},
		{[]string{"--no-browser", "no such file"}, statusInput}, {[]string{"--http", "127.0.0.1:1x", "a"}, statusOutput},
	} {
		if _, stderr, status := memlane("", append([]string{"serve"}, c.args...)...); status != c.status {
			t.Errorf("serve %q: status %d, want %d: %s", c.args, status, c.status, stderr)
		}
	}
}

// TestServeOpensNothing checks that no URL leads to a file.
func TestServeOpensNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const secret = "the content of another file"
	for name, data := range map[string][]byte{"capture.pickle": leaky("f", "f.py"), "secret.txt": []byte(secret), "other.pickle": leaky(secret, "other.py")} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s := startServe(t, "--no-token", filepath.Join(dir, "capture.pickle"))
	s.ready("1")
	files := []string{"secret.txt", "other.pickle", "capture.pickle", filepath.Join(dir, "secret.txt"), filepath.Join(dir, "other.pickle"), "file://" + dir + "/secret.txt",
		"/etc/passwd", "/proc/self/environ", `\\host\share`, "C:/Windows/win.ini", "-", ""}
	var targets []string
	for _, file := range files {
		for _, to := range []string{"/%s", "//%s", "/../%s", "/./%s", "/../../../../../../../../%s", "/api/%s", "/api/../%s", "/api/info/%s", "/assets/%s", "/..%%2f%s", "/%%2e%%2e/%s",
			"/..%%5c%s", "/..%%c0%%af%s", "/%%252e%%252e/%s", "/api/info;%s", "/%s%%00", "/%s?", "/static/..;/%s"} {
			targets = append(targets, fmt.Sprintf(to, strings.ReplaceAll(file, `\`, "%5C")))
		}
		for _, api := range []string{"info", "leaks", "peak", "model", "status"} {
			for _, name := range []string{"capture", "file", "path", "at", "name", "input", "o", "output"} {
				for _, value := range []string{file, "../" + file} {
					targets = append(targets, "/api/"+api+"?"+name+"="+url.QueryEscape(value))
				}
			}
		}
	}
	served := []string{"/", "/api/info", "/api/leaks", "/api/model", "/api/peak", "/api/status"}
	for _, target := range targets {
		body := s.raw("GET " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if strings.Contains(body, secret) || strings.Contains(body, "root:") || strings.Contains(body, "PATH=") {
			t.Errorf("GET %s reads a file:\n%.300s", target, body)
		}
		if path, _, _ := strings.Cut(target, "?"); !slices.Contains(served, path) && strings.HasPrefix(body, "HTTP/1.1 200") {
			t.Errorf("GET %s is answered:\n%.300s", target, body)
		}
	}
	s.ready("1") // it was read once
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("%d files are there now (%v)", len(left), err)
	}
}

// raw sends a request unchanged and returns the response.
func (s *served) raw(request string) string {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.Trim(strings.TrimPrefix(s.address, "http://"), "/"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, request)
	answer, err := io.ReadAll(c)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(answer)
}

// TestServeOtherContent checks that a new content is noticed, also if its size and time are
// those of the old one, and that serve does not wait for a pipe in the place of a capture.
func TestServeOtherContent(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "capture.pickle")
	write := func(function string) {
		if err := os.WriteFile(file, leaky(function, "f.py"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	write("before")
	s := startServe(t, file)
	s.ready("1")
	write("behind")
	s.ready("2")
	if body, _ := s.get("api/leaks", ""); !strings.Contains(body, "behind") || strings.Contains(body, "before") {
		t.Errorf("the old content stays: %.300s", body)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("mkfifo", file).Run(); err != nil {
		t.Skip(err)
	}
	s.shows(`"state":"failed"`)
	if body, _ := s.get("api/status", ""); !strings.Contains(body, "capture.pickle: is not a file any more") {
		t.Errorf("status %s", body)
	}
	os.Remove(file)
	write("beyond")
	s.shows(`"state":"ready"`)
	if body, _ := s.get("api/leaks", ""); !strings.Contains(body, "beyond") {
		t.Errorf("the new content is not shown: %.300s", body)
	}
}
