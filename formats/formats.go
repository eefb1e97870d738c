package formats

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/memlane/memlane/formats/chrometrace"
	"github.com/memlane/memlane/formats/gpumemprof"
	"github.com/memlane/memlane/formats/hlo"
	"github.com/memlane/memlane/formats/jaxprof"
	"github.com/memlane/memlane/formats/torchsnap"
	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/native"
)

// Format is one kind of capture.
type Format struct {
	Name string // as in --input-format
	Doc  string // what it is and what writes it, in one line

	// Sniff reports whether the first bytes of a file (up to sniffed, after
	// decompression) are of this format.
	Sniff func(head []byte) bool
	// Read turns the file into facts, streamed once from its beginning. Formats
	// in which what explains a thing follows it have ReadAt instead.
	Read   func(file string, in io.Reader, b *build.Builder) error
	ReadAt func(file string, in io.ReaderAt, size int64, b *build.Builder) error
	// States says that the file states the model itself, buffers with both ends
	// and all, so that it may contradict itself: what was read is checked.
	States bool
	// Traits are what is true of all its captures.
	Traits lifetime.Traits
}

// All lists the formats in the order in which they are tried.
var All = []Format{
	{Name: "torch-snapshot", Doc: "PyTorch memory snapshot: torch.cuda.memory._dump_snapshot, or a memory_viz page of one",
		Sniff: torchsnap.Sniff, Read: torchsnap.Read, Traits: lifetime.Traits{Stacks: true,
			Advice: "call torch.cuda.memory._record_memory_history() before the allocations, and _dump_snapshot() after them"}},
	{Name: "xplane", Doc: "XProf profile of TensorFlow or JAX: *.xplane.pb, or the folder that the profiler wrote into",
		Sniff: xplane.Sniff, ReadAt: xplane.ReadAt},
	{Name: "hlo", Doc: "XLA buffer assignment: *.hlo_proto.pb of XProf, *.hlo.pb of --xla_dump_hlo_as_proto",
		Sniff: hlo.Sniff, Read: hlo.Read},
	{Name: "jaxprof", Doc: "device memory profile of JAX: jax.profiler.save_device_memory_profile",
		Sniff: jaxprof.Sniff, Read: jaxprof.Read},
	{Name: "gpumemprof", Doc: "results and telemetry of gpumemprof and stormlog as JSON: ProfileResult.to_dict, export_data, track",
		Sniff: gpumemprof.Sniff, Read: gpumemprof.Read, Traits: lifetime.Traits{Calls: true}},
	{Name: "chrome-trace", Doc: "Chrome trace of the PyTorch profiler: export_chrome_trace, export_memory_timeline, counters of memory",
		Sniff: chrometrace.Sniff, Read: chrometrace.Read, Traits: lifetime.Traits{
			Advice: "record with torch.profiler.profile(profile_memory=True, with_stack=True)"}},
	{Name: "native", Doc: "memlane's own model as text: memlane export --to native",
		Sniff: native.Sniff, Read: native.Read, States: true},
}

// sniffed is how much of a file the formats may look at before they choose.
const sniffed = 4096

// Input is where captures come from besides files, and how they are read.
type Input struct {
	Stdin io.Reader // read for the name "-"
	// File, when set, opens the files that lie elsewhere than on a disk of this
	// machine; each name is then one file, and none a folder or standard input.
	File   func(name string) (File, error)
	Format string // name of a Format, or "" to find out
	// Keep says what to keep beside the buffers. OpenOutline adds PeakAndEnd.
	Keep build.Keep
	// Progress, when set, is called for every file of size bytes (0 = not
	// known) and returns what to call with each number of bytes read from it.
	Progress func(file string, size int64) func(n int)
	// Stop, when set, is asked again and again while files are read: from its first
	// error on it must return one. It ends the reading, and Open returns it.
	Stop func() error
}

// File is a file that can be read from its beginning and at any place of it.
type File interface {
	io.ReadCloser
	io.ReaderAt
	Size() int64 // in bytes
}

