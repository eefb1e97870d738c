package oomtext

import (
	"math"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
)

// unknown is a figure that a text does not give.
const unknown = -1

// RE2 of sizes: format_size of c10/core/CachingDeviceAllocator ("20.00 MiB", "512 bytes"; MPS prints "MB" for MiB), and of XLA and
// TensorFlow ("15.75G", "1.50GiB", "4B"). All units are powers of 1024.
const (
	torchSize = `([0-9]+(?:\.[0-9]+)? (?:bytes|[KMGTPE]i?B))`
	xlaSize   = `([0-9]+(?:\.[0-9]+)?(?: bytes|[KMGTPE]?(?:iB|B)?))`
	number    = `([0-9]+)`
)

// size returns a printed size in bytes, and half a unit of its last digit. Both are unknown for "" and for sizes of 2^63
// and more: the allocator prints 2^64 for "no limit".
func size(text string) (bytes, rounding int64) {
	end := strings.IndexFunc(text, func(c rune) bool { return (c < '0' || c > '9') && c != '.' })
	if end < 0 {
		end = len(text)
	}
	unit := 1.0
	if letter := strings.TrimLeft(text[end:], " "); letter != "" {
		if power := strings.IndexByte("KMGTPE", letter[0]); power >= 0 {
			unit = math.Pow(1024, float64(power+1))
		}
	}
	digits := text[:end]
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && unit == 1 {
		return n, 0 // exact: a float64 has 53 bits
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || v*unit >= math.MaxInt64 {
		return unknown, 0
	}
	decimals := 0
	if dot := strings.IndexByte(digits, '.'); dot >= 0 {
		decimals = len(digits) - dot - 1
	}
	return int64(math.Round(v * unit)), int64(unit * math.Pow(10, -float64(decimals)) / 2)
}

// figure returns a printed size and adds its rounding error to a failure.
func (f *printed) figure(text string) int64 {
	bytes, rounding := size(text)
	f.Rounding = max(f.Rounding, rounding)
	return bytes
}

// said is what tells failures apart.
type said struct {
	failure.Failure
	requested, free int64 // of the device; 0 and unknown = not known
	device, op      string
}

// printed is a failed allocation, or the state of an allocator, as one text describes it.
type printed struct {
	said

	lastRequested int64 // of the last text about it

	state   bool  // no failure: only the state of an allocator
	counted int64 // of such a state: failures that the allocator counted; 0 for other texts

	known, conf string // the newest setting that the version knows, and the variable that the text names; "" = not known

	memory, allocator, module string
	shape, dtype              string // of the request
	kernel                    string // the shape of what a kernel of XLA allocates

	program  bool     // its buffers are those of a compiled program
	buffers  []buffer // that the text lists, without addresses
	chunks   []chunk  // the same, with addresses
	segments []segment
	peak     int64 // of live bytes since the program began; 0 = not known

	writer *writer
	frames []level // of its traceback, innermost first
	step   int64   // the last one before it, -1 = unknown

	context string // what was printed before about the memory
}

// buffer is a block that a text lists, or several of one size.
type buffer struct {
	size, unpadded   int64
	count            int64
	op, shape, label string
	kind             lifetime.Kind
	file             string
	line             int
	note             string
}

// chunk is a block in use of a dump, of which there may be millions.
type chunk struct {
	addr uint64
	size int64
	op   string
}

// segment is memory that the allocator took from the device.
type segment struct {
	addr uint64
	size int64
}

func newFailure(source string) *printed {
	f := &printed{said: said{Failure: failure.Unknown(source), free: unknown}}
	p := programs[source]
	f.Help, f.Planned, f.Opaque = p.help, p.plans, p.opaque
	return f
}
