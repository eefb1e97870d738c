package oomtext

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
)

// The dump of the allocator of TensorFlow and JAX on GPU: xla/tsl/framework/bfc_allocator.cc and allocator.cc (AllocatorStats) of
// github.com/openxla/xla.
var (
	bfcBin    = lazily(`^Bin \([0-9]+\): .* in use in bin\. ` + xlaSize + ` client-requested in use in bin`)
	bfcBySize = lazily(`^` + number + ` Chunks of size ` + number + ` totalling`)
	bfcPool   = lazily(`(?:total_region_allocated_bytes_|Total bytes in pool|Total size in pool): ` + xlaSize + `\s+memory_limit_: ` + xlaSize)
	bfcStat   = lazily(`^(Limit|InUse|MaxInUse): +` + xlaSize + `$`)
	bfcSum    = lazily(`total free in pool ` + xlaSize + `, largest free chunk usable by (?:lower|upper) end ` + xlaSize +
		`(?:, unallocated(?: bytes)? ` + xlaSize + `, pool size ` + xlaSize + `, (?:pool )?limit ` + xlaSize + `)?`) // 2026
	survived = "The caller indicates that this is not a failure"

	tensorNode   = lazily(`\[\[(?:\{\{)?[Nn]ode:? (\S+) = \w+\[.*?\bT=DT_(\w+)`) // TensorFlow 1
	tensorOp     = lazily(`\[Op:(\w+)\]`)
	tensorDevice = lazily(`(?i)device:([A-Z]+):([0-9]+)`)
	gpuAllocator = lazily(`^GPU_([0-9]+)_`)
)

// bfcSentences begin a dump, or stand alone.
var bfcSentences = []form{
	{"an out of memory trying to allocate", failure.FromTensorFlow, "gpu", "", lazily(`(?:Allocator \((?P<allocator>[^)]+)\) r|R)an out of memory trying to allocate ` +
		`(?P<requested>` + xlaSize + `)(?: \(rounded to (?P<exact>[0-9]+)\))?(?: from the (?:lower|upper) end)?(?: ?requested by op (?P<op>\S*))?`)},
}

// tensorSentences are TensorFlow's errors about a tensor.
var tensorSentences = []form{
	{"OOM when allocating tensor", failure.FromTensorFlow, "gpu", "", lazily(`OOM when allocating tensor (?:with|of) shape ?(?P<shape>\[[0-9,]*\])` +
		`(?: and type (?P<dtype>\w+))?(?: on (?P<place>\S+))?(?: by allocator (?P<allocator>\w+))?`)},
}

// dump is what the lines of a dump list.
type dump struct {
	open      int64 // size of a segment whose first chunk follows; 0 = none
	freeTotal int64
	largest   int64
	bins      int64 // bytes that the program requested, of all bins
	anyBin    bool
	whole     bool // the list of chunks is complete
}

// line takes a line of a dump. It returns false for a line of something else.
func (d *dump) line(line []byte, f *printed) bool {
	switch {
	case d.chunk(line, f):
		return true
	case bytes.HasPrefix(line, []byte("Next region of size ")):
		d.open, _ = strconv.ParseInt(string(bytes.TrimSpace(line[len("Next region of size "):])), 10, 64)
		return true
	}
	text := string(bytes.TrimSpace(line))
	if m := bfcBin().FindStringSubmatch(text); m != nil {
		d.bins = units.AddSat(d.bins, max(f.figure(m[1]), 0))
		d.anyBin = true
		return true
	}
	if m := bfcBySize().FindStringSubmatch(text); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		each, _ := size(m[2])
		f.buffers = append(f.buffers, buffer{size: max(each, 0), unpadded: max(each, 0), count: n})
		d.whole = len(f.chunks) > 0
		return true
	}
	return f.poolLine(text)
}

// poolLine takes a line with figures of the whole pool. Exact figures come before rounded ones or replace none.
func (f *printed) poolLine(text string) bool {
	if m := bfcPool().FindStringSubmatch(text); m != nil {
		f.Reserved, f.Allowed = f.figure(m[1]), f.figure(m[2])
		return true
	}
	if m := bfcSum().FindStringSubmatch(text); m != nil {
		f.Unallocated, f.LargestFree = f.figure(m[1]), f.figure(m[2])
		if pool, limit := f.figure(m[4]), f.figure(m[5]); m[4] != "" && f.Reserved < 0 {
			f.Reserved, f.Allowed = pool, limit
			f.Live = max(pool-f.Unallocated, 0)
		}
		return true
	}
	m := bfcStat().FindStringSubmatch(text)
	if m == nil {
		return false
	}
	f.set(m[1], f.figure(m[2]))
	return true
}