// Open reads one capture: a file, or a folder of profiles. The error names the
// file.
func Open(file string, in Input) (*lifetime.Capture, error) {
	b := build.New(in.Keep)
	from, err := readAll(file, in, b)
	if err != nil {
		return nil, err
	}
	return from.whole(file, b)
}

// OpenOutline is Open for those who ask for the peak and the end of each space alone.
// It takes less time and memory, and what it returns equals the Outline of what Open
// returns.
func OpenOutline(file string, in Input) (*lifetime.Outline, error) {
	b := build.New(in.Keep | build.PeakAndEnd)
	from, err := readAll(file, in, b)
	if err != nil {
		return nil, err
	}
	if from.states { // what is checked must be whole
		c, err := from.whole(file, b)
		if err != nil {
			return nil, err
		}
		return c.Outline(), nil
	}
	o, err := b.FinishOutline()
	if err != nil {
		return nil, named(file, err)
	}
	var spaces []*lifetime.SpaceInfo
	for _, s := range o.Spaces {
		spaces = append(spaces, &s.SpaceInfo)
	}
	from.complete(&o.Tables, spaces)
	return o, nil
}

// origin is where a capture came from.
type origin struct {
	local  bool // a disk of this machine
	folder bool
	states bool // Format.States of one of its files
}

// readAll reads the file, or the files of the folder, into b.
func readAll(file string, in Input, b *build.Builder) (from origin, err error) {
	files := []string{file}
	from.local = in.File == nil
	info, err := os.Stat(file)
	from.folder = from.local && file != "-" && err == nil && info.IsDir()
	if from.folder {
		if files, err = profiles(file, b); err != nil {
			return from, named(file, err)
		}
	}
	for _, f := range files {
		format, err := read(f, in, b)
		if in.Stop != nil { // a reader may take the end of its input for that of the file
			err = cmp.Or(in.Stop(), err)
		}
		if err != nil {
			return from, named(f, err)
		}
		from.states = from.states || format.States
	}
	return from, nil
}

// whole makes the capture that was read from file into b.
func (o *origin) whole(file string, b *build.Builder) (*lifetime.Capture, error) {
	c, err := b.Finish()
	if err == nil && o.states {
		if err = c.Check(); err != nil {
			err = fmt.Errorf("it contradicts itself: %w", err)
		}
	}
	if err != nil {
		return nil, named(file, err)
	}
	var spaces []*lifetime.SpaceInfo
	for _, s := range c.Spaces {
		spaces = append(spaces, &s.SpaceInfo)
	}
	o.complete(&c.Tables, spaces)
	return c, nil
}

// complete adds what no single file says: the traits of formats, the profile that lies
// beside a trace without memory, and the hosts of the spaces of a folder.
func (o *origin) complete(t *lifetime.Tables, spaces []*lifetime.SpaceInfo) {
	sources := t.Sources
	for i := range t.Losses {
		if l := &t.Losses[i]; l.Reason == loss.NotOfPyTorch && o.local {
			l.First = xplanesBeside(sources[0].File)
		}
	}
	for i := range sources {
		for _, f := range All {
			if f.Name == sources[i].Format {
				sources[i].Traits = f.Traits
			}
		}
	}
	if o.folder {
		nameHosts(sources, spaces)
	}
}

// named says which file an error is about.
func named(file string, err error) error {
	var path *os.PathError
	if errors.As(err, &path) && path.Path == file {
		err = path.Err // which does not say it again
	}
	return fmt.Errorf("%s: %w", file, err)
}

