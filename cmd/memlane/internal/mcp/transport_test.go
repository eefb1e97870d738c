package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` +
	"\n" + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"

// message is an answer of the server.
type message struct {
	ID     any
	Result json.RawMessage
	Error  *struct{ Code int }
}

// TestMalformed: a line that is no message is answered with an error, and the server answers what comes after it.
func TestMalformed(t *testing.T) {
	const none = 1 // no answer
	s, err := New("v1", []string{t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, requests := io.Pipe()
	answers, out := io.Pipe()
	ended := make(chan error)
	go func() {
		err := s.Serve(t.Context(), in, out)
		out.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(answers)
	next := func() (m message) {
		t.Helper()
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &m) != nil {
			t.Fatalf("the server said %q, %v", lines.Text(), lines.Err())
		}
		return m
	}
	io.WriteString(requests, hello)
	next()
	for _, q := range []struct {
		line string
		id   any
		code int
	}{
		{"", nil, none},
		{" \t\r", nil, none},
		{"{", nil, -32700},
		{"hello", nil, -32700},
		{"\xff\xfe", nil, -32700},
		{strings.Repeat("[", 20_000), nil, -32700},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}`, nil, -32700},
		{"{}", nil, -32600},
		{"[]", nil, -32600},
		{`[{"jsonrpc":"2.0","id":5,"method":"ping"}]`, nil, -32600},
		{"null", nil, -32600},
		{"true", nil, -32600},
		{"5", nil, -32600},
		{`"x"`, nil, -32600},
		{`{"id":3,"method":"ping"}`, 3., -32600},
		{`{"jsonrpc":"1.0","id":"three","method":"ping"}`, "three", -32600},
		{`{"jsonrpc":"2.0","id":4}`, 4., -32600},
		{`{"jsonrpc":"2.0","id":4,"method":5}`, 4., -32600},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, nil, -32600},
		{`{"jsonrpc":"2.0","id":[1],"method":"ping"}`, nil, -32600},
		{`{"jsonrpc":"2.0","id":7,"method":"ping","x":"` + strings.Repeat("x", 3*maxMessage) + `"}`, nil, -32600},
		{`{"jsonrpc":"2.0","id":77,"result":{}}`, nil, none},
		{`{"jsonrpc":"2.0","id":77,"error":{"code":1,"message":"m"}}`, nil, none},
		{`{"jsonrpc":"2.0","method":"nope"}`, nil, none},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, none},
		{`{"jsonrpc":"2.0","id":6,"method":"nope"}`, 6., -32601},
		{`{"jsonrpc":"2.0","id":6,"method":"tools/call"}`, 6., -32600},
		{`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":[]}`, 6., -32602},
		{`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"x"}}`, 6., -32602},
		{`{"jsonrpc":"2.0","id":8,"method":"initialize","params":{}}`, 8., 0},
	} {
		io.WriteString(requests, q.line+"\n")
		if q.code != none {
			if m := next(); m.Error == nil || m.Error.Code != q.code || m.ID != q.id {
				t.Errorf("%.60q is answered with %s, want code %d for ID %v", q.line, lines.Text(), q.code, q.id)
			}
		}
		io.WriteString(requests, `{"jsonrpc":"2.0","id":"after","method":"tools/list"}`+"\n")
		if m := next(); m.ID != "after" || m.Result == nil {
			t.Fatalf("after %.60q, the server said %s", q.line, lines.Text())
		}
	}
	requests.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLastAnswer: what was asked before the end of the input is answered; what was cancelled is not waited for.
func TestLastAnswer(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := New("v1", []string{folder}, func(ctx context.Context, args []string) (stdout, stderr string, failed bool) {
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		return strings.Join(args[:2], " "), "", false
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	in := hello + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"leaks","arguments":{"path":"a"}}}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tune","arguments":{"path":"a"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}` + "\n" +
		`{"jsonrpc":"2.0","id":3,"method":"ping"}` // no line feed
	if err := s.Serve(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "leaks --quiet") || !strings.Contains(out.String(), `"id":3,"result"`) {
		t.Errorf("the server said\n%s", &out)
	}
}
