//go:build !page

package main

import (
	"strings"
	"testing"
)

// TestServeNothing checks that a program without the page says how to get it.
func TestServeNothing(t *testing.T) {
	stdout, stderr, status := memlane("", "serve")
	if status != 2 || stdout != "" || !strings.Contains(stderr, "serve: no capture given") || !strings.Contains(stderr, "memlane man browser") {
		t.Errorf("status %d: %s%s", status, stdout, stderr)
	}
}
