package web

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/memlane/memlane/render/text"
)

// What clients can tie up.
const (
	maxConnections = 256
	maxHeader      = 64 << 10         // browsers send the cookies of all that ever served on localhost
	maxAnswers     = 4                // of the API, under way
	askIn          = 10 * time.Second // how long a request may take to arrive
	idleFor        = time.Minute      // how long a connection may rest between requests
	takeIn         = 30 * time.Second // how long a client may take to accept a part of an answer
	partSize       = 64 << 10         // of that part
	endIn          = 2 * time.Second  // how long answers under way may take at the end
)

// Serve answers on a listener until ctx is done. Answers under way may then still
// be taken, for a moment. What there is too much of, connections or headers, is
// hung up on.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var connections atomic.Int64
	server := &http.Server{
		Handler: s, ReadTimeout: askIn, WriteTimeout: takeIn, IdleTimeout: idleFor, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, // which would answer before it is asked who asks
		ErrorLog:                     log.New(lines{s.Log}, "memlane: ", 0),
		ConnState: func(c net.Conn, now http.ConnState) {
			switch now {
			case http.StateNew:
				if connections.Add(1) > maxConnections {
					c.Close()
				}
			case http.StateClosed:
				connections.Add(-1)
			}
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), endIn)
	defer cancel()
	if server.Shutdown(last) != nil {
		server.Close()
	}
	return nil
}

// patient passes an answer on in parts, each of which the client may take its time
// for: an answer may be large and the way to the client slow, but a client that
// takes nothing must not hold on to it for ever.
type patient struct {
	to    http.ResponseWriter
	began bool // something was written
}

func (p *patient) Write(b []byte) (n int, err error) {
	control := http.NewResponseController(p.to)
	for n < len(b) && err == nil {
		_ = control.SetWriteDeadline(time.Now().Add(takeIn)) // what has no deadlines needs none
		var k int
		p.began = true
		k, err = p.to.Write(b[n:min(n+partSize, len(b))])
		n += k
	}
	return n, err
}

// lines writes text of which each line is fit for a terminal.
type lines struct{ to io.Writer }

func (l lines) Write(b []byte) (int, error) {
	if l.to == nil {
		return len(b), nil
	}
	all := strings.Split(strings.ReplaceAll(string(b), "\t", "    "), "\n")
	for i := range all {
		all[i] = text.Printable(all[i])
	}
	_, err := io.WriteString(l.to, strings.Join(all, "\n"))
	return len(b), err
}
