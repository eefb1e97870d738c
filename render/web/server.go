//go:build !js

package web

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/text"
)

// Server shows captures in a browser. It shows progress while it reads them: the program calls Load, in a goroutine if
// the page is to open before. In a server of the program's own it may be below a path that ends with a slash, behind
// http.StripPrefix.
type Server struct {
	// Read reads the captures. It calls started for each file, and the returned function
	// with the number of bytes of every part.
	Read func(started func(file string, size int64) func(n int)) ([]*judge.Capture, error)
	// Stamp returns the state of the files. Watch reads the captures again when it changes.
	Stamp func() string
	// api has the answers in JSON by path; nil means answers.
	api map[string]func(w io.Writer, captures []*judge.Capture, query url.Values) error
	// Token, if set, is what requests must have as the parameter token, or as the cookie that the page then sets.
	Token string
	// Once, if set, opens the page once instead of Token: for the command line of a browser,
	// which other users may see. Forget invalidates it.
	Once string
	// Host is an accepted host name, in addition to localhost and addresses.
	Host string
	// Log receives panics of answers and errors of connections.
	Log io.Writer

	mu       sync.Mutex
	status   status
	captures []*judge.Capture
	page     []byte
	stamp    string // of the files before they were read last

	start  sync.Once
	making chan struct{} // semaphore for answers of the api
}

// status is the state that the page polls.
type status struct {
	State   string `json:"state"`   // reading, ready or failed
	Version string `json:"version"` // how often the captures were read
	File    string `json:"file"`    // of Files, the last one that was begun
	Read    int64  `json:"read"`    // bytes of it
	Size    int64  `json:"size"`    // bytes, 0 if not known
	Error   string `json:"error"`

	Files   []fileStatus `json:"files"`   // in the order in which they were begun; several are read at once
	Damaged []string     `json:"damaged"` // captures that were read only in part, since the last reading without an error
}

type fileStatus struct {
	File string `json:"file"`
	Read int64  `json:"read"`
	Size int64  `json:"size"`
}

// Load reads the captures and builds their page. The old page stays until then, and also if Load fails.
func (s *Server) Load() error {
	if s.Stamp != nil {
		s.stamp = s.Stamp()
	}
	s.set(func(st *status) { st.State, st.Read, st.Size, st.Error, st.Files = "reading", 0, 0, "", nil })
	captures, err := s.Read(s.started)
	var page bytes.Buffer
	var version string
	s.set(func(st *status) {
		n, _ := strconv.Atoi(st.Version) // 0 before the first Load
		version = strconv.Itoa(n + 1)
	})
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
	s.status.State, s.status.Version, s.status.Damaged = "ready", version, nil
	for _, c := range captures {
		if damage, _ := loss.Worst(c.Losses, loss.Damage); damage.Count > 0 {
			s.status.Damaged = append(s.status.Damaged, c.Tables.Name())
		}
	}
	return nil
}

// started adds a file to the status. The returned function adds bytes that were read.
func (s *Server) started(file string, size int64) func(n int) {
	number := 0
	s.set(func(st *status) {
		number = len(st.Files)
		st.Files = append(st.Files, fileStatus{File: file, Size: size})
		st.File, st.Read, st.Size = file, 0, size
	})
	return func(n int) {
		s.set(func(st *status) {
			one := &st.Files[number]
			if one.Read += int64(n); number == len(st.Files)-1 {
				st.Read = one.Read
			}
		})
	}
}

// Watch reads the captures again when their files changed since Load began and then stayed the same for an
// interval, until done is closed. It calls failed with the errors of Load.
func (s *Server) Watch(done <-chan struct{}, interval time.Duration, failed func(error)) {
	before := s.stamp
	for {
		select {
		case <-done:
			return
		case <-time.After(interval):
		}
		now := s.Stamp()
		if now != s.stamp && now == before {
			if err := s.Load(); err != nil {
				failed(err)
			}
		}
		before = now
	}
}

// Forget invalidates Once.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Once = ""
}

