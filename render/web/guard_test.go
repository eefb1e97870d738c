package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/judge"
)

// secret is in the answers of a test server.
const secret = "names of a capture"

// answering is a server with captures whose API returns the secret.
func answering(t *testing.T) *Server {
	t.Helper()
	s := &Server{
		Host: "memlane.example",
		Read: func(func(string, int64) func(int)) ([]*judge.Capture, error) { return []*judge.Capture{}, nil },
		api: map[string]func(io.Writer, []*judge.Capture, url.Values) error{
			"/api/x": func(w io.Writer, _ []*judge.Capture, q url.Values) error {
				_, err := io.WriteString(w, secret+q.Get("a"))
				return err
			},
		},
	}
	if err := s.Load(); err != nil {
		t.Fatal(err)
	}
	return s
}

func init() { parameters["/api/x"] = []string{"a"} }

// asked returns the answer to a request.
func asked(s http.Handler, method, target, host string, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, "http://127.0.0.1:1234/", nil)
	request.URL = &url.URL{Path: target}
	if path, query, ok := strings.Cut(target, "?"); ok {
		request.URL = &url.URL{Path: path, RawQuery: query}
	}
	request.Host = host
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, request)
	return answer
}

// TestWhoMayAsk checks that the server accepts its own page, its user and programs on this
// machine, and refuses unknown host names and foreign pages.
func TestWhoMayAsk(t *testing.T) {
	s := answering(t)
	const site, mode, dest = "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"
	own := "127.0.0.1:1234"
	for _, c := range []struct {
		host      string
		headers   []string
		page, api int
	}{
		{own, nil, 200, 200}, // curl
		{"[::1]:1234", nil, 200, 200},
		{"192.168.0.7", nil, 200, 200},
		{"localhost:8080", nil, 200, 200}, // a tunnel
		{"LOCALHOST", nil, 200, 200},
		{"memlane.example:1234", nil, 200, 200}, // Server.Host

		// Names that point to this server, and names that look like addresses.
		{"", nil, 421, 421},
		{"evil.example", nil, 421, 421},
		{"evil.example:1234", nil, 421, 421},
		{"127.0.0.1.evil.example:1234", nil, 421, 421},
		{"localhost.evil.example", nil, 421, 421},
		{"localhost.", nil, 421, 421},
		{"evil.example@127.0.0.1", nil, 421, 421},
		{"127.0.0.1, evil.example", nil, 421, 421},
		{"0x7f000001", nil, 421, 421}, // browsers request 127.0.0.1 for it
		{"2130706433", nil, 421, 421},
		{"memlane.example.evil.example", nil, 421, 421},
		{"evil.example", []string{site, "same-origin"}, 421, 421}, // as the browser claims

		{own, []string{site, "none", mode, "navigate", dest, "document"}, 200, 200}, // typed by the user
		{own, []string{site, "same-origin", mode, "cors", dest, "empty"}, 200, 200}, // the page itself
		{own, []string{"Origin", "http://" + own}, 200, 200},
		{own, []string{site, "cross-site", mode, "navigate", dest, "document"}, 200, 403}, // a link
		{own, []string{site, "same-site", mode, "navigate", dest, "document"}, 200, 403},  // of another port
		{own, []string{site, "cross-site", mode, "navigate", dest, "iframe"}, 403, 403},
		{own, []string{site, "cross-site", mode, "navigate", dest, "embed"}, 403, 403},
		{own, []string{site, "cross-site", mode, "no-cors", dest, "script"}, 403, 403},
		{own, []string{site, "cross-site", mode, "no-cors", dest, "image"}, 403, 403},
		{own, []string{site, "cross-site", mode, "cors", dest, "empty"}, 403, 403},
		{own, []string{site, "same-site", mode, "cors", dest, "empty"}, 403, 403},
		{own, []string{site, "nonsense"}, 403, 403},
		{own, []string{"Origin", "https://evil.example"}, 403, 403}, // browsers that lack Sec-Fetch-Site
		{own, []string{"Origin", "http://127.0.0.1:3000"}, 403, 403},
		{own, []string{"Origin", "null"}, 403, 403}, // a file, a sandbox
		{own, []string{"Origin", "file://"}, 403, 403},
		{own, []string{"Origin", "%"}, 403, 403},
		{own, []string{"Origin", "http://evil.example", site, "same-origin"}, 403, 403},
	} {
		for path, want := range map[string]int{"/": c.page, "/api/x": c.api, "/api/status": c.api} {
			got := asked(s, "GET", path, c.host, c.headers...)
			if got.Code != want || want != 200 && strings.Contains(got.Body.String(), secret) {
				t.Errorf("%s of %q with %q: status %d, want %d", path, c.host, c.headers, got.Code, want)
			}
		}
	}
}

// TestMethods checks that only GET and HEAD are allowed.
func TestMethods(t *testing.T) {
	s := answering(t)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"} {
		for _, path := range []string{"/", "/api/x", "*"} {
			got := asked(s, method, path, "localhost")
			if got.Code != 405 || got.Header().Get("Allow") != "GET, HEAD" || strings.Contains(got.Body.String(), secret) {
				t.Errorf("%s %s: status %d, Allow %q", method, path, got.Code, got.Header().Get("Allow"))
			}
		}
	}
	for _, path := range []string{"/", "/api/x", "/api/status"} {
		if got := asked(s, "HEAD", path, "localhost"); got.Code != 200 {
			t.Errorf("HEAD %s: status %d", path, got.Code)
		}
	}
}

