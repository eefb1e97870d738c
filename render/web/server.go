package web

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server shows captures to a browser, while they are read and whenever they change.
type Server struct {
	// Read reads the captures. It calls started for each file, and what that
	// returns for every part of it that was read.
	Read func(started func(file string, size int64) func(n int)) ([]Capture, error)
	// Stamp says which state the files are in: captures are read again when it
	// changes.
	Stamp func() string
	// API are the answers in JSON, by path.
	API map[string]func(w io.Writer, captures []Capture, query url.Values) error
	// Host is a name besides localhost and addresses by which the server is called.
	Host string

	mu       sync.Mutex
	status   status
	captures []Capture
	page     []byte
}

// status is what the page asks for again and again.
type status struct {
	State   string `json:"state"`   // reading, ready or failed
	Version string `json:"version"` // how often captures were read; "0" for not yet
	File    string `json:"file"`
	Read    int64  `json:"read"` // bytes
	Size    int64  `json:"size"` // 0 = not known
	Error   string `json:"error"`
}

// Load reads the captures and makes the page of them. Until it is done, and where
// it fails, the page that was there stays.
func (s *Server) Load() error {
	s.set(func(st *status) { st.State, st.Read, st.Size, st.Error = "reading", 0, 0, "" })
	captures, err := s.Read(func(file string, size int64) func(n int) {
		s.set(func(st *status) { st.File, st.Read, st.Size = file, 0, size })
		return func(n int) { s.set(func(st *status) { st.Read += int64(n) }) }
	})
	var page bytes.Buffer
	version := s.nextVersion()
	if err == nil {
		err = write(&page, captures, "'self'", ` data-version="`+version+`"`)
	}
	if err != nil {
		s.set(func(st *status) { st.State, st.Error = "failed", err.Error() })
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.captures, s.page = captures, page.Bytes()
	s.status.State, s.status.Version = "ready", version
	return nil
}

// Watch reads the captures again whenever their files have changed and then rested
// for an interval, until done is closed. failed is told of what cannot be read.
func (s *Server) Watch(done <-chan struct{}, interval time.Duration, failed func(error)) {
	read := s.Stamp()
	before := read
	for {
		select {
		case <-done:
			return
		case <-time.After(interval):
		}
		now := s.Stamp()
		if now != read && now == before {
			read = now
			if err := s.Load(); err != nil {
				failed(err)
			}
		}
		before = now
	}
}

func (s *Server) set(change func(*status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

func (s *Server) nextVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := strconv.Atoi(s.status.Version) // "" is 0
	return strconv.Itoa(n + 1)
}

// ServeHTTP answers the page and the API. It refuses names that are not its own:
// a page from elsewhere whose name is made to lead here would read the captures.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	} {
		w.Header().Set(name, value)
	}
	switch answer := s.API[r.URL.Path]; {
	case !s.isCalled(r.Host):
		http.Error(w, "not a name of this server: call it by its address, or name it with --http", http.StatusMisdirectedRequest)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case r.URL.Path == "/":
		s.servePage(w)
	case r.URL.Path == "/api/status":
		s.serveStatus(w)
	case answer != nil:
		s.serveAPI(w, r, answer)
	default:
		http.NotFound(w, r)
	}
}

// isCalled reports whether a Host header names this server: an address cannot be
// made to lead elsewhere, a name can.
func (s *Server) isCalled(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	return net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") || s.Host != "" && strings.EqualFold(host, s.Host)
}

func (s *Server) servePage(w http.ResponseWriter) {
	s.mu.Lock()
	page := s.page
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if page == nil { // nothing was read yet: the page shows how far that got
		var b bytes.Buffer
		if err := write(&b, nil, "'self'", ` data-version="0"`); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		page = b.Bytes()
	}
	w.Write(page)
}

func (s *Server) serveStatus(w http.ResponseWriter) {
	s.mu.Lock()
	st := s.status
	s.mu.Unlock()
	if st.Version == "" {
		st.Version = "0"
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(st)
}

func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request, answer func(io.Writer, []Capture, url.Values) error) {
	s.mu.Lock()
	captures := s.captures
	s.mu.Unlock()
	if captures == nil {
		http.Error(w, "the captures are still being read", http.StatusServiceUnavailable)
		return
	}
	var b bytes.Buffer
	if err := answer(&b, captures, r.URL.Query()); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(b.Bytes())
}
