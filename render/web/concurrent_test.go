package web_test

import (
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/web"
)

// TestAskedAtOnce: clients that ask at the same time share what is said of a capture, and get the answers of one that asks alone.
func TestAskedAtOnce(t *testing.T) {
	const file = "../../testdata/whatif/leak.pickle.zst"
	serve := func() func(path string) string {
		server := &web.Server{Read: func(func(string, int64) func(int)) ([]*judge.Capture, error) {
			return []*judge.Capture{fresh(t, file)}, nil
		}}
		if err := server.Load(); err != nil {
			t.Fatal(err)
		}
		return func(path string) string {
			answer := httptest.NewRecorder()
			server.ServeHTTP(answer, httptest.NewRequest("GET", "http://127.0.0.1:1234"+path, nil))
			return answer.Body.String()
		}
	}
	alone, together := serve(), serve()
	var clients sync.WaitGroup
	for _, path := range []string{"/api/info", "/api/leaks", "/api/peak", "/api/leaks", "/api/peak?at=end", "/api/peak"} {
		want := alone(path)
		clients.Go(func() {
			if got := together(path); got != want || len(want) < 500 {
				t.Errorf("%s answers %.200q, want %.200q", path, got, want)
			}
		})
	}
	clients.Wait()
}
