package formats

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
)

type source struct {
	in       io.Reader
	file     fileAt // nil for standard input
	size     int64  // 0 = unknown
	progress func(n int)
	stop     func() error   // Input.Stop
	spool    *os.File       // the decompressed content, for formats with ReadAt
	ahead    *io.PipeReader // of the decompressed content; nil if the source is not compressed

	unreported atomic.Int64 // bytes that were read but not yet passed to progress
}

// fileAt is implemented by os.File and File.
type fileAt interface {
	io.ReadCloser
	io.ReaderAt
}

// open opens a file that is none of in.File.
func (in *Input) open(file string) (*os.File, error) {
	if in.Open != nil {
		return in.Open(file)
	}
	return os.Open(file)
}

func open(file string, in Input) (*source, error) {
	s := &source{in: in.Stdin, progress: func(int) {}, stop: func() error { return nil }}
	if in.File != nil {
		f, err := in.File(file)
		if err != nil {
			return nil, err
		}
		s.in, s.file, s.size = f, f, f.Size()
	} else if file != "-" {
		f, err := in.open(file)
		if strings.Contains(file, "://") && err != nil {
			return nil,
				errors.New("is an address, but memlane reads files: download it first; memlane-fleet reads s3, gs and azblob addresses")
		} else if err != nil {
			return nil, err
		}
		s.in, s.file = f, f
		switch info, err := f.Stat(); {
		case err != nil:
		case info.Mode().IsRegular():
			s.size = info.Size()
		case info.Mode()&os.ModeDevice != 0: // some are endless
			f.Close()
			return nil, errors.New("is a device, not a file; to read what a program writes, give - and pipe it in")
		}
	} else if s.in == nil {
		return nil, errors.New("there is no standard input")
	}
	if in.Progress != nil {
		s.progress = in.Progress(file, s.size)
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
	if s.unreported.Add(int64(n)); s.ahead == nil {
		s.report()
	}
	return n, err
}

// report passes the bytes read so far to progress, always in the caller's goroutine.
func (s *source) report() { s.progress(int(s.unreported.Swap(0))) }

// aheadBytes is the size of the pieces that readAhead reads, and aheadRoom that of its result: larger than what readers
// ask for at once, so that a whole piece is taken and the next one is decompressed meanwhile.
const aheadBytes, aheadRoom = 128 << 10, 288 << 10

// readAhead reads plain, which decompresses the source, in a separate goroutine, so that decompression and parsing use
// one processor each. The goroutine ends when s.ahead is closed, after a read that blocks.
func (s *source) readAhead(plain io.Reader) *bufio.Reader {
	var to *io.PipeWriter
	s.ahead, to = io.Pipe()
	go func() {
		pieces := bufio.NewWriterSize(to, aheadBytes)
		_, err := pieces.ReadFrom(plain)
		to.CloseWithError(cmp.Or(pieces.Flush(), err))
	}()
	return bufio.NewReaderSize(reporting{s}, aheadRoom)
}

// reporting reads from source.ahead and reports the progress.
type reporting struct{ *source }

func (r reporting) Read(b []byte) (int, error) {
	n, err := r.ahead.Read(b)
	r.report()
	return n, err
}

// ReadAt reads from the file, or from its decompressed content if that was spooled.
func (s *source) ReadAt(b []byte, at int64) (int, error) {
	if err := s.stop(); err != nil {
		return 0, err
	}
	if s.spool != nil { // progress was reported when it was written
		return s.spool.ReadAt(b, at)
	}
	n, err := s.file.ReadAt(b, at)
	s.progress(n)
	return n, err
}

func (s *source) close() {
	if s.ahead != nil {
		s.ahead.Close()
	}
	if s.file != nil {
		s.file.Close()
	}
	if s.spool != nil {
		s.spool.Close()
		os.Remove(s.spool.Name())
	}
}

// readerAt returns the content for formats with ReadAt, and its size in bytes. It copies the content to a temporary
// file, unless the source is an uncompressed file. It fails if it cannot write that file.
func (s *source) readerAt(plain *bufio.Reader) (io.ReaderAt, int64, error) {
	if s.size > 0 && !compressed(s.file) {
		return s, s.size, nil
	}
	var err error
	if s.spool, err = os.CreateTemp("", "memlane-*"); err != nil {
		return nil, 0, noSpool(err)
	}
	os.Remove(s.spool.Name()) // now, so that a killed process leaves none; Windows refuses
	n, err := io.Copy(spool{s.spool}, plain)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // the reader reports the truncation
	}
	return s, n, err
}

// spool wraps write errors in noSpool, which separates them from errors of the input.
type spool struct{ file *os.File }

func (s spool) Write(b []byte) (int, error) {
	n, err := s.file.Write(b)
	if err != nil {
		err = noSpool(err)
	}
	return n, err
}

// noSpool wraps an error of the temporary file and adds what the user can do.
func noSpool(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = path.Err // the user does not know the file
	}
	variable := "TMPDIR"
	if runtime.GOOS == "windows" {
		variable = "TMP"
	}
	return fmt.Errorf("it is read twice, but memlane cannot write its content to a temporary file in %s: %w; "+
		"set %s to a folder with enough space, or decompress the capture to a file first", os.TempDir(), err, variable)
}

func compressed(in io.ReaderAt) bool {
	var magic [4]byte
	n, _ := in.ReadAt(magic[:], 0)
	return compression(magic[:n]) != ""
}

// Compressed reports whether a file begins like gzip or zstd. Its content may then be
// many times larger than the file. It returns false for a file that it cannot open.
func Compressed(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	return compressed(f)
}
