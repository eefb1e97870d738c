package oomtext

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/failure"
)

// Texts of XLA. libtpu is closed: its texts are known from runs. Sources of the others: xla/service/buffer_assignment.cc,
// xla/stream_executor/integrations/tf_allocator_adapter.cc, xla/error/error_codes.h of github.com/openxla/xla.
var (
	// TPU, at compile time: long up to jax 0.9, then one sentence.
	tpuSpace = lazily(`Ran out of memory in memory space ([a-z]+)\. Used ` + xlaSize + ` of ` + xlaSize + ` [a-z]+\.(?: Exceeded [a-z]+ capacity by ` + xlaSize + `)?`)
	tpuTotal = lazily(`Total [a-z]+ usage >= ` + xlaSize + `: reserved (?:unknown size|` + xlaSize + `) program (?:unknown size|` + xlaSize +
		`) arguments (?:unknown size|` + xlaSize + `)`)
	tpuTemp   = lazily(`HLO temp ` + xlaSize + ` \(([0-9.]+)% utilization`)
	tpuBuffer = lazily(`[0-9]+\. Size: ` + xlaSize + `(?: Operator: (.*?))?(?: Shape: (.*?))?(?: Unpadded size: ` + xlaSize +
		`)?(?: Extra memory due to padding: ` + xlaSize + ` \([0-9.]+x expansion\))?(?: XLA label: (.*?))?(?: Allocation type: ([A-Za-z ]+?))? =====`)
	gpuStats  = lazily(`(parameter|constant|maybe_live_out|preallocated temp|total) allocation: +` + xlaSize)
	gpuBuffer = lazily(`Buffer [0-9]+: Size: ` + xlaSize + `(?: Operator: (.*?))? (?:Entry Parameter Subshape: (\S+)|XLA Label: (\S+) Shape: (\S+)) =====`)

	// Of a GPU program.
	opName     = lazily(`op_name="([^"]*)"`)
	sourceFile = lazily(`source_file="([^"]*)"`)
	sourceLine = lazily(`source_line=([0-9]+)`)
)

// tpuSentences are short texts of the compiler. They say "HLO temporaries", but the figure is the whole buffer assignment.
var tpuSentences = []form{
	// A kernel in on-chip memory, such as one of Pallas, also cut off, and programs without figures in the message.
	{"Ran out of memory in memory space", failure.FromCompiler, "tpu", "", lazily(`Ran out of memory in memory space (?P<memory>[a-z]+)\b(?:.*? for %(?P<module>[\w.-]+)(?: = (?P<kernel>\S+))?)?` +
		`(?:.*?Scoped allocation with size (?P<needed>` + xlaSize + `) and limit (?P<capacity>` + xlaSize + `) exceeded)?`)},
	{"Ran out of memory on ", failure.FromCompiler, "tpu", "", lazily(`Ran out of memory on (?P<memory>[A-Z]+), the total memory required for HLO temporaries ` +
		`\((?P<program>` + xlaSize + `)\) exceeds available [A-Z]+ \((?P<capacity>` + xlaSize + `)\)\.(?: HLO module: (?P<module>\S+?)\.(?: |$))?`)},
	{"would exceed memory", failure.FromCompiler, "tpu", "", lazily(`Allocation \(size=(?P<requested>[0-9]+)\) would exceed memory \(size=(?P<capacity>[0-9]+)\) ` +
		`:: #allocation[0-9]+ \[shape = '(?P<single>.*?)', space=(?P<memory>[a-z]+)(?:, size = 0x[0-9a-f]+)?(?:, (?:[a-z]+, )?tag = '(?P<tag>[^']*)')?`)},
	{"TPU TensorCore Hbm usage", failure.FromCompiler, "tpu/hbm", "", lazily(`TPU TensorCore Hbm usage: (?P<TensorCore>` + xlaSize +
		`), SparseCore Hbm usage (?P<SparseCore>` + xlaSize + `), exceeding available bytes: (?P<capacity>` + xlaSize + `)`)},
}