func (s *Server) set(change func(*status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

// ServeHTTP serves the page and the api, except to requests that refuse rejects.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if status, why := s.refuse(r); why != "" {
		fail(w, r, status, why)
		return
	}
	api := s.api
	if api == nil {
		api = answers
	}
	if r.URL.Path == "/" && r.URL.RawQuery != "" && s.Token != "" { // the token does not stay in the address
		http.SetCookie(w, s.cookie())
		w.Header().Set("Location", "./") // http.Redirect would lose the prefix of http.StripPrefix
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	switch answer := api[r.URL.Path]; {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, r, http.StatusMethodNotAllowed, "only GET and HEAD are allowed")
	case r.URL.Path == "/":
		s.servePage(w)
	case r.URL.Path == apiRoot:
		serveList(w, api)
	case r.URL.Path == "/api/status":
		s.serveStatus(w)
	case answer != nil:
		s.serveAPI(w, r, answer)
	case strings.HasPrefix(r.URL.Path, apiRoot+"/"):
		fail(w, r, http.StatusNotFound, "unknown address; "+apiRoot+" lists all")
	default:
		http.NotFound(w, r)
	}
}

const apiRoot = "/api"

// fail answers with an error: below apiRoot as JSON, {"error": "..."}, else as text.
func fail(w http.ResponseWriter, r *http.Request, code int, why string) {
	if r.URL.Path != apiRoot && !strings.HasPrefix(r.URL.Path, apiRoot+"/") {
		http.Error(w, why, code)
		return
	}
	data, _ := json.Marshal(map[string]string{"error": why}) // it has only strings
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	w.Write(append(model.Escape(data), '\n'))
}

// waiting returns the page that shows the progress of the first Load.
var waiting = sync.OnceValue(func() []byte {
	var page bytes.Buffer
	_ = write(&page, nil, "'self'", ` data-version="0"`) // writes to a buffer do not fail
	return page.Bytes()
})

func (s *Server) servePage(w http.ResponseWriter) {
	s.mu.Lock()
	page := s.page
	s.mu.Unlock()
	if page == nil {
		page = waiting()
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", capturePage.policy("'self'")+"; frame-ancestors 'none'")
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	(&partWriter{to: w}).Write(page)
}

// serveList lists the addresses of the api with their parameters.
func serveList(w http.ResponseWriter, api map[string]func(io.Writer, []*judge.Capture, url.Values) error) {
	type path struct {
		Path       string   `json:"path"`
		Parameters []string `json:"parameters"`
	}
	list := []path{{"/api/status", []string{}}}
	for _, name := range slices.Sorted(maps.Keys(api)) {
		list = append(list, path{name, append([]string{}, parameters[name]...)})
	}
	data, _ := json.Marshal(map[string]any{"paths": list}) // it has only strings
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(model.Escape(data), '\n'))
}

func (s *Server) serveStatus(w http.ResponseWriter) {
	s.mu.Lock()
	st := s.status
	st.Files = append([]fileStatus{}, st.Files...)
	st.Damaged = append([]string{}, st.Damaged...)
	s.mu.Unlock()
	if st.Version == "" {
		st.Version = "0"
	}
	data, _ := json.Marshal(st) // a status has only strings and numbers
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(model.Escape(data), '\n'))
}

// serveAPI makes an answer and then sends it. Answers may need as much memory as the model, so only maxAnswers are made
// at a time and other clients wait. They do not wait for clients that are slow to take theirs.
func (s *Server) serveAPI(w http.ResponseWriter, r *http.Request, answer func(io.Writer, []*judge.Capture, url.Values) error) {
	s.start.Do(func() { s.making = make(chan struct{}, maxAnswers) })
	select {
	case s.making <- struct{}{}:
	case <-r.Context().Done(): // the client disconnected
		return
	}
	var made spool
	defer made.close()
	err := func() error {
		defer func() { <-s.making }()
		s.mu.Lock()
		captures := s.captures
		s.mu.Unlock()
		if captures == nil {
			return errReading
		}
		out := bufio.NewWriterSize(stopping{r.Context(), &made}, partSize)
		return cmp.Or(answer(out, captures, r.URL.Query()), out.Flush())
	}()
	switch {
	case errors.Is(err, errReading):
		w.Header().Set("Retry-After", "1")
		fail(w, r, http.StatusServiceUnavailable, err.Error())
	case made.failed != nil:
		fail(w, r, http.StatusInsufficientStorage, "no room for the answer: "+text.Printable(made.failed.Error()))
	case err != nil:
		fail(w, r, http.StatusBadRequest, text.Printable(err.Error()))
	default:
		w.Header().Set("Content-Type", "application/json")
		made.writeTo(&partWriter{to: w})
	}
}

var errReading = errors.New("the captures are still being read")

// stopping ends an answer that nobody waits for any more.
type stopping struct {
	client context.Context
	to     io.Writer
}

func (s stopping) Write(b []byte) (int, error) {
	if err := s.client.Err(); err != nil {
		return 0, err
	}
	return s.to.Write(b)
}
