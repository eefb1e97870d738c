package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/text"
)

// Server shows captures to a browser, while they are read and whenever they change.
type Server struct {
	// Read reads the captures. It calls started for each file, and what that
	// returns for every part of it that was read.
	Read func(started func(file string, size int64) func(n int)) ([]Capture, error)
	// Stamp says which state the files are in: captures are read again when it
	// changes.
	Stamp func() string
	// api are the answers in JSON, by path; nil: those of package answer.
	api map[string]func(w io.Writer, captures []Capture, query url.Values) error
	// Host is a name besides localhost and addresses by which the server is called.
	Host string
	// Log is told of faults of the program, which end the one answer.
	Log io.Writer

	mu       sync.Mutex
	status   status
	captures []Capture
	page     []byte

	start  sync.Once
	making chan struct{} // a place for each answer of the api that is being made
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

// ServeHTTP answers the page and the api, those alone who may read them: see
// refuse.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if status, why := s.refuse(r); why != "" {
		http.Error(w, why, status)
		return
	}
	api := s.api
	if api == nil {
		api = answers
	}
	switch answer := api[r.URL.Path]; {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
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

// waiting returns the page that shows how far the reading got, until there is one
// of captures.
var waiting = sync.OnceValues(func() ([]byte, error) {
	var page bytes.Buffer
	err := write(&page, nil, "'self'", ` data-version="0"`)
	return page.Bytes(), err
})

func (s *Server) servePage(w http.ResponseWriter) {
	s.mu.Lock()
	page := s.page
	s.mu.Unlock()
	if page == nil {
		var err error
		if page, err = waiting(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", capturePage.policy("'self'")+"; frame-ancestors 'none'")
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	(&patient{to: w}).Write(page)
}

func (s *Server) serveStatus(w http.ResponseWriter) {
	s.mu.Lock()
	st := s.status
	s.mu.Unlock()
	if st.Version == "" {
		st.Version = "0"
	}
	data, err := json.Marshal(st)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(model.Escape(data), '\n'))
}

// serveAPI passes an answer on while it is made, and keeps nothing of it. An answer
// may be as large as the model, and so may what it is made from: how many clients
// there are must not decide how much memory they take, so they wait for each other.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request, answer func(io.Writer, []Capture, url.Values) error) {
	s.start.Do(func() { s.making = make(chan struct{}, maxAnswers) })
	select {
	case s.making <- struct{}{}:
		defer func() { <-s.making }()
	case <-r.Context().Done(): // the client has gone
		return
	}
	s.mu.Lock()
	captures := s.captures
	s.mu.Unlock()
	if captures == nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the captures are still being read", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	client := &patient{to: w}
	out := bufio.NewWriterSize(client, partSize)
	err := answer(out, captures, r.URL.Query())
	if err == nil {
		err = out.Flush()
	}
	switch {
	case err == nil:
	case !client.began:
		http.Error(w, text.Printable(err.Error()), http.StatusBadRequest)
	default: // the client must not take what it has for the whole
		panic(http.ErrAbortHandler)
	}
}
