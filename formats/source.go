package formats

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync/atomic"
)

// source is a file that is being read.
type source struct {
	in    io.Reader
	file  fileAt // nil for standard input
	size  int64  // 0 = not known
	tell  func(n int)
	stop  func() error // whether to read on
	spool *os.File     // the decompressed content, where it is needed twice
	ahead *ahead       // reads the decompressed content
	async bool         // Read is called by its goroutine

	unsaid atomic.Int64 // bytes that were read ahead, of which tell does not know yet
}

// fileAt is what an os.File and a File have in common.
type fileAt interface {
	io.ReadCloser
	io.ReaderAt
}

func open(file string, in Input) (*source, error) {
	s := &source{in: in.Stdin, tell: func(int) {}, stop: func() error { return nil }}
	if in.File != nil {
		f, err := in.File(file)
		if err != nil {
			return nil, err
		}
		s.in, s.file, s.size = f, f, f.Size()
	} else if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		s.in, s.file = f, f
		switch info, err := f.Stat(); {
		case err != nil:
		case info.Mode().IsRegular():
			s.size = info.Size()
		case info.Mode()&os.ModeDevice != 0: // some never end
			f.Close()
			return nil, errors.New("is a device, not a file; to read what a program writes, give - and pipe it in")
		}
	} else if s.in == nil {
		return nil, errors.New("there is no standard input")
	}
	if in.Progress != nil {
		s.tell = in.Progress(file, s.size)
	}
	if in.Stop != nil {
		s.stop = in.Stop
	}
	return s, nil
}

func (s *source) Read(b []byte) (int, error) {
	if err := s.stop(); err != nil {
		return 0, err
	}
	n, err := s.in.Read(b)
	if s.unsaid.Add(int64(n)); !s.async {
		s.say()
	}
	return n, err
}

// say tells of what was read: tell is for one goroutine.
func (s *source) say() { s.tell(int(s.unsaid.Swap(0))) }

// readAhead lets plain, which decompresses the source, run ahead.
func (s *source) readAhead(plain io.Reader) *bufio.Reader {
	s.async = true
	s.ahead = readAhead(plain, s.say)
	return bufio.NewReaderSize(s.ahead, 64<<10)
}

// ReadAt reads from the file itself, or from its decompressed content where that is
// spooled.
func (s *source) ReadAt(b []byte, at int64) (int, error) {
	if err := s.stop(); err != nil {
		return 0, err
	}
	if s.spool != nil { // tell knows of all that was copied there
		return s.spool.ReadAt(b, at)
	}
	n, err := s.file.ReadAt(b, at)
	s.tell(n)
	return n, err
}

func (s *source) close() {
	if s.ahead != nil {
		s.ahead.stop()
	}
	if s.file != nil {
		s.file.Close()
	}
	if s.spool != nil {
		s.spool.Close()
		os.Remove(s.spool.Name())
	}
}

// readerAt returns the content for formats that look at it twice. A file that
// is not compressed is that itself; any other stream goes to a temporary file
// first.
func (s *source) readerAt(plain *bufio.Reader) (io.ReaderAt, int64, error) {
	if s.size > 0 && !s.compressed() {
		return s, s.size, nil
	}
	var err error
	if s.spool, err = os.CreateTemp("", "memlane-*"); err != nil {
		return nil, 0, noSpool(err)
	}
	os.Remove(s.spool.Name()) // where open files may go, none is left behind whatever happens
	n, err := io.Copy(spool{s.spool}, plain)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // the reader says what is missing
	}
	return s, n, err
}

// spool is what content is copied to: that it cannot be written is not the fault of
// what it is read from.
type spool struct{ file *os.File }

func (s spool) Write(b []byte) (int, error) {
	n, err := s.file.Write(b)
	if err != nil {
		err = noSpool(err)
	}
	return n, err
}

// noSpool says what to do where a temporary file cannot be made or written.
func noSpool(err error) error {
	if path := new(os.PathError); errors.As(err, &path) {
		err = path.Err // its name means nothing to the user
	}
	variable := "TMPDIR"
	if runtime.GOOS == "windows" {
		variable = "TMP"
	}
	return fmt.Errorf("it is read twice, and no temporary file in %s can hold its content: %w; let %s name a folder with room, "+
		"or give the capture as a file that is not compressed", os.TempDir(), err, variable)
}

// compressed reports whether the file is.
func (s *source) compressed() bool { return compressed(s.file) }

func compressed(in io.ReaderAt) bool {
	var magic [4]byte
	n, _ := in.ReadAt(magic[:], 0)
	return packing(magic[:n]) != plainFile
}

// Compressed reports whether a file begins as compressed ones do: a reader may need
// many times its size.
func Compressed(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	return compressed(f)
}
