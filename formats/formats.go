package formats

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/memlane/memlane/formats/torchsnap"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/native"
)

// Format is one kind of capture.
type Format struct {
	Name string // as in --input-format
	Doc  string // what it is and what writes it, in one line

	// Sniff reports whether the first bytes of a file (up to sniffed, after
	// decompression) are of this format.
	Sniff func(head []byte) bool
	// Read turns the file into facts. It is streamed once, from its beginning.
	Read func(file string, in io.Reader, b *lifetime.Builder) error
	// States says that the file states the model itself, buffers with both ends
	// and all, so that it may contradict itself: what was read is checked.
	States bool
}

// All lists the formats in the order in which they are tried.
var All = []Format{
	{"torch-snapshot", "PyTorch memory snapshot: torch.cuda.memory._dump_snapshot, or a memory_viz page of one", torchsnap.Sniff, torchsnap.Read, false},
	{"native", "memlane's own model as text: memlane export --to native", native.Sniff, native.Read, true},
}

// sniffed is how much of a file the formats may look at before they choose.
const sniffed = 4096

// Input is where captures come from besides files, and how they are read.
type Input struct {
	Stdin  io.Reader // read for the name "-"
	Format string    // name of a Format, or "" to find out
	// Progress, when set, wraps the stream of a file of size bytes (0 = not
	// known) so that its caller can show how far reading got.
	Progress func(file string, size int64, in io.Reader) io.Reader
}

// Open reads one capture. The error names the file.
func Open(file string, in Input) (*lifetime.Capture, error) {
	c, err := open(file, in)
	if err != nil {
		var path *os.PathError
		if errors.As(err, &path) { // names the file already
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

func open(file string, in Input) (*lifetime.Capture, error) {
	stream := in.Stdin
	size := int64(0)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			return nil, errors.New("is a directory; give the capture files in it")
		}
		stream, size = f, info.Size()
	} else if stream == nil {
		return nil, errors.New("there is no standard input")
	}
	if in.Progress != nil {
		stream = in.Progress(file, size, stream)
	}
	plain, err := decompress(bufio.NewReaderSize(stream, 64<<10))
	if err != nil {
		return nil, err
	}
	head, err := plain.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if len(head) == 0 {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("a compressed file that ends before its first byte of content")
		}
		return nil, errors.New("the file is empty")
	}
	format, err := choose(head, in.Format)
	if err != nil {
		return nil, err
	}
	b := lifetime.NewBuilder()
	if err := format.Read(file, plain, b); err != nil {
		return nil, err
	}
	c, err := b.Finish()
	if err == nil && format.States {
		if err := c.Check(); err != nil {
			return nil, fmt.Errorf("it contradicts itself: %w", err)
		}
	}
	return c, err
}

// maxZstdWindow is the memory that a zstd stream may ask for.
const maxZstdWindow = 128 << 20

// decompress undoes gzip and zstd, also one inside the other.
func decompress(in *bufio.Reader) (*bufio.Reader, error) {
	for range 3 {
		magic, _ := in.Peek(4)
		packed := &counter{in: in}
		var plain io.Reader
		switch {
		case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
			z, err := gzip.NewReader(packed)
			if err != nil {
				return nil, fmt.Errorf("damaged gzip: %w", err)
			}
			plain = z
		case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
			z, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
			if err != nil {
				return nil, fmt.Errorf("damaged zstd: %w", err)
			}
			plain = z
		default:
			return in, nil
		}
		in = bufio.NewReaderSize(&expansion{in: plain, packed: packed}, 64<<10)
	}
	return nil, errors.New("compressed more than twice over")
}

// counter counts what is read through it.
type counter struct {
	in io.Reader
	n  int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
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
	n      int64
}

func (e *expansion) Read(p []byte) (int, error) {
	n, err := e.in.Read(p)
	e.n += int64(n)
	if e.n > freeExpansion+maxExpansion*e.packed.n {
		return 0, fmt.Errorf("it expands to more than %d times its compressed size, as no capture does; decompress it first if it is one", maxExpansion)
	}
	return n, err
}

// choose finds the format of a file by its first bytes, or by the name that the
// user gave.
func choose(head []byte, name string) (Format, error) {
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
	return Format{}, fmt.Errorf("not a capture that memlane knows (%s); it reads: %s", looksLike(head), known)
}

// looksLike says what a file that is no capture seems to be.
func looksLike(head []byte) string {
	text := bytes.TrimLeft(head, "\ufeff \t\r\n")
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "it is a zip archive, such as torch.save writes"
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		return "it looks like JSON"
	case bytes.IndexByte(head, 0) >= 0:
		return fmt.Sprintf("it is a binary file that begins with % x", head[:min(4, len(head))])
	}
	return fmt.Sprintf("it begins with %.20q", head)
}
