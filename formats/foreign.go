package formats

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// strange is a kind of file that is no capture and is taken for one.
type strange struct {
	begins []string          // one of these
	names  []string          // or ends of its name
	is     func([]byte) bool // or what its first bytes tell
	what   string            // what it is, and what to give in its place
}

const (
	ofTorch = `torch.cuda.memory._dump_snapshot("FILE") writes a snapshot of memory`
	ofXLA   = `XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_proto" writes *.hlo.pb, which does`
	record  = "record the program with torch.profiler or jax.profiler, whose files memlane reads"
)

// strangers are in the order in which they are tried.
var strangers = []strange{
	{begins: []string{"PK\x03\x04", "PK\x05\x06"}, what: "a zip archive, such as torch.save and numpy write: checkpoints have no history of memory; " + ofTorch + ". Another archive: unpack it first"},
	{begins: []string{"version https://git-lfs"}, what: "what Git LFS keeps in place of a large file; git lfs pull fetches that"},
	{begins: []string{"\xff\xfe", "\xfe\xff"}, what: "text in UTF-16, as > of Windows PowerShell writes it; write it as UTF-8"},
	{begins: []string{"BZh"}, what: "packed with bzip2, and memlane unpacks gzip and zstd: unpack it first"},
	{begins: []string{"\xfd7zXZ"}, what: "packed with xz, and memlane unpacks gzip and zstd: unpack it first"},
	{begins: []string{"7z\xbc\xaf"}, what: "a 7-Zip archive; unpack it first"},
	{is: isTar, what: "a tar archive; unpack it first"},
	{is: cProfile, what: "a cProfile file, of time spent in Python functions and not of memory; jax.profiler.save_device_memory_profile writes one of memory"},
	{is: isPprof, what: "a profile of pprof, but not of what was alive on a device; jax.profiler.save_device_memory_profile writes such a one"},
	{begins: []string{"memray"}, what: "a profile of memray, of the host's memory; " + record},
	{is: holds(`"memoryProfilePerAllocator"`), what: "what XProf shows of a profile; give the *.xplane.pb that it was made from"},
	{is: holds(`"schema": "memlane/`), what: "what memlane wrote itself; give the capture that it was made from"},
	{is: holds("speedscope.app"), what: "a profile for speedscope, of stacks without buffers; give the capture that it was made from"},
	{is: holds("brain.Event:"), what: "TensorBoard's file of events; memory is in the *.xplane.pb below plugins/profile beside it"},
	{names: []string{".nsys-rep", ".qdrep"}, what: "a report of Nsight Systems, which tells of no buffers; " + record},
	{names: []string{".ncu-rep"}, what: "a report of Nsight Compute, which tells of kernels and not of memory; " + record},
	{names: []string{".pftrace", ".perfetto-trace"}, what: "a trace of Perfetto in binary form; memlane reads the JSON of the PyTorch profiler and the *.xplane.pb of XProf"},
	{begins: []string{"SQLite format 3"}, what: "a database of SQLite, such as Nsight Systems exports; " + record},
	{begins: []string{"HloModule", "module @", "#loc"}, what: "a program as text, which tells of no buffers; " + ofXLA},
	{is: isSafetensors, what: "a file of weights (safetensors), which has no history of memory; " + ofTorch},
	{begins: []string{"\x89HDF", "\x93NUMPY"}, what: "a file of arrays, which has no history of memory; " + ofTorch},
	{begins: []string{"PAR1"}, what: "a table in Parquet; give the capture that it was made from"},
	{begins: []string{"\x89PNG", "%PDF", "<svg", "GIF8", "\xff\xd8\xff"}, what: "a picture; give the capture that it was made from"},
	{begins: []string{"<?xml"}, what: "an XML document, such as a store answers with when it refuses a download; download the capture again"},
	{is: isBlank, what: "nothing but zeros, as what was being written when the machine stopped; copy or record it again"},
}

// foreign says what a file that is no capture is, and what to give in its place;
// "" where that is not known.
func foreign(file string, head []byte) string {
	for _, s := range strangers {
		begins := func(with string) bool { return bytes.HasPrefix(head, []byte(with)) }
		ends := func(with string) bool { return strings.EqualFold(filepath.Ext(file), with) }
		if s.is != nil && s.is(head) || slices.ContainsFunc(s.begins, begins) || slices.ContainsFunc(s.names, ends) {
			return s.what
		}
	}
	return ""
}

// beginning shows the first bytes of a file.
func beginning(head []byte) string {
	text := bytes.TrimLeft(head, "\ufeff \t\r\n")
	switch {
	case len(text) > 0 && (text[0] == '{' || text[0] == '['):
		return fmt.Sprintf("it looks like JSON that begins with %.40q", text)
	case bytes.IndexByte(head, 0) >= 0:
		return fmt.Sprintf("it is a binary file that begins with % x", head[:min(4, len(head))])
	}
	return fmt.Sprintf("it begins with %.20q", head)
}

func holds(text string) func([]byte) bool {
	return func(head []byte) bool { return bytes.Contains(head, []byte(text)) }
}

func isBlank(head []byte) bool {
	return len(bytes.Trim(head, "\x00")) == 0
}

func isTar(head []byte) bool {
	const magicAt = 257
	return len(head) > magicAt && bytes.HasPrefix(head[magicAt:], []byte("ustar"))
}

// isSafetensors: the length of a JSON object, then that.
func isSafetensors(head []byte) bool {
	return len(head) > 9 && head[5]|head[6]|head[7] == 0 && head[8] == '{' && head[9] == '"'
}

// isPprof reports whether a file begins as a profile: its first fields are those of
// one, and a type of values, two numbers of texts, is among them. Profiles of device
// memory have been sniffed before.
func isPprof(head []byte) bool {
	const looked = 4 // fields
	for range looked {
		number, wire, n := protowire.ConsumeTag(head)
		if n < 0 || number > 14 {
			return false
		}
		if number == 1 || number == 11 { // sample_type, period_type
			body, m := protowire.ConsumeBytes(head[n:])
			return wire == protowire.BytesType && m > 0 && len(body) >= 4 && len(body) <= 12 && body[0] == 0x08 && bytes.IndexByte(body, 0x10) > 0
		}
		m := protowire.ConsumeFieldValue(number, wire, head[n:])
		if m < 0 {
			return false
		}
		head = head[n+m:]
	}
	return false
}

// cProfile reports whether a file is what Python's cProfile writes: a marshalled
// dict whose keys are tuples of file, line and function.
func cProfile(head []byte) bool {
	const ref = 0x80 // a flag of marshal's type codes
	if len(head) < 6 || head[0]&^ref != '{' {
		return false
	}
	switch head[1] &^ ref {
	case ')': // with a length of one byte
		return head[2] == 3
	case '(':
		return bytes.Equal(head[2:6], []byte{3, 0, 0, 0})
	}
	return false
}
