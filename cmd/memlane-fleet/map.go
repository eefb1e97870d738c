package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/memlane/memlane/cmd/memlane-fleet/fleet"
	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/memlimit"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/text"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "read captures and write results, on this machine",
		ArgsUsage: "[CAPTURE...]",
		Description: "Runs map and merge without an engine. Records are cached in the folder cache\n" +
			"of the results: after Ctrl-C or an error of a store, the same command\n" +
			"continues where it stopped.\n\n" +
			"Examples:\n" +
			"  memlane-fleet run 'job/rank*.pickle' -o results\n" +
			"  memlane-fleet run -o results --max-memory 16GiB <captures.txt\n" +
			"  memlane-fleet run 's3://bucket/job/*.json.gz' -o results --workers 16",
		Flags: mapFlags(outputFlag(), rolesFlag()),
		Action: func(ctx context.Context, c *cli.Command) error {
			output := c.String("output")
			if c.String("cache") == "" {
				if err := c.Set("cache", below(output, "cache")); err != nil {
					return err
				}
			}
			given, err := roles(c)
			if err != nil {
				return err
			}
			r, names, err := readersOf(ctx, c)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return fail(statusUsage, "run: no captures given; see memlane-fleet run --help")
			}
			all := &fleet.Fleet{}
			err = r.each(ctx, names, func(l line) error { return addPacked(all, l.Record) })
			if err == nil {
				err = writeResults(ctx, output, all, r.by, given)
			}
			if errors.Is(stopped(ctx, err), errInterrupted) {
				return fail(statusInterrupted, "interrupted; the same command continues from here")
			}
			if err != nil {
				return err
			}
			if !c.Bool("quiet") {
				fmt.Fprintf(c.Root().ErrWriter, "memlane-fleet: results are in %s\n", text.Printable(withoutSecrets(shownName(output))))
			}
			return nil
		},
	}
}

func mapCommand() *cli.Command {
	return &cli.Command{
		Name:      "map",
		Usage:     "read captures and write records, one per line",
		ArgsUsage: "[CAPTURE...]",
		Description: "For the workers of an engine: reads names of captures on standard input,\n" +
			"one per line, and writes a line of JSON for each. Damaged and missing\n" +
			"captures get records too. If a store or a disk fails, the exit status is 5;\n" +
			"the engine can repeat the work, because repeated records count once.\n\n" +
			"Examples:\n" +
			"  memlane-fleet map <captures.txt >records.jsonl\n" +
			"  memlane-fleet map --cache s3://bucket/cache 's3://bucket/job/rank*.pickle'",
		Flags: mapFlags(),
		Action: func(ctx context.Context, c *cli.Command) error {
			r, names, err := readersOf(ctx, c)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(c.Root().Writer)
			lines := json.NewEncoder(out)
			lines.SetEscapeHTML(false)
			return r.each(ctx, names, func(l line) error {
				err := lines.Encode(l)
				return printed(cmp.Or(err, out.Flush()))
			})
		},
	}
}

// line is the line of a capture that map writes and merge reads, also as a row of a table. merge uses only Record.
type line struct {
	Capture string `json:"capture,omitempty" parquet:"capture,optional"`
	State   string `json:"state,omitempty" parquet:"state,optional"`
	Reason  string `json:"reason,omitempty" parquet:"reason,optional"`
	Record  []byte `json:"record" parquet:"record,optional"`
}

func lineOf(r *fleet.Record) line {
	return line{Capture: r.Name, State: r.State.String(), Reason: r.Reason, Record: pack(r)}
}

type mapper struct {
	stores  *stores
	cache   *cache
	by      finding.RankNames
	workers int
	budget  int64               // of --max-memory, in bytes
	left    *semaphore.Weighted // the unused part of it
	stalled func(time.Duration) // is called after a capture took so long
}

