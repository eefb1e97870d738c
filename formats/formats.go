package formats

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/memlane/memlane/formats/chrometrace"
	"github.com/memlane/memlane/formats/gpumemprof"
	"github.com/memlane/memlane/formats/hlo"
	"github.com/memlane/memlane/formats/jaxprof"
	"github.com/memlane/memlane/formats/oomtext"
	"github.com/memlane/memlane/formats/torchsnap"
	"github.com/memlane/memlane/formats/xplane"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/lifetime/outline"
)

// Format is one kind of capture.
type Format struct {
	Name string // as in --input-format
	Doc  string // one line: the format and the programs that write it

	// Sniff reports whether head, up to 4096 bytes from the beginning of the decompressed file, looks like this format.
	Sniff func(head []byte) bool
	// Perhaps, if set, reports whether a file that no Sniff recognises may be of this format, because its content may
	// begin anywhere.
	Perhaps func(head []byte) bool
	// Read reads the file, decompressed, into the builder in one pass. Formats that need random access have ReadAt
	// instead. Records that cannot be used are losses (Builder.Lose), and so is io.ErrUnexpectedEOF, a file that was
	// cut: loss.Truncated. Any other error of in is returned. Without a usable record, no space is described.
	Read   func(file string, in io.Reader, b *build.Builder) error
	ReadAt func(file string, in io.ReaderAt, size int64, b *build.Builder) error
	// States is set if the file contains the model itself, such as buffers with both
	// ends. Such a file may contradict itself, so Open checks the result.
	States bool
	// Traits apply to all captures of the format.
	Traits lifetime.Traits
}

// All returns memlane's formats in the order in which Open tries them.
func All() []Format { return slices.Clone(all) }

var all = []Format{
	{Name: "torch-snapshot", Doc: "PyTorch memory snapshot: torch.cuda.memory._dump_snapshot, or a memory_viz page of one",
		Sniff: torchsnap.Sniff, Read: torchsnap.Read, Traits: lifetime.Traits{Stacks: true, Fails: true,
			Advice: "call torch.cuda.memory._record_memory_history() before the allocations, and _dump_snapshot() after them", Names: "memlane.record()"}},
	{Name: "xplane", Doc: "XProf profile of TensorFlow or JAX: *.xplane.pb, or the folder that the profiler wrote into",
		Sniff: xplane.Sniff, ReadAt: xplane.ReadAt, Traits: lifetime.Traits{Folded: true}},
	{Name: "hlo", Doc: "XLA buffer assignment: *.hlo_proto.pb of XProf, *.hlo.pb of --xla_dump_hlo_as_proto",
		Sniff: hlo.Sniff, Read: hlo.Read},
	{Name: "hlo-text", Doc: "XLA buffer assignment as text: *-buffer-assignment.txt and *-memory-usage-report.txt of --xla_dump_to",
		Sniff: hlo.SniffText, Read: hlo.ReadText},
	{Name: "jaxprof", Doc: "device memory profile of JAX: jax.profiler.save_device_memory_profile",
		Sniff: jaxprof.Sniff, Read: jaxprof.Read, Traits: lifetime.Traits{
			Advice: "record with jax.profiler.trace()",
			OnCPU:  "JAX on CPU records none; give three or more profiles from equal moments of the run, and leaks lists what grows"}},
	{Name: "gpumemprof", Doc: "results and telemetry of gpumemprof and stormlog as JSON: ProfileResult.to_dict, export_data, track",
		Sniff: gpumemprof.Sniff, Read: gpumemprof.Read, Traits: lifetime.Traits{Calls: true}},
	{Name: "chrome-trace", Doc: "Chrome trace of the PyTorch profiler: export_chrome_trace, export_memory_timeline, counters of memory",
		Sniff: chrometrace.Sniff, Read: chrometrace.Read, Traits: lifetime.Traits{Partly: true,
			Advice: "record with torch.profiler.profile(profile_memory=True, with_stack=True)", Names: "memlane.record()"}},
	{Name: "oom-text", Doc: "what a program printed when memory ran out: logs with the errors of PyTorch, XLA and TensorFlow",
		Sniff: oomtext.Sniff, Perhaps: oomtext.Text, Read: oomtext.Read, Traits: lifetime.Traits{Fails: true,
			Advice: "record a memory snapshot (PyTorch) or a profile (XLA, TensorFlow) of the run; the text of an error has no history"}},
	{Name: "native", Doc: "memlane's own model as text: memlane export --to native",
		Sniff: native.Sniff, Read: native.Read, States: true, Traits: lifetime.Traits{Partly: true}},
}

// sniffed is the number of bytes that Format.Sniff gets.
const sniffed = 4096

