package web

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/memlane/memlane/lifetime/judge"
)

func get(t *testing.T, s http.Handler, path string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1:1234"+path, nil))
	return answer.Body.String()
}

type serverStatus struct {
	State, Version, File, Error string
	Read, Size                  int64
	Files                       []fileStatus
	Damaged                     []string
}

func statusOf(t *testing.T, s http.Handler) (st serverStatus) {
	t.Helper()
	if err := json.Unmarshal([]byte(get(t, s, "/api/status")), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// TestServerProgress checks the waiting page and the status during Load, and that a failed
// Load keeps the old page.
func TestServerProgress(t *testing.T) {
	began, goOn := make(chan bool), make(chan error)
	s := &Server{
		Read: func(started func(string, int64) func(int)) ([]*judge.Capture, error) {
			first := started("first.pickle", 2000)
			first(500)
			add := started("big.pickle", 1000)
			add(250)
			first(700) // several are read at once
			add(150)
			began <- true
			return []*judge.Capture{}, <-goOn
		},
		api: map[string]func(io.Writer, []*judge.Capture, url.Values) error{
			"/api/x": func(w io.Writer, _ []*judge.Capture, q url.Values) error {
				_, err := io.WriteString(w, q.Get("a"))
				return err
			},
		},
	}
	if !strings.Contains(get(t, s, "/"), ` data-version="0"`) {
		t.Error("before the first Load, the page is not the waiting page")
	}
	loaded := make(chan error)
	go func() { loaded <- s.Load() }()
	<-began
	want := serverStatus{State: "reading", Version: "0", File: "big.pickle", Read: 400, Size: 1000, Files: []fileStatus{{"first.pickle", 1200, 2000}, {"big.pickle", 400, 1000}}, Damaged: []string{}}
	if st := statusOf(t, s); !reflect.DeepEqual(st, want) {
		t.Errorf("while it reads the status is %+v, want %+v", st, want)
	}
	if got := get(t, s, "/api/x?a=1"); !strings.Contains(got, "still being read") {
		t.Errorf("during Load the API answers %q", got)
	}
	goOn <- nil
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "/api/x?a=1"); got != "1" {
		t.Errorf("the API answers %q", got)
	}
	go func() { loaded <- s.Load() }()
	<-began
	goOn <- errors.New("broken")
	if err := <-loaded; err == nil {
		t.Error("no error")
	}
	if st := statusOf(t, s); st.State != "failed" || st.Version != "1" || st.Error != "broken" {
		t.Errorf("after it failed the status is %+v", st)
	}
	if !strings.Contains(get(t, s, "/"), ` data-version="1"`) {
		t.Error("after it failed the page is gone")
	}
}

// TestServerList checks that /api lists the addresses and their parameters.
func TestServerList(t *testing.T) {
	server := &Server{api: map[string]func(io.Writer, []*judge.Capture, url.Values) error{"/api/peak": peakAPI, "/api/info": infoAPI}}
	want := `{"paths":[{"path":"/api/status","parameters":[]},{"path":"/api/info","parameters":[]},{"path":"/api/peak","parameters":["at"]}]}`
	if got := strings.TrimSpace(get(t, server, "/api")); got != want {
		t.Errorf("/api answers\n%s, want\n%s", got, want)
	}
}

// TestServerWatch checks that Watch reads captures again after their files stopped changing, also those that changed while Load read them.
func TestServerWatch(t *testing.T) {
	stamps := []string{"a", "b", "c", "c"} // returned when Load begins, then at each interval
	read := make(chan string, 10)
	last := ""
	s := &Server{
		Stamp: func() string {
			last = stamps[0]
			stamps = stamps[min(1, len(stamps)-1):]
			return last
		},
		Read: func(func(string, int64) func(int)) ([]*judge.Capture, error) {
			read <- last
			return nil, nil
		},
	}
	if err := s.Load(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go s.Watch(done, time.Millisecond, func(err error) { t.Error(err) })
	for _, want := range []string{"a", "c"} {
		if got := <-read; got != want {
			t.Errorf("it read the files in state %s, want %s", got, want)
		}
	}
	close(done)
	if len(read) > 0 {
		t.Error("it read them once more")
	}
}

// TestServerErrors checks that errors below /api are JSON, also those of refused requests, and that others are text.
func TestServerErrors(t *testing.T) {
	s := &Server{Token: "secret", api: map[string]func(io.Writer, []*judge.Capture, url.Values) error{"/api/peak": peakAPI}}
	for path, want := range map[string]int{"/api/peak": 403, "/api/peak?token=secret": 503, "/api/nothing?token=secret": 404, "/api/peak?token=secret&x=1": 400, "/api?x=1&token=secret": 400} {
		got := httptest.NewRecorder()
		s.ServeHTTP(got, httptest.NewRequest("GET", "http://127.0.0.1"+path, nil))
		var out struct{ Error string }
		if err := json.Unmarshal(got.Body.Bytes(), &out); err != nil || out.Error == "" || got.Code != want || got.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s %q, want %d and JSON", path, got.Code, got.Header().Get("Content-Type"), got.Body, want)
		}
	}
	got := httptest.NewRecorder()
	s.ServeHTTP(got, httptest.NewRequest("GET", "http://127.0.0.1/nothing?token=secret", nil))
	if got.Code != 400 && got.Code != 404 || !strings.HasPrefix(got.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("an unknown page: %d %s", got.Code, got.Header().Get("Content-Type"))
	}
}