func mapperOf(ctx context.Context, c *cli.Command) (m *mapper, err error) {
	m = &mapper{stores: &stores{}, workers: c.Int("workers")}
	if m.workers < 1 {
		return nil, fail(statusUsage, "--workers %d: must be 1 or more", m.workers)
	}
	if m.by, err = rankNames(c); err != nil {
		return nil, err
	}
	if m.budget, err = limitMemory(c); err != nil {
		return nil, err
	}
	m.left = semaphore.NewWeighted(m.budget)
	if folder := c.String("cache"); folder != "" {
		if m.cache, err = openCache(ctx, folder); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// each makes the records of captures concurrently. It calls begin when it begins one, and take when its record is
// made, in any order. It stops at the first error.
func (m *mapper) each(ctx context.Context, names []string, begin func(i int) error, take func(i int, r *fleet.Record) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(m.workers)
	for i, name := range names {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := begin(i); err != nil {
				return err
			}
			r, err := m.record(ctx, name)
			if err != nil {
				return err
			}
			return take(i, r.Named(shownName(name), m.by))
		})
	}
	return group.Wait()
}

func refused(content string, err error) *fleet.Record {
	return &fleet.Record{Content: content, State: fleet.Refused, Reason: err.Error()}
}

func missing(err error) *fleet.Record {
	return &fleet.Record{State: fleet.Missing, Reason: err.Error()}
}

// record makes the record of a capture, without its name. Errors of the capture are in the
// record. It returns an error only if the machine or a store failed.
func (m *mapper) record(ctx context.Context, name string) (*fleet.Record, error) {
	if remote(name) {
		return m.fromStore(ctx, name)
	}
	return m.fromDisk(ctx, name)
}

func (m *mapper) fromStore(ctx context.Context, name string) (*fleet.Record, error) {
	address, key, err := splitAddress(name)
	if err != nil {
		return missing(err), nil
	}
	bucket, err := m.stores.bucket(ctx, address)
	if err != nil {
		return nil, err
	}
	var object *blob.Attributes
	err = retry(ctx, func() (err error) {
		object, err = bucket.Attributes(ctx, key)
		return err
	})
	if gcerrors.Code(err) == gcerrors.NotFound {
		return missing(errors.New("no such object")), nil
	}
	if err != nil {
		return nil, storeError(shownName(name), err)
	}
	content, err := m.cache.contentOf(ctx, shownName(name), object)
	if err != nil {
		return nil, err
	}
	if content != "" {
		if r, err := m.cache.get(ctx, content); r != nil || err != nil {
			return r, err
		}
	}
	// The hash needs all bytes anyway, so a copy for readers that seek costs no request.
	copied, err := os.CreateTemp("", "memlane-fleet-*")
	if err != nil {
		return nil, fail(statusFailed, "%s: cannot create a temporary file for it: %w; set TMPDIR to a folder with free space",
			shownName(name), cause(err))
	}
	defer os.Remove(copied.Name())
	defer copied.Close()
	sum := sha256.New()
	switch err := fetch(ctx, bucket, key, object.Size, copied, sum); {
	case errors.Is(err, errChanged):
		return refused("", err), nil
	case gcerrors.Code(err) == gcerrors.NotFound:
		return missing(errors.New("it was deleted while it was read")), nil
	case err != nil:
		return nil, storeError(shownName(name), err)
	}
	content = hex.EncodeToString(sum.Sum(nil))
	r, err := m.fromContent(ctx, copied.Name(), content, object.Size)
	if err == nil {
		err = m.cache.putVersion(ctx, shownName(name), object, content)
	}
	return r, err
}

func (m *mapper) fromDisk(ctx context.Context, name string) (*fleet.Record, error) {
	sum := sha256.New()
	size, err := addFiles(ctx, sum, name)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist):
		return missing(errors.New("no such file")), nil
	case errors.Is(err, fs.ErrPermission), errors.Is(err, errNoFile):
		return refused("", cause(err)), nil
	case err != nil:
		return nil, fail(statusFailed, "%s: %w", name, cause(err))
	}
	return m.fromContent(ctx, name, hex.EncodeToString(sum.Sum(nil)), size)
}

// errNoFile is the error of a file whose end may never come.
var errNoFile = errors.New("not a file but a device or a pipe")

