package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
)

// limit does the least work of any reader of a file, which bounds its speed: "read" reads it, "memchr" looks at every byte once, and
// "gunzip" decompresses it. It reads through a window of 256 KiB.
func limit(name, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	window := make([]byte, 256<<10)
	look := func([]byte) {}
	in := io.Reader(f)
	switch name {
	case "read":
	case "memchr":
		look = func(b []byte) { bytes.Count(b, []byte{'\n'}) }
	case "gunzip":
		if in, err = gzip.NewReader(bufio.NewReaderSize(f, len(window))); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unknown limit %q", name)
	}
	for n := 0; err == nil; {
		n, err = in.Read(window)
		look(window[:n])
	}
	if err == io.EOF {
		return nil
	}
	return err
}
