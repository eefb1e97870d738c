// Package atomicfile writes files that are complete or not there. An existing file is replaced in one step and keeps its mode;
// its other names (hard links) keep the old content. Its place in the pipeline: below everything that programs write.
//
// [Write] writes a file; a program that ends without returning from it, as after a signal, calls [Abandon] first.
package atomicfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
)

// Error is the error of a file that could not be written.
type Error struct {
	File   string // as passed to Write
	Folder string // the folder in which no file can be created; "" if it is another error
	Err    error  // without the name of the file
}

func (e *Error) Error() string { return e.File + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Write calls write with a file that gets its name when it is complete. It returns an *Error if the file cannot be written,
// even if write ignored that, else the cause of ctx if it ended, or the error of write.
func Write(ctx context.Context, file string, write func(w io.Writer) error) error {
	d := &unfinishedFile{ctx: ctx}
	if err := d.create(file); err != nil {
		return fileError(ctx, file, err)
	}
	defer func() {
		unfinished.Lock()
		d.remove() // does nothing to a file with its name
		unfinished.Unlock()
	}()
	err := write(d)
	if d.f != os.Stdout && d.f != os.Stderr {
		d.err = cmp.Or(d.err, Inject("close"), d.f.Close()) // some file systems report errors only then
	}
	switch {
	case d.err != nil:
		return fileError(ctx, file, d.err)
	case err != nil || d.temp == "":
		return err
	}
	unfinished.Lock() // a signal cannot end the program in between
	defer unfinished.Unlock()
	if err = Inject("rename"); err == nil {
		err = os.Rename(d.temp, d.target)
	}
	if err != nil {
		return fileError(ctx, file, err)
	}
	d.temp = ""
	return nil
}

func fileError(ctx context.Context, file string, err error) error {
	_, complete := errors.AsType[*Error](err)
	if ended := context.Cause(ctx); complete || ended != nil && errors.Is(err, ended) {
		return err
	}
	return &Error{File: file, Err: Cause(err)}
}

// Cause returns an error without the operation and the name of the file, which may be a temporary one.
func Cause(err error) error {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number
	}
	return err
}

// unfinishedFile is a file while it is written, under a temporary name. Descriptors, pipes and devices are written directly.
type unfinishedFile struct {
	f      *os.File        // the content
	temp   string          // temporary name of f, "" if it has none
	target string          // final name
	ctx    context.Context // stops the writing
	err    error           // the first of Write: most printing code ignores it
}

// unfinished are the files with temporary names. They are removed if a signal ends the program.
var unfinished = struct {
	sync.Mutex
	open map[*unfinishedFile]bool
}{open: map[*unfinishedFile]bool{}}

// Inject, if a test sets it, is called before each operation on a file, and makes it fail with its error.
var Inject = func(operation string) error { return nil }

// create opens the file called file. It refuses one that is read-only, as > in a shell does.
func (d *unfinishedFile) create(file string) (err error) {
	if d.target, d.f = follow(file); d.f != nil {
		return nil
	}
	mode := os.FileMode(0o666)
	info, err := os.Stat(d.target)
	if err == nil {
		if err = Inject("open"); err == nil {
			d.f, err = os.OpenFile(d.target, os.O_WRONLY, 0)
		}
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		d.f.Close()  // before a rename: Windows does not replace open files
		mode = 0o600 // until it has that of the target
	}
	unfinished.Lock()
	defer unfinished.Unlock()
	dir := filepath.Dir(d.target)
	temp := filepath.Join(dir, fmt.Sprintf(".memlane-%08x", rand.Uint32())) // short: the target may have the maximum length
	if err = Inject("create"); err == nil {
		d.f, err = os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	}
	switch {
	case errors.Is(err, syscall.EMFILE): // no other folder helps
		return err
	case err != nil:
		return &Error{File: file, Folder: dir, Err: fmt.Errorf("cannot create a file in %s: %w", dir, Cause(err))}
	case info != nil:
		d.f.Chmod(info.Mode().Perm()) // some file systems have no modes
	}
	d.temp, unfinished.open[d] = temp, true
	return nil
}

// descriptors matches the folders of this program's descriptors. The number is its PID.
var descriptors = regexp.MustCompile(`^(?:/dev|/proc/(\d+)(?:/task/\d+)?)/fd$`)

// follow returns the file that a name leads to through links, also if it does not exist yet; or the descriptor that a name such
// as /dev/stdout stands for: to open the file behind it would lose what others write there, such as the shell's >>.
func follow(name string) (string, *os.File) {
	for range 40 { // as many links as Linux follows
		dir, err := filepath.EvalSymlinks(filepath.Dir(name))
		if err != nil {
			break
		}
		name = filepath.Join(dir, filepath.Base(name))
		m := descriptors.FindStringSubmatch(dir)
		if n, err := strconv.Atoi(filepath.Base(name)); err == nil && m != nil && (m[1] == "" || m[1] == strconv.Itoa(os.Getpid())) {
			if n == 1 || n == 2 {
				return name, []*os.File{1: os.Stdout, 2: os.Stderr}[n]
			}
			return name, os.NewFile(uintptr(n), name)
		}
		to, err := os.Readlink(name)
		if err != nil {
			break
		}
		if name = to; !filepath.IsAbs(to) {
			name = filepath.Join(dir, to)
		}
	}
	return name, nil
}

// Write writes a part of the content. It fails if the context has ended.
func (d *unfinishedFile) Write(b []byte) (n int, err error) {
	if err = cmp.Or(context.Cause(d.ctx), Inject("write")); err == nil {
		n, err = d.f.Write(b)
	}
	d.err = cmp.Or(d.err, err)
	return n, err
}

// remove closes a file that is not complete, and removes it.
func (d *unfinishedFile) remove() {
	if d.temp != "" {
		d.f.Close() // before Remove: Windows does not remove open files
		os.Remove(d.temp)
	}
	delete(unfinished.open, d)
}

// Abandon removes files that are not complete. It keeps the lock, so no more can be created: the program must end.
func Abandon() {
	unfinished.Lock()
	for d := range unfinished.open {
		d.remove()
	}
}