// xlaSentences are texts of XLA at run time: on TPU, GPU and CPU.
var xlaSentences = []form{
	{"ttempting to ", failure.FromXLA, "tpu", "", lazily(`(?:Error loading program '(?P<module>[^']*)': )?Attempting to (?:allocate|reserve) (?P<requested>` + xlaSize +
		`)(?P<load> at the bottom of memory)?\. That was not possible\.(?: There are (?P<free>` + xlaSize + `) free(?:, ` + xlaSize + ` reserved, and (?P<largest_free>` +
		xlaSize + `) reservable)?\.)?(?:;? ?\((?P<index>[0-9x]+)_(?P<memory>[A-Z0-9]+)\))?`)},
	{"memory while trying", failure.FromXLA, "gpu", "", lazily(`Out of memory while trying to allocate (?P<requested>` + xlaSize + `)\.`)},
	{"memory while trying", failure.FromHost, "host", "", lazily(`Out of host memory while trying to allocate (?P<requested>` + xlaSize + `)\.`)},
	{"o allocate request for", failure.FromXLA, "gpu", "", lazily(`Failed to allocate request for \S+ \((?P<requested>[0-9]+)B\) on device ordinal (?P<index>[0-9]+)`)},
	{"Out of memory allocating", failure.FromHost, "cpu", "", lazily(`Out of memory allocating (?P<requested>[0-9]+) bytes`)},
}

// parseXLA reads the first text of XLA; nil if there is none.
func parseXLA(text string) *printed {
	f := cmp.Or(parseTPULong(text), parseTPUShort(text))
	if f == nil {
		if f = read(xlaSentences, text); f != nil {
			f.assignment(text)
		}
	}
	return f
}

func parseTPULong(text string) *printed {
	m := tpuSpace().FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	f := newFailure(failure.FromCompiler)
	f.program, f.device, f.memory = true, "tpu", m[1]
	f.Needed, f.Capacity, f.Exceeded = f.figure(m[2]), f.figure(m[3]), f.figure(m[4])
	listed := int64(0)
	for _, b := range tpuBuffer().FindAllStringSubmatch(text, -1) {
		bytes := max(f.figure(b[1]), 0)
		x := buffer{size: bytes, unpadded: bytes, count: 1, shape: b[3], label: b[6], kind: kindOf(b[7])}
		if padding, _ := size(b[5]); padding > 0 {
			x.unpadded = max(bytes-padding, 0) // finer than the printed unpadded size
		} else if unpadded, _ := size(b[4]); unpadded >= 0 {
			x.unpadded = min(unpadded, bytes)
		}
		x.from(b[2])
		if x.shape == "" && x.op == "" && x.label != "" {
			x.op = x.label
		}
		listed = units.AddSat(listed, bytes)
		f.buffers = append(f.buffers, x)
	}
	arguments, temp := int64(unknown), int64(unknown)
	if t := tpuTotal().FindStringSubmatch(text); t != nil {
		arguments = f.figure(t[4])
	}
	if t := tpuTemp().FindStringSubmatch(text); t != nil {
		temp = f.figure(t[1])
	}
	f.rest(lifetime.Parameter, "arguments", arguments)
	f.rest(lifetime.Temporary, "temporaries that the message does not list", f.beyondRounding(temp-listed))
	sum := int64(0)
	for i := range f.buffers {
		sum = units.AddSat(sum, f.buffers[i].size)
	}
	f.rest(lifetime.Plain, "memory that the message does not break down", f.beyondRounding(f.Needed-sum))
	f.moduleFromNames()
	return f
}

// rest adds bytes of which only the sum is known.
func (f *printed) rest(kind lifetime.Kind, name string, bytes int64) {
	if bytes > 0 {
		f.buffers = append(f.buffers, buffer{size: bytes, unpadded: bytes, count: 1, op: name, kind: kind, note: "a sum: the message does not list the buffers"})
	}
}