// Input are the options of Open.
type Input struct {
	Stdin io.Reader // read for the name "-"
	// File, if set, opens every name, for example in remote storage. No name is then a folder or standard input.
	File   func(name string) (File, error)
	Format string // name of a Format; "" detects it
	// Formats are those that may be read, in the order in which they are tried; nil = All. A program adds its own to
	// All.
	Formats []Format
	// Open, if set, opens files instead of os.Open.
	Open func(file string) (*os.File, error)
	// Keep selects what to keep besides the buffers. OpenOutline adds PeakAndEnd.
	Keep build.Keep
	// Progress, if set, is called for each file with its size in bytes (0 = unknown).
	// The function that it returns is called with the number of bytes of each read.
	Progress func(file string, size int64) func(n int)
	// Stop, if set, is called before each read. Its first error ends the reading, and
	// Open returns it. Later calls must return an error too.
	Stop func() error
}

// File is a file for both sequential and random reads: an os.File with a method Size.
type File interface {
	io.ReadCloser
	io.ReaderAt
	Size() int64 // in bytes
}

// Open reads one capture: a file, or a folder of profiles. It fails if the file cannot
// be read or is not a capture; the error names the file. Damage to a part of a capture
// is a loss in the result. What buffers are for is not judged: see package judge.
func Open(file string, in Input) (*lifetime.Capture, error) {
	b := build.New(in.Keep)
	from, err := readAll(file, in, b)
	if err != nil {
		return nil, err
	}
	return from.finish(file, b)
}