// addFiles adds the content of a file to a hash. Of a folder, which a profiler may have
// written, it adds the names and contents of all files. It returns their size in bytes.
func addFiles(ctx context.Context, sum hash.Hash, name string) (size int64, err error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return 0, err
	case info.Mode().IsRegular():
		return addFile(ctx, sum, name)
	case !info.IsDir():
		return 0, errNoFile
	}
	err = filepath.WalkDir(name, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		of, err := filepath.Rel(name, file)
		if err != nil {
			return err
		}
		one := sha256.New()
		n, err := addFile(ctx, one, file)
		size += n
		fmt.Fprintf(sum, "%q %x\n", filepath.ToSlash(of), one.Sum(nil))
		return err
	})
	return size, err
}

func addFile(ctx context.Context, sum hash.Hash, name string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(sum, untilDone{ctx, f})
}

// untilDone is a reader that ends with a context.
type untilDone struct {
	ctx context.Context
	in  io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.in.Read(b)
}

// fromContent returns the record of a content from the cache. If the cache does not have
// it, fromContent makes it from a file of size bytes and adds it to the cache.
func (m *mapper) fromContent(ctx context.Context, file, content string, size int64) (*fleet.Record, error) {
	if r, err := m.cache.get(ctx, content); r != nil || err != nil {
		return r, err
	}
	r, crowded, err := m.read(ctx, file, size, needOf(file, size))
	if crowded { // other captures may have used the memory
		r, crowded, err = m.read(ctx, file, size, m.budget)
	}
	if err != nil {
		return nil, err
	}
	r.Content = content
	r = bounded(r, maxRecord-maxName)
	if crowded { // do not cache: with more memory it could be read
		return r, nil
	}
	return r, m.cache.put(ctx, r)
}

// leastBudget is the least memory for reading captures, in bytes.
const leastBudget = 128 << 20

// needOf estimates the memory for reading a file, in bytes: twice its size, as for the densest formats, or twelve times
// if it is compressed. If a file needs more, m.read returns crowded.
func needOf(file string, size int64) int64 {
	const base, plain, packed = 32 << 20, 2, 12
	if formats.Compressed(file) {
		return base + packed*size
	}
	return base + plain*size
}

// longest is how long a capture may take, without the time for its bytes, and a request to a store for a part of one.
var longest = 10 * time.Minute

// openCapture is formats.Open. Tests open captures that end the program.
var openCapture = formats.Open

// read waits for need bytes of memory and reads a capture. crowded is true if the capture
// did not fit into memory; its record has the reason.
func (m *mapper) read(ctx context.Context, file string, size, need int64) (r *fleet.Record, crowded bool, err error) {
	need = min(need, m.budget)
	if err := m.left.Acquire(ctx, need); err != nil {
		return nil, false, context.Cause(ctx)
	}
	defer m.left.Release(need)
	defer func() {
		if fault := recover(); fault != nil {
			r, err = refused("", fmt.Errorf("memlane crashed on this capture: %v; please report this bug", fault)), nil
			fmt.Fprintf(os.Stderr, "%s\n", debug.Stack())
		}
	}()
	limit := longest + time.Duration(size>>20)*time.Second // a hundred times as long as usual
	defer time.AfterFunc(limit, func() { m.stalled(limit) }).Stop()
	space := memlimit.New(m.budget, "--max-memory")
	capture, err := openCapture(file, formats.Input{Stop: func() error {
		return cmp.Or(context.Cause(ctx), space.Check())
	}})
	switch {
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	case err != nil && space.Check() != nil:
		return refused("", space.Check()), true, nil
	case err != nil && systemFailed(err):
		return nil, false, fail(statusFailed, "%s: %w", file, errors.Unwrap(err))
	case err != nil:
		return refused("", errors.Unwrap(err)), false, nil // which does not name the file
	}
	r = fleet.Of(judge.New(capture, finding.Settings{}))
	if len(capture.Spaces) == 0 {
		r.State, r.Reason = fleet.Refused, whyEmpty(capture)
	}
	return r, false, nil
}

// whyEmpty returns why a capture has no memory data, with its worst loss if it has losses.
func whyEmpty(capture *lifetime.Capture) string {
	const why = "it holds no memory data"
	if len(capture.Losses) == 0 {
		return why
	}
	return why + ": " + capture.Losses[0].Reason.Doc() // sorted, worst first
}

// systemFailed reports whether the machine caused an error of a reader: a full disk or an unreadable file.
func systemFailed(err error) bool {
	_, ok := errors.AsType[syscall.Errno](err)
	return ok
}
