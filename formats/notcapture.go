package formats

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// notCapture is a kind of file that users may mistake for a capture.
type notCapture struct {
	prefixes []string          // first bytes, one of these
	exts     []string          // or extensions of the file name
	match    func([]byte) bool // or a test of the first bytes
	what     string            // what the file is, and what to give instead
}

const (
	useSnapshot = `torch.cuda.memory._dump_snapshot("FILE") writes a memory snapshot`
	useXLA      = `XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_proto" writes *.hlo.pb files, which do`
	useProfiler = "record the program with torch.profiler or jax.profiler, whose files memlane reads"
	useOriginal = "open the capture that it was made from"
)

// notCaptures are tried in this order.
var notCaptures = []notCapture{
	{prefixes: []string{"PK\x03\x04", "PK\x05\x06"}, what: "a zip archive, such as torch.save and numpy write. " +
		"A checkpoint contains no memory history; " + useSnapshot + ". If it is another archive, unpack it first"},
	{prefixes: []string{"version https://git-lfs"}, what: "a Git LFS pointer to a large file; git lfs pull downloads the file"},
	{prefixes: []string{"\xff\xfe\x00\x00", "\x00\x00\xfe\xff"}, match: isWide(4), what: "UTF-32 text; save it as UTF-8"}, // before UTF-16, whose mark it begins with
	{prefixes: []string{"\xff\xfe", "\xfe\xff"}, match: isWide(2), what: "UTF-16 text, as > writes it in Windows PowerShell; save it as UTF-8"},
	{prefixes: []string{"BZh"}, what: "compressed with bzip2, but memlane decompresses only gzip and zstd: decompress it first"},
	{prefixes: []string{"\xfd7zXZ"}, what: "compressed with xz, but memlane decompresses only gzip and zstd: decompress it first"},
	{prefixes: []string{"7z\xbc\xaf"}, what: "a 7-Zip archive; unpack it first"},
	{match: isTar, what: "a tar archive; unpack it first"},
	{match: isCProfile, what: "a cProfile file, which records time in Python functions, not memory; " +
		"jax.profiler.save_device_memory_profile writes a memory profile"},
	{match: isPprof, what: "a pprof profile, but not of device memory; jax.profiler.save_device_memory_profile writes one of it"},
	{prefixes: []string{"memray"}, what: "a memray profile of host memory; " + useProfiler},
	{match: contains(`"memoryProfilePerAllocator"`), what: "XProf's memory view of a profile; open the *.xplane.pb of that profile"},
	{match: contains(`"schema": "memlane/`), what: "output of memlane; " + useOriginal},
	{match: contains("speedscope.app"), what: "a speedscope profile, which contains stacks but no buffers; " + useOriginal},
	{match: contains("brain.Event:"), what: "a TensorBoard event file; memory is in the *.xplane.pb below plugins/profile in the same folder"},
	{exts: []string{".nsys-rep", ".qdrep"}, what: "a Nsight Systems report, which contains no buffers; " + useProfiler},
	{exts: []string{".ncu-rep"}, what: "a Nsight Compute report, which records kernels, not memory; " + useProfiler},
	{exts: []string{".pftrace", ".perfetto-trace"}, what: "a binary Perfetto trace; " +
		"memlane reads the JSON of the PyTorch profiler and the *.xplane.pb of XProf"},
	{prefixes: []string{"SQLite format 3"}, what: "an SQLite database, such as Nsight Systems exports; " + useProfiler},
	{prefixes: []string{"HloModule", "module @", "#loc"}, what: "a program as text, which contains no buffers; " + useXLA},
	{match: isSafetensors, what: "a safetensors file of weights, which contains no memory history; " + useSnapshot},
	{prefixes: []string{"\x89HDF", "\x93NUMPY"}, what: "a file of arrays, which contains no memory history; " + useSnapshot},
	{prefixes: []string{"PAR1"}, what: "a Parquet table; " + useOriginal},
	{prefixes: []string{"\x89PNG", "%PDF", "<svg", "GIF8", "\xff\xd8\xff"}, what: "a picture; " + useOriginal},
	{prefixes: []string{"<?xml"}, what: "an XML document, such as a storage service sends instead of a file; download the capture again"},
	{match: isZeros, what: "nothing but zeros, perhaps because the machine stopped during the write; copy or record it again"},
}

