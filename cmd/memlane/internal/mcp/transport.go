package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const maxMessage = 1 << 20 // bytes of a message of a client

// connection is one message on each line. The SDK's own ends at the first line that is none; this one answers with an
// error of JSON-RPC and goes on. At the end of the input it waits for the answers to what was asked.
type connection struct {
	in     *bufio.Reader
	lines  chan []byte // closed at the end of in
	failed error       // of in; io.EOF at its end
	closed context.Context
	close  context.CancelFunc

	mu   sync.Mutex
	out  io.Writer
	asks map[any]bool  // requests without an answer
	idle chan struct{} // an answer was written
}

// Connect implements sdk.Transport.
func (c *connection) Connect(context.Context) (sdk.Connection, error) {
	go c.read()
	return c, nil
}

func connect(in io.Reader, out io.Writer) *connection {
	c := &connection{in: bufio.NewReader(in), lines: make(chan []byte), out: out, asks: map[any]bool{}, idle: make(chan struct{}, 1)}
	c.closed, c.close = context.WithCancel(context.Background())
	return c
}

// read passes the lines of the input on. A line that is longer than a message is passed as nil.
func (c *connection) read() {
	defer close(c.lines)
	var line []byte
	long := false
	for {
		part, err := c.in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxMessage; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long || len(bytes.TrimSpace(line)) > 0 {
			select {
			case c.lines <- line:
			case <-c.closed.Done():
				return
			}
		}
		if line, long = nil, false; err != nil {
			c.failed = err
			return
		}
	}
}

// Read returns the next message.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.closed.Done():
			return nil, io.EOF
		case line, ok := <-c.lines:
			if !ok {
				return nil, c.end(ctx)
			}
			m, refused := decode(line)
			if refused == nil {
				c.note(m)
				return m, nil
			}
			if err := c.send(refusal{"2.0", idOf(line), refused}); err != nil {
				return nil, err
			}
		}
	}
}

// end waits until each request has its answer, and returns why there are no more.
func (c *connection) end(ctx context.Context) error {
	for {
		c.mu.Lock()
		n := len(c.asks)
		c.mu.Unlock()
		if n == 0 {
			return c.failed
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.closed.Done():
			return io.EOF
		case <-c.idle:
		}
	}
}

// decode returns what a line says, or the error that answers it.
func decode(line []byte) (jsonrpc.Message, *jsonrpc.Error) {
	invalid := func(why string) (jsonrpc.Message, *jsonrpc.Error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: why}
	}
	line = bytes.TrimSpace(line)
	switch {
	case len(line) == 0:
		return invalid(fmt.Sprintf("the message has more than %d bytes", maxMessage))
	case !json.Valid(line):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not JSON; send one message of JSON-RPC 2.0 on each line"}
	case line[0] == '[':
		return invalid("batches are not part of the protocol; send one message on each line")
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return invalid("not a message of JSON-RPC 2.0: " + printable(err.Error()))
	}
	if r, ok := m.(*jsonrpc.Response); ok && r.Error == nil && r.Result == nil {
		return invalid("the message has no method")
	}
	return m, nil
}

// idOf returns the ID that a message has, though it is no valid one; nil if it has none.
func idOf(line []byte) any {
	var m struct{ ID any }
	if json.Unmarshal(line, &m) != nil {
		return nil
	}
	switch m.ID.(type) {
	case string, float64:
		return m.ID
	}
	return nil
}

type refusal struct {
	Version string         `json:"jsonrpc"`
	ID      any            `json:"id"`
	Error   *jsonrpc.Error `json:"error"`
}

// note keeps what the client waits for.
func (c *connection) note(m jsonrpc.Message) {
	r, ok := m.(*jsonrpc.Request)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.ID.IsValid() {
		c.asks[r.ID.Raw()] = true
	}
	var cancelled struct{ RequestID any }
	if r.Method == "notifications/cancelled" && json.Unmarshal(r.Params, &cancelled) == nil {
		if id, err := jsonrpc.MakeID(cancelled.RequestID); err == nil {
			delete(c.asks, id.Raw())
		}
	}
}

// Write sends a message of the server.
func (c *connection) Write(_ context.Context, m jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	err = c.send(json.RawMessage(data))
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.asks, r.ID.Raw())
		c.mu.Unlock()
		select {
		case c.idle <- struct{}{}:
		default:
		}
	}
	return err
}

func (c *connection) send(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.out.Write(append(data, '\n'))
	return err
}

// Close ends Read. It leaves the writer open.
func (c *connection) Close() error { c.close(); return nil }

// SessionID implements sdk.Connection: there is one session.
func (c *connection) SessionID() string { return "" }