// TestHeaders checks that all answers, also errors, forbid scripts, requests, frames, type
// guessing and caching.
func TestHeaders(t *testing.T) {
	s := answering(t)
	for _, c := range []struct {
		method, path, host string
		status             int
		content            string
	}{
		{"GET", "/", "localhost", 200, "text/html; charset=utf-8"},
		{"GET", "/api/x", "localhost", 200, "application/json"},
		{"GET", "/api/status", "localhost", 200, "application/json"},
		{"GET", "/nothing", "localhost", 404, "text/plain; charset=utf-8"},
		{"POST", "/", "localhost", 405, "text/plain; charset=utf-8"},
		{"GET", "/", "evil.example", 421, "text/plain; charset=utf-8"},
	} {
		got := asked(s, c.method, c.path, c.host)
		h := got.Header()
		if got.Code != c.status || h.Get("Content-Type") != c.content {
			t.Errorf("%s %s: status %d, %s", c.method, c.path, got.Code, h.Get("Content-Type"))
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
			"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		} {
			if h.Get(name) != want {
				t.Errorf("%s %s: %s is %q", c.method, c.path, name, h.Get(name))
			}
		}
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s %s: the policy %q lacks %s", c.method, c.path, policy, want)
			}
		}
		if page := c.content == "text/html; charset=utf-8"; strings.Contains(policy, "script-src") != page || strings.Contains(policy, "unsafe") {
			t.Errorf("%s %s: the policy is %q", c.method, c.path, policy)
		}
		if h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s: answers are shared", c.method, c.path)
		}
	}
}

// TestToken checks that only requests with the token, or with the cookie that the page sets,
// are answered.
func TestToken(t *testing.T) {
	s := answering(t)
	s.Token, s.Once = "the token", "once"
	paths := []string{"/", "/api/x", "/api/status", "/nothing"}
	for _, path := range paths {
		for _, query := range []string{"", "?token=", "?token=the", "?token=the%20token2", "?token=THE%20TOKEN", "?a=the%20token", "?token=nobody&token=the%20token"} {
			if got := asked(s, "GET", path+query, "localhost", "Cookie", "token=the token; memlane-00000000=the token"); got.Code != 403 || len(got.Result().Cookies()) > 0 ||
				strings.Contains(got.Body.String(), "the token is the token") {
				t.Errorf("%s%s: status %d", path, query, got.Code)
			}
		}
	}
	if got := asked(s, "GET", "/api/x?token=the%20token", "localhost"); got.Code != 200 || got.Body.String() != secret {
		t.Errorf("with the token: status %d, %q", got.Code, got.Body)
	}
	if got := asked(s, "GET", "/api/x?token=once", "localhost"); got.Code != 403 {
		t.Errorf("an answer with the token of the page: status %d", got.Code)
	}
	for _, token := range []string{"the%20token", "once"} {
		got := asked(s, "GET", "/?token="+token, "localhost", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
		cookies := got.Result().Cookies()
		if got.Code != 303 || got.Header().Get("Location") != "./" || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode {
			t.Fatalf("the page with %s: status %d, %v", token, got.Code, cookies)
		}
		for path, want := range map[string]int{"/": 200, "/api/x": 200, "/api/status": 200, "/nothing": 404} {
			if got := asked(s, "GET", path, "localhost", "Cookie", cookies[0].Name+"="+strconv.Quote(cookies[0].Value)); got.Code != want {
				t.Errorf("%s with the cookie: status %d", path, got.Code)
			}
		}
	}
	below := http.StripPrefix("/memory", s)
	if got := asked(below, "GET", "/memory/?token=the%20token", "localhost"); got.Header().Get("Location") != "./" {
		t.Errorf("below a path: status %d, to %q", got.Code, got.Header().Get("Location"))
	}
	if got := asked(s, "GET", "/?token=once", "localhost"); got.Code != 403 {
		t.Errorf("twice with the token for once: status %d", got.Code)
	}
	s.Once = "again"
	s.Forget()
	if got := asked(s, "GET", "/?token=again", "localhost"); got.Code != 403 {
		t.Errorf("with a forgotten token: status %d", got.Code)
	}
	if got := asked(s, "GET", "/?token=the%20token", "evil.example"); got.Code != 421 {
		t.Errorf("a foreign name with the token: status %d", got.Code)
	}
}

// TestParameters checks that unknown, repeated and malformed parameters are refused.
func TestParameters(t *testing.T) {
	s := answering(t)
	for query, want := range map[string]int{"": 200, "a=1": 200, "a=": 200, "token=": 200, "b=1": 400, "A=1": 400, "a=1&b=2": 400, "a=1&a=1": 400, "%zz": 400, "a=1;b=2": 400} {
		if got := asked(s, "GET", "/api/x?"+query, "localhost"); got.Code != want {
			t.Errorf("?%s: status %d, want %d: %s", query, got.Code, want, got.Body)
		}
	}
	if got := asked(s, "GET", "/api/x?%1b[31m=1", "localhost").Body.String(); got != `{"error":"unknown parameter \"\\x1b[31m\"; known are: token, a"}`+"\n" {
		t.Errorf("%q", got)
	}
}
