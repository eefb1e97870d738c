package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
)

// limit does the least work of any reader of a file, which bounds its speed: "read" reads it, "opcodes" looks at every opcode of a
// pickle, and "gunzip" decompresses it. It reads through a window of 256 KiB.
func limit(name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	window := make([]byte, 256<<10)
	in := io.Reader(f)
	switch name {
	case "read":
	case "opcodes":
		return opcodes(f, window)
	case "gunzip":
		if in, err = gzip.NewReader(bufio.NewReaderSize(f, len(window))); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown limit %q", name)
	}
	for err == nil {
		_, err = in.Read(window)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// skipped is how many bytes follow each opcode that the pickles of this program have. Before a text is its length, in 1 or 4 bytes.
var skipped = [256]int{0x80: 1, 0x95: 8, 'K': 1, 'M': 2, 'J': 4, 'G': 8, 'q': 1, 'r': 4, 'h': 1, 'j': 4, 0x8a: -1, 0x8c: -1, 'X': -4}

// opcodes steps over the opcodes of a pickle, and builds nothing.
func opcodes(in io.Reader, window []byte) error {
	const longest = 9 // bytes of an opcode and what follows, without texts
	for at, end, read := 0, 0, 0; ; {
		for err := error(nil); end-at < longest && err == nil; end += read {
			if at > end { // in a text
				at, end = at-end, 0
			} else {
				at, end = 0, copy(window, window[at:end])
			}
			if read, err = in.Read(window[end:]); read == 0 && err != nil && at >= end {
				return err
			}
		}
		op, n := window[at], 1
		switch k := skipped[op]; k {
		case -1:
			n += 1 + int(window[at+1])
		case -4:
			n += 4 + int(binary.LittleEndian.Uint32(window[at+1:]))
		default:
			n += k
		}
		if op == '.' {
			return nil
		}
		at += n
	}
}
