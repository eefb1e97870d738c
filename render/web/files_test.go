package web_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/memlane/memlane/render/web"
)

// TestServeFiles checks the answers of the server of the page that needs no install.
func TestServeFiles(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	page := fstest.MapFS{"index.html": {Data: []byte("the page")}, "memlane.wasm.gz": {Data: []byte("\x1f\x8bprogram")}}
	go func() { ended <- web.ServeFiles(ctx, listener, page, io.Discard) }()
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/", "the page", 200},
		{"GET", "/memlane.wasm.gz", "\x1f\x8bprogram", 200},
		{"GET", "/api/info", "", 404},
		{"GET", "/../web.go", "", 404},
		{"POST", "/", "only GET", 405},
	} {
		request, err := http.NewRequest(c.method, "http://"+listener.Addr().String()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != c.status || !strings.Contains(string(body), c.body) {
			t.Errorf("%s %s: status %d, %q", c.method, c.path, answer.StatusCode, body)
		}
		if answer.Header.Get("Content-Security-Policy") != "frame-ancestors 'none'" || answer.Header.Get("X-Content-Type-Options") != "nosniff" || answer.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s %s: headers %v", c.method, c.path, answer.Header)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