// read reads one file.
func read(file string, in Input, b *build.Builder) (Format, error) {
	src, err := open(file, in)
	if err != nil {
		return Format{}, err
	}
	defer src.close()
	stream := bufio.NewReaderSize(src, 64<<10)
	plain, err := decompress(stream)
	if err != nil {
		return Format{}, err
	}
	if plain != stream {
		plain = src.readAhead(plain)
	}
	head, err := plain.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return Format{}, err
	}
	if len(head) == 0 {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return Format{}, errors.New("a compressed file that ends before its first byte of content; copy or download it again")
		}
		return Format{}, errors.New("it is empty: nothing was written, or nothing arrived")
	}
	format, err := choose(file, head, in.Format)
	if err != nil {
		return Format{}, err
	}
	if format.Read != nil {
		return format, format.Read(file, plain, b)
	}
	at, size, err := src.readerAt(plain)
	if err != nil {
		return Format{}, err
	}
	return format, format.ReadAt(file, at, size, b)
}

// maxZstdWindow is the memory that a zstd stream may ask for.
const maxZstdWindow = 128 << 20

// packed is how a file is compressed.
type packed int

const (
	plainFile packed = iota
	gzipFile
	zstdFile
)

func (p packed) String() string { return [...]string{"file", "gzip", "zstd"}[p] }

// packing tells by the first bytes of a file how it is compressed.
func packing(magic []byte) packed {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzipFile
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstdFile
	}
	return plainFile
}

// decompress undoes gzip and zstd, also one inside the other.
func decompress(in *bufio.Reader) (*bufio.Reader, error) {
	for range 3 {
		magic, _ := in.Peek(4)
		packed := &counter{in: in}
		var plain io.Reader
		switch packing(magic) {
		case gzipFile:
			z, err := gzip.NewReader(packed)
			if err != nil {
				return nil, fmt.Errorf("damaged %s (%w); copy or download it again", gzipFile, err)
			}
			plain = z
		case zstdFile:
			z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
			if err != nil {
				return nil, fmt.Errorf("damaged %s (%w); copy or download it again", zstdFile, err)
			}
			plain = z
		case plainFile:
			return in, nil
		}
		in = bufio.NewReaderSize(&expansion{in: plain, packed: packed, how: packing(magic)}, 64<<10)
	}
	return nil, errors.New("compressed more than twice over")
}

// counter counts what is read through it.
type counter struct {
	in  io.Reader
	n   int64
	err error // that ended it
}

func (c *counter) Read(p []byte) (n int, err error) {
	n, c.err = c.in.Read(p)
	c.n += int64(n)
	return n, c.err
}

// Captures shrink to a tenth or a thirtieth when they are compressed. What
// expands to maxExpansion times its size, beyond the first freeExpansion bytes,
// was made to fill the memory.
const (
	maxExpansion  = 250
	freeExpansion = 64 << 20
)

// expansion ends a stream that expands too far.
type expansion struct {
	in     io.Reader
	packed *counter
	how    packed
	n      int64
}

func (e *expansion) Read(p []byte) (int, error) {
	n, err := e.in.Read(p)
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return n, fmt.Errorf("it takes more than %d MiB to decompress (zstd --long); decompress it first", maxZstdWindow>>20)
	case e.packed.err == nil || errors.Is(e.packed.err, io.EOF):
		return n, fmt.Errorf("damaged %s near byte %d of it (%w); copy or download it again", e.how, e.packed.n, err)
	}
	e.n += int64(n)
	if e.n > freeExpansion+maxExpansion*e.packed.n {
		return 0, fmt.Errorf("it expands to more than %d times its compressed size, as no capture does; decompress it first if it is one", maxExpansion)
	}
	return n, err
}

// choose finds the format of a file by its first bytes, or by the name that the
// user gave.
func choose(file string, head []byte, name string) (Format, error) {
	var names []string
	for _, f := range All {
		if name == f.Name || name == "" && f.Sniff(head) {
			return f, nil
		}
		names = append(names, f.Name)
	}
	known := strings.Join(names, ", ")
	if name != "" {
		return Format{}, fmt.Errorf("no input format is called %q; there are: %s", name, known)
	}
	if what := foreign(file, head); what != "" {
		return Format{}, errors.New("not a capture: it is " + what)
	}
	return Format{}, fmt.Errorf("not a capture that memlane knows: %s; it reads: %s", beginning(head), known)
}
