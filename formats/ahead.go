package formats

import "io"

// ahead reads a stream in a separate goroutine, a few pieces ahead of its Read, so
// that decompression and parsing use one processor each.
type ahead struct {
	pieces   chan piece
	spare    chan []byte
	done     chan struct{}
	now      piece
	rest     []byte // the unread part of now
	progress func() // called by Read after each piece
}

// piece is a part of the stream, and the error that follows it.
type piece struct {
	data []byte
	err  error
}

const (
	aheadBytes  = 256 << 10
	aheadPieces = 4
)

// readAhead starts to read in. The caller must call stop.
func readAhead(in io.Reader, progress func()) *ahead {
	a := &ahead{pieces: make(chan piece, aheadPieces), spare: make(chan []byte, aheadPieces+1),
		done: make(chan struct{}), progress: progress}
	for range aheadPieces + 1 {
		a.spare <- nil // allocated at first use: most files are small
	}
	go a.run(in)
	return a
}

func (a *ahead) run(in io.Reader) {
	defer close(a.pieces)
	for {
		var p piece
		select {
		case p.data = <-a.spare:
		case <-a.done:
			return
		}
		if p.data == nil {
			p.data = make([]byte, aheadBytes)
		}
		n := 0
		for n < aheadBytes && p.err == nil {
			var m int
			m, p.err = in.Read(p.data[n:aheadBytes])
			n += m
		}
		p.data = p.data[:n]
		select {
		case a.pieces <- p:
		case <-a.done:
			return
		}
		if p.err != nil {
			return
		}
	}
}

func (a *ahead) Read(b []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.data != nil {
			a.spare <- a.now.data[:0:aheadBytes]
		}
		a.now = <-a.pieces
		a.rest = a.now.data
		a.progress()
	}
	n := copy(b, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// stop ends the goroutine. It does not wait for a blocked read.
func (a *ahead) stop() { close(a.done) }
