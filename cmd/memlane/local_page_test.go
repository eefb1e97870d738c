//go:build page

package main

import (
	"strings"
	"testing"
)

// TestServeLocal checks that memlane serve without a capture serves the page that was built
// into it, without a token and without an API.
func TestServeLocal(t *testing.T) {
	s := startServe(t)
	if s.token != "" {
		t.Error("the page has a token")
	}
	if body, status := s.get("", ""); status != 200 || !strings.Contains(body, "wasm-unsafe-eval") {
		t.Errorf("status %d, %.80q", status, body)
	}
	if body, status := s.get("memlane.wasm.gz", ""); status != 200 || !strings.HasPrefix(body, "\x1f\x8b") {
		t.Errorf("the program: status %d, %.10q", status, body)
	}
	if _, status := s.get("api/info", ""); status != 404 {
		t.Errorf("/api/info: status %d", status)
	}
	if _, stderr, status := memlane("", "serve", "--no-token"); status != 2 || !strings.Contains(stderr, "serve: --no-token needs a capture") {
		t.Errorf("memlane serve --no-token: status %d, %s", status, stderr)
	}
}
