//go:build !js

package web

import (
	"bytes"
	"io"
	"net/http"
	"os"
)

// maxInMemory is the size of an answer that is kept in memory, in bytes.
const maxInMemory = 1 << 20

// spool keeps an answer until its client has taken it: in memory, or in a temporary file if it is large.
type spool struct {
	head   bytes.Buffer
	file   *os.File
	failed error // of the file
}

func (s *spool) Write(b []byte) (int, error) {
	if s.file == nil && s.head.Len()+len(b) <= maxInMemory {
		return s.head.Write(b)
	}
	if s.file == nil {
		if s.file, s.failed = os.CreateTemp("", "memlane-*"); s.failed != nil {
			return 0, s.failed
		}
		os.Remove(s.file.Name()) // now, so that a killed process leaves none; Windows refuses
	}
	n, err := s.file.Write(b)
	s.failed = err
	return n, err
}

// writeTo writes the answer. It ignores errors of the client, and sends no end after one of the file.
func (s *spool) writeTo(w io.Writer) {
	if _, err := w.Write(s.head.Bytes()); err != nil || s.file == nil {
		return
	}
	_, err := s.file.Seek(0, io.SeekStart)
	if err == nil {
		_, err = io.CopyBuffer(w, struct{ io.Reader }{s.file}, make([]byte, partSize))
	}
	if err != nil { // the client must not treat a part as the whole answer
		panic(http.ErrAbortHandler)
	}
}

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}
