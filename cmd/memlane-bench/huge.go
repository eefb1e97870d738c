package main

import (
	"bytes"
	"fmt"
	"io"
)

// A profile of 10 GB has a few devices whose lines are long, and nothing of an
// allocator in them.
const (
	sparseDevices  = 8
	sparsePerEvent = 4800 // bytes of devices to an event of an allocator
)

// writeSparse writes a profile of XProf that is mostly lines of devices. In a file
// they are holes, which take no room on a disk: no reader needs what is in them.
func writeSparse(w io.Writer, events int, seed uint64) (truth, error) {
	for i := range sparseDevices {
		length := events * sparsePerEvent / sparseDevices
		name := message{}.text(2, fmt.Sprintf("/device:GPU:%d", i))
		line := message{}.head(3, length)
		if _, err := w.Write(append(append(message{}.head(1, len(name)+len(line)+length), name...), line...)); err != nil {
			return truth{}, err
		}
		if err := leaveOut(w, int64(length)); err != nil {
			return truth{}, err
		}
	}
	return writeXSpace(w, events, seed)
}

// leaveOut goes on n bytes, which are zeros.
func leaveOut(w io.Writer, n int64) error {
	if file, ok := w.(io.Seeker); ok {
		_, err := file.Seek(n, io.SeekCurrent)
		return err
	}
	_, err := w.Write(make([]byte, n))
	return err
}

// oneLine takes the line breaks out of JSON, and the spaces at the beginning of
// lines: what a program writes that does not care for people. There are no line
// breaks within texts.
type oneLine struct {
	w        io.Writer
	indented bool // a line has begun, with spaces so far
	buf      []byte
}

func (o *oneLine) Write(p []byte) (int, error) {
	o.buf = o.buf[:0]
	for rest := p; len(rest) > 0; {
		if o.indented {
			rest = bytes.TrimLeft(rest, " ")
		}
		end := bytes.IndexByte(rest, '\n')
		o.indented = end >= 0 || o.indented && len(rest) == 0
		if end < 0 {
			o.buf = append(o.buf, rest...)
			break
		}
		o.buf = append(o.buf, rest[:end]...)
		rest = rest[end+1:]
	}
	if _, err := o.w.Write(o.buf); err != nil {
		return 0, err
	}
	return len(p), nil
}
