package main

import (
	"fmt"
	"io"
)

// A profile of 10 GB has a few devices with long lines, and no allocator events in them.
const (
	sparseDevices  = 8
	sparsePerEvent = 4800 // bytes of devices per allocator event
)

// writeSparse writes an XProf profile that consists mostly of device lines. In a file these are holes, which take no space on disk.
// Readers skip them.
func writeSparse(w io.Writer, events int, seed uint64) (truth, error) {
	for i := range sparseDevices {
		length := events * sparsePerEvent / sparseDevices
		name := message{}.text(2, fmt.Sprintf("/device:GPU:%d", i))
		line := message{}.head(3, length)
		if _, err := w.Write(append(append(message{}.head(1, len(name)+len(line)+length), name...), line...)); err != nil {
			return truth{}, err
		}
		if err := skip(w, int64(length)); err != nil {
			return truth{}, err
		}
	}
	return writeXSpace(w, events, seed)
}

// skip advances by n zero bytes.
func skip(w io.Writer, n int64) error {
	if file, ok := w.(io.Seeker); ok {
		_, err := file.Seek(n, io.SeekCurrent)
		return err
	}
	_, err := w.Write(make([]byte, n))
	return err
}
