package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/internal/memlimit"
	"github.com/memlane/memlane/lifetime/selection"
)

const (
	// maxAhead bounds the captures that are read at once, and maxBytesAhead their files: whole captures take several
	// times these.
	maxAhead      = 16
	maxBytesAhead = 256 << 20
)

// errShort ends the reading of a capture for which there is only enough memory when it is read alone.
var errShort = errors.New("memory is short")

type aheadRead[C any] struct {
	size    int64
	capture C
	err     error
	done    chan struct{}
}

// eachAhead is eachOf for the first captures: it reads several at once. It ends before the first one for which memory
// is short, and returns its number.
func (r reading[C]) eachAhead(c *cli.Context, files []string, selection *selection.Selection, limit *memlimit.Limit,
	take func(C) error) (n int, err error) {
	in := &ahead[C]{c: c, limit: limit, reads: make([]*aheadRead[C], len(files))}
	if terminalOf(c.App.ErrWriter) != nil && !c.Bool("quiet") {
		in.bar = &sharedProgress{bar: progress{out: c.App.ErrWriter, file: fmt.Sprintf("%d captures", len(files)), started: time.Now()}}
	}
	defer in.end()
	for i, file := range files {
		in.start(&r, files, i)
		read := in.reads[i]
		<-read.done
		if errors.Is(read.err, errShort) {
			return i, nil
		}
		in.reads[i], in.bytes = nil, in.bytes-read.size
		capture, err := r.check(c, selection, file, read.capture, read.err)
		if err == nil {
			err = take(capture)
		}
		if err != nil {
			return i, err
		}
	}
	return len(files), nil
}

type ahead[C any] struct {
	c     *cli.Context
	limit *memlimit.Limit
	bar   *sharedProgress // nil = none
	ended atomic.Bool

	reads []*aheadRead[C] // by file; nil = not begun, or taken
	next  int             // file to read
	bytes int64           // of the files that are being read, or not yet taken
}

// start begins to read file i and those after it that are small enough.
func (in *ahead[C]) start(r *reading[C], files []string, i int) {
	most := min(runtime.GOMAXPROCS(0)+1, maxAhead)
	for ; in.next < len(files) && in.next-i < most; in.next++ {
		size := int64(maxBytesAhead) // of a folder or a pipe
		if info, err := os.Stat(files[in.next]); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		if in.next > i && in.bytes+size > maxBytesAhead {
			return
		}
		read := &aheadRead[C]{size: size, done: make(chan struct{})}
		in.reads[in.next], in.bytes = read, in.bytes+size
		in.limit.Reading(true)
		go in.read(*r, files[in.next], read)
	}
}

func (in *ahead[C]) read(r reading[C], file string, read *aheadRead[C]) {
	defer close(read.done)
	defer in.limit.Reading(false)
	short := false // for good: the reader may have taken its error for the end of the file
	r.in.Stop = func() error {
		if short = short || in.ended.Load() || in.limit.Short(); short {
			return cmp.Or(context.Cause(in.c.Context), errShort)
		}
		return context.Cause(in.c.Context)
	}
	if in.bar != nil {
		r.in.Progress = in.bar.file
	}
	read.capture, read.err = r.openShowing(in.c, file)
}

// end waits for all readers, which stop.
func (in *ahead[C]) end() {
	in.ended.Store(true)
	for _, read := range in.reads {
		if read != nil {
			<-read.done
		}
	}
	if in.bar != nil {
		in.bar.bar.clear()
	}
}

type sharedProgress struct {
	mu  sync.Mutex
	bar progress
}

// file returns the function that counts bytes of one file. How much is left is not known, as not all sizes are.
func (p *sharedProgress) file(string, int64) func(n int) {
	return func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.bar.add(n)
	}
}
