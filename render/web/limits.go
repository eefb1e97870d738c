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

// Limits for clients.
const (
	maxConnections  = 256
	maxHeader       = 64 << 10         // browsers send the cookies of all servers on localhost
	maxAnswers      = 4                // concurrent answers of the API
	requestTimeout  = 10 * time.Second // to receive a request
	idleTimeout     = time.Minute      // between the requests of a connection
	partTimeout     = 30 * time.Second // for a client to accept a part of an answer
	partSize        = 64 << 10
	shutdownTimeout = 2 * time.Second // for running answers
)

// Serve answers requests on a listener until ctx is done; running answers then have
// shutdownTimeout. It closes connections beyond the limits. It returns an error only if
// the listener fails.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var connections atomic.Int64
	server := &http.Server{
		Handler: s, ReadTimeout: requestTimeout, WriteTimeout: partTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, // it would answer before the checks of ServeHTTP
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
	last, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if server.Shutdown(last) != nil {
		server.Close()
	}
	return nil
}

// partWriter writes an answer in parts with a timeout for each. A large answer over a slow
// connection may take long, but a client that accepts nothing is disconnected.
type partWriter struct {
	to    http.ResponseWriter
	began bool // something was written
}

func (p *partWriter) Write(b []byte) (n int, err error) {
	control := http.NewResponseController(p.to)
	for n < len(b) && err == nil {
		_ = control.SetWriteDeadline(time.Now().Add(partTimeout)) // recorders in tests have no deadlines
		var k int
		p.began = true
		k, err = p.to.Write(b[n:min(n+partSize, len(b))])
		n += k
	}
	return n, err
}

// lines writes text whose lines are printable.
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