// describeNotCapture returns what a file is that is not a capture, and what to give
// instead; "" if it does not recognise the file.
func describeNotCapture(file string, head []byte) string {
	for _, kind := range notCaptures {
		prefix := func(p string) bool { return bytes.HasPrefix(head, []byte(p)) }
		ext := func(e string) bool { return strings.EqualFold(filepath.Ext(file), e) }
		if kind.match != nil && kind.match(head) || slices.ContainsFunc(kind.prefixes, prefix) || slices.ContainsFunc(kind.exts, ext) {
			return kind.what
		}
	}
	return ""
}

// beginning describes the first bytes of an unknown file for an error message.
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

func contains(text string) func([]byte) bool {
	return func(head []byte) bool { return bytes.Contains(head, []byte(text)) }
}

// isWide returns a test of whether the first four characters are printable ASCII in units of width bytes, in either
// order of bytes.
func isWide(width int) func([]byte) bool {
	return func(head []byte) bool {
		if len(head) < 4*width {
			return false
		}
		at := 0 // little-endian: the character is in the first byte
		if head[0] == 0 {
			at = width - 1
		}
		for i, b := range head[:4*width] {
			if i%width == at && (b < ' ' || b > '~') || i%width != at && b != 0 {
				return false
			}
		}
		return true
	}
}

// isJSONSnapshot reports whether JSON begins with segments of torch.cuda.memory._snapshot, or contains them.
func isJSONSnapshot(head []byte) bool {
	text := bytes.TrimLeft(head, "\ufeff \t\r\n")
	return len(text) > 0 && (text[0] == '{' || text[0] == '[') && bytes.Contains(text, []byte(`"total_size"`)) &&
		(bytes.Contains(text, []byte(`"segment_type"`)) || bytes.Contains(text, []byte(`"segments"`)))
}

func isZeros(head []byte) bool { return len(bytes.Trim(head, "\x00")) == 0 }

func isTar(head []byte) bool {
	const magicAt = 257
	return len(head) > magicAt && bytes.HasPrefix(head[magicAt:], []byte("ustar"))
}

// isSafetensors matches the 8-byte length of a JSON object, followed by the object.
func isSafetensors(head []byte) bool {
	return len(head) > 9 && head[5]|head[6]|head[7] == 0 && head[8] == '{' && head[9] == '"'
}

// isPprof reports whether one of the first fields of a file is pprof's sample_type or period_type, a message of two
// string indexes. Device memory profiles never get here: [jaxprof.Sniff] accepts them.
func isPprof(head []byte) bool {
	for range 4 { // fields
		number, wire, n := protowire.ConsumeTag(head)
		if n < 0 || number > 14 {
			return false
		}
		if number == 1 || number == 11 {
			body, m := protowire.ConsumeBytes(head[n:])
			return wire == protowire.BytesType && m > 0 && len(body) >= 4 && len(body) <= 12 && body[0] == 0x08 &&
				bytes.IndexByte(body, 0x10) > 0
		}
		m := protowire.ConsumeFieldValue(number, wire, head[n:])
		if m < 0 {
			return false
		}
		head = head[n+m:]
	}
	return false
}

// isCProfile reports whether Python's cProfile wrote the file: a marshalled dict whose
// keys are tuples of file, line and function.
func isCProfile(head []byte) bool {
	const ref = 0x80 // flag in marshal's type codes
	if len(head) < 6 || head[0]&^ref != '{' {
		return false
	}
	switch head[1] &^ ref {
	case ')': // 1-byte length
		return head[2] == 3
	case '(': // 4-byte length
		return bytes.Equal(head[2:6], []byte{3, 0, 0, 0})
	}
	return false
}

// Recorded returns the format of a capture that a program other than memlane wrote. It
// returns "" for what memlane writes, and for files that are no captures, not regular, or
// cannot be read. Damaged captures are captures.
func Recorded(file string) string {
	if !isFile(file) {
		return ""
	}
	src, err := open(file, Input{})
	if err != nil {
		return ""
	}
	defer src.close()
	_, head, err := peek(src)
	if err != nil {
		return ""
	}
	format, err := choose(file, head, "", all)
	switch {
	case err == nil && !format.Sniff(head): // any text, such as a report of memlane
		return ""
	case err != nil, format.Name == "native":
		return ""
	case format.Name == "jaxprof", bytes.HasPrefix(bytes.TrimSpace(head), []byte("<")): // memlane writes profiles and pages too
		if _, err := OpenOutline(file, Input{}); err != nil {
			return ""
		}
	}
	return format.Name
}
