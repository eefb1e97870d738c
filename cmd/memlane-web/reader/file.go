//go:build js

package main

import (
	"errors"
	"io"
	"syscall/js"
)

// A read of a browser's file takes about as long for a kilobyte as for a megabyte. So file
// reads whole blocks and keeps some: a reader that merges reads at several places.
const (
	blockSize = 1 << 20
	maxBlocks = 24
)

// file is a file of the browser that the user chose. It implements formats.File.
type file struct {
	of     js.Value // a File
	reader js.Value // a FileReaderSync, which only workers have
	size   int64
	next   int64 // offset of the next Read
	blocks map[int64]*block
	clock  int
}

// block is a part of a file.
type block struct {
	data []byte
	used int // clock at the last use
}

func newFile(of js.Value) *file {
	return &file{of: of, reader: js.Global().Get("FileReaderSync").New(), size: int64(of.Get("size").Float()),
		blocks: map[int64]*block{}}
}

func (f *file) Size() int64 { return f.size }

func (f *file) Close() error { return nil }

func (f *file) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	data, err := f.at(f.next)
	n := copy(p, data)
	f.next += int64(n)
	return n, err
}

func (f *file) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		data, err := f.at(at + int64(n))
		if err != nil {
			return n, err
		}
		n += copy(p[n:], data)
	}
	return n, nil
}

// at returns the bytes from an offset to the end of its block; io.EOF at the end of the file.
func (f *file) at(offset int64) ([]byte, error) {
	if offset >= f.size {
		return nil, io.EOF
	}
	number := offset / blockSize
	f.clock++
	b := f.blocks[number]
	if b == nil {
		data, err := f.load(number * blockSize)
		if err != nil {
			return nil, err
		}
		b = &block{data: data}
		f.forget()
		f.blocks[number] = b
	}
	b.used = f.clock
	return b.data[offset-number*blockSize:], nil
}

// load reads the block at an offset. A file that changed since the user chose it is an error.
func (f *file) load(offset int64) (data []byte, err error) {
	defer func() {
		if failed := recover(); failed != nil {
			data, err = nil, errors.New("the browser cannot read it, perhaps because it changed; choose it again")
		}
	}()
	end := min(offset+blockSize, f.size)
	part := f.of.Call("slice", offset, end)
	all := js.Global().Get("Uint8Array").New(f.reader.Call("readAsArrayBuffer", part))
	data = make([]byte, end-offset)
	if js.CopyBytesToGo(data, all) != len(data) {
		return nil, io.ErrUnexpectedEOF
	}
	return data, nil
}

// forget removes the block that was not used for longest, if there are maxBlocks.
func (f *file) forget() {
	if len(f.blocks) < maxBlocks {
		return
	}
	oldest, used := int64(0), f.clock+1
	for number, b := range f.blocks {
		if b.used < used {
			oldest, used = number, b.used
		}
	}
	delete(f.blocks, oldest)
}
