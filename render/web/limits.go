//go:build !js

package web

import (
	"context"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/memlane/memlane/render/text"
)

// Limits for clients.
const (
	maxConnections  = 256              // that wait for a request, and again with one
	maxHeader       = 64 << 10         // browsers send the cookies of all servers on localhost
	maxAnswers      = 4                // concurrent answers of the API
	requestTimeout  = 10 * time.Second // to receive a request
	idleTimeout     = time.Minute      // between the requests of a connection
	partTimeout     = 30 * time.Second // for a client to accept a part of an answer
	partSize        = 64 << 10
	shutdownTimeout = 2 * time.Second // for running answers
)

// connections are the open connections of a server.
type connections struct {
	mu      sync.Mutex
	n       int              // number of changes
	waiting map[net.Conn]int // the last change of those without a whole request
	served  int
}

// connectionKey is the key of the connection in the context of its requests.
type connectionKey struct{}

// changed takes a change of state. Of more than maxConnections without a whole request it closes the one that has not
// changed for longest, so that slow clients cannot hold others off.
func (o *connections) changed(c net.Conn, now http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now == http.StateClosed {
		delete(o.waiting, c)
		return
	}
	o.n++
	o.waiting[c] = o.n
	if len(o.waiting) <= maxConnections {
		return
	}
	oldest := c
	for other, n := range o.waiting {
		if n < o.waiting[oldest] {
			oldest = other
		}
	}
	delete(o.waiting, oldest)
	oldest.Close()
}

// limited returns a handler that refuses requests beyond maxConnections at a time (503).
func (o *connections) limited(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		delete(o.waiting, r.Context().Value(connectionKey{}).(net.Conn))
		o.served++
		full := o.served > maxConnections
		o.mu.Unlock()
		defer func() {
			o.mu.Lock()
			o.served--
			o.mu.Unlock()
		}()
		if full {
			protect(w.Header())
			w.Header().Set("Retry-After", "1")
			w.Header().Set("Connection", "close")
			http.Error(w, "too many requests at a time; try again", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// Serve answers requests on a listener until ctx is done; running answers then have
// shutdownTimeout. Beyond maxConnections it refuses requests, and closes connections without
// one. It returns an error only if the listener fails.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	return serve(ctx, listener, s, s.Log)
}

// ServeFiles serves the page that cmd/memlane-web built, in folder page, like Serve. It needs
// no token: captures stay in the browser, and everyone may have the page.
func ServeFiles(ctx context.Context, listener net.Listener, page fs.FS, errors io.Writer) error {
	files := http.FileServerFS(page)
	return serve(ctx, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		w.Header().Set("Content-Security-Policy", "frame-ancestors 'none'") // the page has its own policy
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD are allowed", http.StatusMethodNotAllowed)
			return
		}
		files.ServeHTTP(w, r)
	}), errors)
}

func serve(ctx context.Context, listener net.Listener, handler http.Handler, errors io.Writer) error {
	open := connections{waiting: map[net.Conn]int{}}
	server := &http.Server{
		Handler: open.limited(handler), ReadTimeout: requestTimeout, WriteTimeout: partTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		DisableGeneralOptionsHandler: true, // it would answer before the checks of ServeHTTP
		ErrorLog:                     log.New(lines{errors}, "memlane: ", 0),
		ConnState:                    open.changed,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
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
type partWriter struct{ to http.ResponseWriter }

func (p *partWriter) Write(b []byte) (n int, err error) {
	control := http.NewResponseController(p.to)
	for n < len(b) && err == nil {
		_ = control.SetWriteDeadline(time.Now().Add(partTimeout)) // recorders in tests have no deadlines
		var k int
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
