package atomicfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// unfinishedFile is a file while it is written. A file has no name, or a temporary one,
// until it is complete. Descriptors, pipes and devices are written directly.
//
// An existing file stays what it is to others, as after > in a shell or curl -o: its mode,
// owner, access list and links do not change, and it is refused if it is read-only. A new
// file with the same mode and owner replaces it in one step, so no reader and no crash sees
// half of it. Where a new file would lose something (hard links, an access list, an owner
// that only root can give, a mount), the complete content is copied into the existing one.
type unfinishedFile struct {
	file     string      // name that the caller gave
	f        *os.File    // the content
	temp     string      // temporary name of f, "" if it has none
	target   string      // final name; "" if f is the output itself
	existing os.FileInfo // of target, nil if it is new
	keep     bool        // write into the existing file

	ctx context.Context // stops the writing
	err error           // the first of Write: most printing code ignores it
}

// unfinished are the files with temporary names. They are removed if a signal ends the
// program.
var unfinished = struct {
	sync.Mutex
	open map[*unfinishedFile]bool
}{open: map[*unfinishedFile]bool{}}

// Inject, if a test sets it, is called before each operation on a file, and makes it fail
// with its error.
var Inject func(operation string) error

// attempt runs an operation on a file.
func attempt(operation string, do func() error) error {
	if Inject != nil {
		if err := Inject(operation); err != nil {
			return err
		}
	}
	return do()
}

// createUnfinished opens the file called file.
func createUnfinished(file string) (*unfinishedFile, error) {
	if f, err := openDescriptor(file); f != nil || err != nil {
		return &unfinishedFile{file: file, f: f}, err
	}
	d := &unfinishedFile{file: file, target: resolveLinks(file)}
	info, err := os.Stat(d.target)
	if err == nil {
		f, err := openExisting(d.target)
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return &unfinishedFile{file: file, f: f}, nil
		}
		f.Close() // before a rename: Windows does not replace open files
		d.existing = info
	}
	unfinished.Lock()
	defer unfinished.Unlock()
	if err := d.create(filepath.Dir(d.target)); err != nil {
		return nil, err
	}
	unfinished.open[d] = true
	return d, nil
}

// openExisting opens a file for writing. It does not create or truncate it.
func openExisting(name string) (f *os.File, err error) {
	err = attempt("open", func() error {
		f, err = os.OpenFile(name, os.O_WRONLY, 0)
		return err
	})
	return f, err
}

// Write writes a part of the content. It fails if the context has ended.
func (d *unfinishedFile) Write(b []byte) (n int, err error) {
	if err = context.Cause(d.ctx); err == nil {
		err = attempt("write", func() error {
			n, err = d.f.Write(b)
			return err
		})
	}
	d.err = cmp.Or(d.err, err)
	return n, err
}

// maxNameless is the maximum number of files without a name. They must stay open.
const maxNameless = 64

// create creates the file for the content, in the folder of the target if possible.
func (d *unfinishedFile) create(dir string) (err error) {
	mode := os.FileMode(0o666)
	if d.existing != nil {
		mode = 0o600 // until it has the mode of the target
	}
	create := createTemp
	if len(unfinished.open) >= maxNameless {
		create = createNamed
	}
	err = attempt("create", func() error {
		d.f, d.temp, err = create(dir, mode)
		return err
	})
	switch {
	case err == nil && d.existing != nil:
		d.keep = !takeIdentity(d.f, d.target, d.existing)
	case err != nil && d.existing != nil: // the file may be written, but its folder may not
		d.f, d.temp, err = createTemp(os.TempDir(), mode)
		d.keep = true
	}
	switch {
	case errors.Is(err, syscall.EMFILE): // no other folder helps
		return err
	case err != nil:
		return &Error{Folder: dir, Err: Cause(err)}
	}
	return nil
}

// createNamed creates a file with a temporary name.
func createNamed(dir string, mode os.FileMode) (*os.File, string, error) {
	name := temporaryName(dir)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	return f, name, err
}

// temporaryName returns an unused name. It is short, because the target may already have
// the maximum length.
func temporaryName(dir string) string {
	return filepath.Join(dir, fmt.Sprintf(".memlane-%08x", rand.Uint32()))
}

// resolveLinks returns the file that a name leads to, so that links are kept. It also
// resolves a link to a file that does not exist yet.
func resolveLinks(file string) string {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		return real
	}
	to, err := os.Readlink(file)
	switch {
	case err != nil:
		return file
	case filepath.IsAbs(to):
		return to
	}
	return filepath.Join(filepath.Dir(file), to)
}

// complete ends the writing. It closes the file if it can be found again by its name,
// because some file systems report errors only then.
func (d *unfinishedFile) complete() error {
	if d.target == "" || d.temp != "" {
		return attempt("close", d.f.Close)
	}
	return nil
}

// publish gives complete files their names. On failure it returns the file as well. A
// signal cannot end the program in between.
func publish(complete []*unfinishedFile) (d *unfinishedFile, err error) {
	unfinished.Lock()
	defer unfinished.Unlock()
	for _, d = range complete {
		if err := d.publish(); err != nil {
			return d, err
		}
	}
	return nil, nil
}

func (d *unfinishedFile) publish() error {
	switch {
	case d.target == "":
		return nil
	case d.keep:
		return d.overwrite()
	case d.temp == "": // a link cannot replace a file, but gives a new one its name at once
		err := attempt("link", func() error { return giveName(d.f, d.target) })
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		d.temp = temporaryName(filepath.Dir(d.target))
		if err := attempt("link", func() error { return giveName(d.f, d.temp) }); err != nil {
			d.temp = ""
			return err
		}
	}
	err := attempt("rename", func() error { return os.Rename(d.temp, d.target) })
	switch {
	case err == nil:
		d.temp = ""
	case d.existing != nil && errors.Is(err, syscall.EBUSY): // mounted, as containers mount single files
		return d.overwrite()
	}
	return err
}

// overwrite writes the content into the existing file. It begins with the part beyond the
// present size: if the disk is full, the old content is not yet lost.
func (d *unfinishedFile) overwrite() (err error) {
	content := d.f
	if d.temp != "" { // complete has closed f
		if content, err = os.Open(d.temp); err != nil {
			return err
		}
		defer content.Close()
	}
	info, err := content.Stat()
	if err != nil {
		return err
	}
	to, err := openExisting(d.target)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, to.Close()) }()
	before, after := d.existing.Size(), info.Size()
	copyPart := func(begin, end int64) error {
		return attempt("copy", func() error {
			_, err := io.Copy(io.NewOffsetWriter(to, begin), io.NewSectionReader(content, begin, end-begin))
			return err
		})
	}
	if after > before {
		err = copyPart(before, after)
	}
	if err == nil {
		err = copyPart(0, min(before, after))
	}
	if err != nil {
		return cmp.Or(to.Truncate(before), err)
	}
	return to.Truncate(after)
}

// discard closes a file, and removes its temporary name.
func (d *unfinishedFile) discard() {
	unfinished.Lock()
	defer unfinished.Unlock()
	d.remove()
	delete(unfinished.open, d)
}

func (d *unfinishedFile) remove() {
	d.f.Close() // before Remove: Windows does not remove open files
	if d.temp != "" {
		os.Remove(d.temp)
	}
}

// Abandon removes what was written of files that are not complete. It keeps the lock, so no more can be
// created: the program must end.
func Abandon() {
	unfinished.Lock()
	for d := range unfinished.open {
		d.remove()
	}
}
