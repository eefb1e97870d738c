package formats

import "io"

// ahead reads a stream in a goroutine of its own, a few pieces ahead of the one
// who reads it: decompression and reading then have a processor each.
type ahead struct {
	pieces chan piece
	spare  chan []byte
	done   chan struct{}
	now    piece
	rest   []byte // of now, still to be read
	tell   func() // called by the reader, after each piece
}

// piece is a part of the stream, and the error that stands behind it.
type piece struct {
	data []byte
	err  error
}

const (
	aheadBytes  = 256 << 10
	aheadPieces = 4
)

// readAhead starts reading in. stop must be called.
func readAhead(in io.Reader, tell func()) *ahead {
	a := &ahead{pieces: make(chan piece, aheadPieces), spare: make(chan []byte, aheadPieces+1), done: make(chan struct{}), tell: tell}
	for range aheadPieces + 1 {
		a.spare <- nil // made when it is first used: most files are small
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
		a.tell()
	}
	n := copy(b, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// stop ends the goroutine, without waiting for a stream that stands still.
func (a *ahead) stop() { close(a.done) }