// chunk takes "InUse at 7f458edfd040 of size 35651584 by op Fill action_count 2 step 0 next 5". It does not use regular
// expressions: there may be millions of chunks.
func (d *dump) chunk(line []byte, f *printed) bool {
	state, rest, _ := bytes.Cut(bytes.TrimLeft(line, " "), []byte(" at "))
	state = bytes.TrimSpace(state)
	used := string(state) == "InUse" || string(state) == "Chunk"
	if !used && string(state) != "Free" {
		return false
	}
	where, rest, ok := bytes.Cut(rest, []byte(" of size "))
	if !ok {
		return false
	}
	addr, err := strconv.ParseUint(string(bytes.TrimPrefix(where, []byte("0x"))), 16, 64)
	length, rest, _ := bytes.Cut(rest, []byte(" "))
	size, err2 := strconv.ParseInt(string(length), 10, 64)
	if err != nil || err2 != nil || size < 0 {
		return false
	}
	if d.open > 0 {
		f.segments = append(f.segments, segment{addr, d.open})
		d.open = 0
	}
	if !used {
		d.freeTotal = units.AddSat(d.freeTotal, size)
		d.largest = max(d.largest, size)
		return true
	}
	c := chunk{addr: addr, size: size}
	if op, ok := bytes.CutPrefix(rest, []byte("by op ")); ok {
		op, _, _ = bytes.Cut(op, []byte(" "))
		if last := len(f.chunks) - 1; last >= 0 && f.chunks[last].op == string(op) {
			c.op = f.chunks[last].op // without a copy
		} else {
			c.op = string(op)
		}
	}
	f.chunks = append(f.chunks, c)
	return true
}

// finish sums up what the dump lists. A list that was cut off is not used: it would look like a small pool.
func (d *dump) finish(f *printed) {
	if d.anyBin {
		f.Requested = d.bins
	}
	if !d.whole {
		f.chunks, f.segments = nil, nil
		return
	}
	f.buffers, f.Live, f.Reserved = nil, 0, 0
	for i := range f.chunks {
		f.Live = units.AddSat(f.Live, f.chunks[i].size)
	}
	for _, s := range f.segments {
		f.Reserved = units.AddSat(f.Reserved, s.size)
	}
	f.Unallocated = d.freeTotal
	if f.LargestFree < 0 || d.largest <= f.LargestFree+2*f.Rounding { // others are kept for requests from the other end
		f.LargestFree = d.largest
	}
}

// parseBFC reads the first line of a dump, or the warning that comes without one; nil if there is none.
func parseBFC(text string) *printed {
	f := read(bfcSentences, text)
	if f != nil {
		f.Survived = strings.Contains(text, survived)
	}
	return f
}

// parseTensor reads TensorFlow's error about a tensor; nil if there is none.
func parseTensor(text string) *printed {
	f := read(tensorSentences, text)
	if f == nil {
		return nil
	}
	if node := tensorNode().FindStringSubmatch(text); node != nil && f.dtype == "" {
		f.op, f.dtype = node[1], strings.ToLower(node[2])
		f.take("place", text, "")
	}
	f.requested = elements(strings.Trim(f.shape, "[]"), f.dtype)
	if op := tensorOp().FindStringSubmatch(text); op != nil {
		f.op = op[1]
	}
	if f.device == "cpu:0" {
		f.device = "cpu"
		if f.allocator == "mklcpu" || f.allocator == "cpu" {
			f.Source = failure.FromHost
		}
	}
	return f
}

// elementBytes are the sizes of TensorFlow's types, as DataTypeString writes them.
var elementBytes = map[string]int64{"bool": 1, "int8": 1, "uint8": 1, "qint8": 1, "quint8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
	"half": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "float": 4, "int32": 4, "uint32": 4, "double": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16}

// elements returns the bytes of a tensor; 0 if they are not known or too many.
func elements(shape, dtype string) int64 {
	n := elementBytes[dtype]
	for _, dimension := range strings.Split(shape, ",") {
		d, err := strconv.ParseInt(dimension, 10, 64)
		if shape == "" {
			d, err = 1, nil
		}
		if err != nil || d != 0 && n > (1<<62)/d {
			return 0
		}
		n *= d
	}
	return n
}

// driverSentences have the driver's refusal to enlarge the pool. TensorFlow tries again with 90 % of the size.
var driverSentences = []form{
	{"bytes) from device", failure.FromTensorFlow, "gpu", "", lazily(`failed to allocate \S+ \((?P<requested>[0-9]+) bytes\) (?P<growth>from device): (?:\w+_OUT_OF_MEMORY|(?P<backend>hip)Error)`)},
}

// histogram reads the blocks in use of TensorFlow's cudaMallocAsync allocator: gpu_cudamallocasync_allocator.cc.
var (
	histogramHead = "Histogram of current allocation:"
	histogramRow  = lazily(`^` + number + `, ` + number + `$`)
	histogramPool = lazily(`CU_MEMPOOL_ATTR_(RESERVED|USED)_MEM_(CURRENT|HIGH): ` + number)
)

// histogramLine takes a line of the histogram. It returns false for a line of something else.
func (f *printed) histogramLine(line []byte) bool {
	text := string(bytes.TrimSpace(line))
	if m := histogramRow().FindStringSubmatch(text); m != nil {
		each, _ := size(m[1])
		count, _ := size(m[2])
		f.buffers = append(f.buffers, buffer{size: max(each, 0), unpadded: max(each, 0), count: max(count, 0), kind: lifetime.Plain})
		return true
	}
	m := histogramPool().FindStringSubmatch(text)
	if m == nil {
		return false
	}
	f.set(m[1]+" "+m[2], f.figure(m[3]))
	f.spare()
	return true
}