// beyondRounding returns a difference of printed sizes, or 0 if rounding may explain it.
func (f *printed) beyondRounding(bytes int64) int64 {
	if bytes <= 4*f.Rounding {
		return 0
	}
	return bytes
}

func (b *buffer) from(operator string) {
	if m := opName().FindStringSubmatch(operator); m != nil {
		b.op = m[1]
	}
	if m := sourceFile().FindStringSubmatch(operator); m != nil {
		b.file = m[1]
	}
	if m := sourceLine().FindStringSubmatch(operator); m != nil {
		b.line, _ = strconv.Atoi(m[1])
	}
}

// kindOf returns the kind of a buffer by libtpu's type of its allocation.
func kindOf(allocation string) lifetime.Kind {
	return map[string]lifetime.Kind{"hlo temp": lifetime.Temporary, "scoped": lifetime.Temporary, "argument": lifetime.Parameter, "arguments": lifetime.Parameter,
		"parameter": lifetime.Parameter, "output": lifetime.Output, "constant": lifetime.Constant, "global": lifetime.Constant}[strings.ToLower(allocation)]
}

// moduleFromNames sets the program's name from the operations: those of jit(f) are in the module jit_f.
func (f *printed) moduleFromNames() {
	for i := range f.buffers {
		if name, _, ok := strings.Cut(f.buffers[i].op, ")/"); ok && strings.HasPrefix(name, "jit(") {
			f.module = "jit_" + strings.TrimPrefix(name, "jit(")
			return
		}
	}
}

func parseTPUShort(text string) *printed {
	f := read(tpuSentences, text)
	if f != nil {
		f.program = true
		if f.Needed >= 0 && f.Capacity >= 0 {
			f.Exceeded = max(f.Needed-f.Capacity, 0)
		}
		if f.Needed >= 0 && f.buffers == nil { // of the kernel
			f.buffers = []buffer{{size: f.Needed, unpadded: f.Needed, count: 1, shape: f.kernel, label: f.module, kind: lifetime.Temporary}}
		}
	}
	return f
}

// assignment reads the buffer assignment of a GPU program.
func (f *printed) assignment(text string) {
	stats := map[string]int64{}
	for _, m := range gpuStats().FindAllStringSubmatch(text, -1) {
		if _, twice := stats[m[1]]; !twice {
			stats[m[1]] = max(f.figure(m[2]), 0)
		}
	}
	total, ok := stats["total"]
	if !ok {
		return
	}
	f.program, f.Needed = true, total
	if scratch, ok := stats["preallocated temp"]; ok {
		f.Scratch = scratch
	}
	parameters, others := int64(0), int64(0)
	for _, m := range gpuBuffer().FindAllStringSubmatch(text, -1) {
		size := max(f.figure(m[1]), 0)
		b := buffer{size: size, unpadded: size, count: 1, shape: m[3] + m[5], label: m[4]}
		b.from(m[2])
		if m[3] != "" {
			b.kind, b.op = lifetime.Parameter, "parameter"
			parameters = units.AddSat(parameters, size)
		} else {
			others = units.AddSat(others, size)
		}
		f.buffers = append(f.buffers, b)
	}
	f.rest(lifetime.Parameter, "parameters that the message does not list", f.beyondRounding(stats["parameter"]-parameters))
	f.rest(lifetime.Constant, "constants", stats["constant"])
	if others == 0 {
		f.rest(lifetime.Output, "outputs", stats["maybe_live_out"])
		f.rest(lifetime.Temporary, "temporaries", stats["preallocated temp"])
	} else {
		f.rest(lifetime.Plain, "outputs and temporaries that the message does not list", f.beyondRounding(stats["maybe_live_out"]+stats["preallocated temp"]-others))
	}
	f.moduleFromNames()
}