// OpenOutline returns the same as the Outline of Open's result: the peak and the end of
// each space. It takes less time and memory than Open, and fails like it. Where it keeps whole spaces, the rows are
// missing until category.OfOutline has judged the buffers.
func OpenOutline(file string, in Input) (*outline.Outline, error) {
	b := build.New(in.Keep | build.PeakAndEnd)
	from, err := readAll(file, in, b)
	if err != nil {
		return nil, err
	}
	if from.states { // Check needs the whole capture
		c, err := from.finish(file, b)
		if err != nil {
			return nil, err
		}
		return outline.Of(c), nil
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

// origin describes the input of a capture.
type origin struct {
	local  bool // not opened by Input.File
	folder bool
	states bool // Format.States of one of its files

	formats []Format // that may be read
}

// formats returns the formats that may be read.
func (in *Input) formats() []Format {
	if in.Formats != nil {
		return in.Formats
	}
	return all
}

func readAll(file string, in Input, b *build.Builder) (from origin, err error) {
	files := []string{file}
	from.local, from.formats = in.File == nil, in.formats()
	info, err := os.Stat(file)
	from.folder = from.local && file != "-" && err == nil && info.IsDir()
	if from.folder {
		if files, err = profiles(file, b); err != nil {
			if files = dumps(file); len(files) == 0 {
				return from, named(file, err)
			}
		}
	}
	for _, f := range files {
		format, err := read(f, in, b)
		if in.Stop != nil { // the reader may have taken its error for the end of the file
			err = cmp.Or(in.Stop(), err)
		}
		if err != nil {
			return from, named(f, err)
		}
		from.states = from.states || format.States
	}
	return from, nil
}

// finish returns the capture that readAll read into b, checked if its format needs it.
func (o *origin) finish(file string, b *build.Builder) (*lifetime.Capture, error) {
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

// complete adds the traits of the formats, the profile in the folder of a trace
// without memory, and the hosts of a folder's spaces.
func (o *origin) complete(t *lifetime.Tables, spaces []*lifetime.SpaceInfo) {
	sources := t.Sources
	for i := range t.Losses {
		if l := &t.Losses[i]; l.Reason == loss.NotOfPyTorch && o.local {
			l.First = siblingProfile(sources[0].File)
		}
	}
	for i := range sources {
		for _, f := range o.formats {
			if f.Name == sources[i].Format {
				sources[i].Traits = f.Traits
			}
		}
	}
	if o.folder {
		nameHosts(sources, spaces)
	}
}

// named adds the name of the file to an error.
func named(file string, err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok && path.Path == file {
		err = path.Err // does not repeat the name
	}
	return fmt.Errorf("%s: %w", file, err)
}

func read(file string, in Input, b *build.Builder) (Format, error) {
	src, err := open(file, in)
	if err != nil {
		return Format{}, err
	}
	defer src.close()
	plain, head, err := peek(src)
	if err != nil {
		return Format{}, err
	}
	format, err := choose(file, head, in.Format, in.formats())
	if err != nil {
		return Format{}, err
	}
	if format.Read != nil {
		opening := bytes.Clone(head[:min(len(head), 64)]) // reading overwrites head
		var content io.Reader = plain
		if ranges := liveRanges(file, in, format.Name); ranges != nil {
			defer ranges.Close()
			content = io.MultiReader(plain, strings.NewReader("\n"), ranges)
		}
		err := format.Read(file, content, b)
		if errors.Is(err, oomtext.ErrNone) && in.Format == "" {
			err = unknownCapture(opening, err, in.formats())
		}
		return format, err
	}
	at, size, err := src.readerAt(plain)
	if err != nil {
		return Format{}, err
	}
	return format, format.ReadAt(file, at, size, b)
}

// peek returns the decompressed content of a source, and its first bytes. It fails if there are none.
func peek(src *source) (plain *bufio.Reader, head []byte, err error) {
	stream := bufio.NewReaderSize(src, 64<<10)
	if plain, err = decompress(stream); err != nil {
		return nil, nil, err
	}
	if plain != stream {
		plain = src.readAhead(plain)
	}
	head, err = plain.Peek(sniffed)
	switch {
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, nil, err
	case len(head) > 0:
		return plain, head, nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, nil, errors.New("the compressed file ends before its first byte of content; copy or download it again")
	}
	return nil, nil, errors.New("it is empty: nothing was written, or nothing arrived")
}

// maxZstdWindow bounds the window of a zstd stream, in bytes.
const maxZstdWindow = 128 << 20

// compression returns "gzip" or "zstd" by the first bytes of a file, "" for others.
func compression(magic []byte) string {
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return "gzip"
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	}
	return ""
}

// zstds are decoders that read a stream to its end. Each has a window, which for files of zstd --long is 128 MiB to
// clear.
var zstds sync.Pool

// unzstd returns a reader of what a zstd stream contains.
func unzstd(packed io.Reader) (io.Reader, error) {
	if d, ok := zstds.Get().(*zstd.Decoder); ok {
		return &unpacking{d}, d.Reset(packed)
	}
	d, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
	return &unpacking{d}, err
}

// unpacking reads from a decoder until the end, and then gives it back.
type unpacking struct{ decoder *zstd.Decoder }

func (u *unpacking) Read(p []byte) (int, error) {
	if u.decoder == nil {
		return 0, io.EOF
	}
	n, err := u.decoder.Read(p)
	if err == io.EOF {
		zstds.Put(u.decoder)
		u.decoder = nil
	}
	return n, err
}

// decompress undoes gzip and zstd, also one inside the other.
func decompress(in *bufio.Reader) (*bufio.Reader, error) {
	for range 3 {
		magic, err := in.Peek(4)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		packed := &counter{in: in}
		how := compression(magic)
		var plain io.Reader
		switch how {
		case "gzip":
			plain, err = gzip.NewReader(packed)
		case "zstd":
			plain, err = unzstd(packed)
		default:
			return in, nil
		}
		if err != nil {
			return nil, fmt.Errorf("damaged %s (%w); copy or download it again", how, err)
		}
		in = bufio.NewReaderSize(&expansion{in: plain, packed: packed, how: how}, 64<<10)
	}
	return nil, errors.New("compressed more than twice")
}

type counter struct {
	in  io.Reader
	n   int64
	err error // of the last Read
}

func (c *counter) Read(p []byte) (n int, err error) {
	n, c.err = c.in.Read(p)
	c.n += int64(n)
	return n, c.err
}

// Captures compress to a tenth or a thirtieth of their size. A file that expands to more than maxExpansion times its
// size, after the first freeExpansion bytes, is a decompression bomb.
const (
	maxExpansion  = 250
	freeExpansion = 64 << 20
)

// expansion reads a decompressed stream and fails if it expands too far.
type expansion struct {
	in     io.Reader
	packed *counter // the compressed stream
	how    string   // as from compression
	n      int64    // bytes read
}

func (e *expansion) Read(p []byte) (int, error) {
	n, err := e.in.Read(p)
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return n, fmt.Errorf("it takes more than %d MiB to decompress (zstd --long); decompress it first", maxZstdWindow>>20)
	case e.packed.err == nil || errors.Is(e.packed.err, io.EOF):
		return n, fmt.Errorf("damaged %s near byte %d (%w); copy or download it again", e.how, e.packed.n, err)
	}
	e.n += int64(n)
	if e.n > freeExpansion+maxExpansion*e.packed.n {
		return 0, fmt.Errorf("it expands to more than %d times its compressed size, which no real capture does; "+
			"if it is one, decompress it first", maxExpansion)
	}
	return n, err
}

// choose returns the format with the given name, or without a name the first format
// that recognises head. It fails if there is none, and describes the file.
func choose(file string, head []byte, name string, all []Format) (Format, error) {
	if name == "" && isJSONSnapshot(head) { // a list would pass as a trace
		return Format{},
			errors.New("a memory snapshot written as JSON, which memlane does not read; write the same object with pickle.dump, or call " + `torch.cuda.memory._dump_snapshot("FILE")`)
	}
	for _, f := range all {
		if name == f.Name || name == "" && f.Sniff(head) {
			return f, nil
		}
	}
	if name != "" {
		return Format{}, fmt.Errorf("unknown input format %q; known formats: %s", name, known(all))
	}
	if what := describeNotCapture(file, head); what != "" {
		return Format{}, errors.New("not a capture: it is " + what)
	}
	for _, f := range all {
		if f.Perhaps != nil && f.Perhaps(head) {
			return f, nil
		}
	}
	return Format{}, unknownCapture(head, nil, all)
}

// unknownCapture returns the error for a file of no known format; why adds a reason, nil if there is none.
func unknownCapture(head []byte, why error, all []Format) error {
	text := beginning(head)
	if why != nil {
		text += ", and " + why.Error()
	}
	return fmt.Errorf("not a capture that memlane knows: %s; it reads: %s", text, known(all))
}

func known(all []Format) string {
	var names []string
	for _, f := range all {
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}
