package atomicfile

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
)

// Error is the error of a file that could not be written.
type Error struct {
	File   string // as passed to Write
	Folder string // the folder in which no file can be created; "" if it is another error
	Err    error  // without the name of the file
}

func (e *Error) Error() string {
	if e.Folder != "" {
		return e.File + ": cannot create a file in " + e.Folder + ": " + e.Err.Error()
	}
	return e.File + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Write calls write for each file, with its index. The files get their names when all are complete: half a series
// next to an older one would look complete. It returns an *Error if a file cannot be written, also if write ignored
// that, the cause of ctx if it ended meanwhile, and else the error of write.
func Write(ctx context.Context, files []string, write func(w io.Writer, i int) error) error {
	var done []*unfinishedFile
	defer func() {
		for _, d := range done {
			d.discard() // does nothing after publish
		}
	}()
	for i, file := range files {
		d, err := createUnfinished(file)
		if err != nil {
			return fileError(ctx, file, err)
		}
		done = append(done, d)
		d.ctx = ctx
		err = write(d, i)
		if failed := cmp.Or(d.err, d.complete()); failed != nil {
			return fileError(ctx, file, failed)
		}
		if err != nil {
			return err
		}
	}
	if d, err := publish(done); err != nil {
		return fileError(ctx, d.file, err)
	}
	return nil
}

func fileError(ctx context.Context, file string, err error) error {
	if ended := context.Cause(ctx); ended != nil && errors.Is(err, ended) {
		return err
	}
	if e, ok := errors.AsType[*Error](err); ok {
		e.File = file
		return e
	}
	return &Error{File: file, Err: Cause(err)}
}

// Cause returns an error without the operation and the name of the file: the message already has the name, or the
// file is a temporary one that the user does not know.
func Cause(err error) error {
	if p, ok := errors.AsType[*os.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}
