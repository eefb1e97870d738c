package formats_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime/loss"
)

const (
	leak    = "../testdata/torchsnap/leak_4mib_20steps.pickle"
	profile = "../testdata/xplane/tf_warm_cache.xplane.pb"
)

func read(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t testing.TB, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// text opens a file and returns its native text.
func text(t testing.TB, file string, in formats.Input) string {
	t.Helper()
	c, err := formats.Open(file, in)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Errorf("%s: %v", file, err)
	}
	return nativetest.Text(t, c)
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstded(t testing.TB, data []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(data, nil)
}

// page wraps a pickle the way torch.cuda._memory_viz does.
func page(t testing.TB, pickle []byte) string {
	t.Helper()
	padded := append(bytes.Clone(pickle), make([]byte, 3-len(pickle)%3)...)
	files, err := json.Marshal([]map[string]string{{"name": "snapshot.pickle", "base64": base64.StdEncoding.EncodeToString(padded)}})
	if err != nil {
		t.Fatal(err)
	}
	// Python writes the name first, and a space after each colon.
	list := strings.ReplaceAll(strings.ReplaceAll(string(files), `":"`, `": "`), `","`, `", "`)
	return "\n<!DOCTYPE html>\n<html>\n<head>\n</head>\n<body>\n<script type=\"module\">\n" +
		"import {add_local_files} from \"https://cdn.jsdelivr.net/gh/pytorch/pytorch@main/torch/utils/viz/MemoryViz.js\"\n" +
		"const local_files = " + list + "\nadd_local_files(local_files, 'Active Memory Timeline')\n</script>\n</body>\n"
}

// TestSameCapture opens one snapshot in every container and compares the models.
func TestSameCapture(t *testing.T) {
	pickle := read(t, leak)
	want := text(t, leak, formats.Input{})
	for name, data := range map[string][]byte{
		"a.pickle":            pickle,
		"a.pickle.gz":         gzipped(t, pickle),
		"a.pickle.zst":        zstded(t, pickle),
		"a.gz.zst":            zstded(t, gzipped(t, pickle)),
		"name without suffix": zstded(t, pickle),
		"two.gz":              append(gzipped(t, pickle[:100]), gzipped(t, pickle[100:])...),
		"page.html":           []byte(page(t, pickle)),
		"page.html.gz":        gzipped(t, []byte(page(t, pickle))),
		"upper.html":          []byte(strings.Replace(page(t, pickle), "<!DOCTYPE html>", "\ufeff  <!doctype HTML>", 1)),
		"copy.native":         []byte(want),
		"with tail":           append(bytes.Clone(pickle), "whatever follows"...),
	} {
		if got := text(t, write(t, name, data), formats.Input{}); got != want {
			t.Errorf("%s gives another model", name)
		}
		if got := text(t, "-", formats.Input{Stdin: bytes.NewReader(data)}); got != want {
			t.Errorf("%s on standard input gives another model", name)
		}
	}
	if got := text(t, leak, formats.Input{Format: "torch-snapshot"}); got != want {
		t.Error("named format gives another model")
	}
}

// TestSameProfile opens one profile, which needs ReadAt, in every container and compares
// the models. No temporary file may remain.
func TestSameProfile(t *testing.T) {
	data := read(t, profile)
	want := text(t, profile, formats.Input{})
	spool := t.TempDir()
	t.Setenv("TMPDIR", spool)
	for name, data := range map[string][]byte{
		"a.xplane.pb":     data,
		"a.xplane.pb.gz":  gzipped(t, data),
		"a.xplane.pb.zst": zstded(t, data),
	} {
		if got := text(t, write(t, name, data), formats.Input{}); got != want {
			t.Errorf("%s gives another model", name)
		}
		if got := text(t, "-", formats.Input{Stdin: bytes.NewReader(data)}); got != want {
			t.Errorf("%s on standard input gives another model", name)
		}
	}
	if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
		t.Errorf("%d temporary files are left (%v)", len(left), err)
	}
	z := gzipped(t, data)
	if _, err := formats.Open(write(t, "cut.gz", z[:len(z)-len(z)/3]), formats.Input{}); err == nil || !strings.Contains(err.Error(), "ends early") {
		t.Errorf("a profile truncated before its names: %v", err)
	}
}

// TestProgress checks that Progress gets every byte of a streamed file once, and every
// byte of a file with random access at least once.
func TestProgress(t *testing.T) {
	for _, file := range []string{leak, profile} {
		seen, size := int64(0), int64(0)
		text(t, file, formats.Input{Progress: func(_ string, n int64) func(int) {
			size = n
			return func(n int) { seen += int64(n) }
		}})
		if n := int64(len(read(t, file))); size != n || seen < n || file == leak && seen > n {
			t.Errorf("%s: progress reports %d of %d bytes, and a size of %d", file, seen, n, size)
		}
	}
}

// TestStop checks that Stop's error ends the reading of every format, that Open returns
// it, and that no temporary file remains.
func TestStop(t *testing.T) {
	spool := t.TempDir()
	t.Setenv("TMPDIR", spool)
	stopped := errors.New("stopped")
	for _, file := range []string{leak, profile, "../testdata/chrome/cpu_leak.json.gz", write(t, "b.xplane.pb.gz", gzipped(t, read(t, profile)))} {
		for after := range 3 {
			calls := 0
			_, err := formats.Open(file, formats.Input{Stop: func() error {
				if calls++; calls > after {
					return stopped
				}
				return nil
			}})
			if !errors.Is(err, stopped) || !strings.HasPrefix(err.Error(), file+": ") {
				t.Errorf("%s, stopped after %d calls: %v", file, after, err)
			}
		}
	}
	if left, err := os.ReadDir(spool); err != nil || len(left) > 0 {
		t.Errorf("%d temporary files are left (%v)", len(left), err)
	}
}

// TestRefused opens files that are not captures. Each error is one line that names the
// file, what it is and what to do.
func TestRefused(t *testing.T) {
	pickle := read(t, leak)
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	if _, err := z.Create("archive/data.pkl"); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	html := page(t, pickle)
	for _, c := range []struct {
		name   string
		data   []byte
		format string
		want   string
	}{
		{"archive.pt", archive.Bytes(), "", "zip archive, such as torch.save and numpy write"},
		{"data.json", []byte(`{"layers": []}`), "", `looks like JSON that begins with "{\"layers\": []}"`},
		{"list.json", []byte("\n  [1, 2]"), "", "looks like JSON that begins with"},
		{"utf16.json", []byte("\xff\xfe{\x00}\x00"), "", "UTF-16"},
		{"utf32.json", []byte("\xff\xfe\x00\x00{\x00\x00\x00}\x00\x00\x00"), "", "UTF-32"},
		{"utf32le.json", []byte("{\x00\x00\x00\"\x00\x00\x00t\x00\x00\x00\"\x00\x00\x00"), "", "it is UTF-32"},
		{"utf32.txt", []byte("\x00\x00\x00T\x00\x00\x00o\x00\x00\x00r\x00\x00\x00c"), "", "it is UTF-32"},
		{"utf16le.json", []byte("{\x00\"\x00t\x00\"\x00"), "", "it is UTF-16"},
		{"utf16.txt", []byte("\x00T\x00o\x00r\x00c"), "", "it is UTF-16"},
		{"utf32be.json", []byte("\x00\x00\xfe\xff\x00\x00\x00{"), "", "UTF-32"},
		{"memory_profile.json", []byte(`{"memoryProfilePerAllocator":{"0":{}}}`), "", "open the *.xplane.pb"},
		{"own.json", []byte("{\n \"schema\": \"memlane/1\",\n"), "", "output of memlane"},
		{"py-spy.json", []byte(`{"$schema":"https://www.speedscope.app/file-format-schema.json"}`), "", "speedscope"},
		{"events.out.tfevents.1.host", []byte("\x18\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03\x04\x09abcdefgh\x1a\x0dbrain.Event:2"), "", "a TensorBoard event file"},
		{"report.sqlite", []byte("SQLite format 3\x00"), "", "an SQLite database"},
		{"pointer.pickle", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"), "", "git lfs pull"},
		{"denied.pickle", []byte("<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code></Error>"), "", "download the capture again"},
		{"forbidden.pickle", []byte("<html><head><title>403\x1b Forbidden</title>"), "", `an HTML page titled "403\x1b Forbidden" without`},
		{"a.tar", append(make([]byte, 257), "ustar\x0000"...), "", "a tar archive; unpack it first"},
		{"a.pickle.bz2", []byte("BZh91AY&SY"), "", "compressed with bzip2"},
		{"a.pickle.xz", []byte("\xfd7zXZ\x00"), "", "compressed with xz"},
		{"heap.pb", []byte("\x5a\x04\x08\x01\x10\x02\x60\x80\x80\x20"), "", "a pprof profile"},
		{"cpu.pb", []byte("\x48\x01\x50\x02\x5a\x04\x08\x01\x10\x02"), "", "a pprof profile"},
		{"model.safetensors", []byte("\x14\x00\x00\x00\x00\x00\x00\x00{\"a\":{\"dtype\":\"F32\"}}"), "", "safetensors"},
		{"step.hlo.txt", []byte("HloModule jit_f\n"), "", "--xla_dump_hlo_as_proto"},
		{"zeros.pickle", make([]byte, 9000), "", "nothing but zeros"},
		{"notes.txt", []byte("Dear diary,\nall is well.\n"), "", `it begins with "Dear diary,\nall is w"`},
		{"picture.png", []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), "", "it is a picture"},
		{"program", []byte("\x7fELF\x02\x01\x01\x00\x00\x00"), "", "binary file that begins with 7f 45 4c 46"},
		{"memory.prof", []byte("\xfb)\x03\xfa\x0d/tmp/train.py"), "", "it is a cProfile file, which records time in Python functions, not memory"},
		{"python 2.prof", []byte("{(\x03\x00\x00\x00s\x0d\x00\x00\x00/tmp/train.py"), "", "it is a cProfile file"},
		{"escape.txt", []byte("\x1b[31mred\x07"), "", "it begins with"},
		{"empty.pickle", nil, "", "it is empty"},
		{"empty, named", nil, "torch-snapshot", "it is empty"},
		{"empty, native", nil, "native", "it is empty"},
		{"empty.gz", gzipped(t, nil), "", "it is empty"},
		{"empty.zst", zstded(t, nil), "", "it is empty"},
		{"page.html", []byte("<!DOCTYPE html><html><body>Hello</body></html>"), "", "HTML page without a memory snapshot"},
		{"damaged.html", []byte(strings.Replace(html, "AA", "A!", 1)), "", "damaged"},
		{"short.html", []byte(html[:strings.Index(html, "base64")+12]), "", "not a memory snapshot"},
		{"weights.pickle", []byte("\x80\x04}\x94\x8c\x05epochK\x05s."), "", "torch.cuda.memory._dump_snapshot"},
		{"legacy.pt", []byte("\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."), "", "not a memory snapshot"},
		{"evil.pickle", []byte("\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R."), "", "opcode GLOBAL at byte 2 would import os.system: refused, not executed"},
		{"two bytes.gz", []byte{0x1f, 0x8b}, "", "damaged gzip"},
		{"header.gz", gzipped(t, pickle)[:10], "", "ends before its first byte"},
		{"magic.zst", []byte{0x28, 0xb5, 0x2f, 0xfd}, "", "ends before its first byte"},
		{"noise.gz", append(gzipped(t, pickle)[:10], strings.Repeat("\xff", 50)...), "", "damaged gzip near byte 60 "},
		{"noise.zst", append(zstded(t, pickle)[:8], strings.Repeat("\xff", 50)...), "", "damaged zstd near byte"},
		{"russian doll.gz", gzipped(t, gzipped(t, gzipped(t, gzipped(t, pickle)))), "", "more than twice"},
		{"json, named", []byte("{}"), "torch-snapshot", "is not a pickle opcode: damaged, or not a pickle; copy it again"},
		{"pickle, named", pickle, "native", `line 1: want "memlane native 2"`},
		{"pickle, misnamed", pickle, "tarot", `unknown input format "tarot"; known formats: torch-snapshot, xplane, `},
		{"dumped.json", []byte(`{"segments": [{"device": 0, "total_size": 2097152}], "device_traces": []}`), "", "a memory snapshot written as JSON"},
		{"segments.json", []byte(`[{"device": 0, "total_size": 2097152, "segment_type": "small"}]`), "", "a memory snapshot written as JSON"},
		{"only the magic.native", []byte("memlane native 2\n"), "", "no source"},
		{"contradiction.native", []byte("memlane native 2\nsource format=\"x\" producer=\"y\"\nspace source=0 axis=\"time\" begin=0 end=+10\nbuffer +5 +3 0x200 1 1\n"), "", "contradicts itself"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := write(t, c.name, c.data)
			_, err := formats.Open(file, formats.Input{Format: c.format})
			checkError(t, err, file, c.want)
			_, err = formats.Open("-", formats.Input{Format: c.format, Stdin: bytes.NewReader(c.data)})
			checkError(t, err, "-", c.want)
		})
	}
}

func checkError(t *testing.T, err error, file, want string) {
	t.Helper()
	if err == nil {
		t.Fatal("accepted")
	}
	msg := err.Error()
	if !strings.Contains(msg, want) {
		t.Errorf("%q, want %q", msg, want)
	}
	if !strings.Contains(msg, file) || strings.Count(msg, file) > 1 && file != "-" {
		t.Errorf("%q does not name the file once", msg)
	}
	nativetest.Message(t, err, len(file)+400)
}

// TestUnreadable opens files and streams that cannot be read.
func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	_, err := formats.Open(dir, formats.Input{})
	checkError(t, err, dir, "is a folder without captures")

	missing := filepath.Join(dir, "missing.pickle")
	_, err = formats.Open(missing, formats.Input{})
	checkError(t, err, missing, "")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}

	closed := write(t, "closed.pickle", read(t, leak))
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	if _, err = os.ReadFile(closed); err != nil { // root may read everything
		_, err = formats.Open(closed, formats.Input{})
		checkError(t, err, closed, "permission denied")

		if err := os.Chmod(dir, 0); err != nil {
			t.Fatal(err)
		}
		_, err = formats.Open(dir, formats.Input{})
		checkError(t, err, dir, "permission denied")
	}

	_, err = formats.Open("-", formats.Input{})
	checkError(t, err, "-", "standard input")

	broken := errors.New("broken disk")
	_, err = formats.Open("-", formats.Input{Stdin: io.MultiReader(bytes.NewReader(read(t, leak)[:5000]), failing{broken})})
	checkError(t, err, "-", "broken disk")
	_, err = formats.Open("-", formats.Input{Stdin: failing{broken}})
	checkError(t, err, "-", "broken disk")
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestTruncatedCompressed cuts compressed captures and pages. Open uses what it can
// decompress, with a loss, or returns one error.
func TestTruncatedCompressed(t *testing.T) {
	pickle := read(t, leak)
	// zstd returns nothing of a truncated block, so the stream needs several blocks.
	long := bytes.Repeat(pickle, 40)
	for name, data := range map[string][]byte{
		"a.gz": gzipped(t, pickle), "a.zst": zstded(t, pickle), "page.html": []byte(page(t, pickle)), "page.html.gz": gzipped(t, []byte(page(t, pickle))), "long.zst": zstded(t, long),
	} {
		used := 0
		for at := 0; at < len(data); at += 1 + len(data)/80 {
			c, err := formats.Open("-", formats.Input{Stdin: bytes.NewReader(data[:at])})
			if err != nil {
				checkError(t, err, "-", "")
				continue
			}
			if err := c.Check(); err != nil {
				t.Errorf("%s cut at %d: %v", name, at, err)
			}
			used++
			cut := false
			for _, l := range c.Losses {
				cut = cut || l.Reason == loss.Truncated
			}
			if !cut && name != "long.zst" && at < len(data)*9/10 {
				t.Errorf("%s cut at %d: no loss", name, at)
			}
		}
		if used < 20 && strings.Contains(name, "gz") || used == 0 && name != "a.zst" {
			t.Errorf("%s: %d cuts gave a capture", name, used)
		}
	}
}

// TestTable checks that the names and docs in All fit help texts and flags.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range formats.All() {
		if f.Name == "" || strings.ContainsAny(f.Name, " ,\n") || f.Doc == "" || strings.Contains(f.Doc, "\n") || seen[f.Name] {
			t.Errorf("format %+v", fmt.Sprint(f.Name, f.Doc))
		}
		seen[f.Name] = true
		if f.Sniff(nil) || f.Sniff([]byte("x")) {
			t.Errorf("%s takes an empty file", f.Name)
		}
	}
}

// TestBomb reads a capture of 128 KiB that expands to 128 MiB.
func TestBomb(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte{0x80, 4})
	text := append([]byte("X\x00\x00\x00\x01"), make([]byte, 16<<20)...) // BINUNICODE of 16 MiB
	for range 8 {
		z.Write(append(text, '0')) // POP
	}
	z.Write([]byte("N."))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := formats.Open("-", formats.Input{Stdin: &packed})
	if err == nil || !strings.Contains(err.Error(), "expands to more than 250 times") {
		t.Errorf("error %v", err)
	}
}

// TestEvilOfProtocol0 opens what pickle.dumps(..., protocol=0) writes for an object that
// runs a command when it is loaded.
func TestEvilOfProtocol0(t *testing.T) {
	_, err := formats.Open("-", formats.Input{Stdin: strings.NewReader("cposix\nsystem\np0\n(Vid\np1\ntp2\nRp3\n.")})
	const want = "-: opcode GLOBAL at byte 0 would import posix.system: refused, not executed; " +
		"a snapshot is plain data, as torch.cuda.memory._dump_snapshot(\"FILE\") writes it"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// inMemory is a File that counts the bytes read.
type inMemory struct {
	*bytes.Reader
	read   int
	closed bool
}

func (f *inMemory) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	f.read += n
	return n, err
}

func (f *inMemory) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.Reader.ReadAt(p, at)
	f.read += n
	return n, err
}

func (f *inMemory) Close() error {
	f.closed = true
	return nil
}

// TestFile checks that Input.File gives the same model as a file on disk, compressed or
// not, and that the file is closed.
func TestFile(t *testing.T) {
	for _, file := range []string{leak, profile} {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		z.Write(read(t, file))
		z.Close()
		for _, data := range [][]byte{read(t, file), packed.Bytes()} {
			f := &inMemory{Reader: bytes.NewReader(data)}
			want := text(t, file, formats.Input{})
			have := text(t, file, formats.Input{File: func(name string) (formats.File, error) {
				if name != file {
					t.Errorf("opens %s", name)
				}
				return f, nil
			}})
			if have != want || !f.closed || f.read < len(data)/2 {
				t.Errorf("%s: same model as on disk: %v; closed: %v; %d of %d bytes read", file, have == want, f.closed, f.read, len(data))
			}
		}
	}
	gone := errors.New("it is gone")
	_, err := formats.Open("s3://a/b", formats.Input{File: func(string) (formats.File, error) { return nil, gone }})
	if !errors.Is(err, gone) || err.Error() != "s3://a/b: it is gone" {
		t.Errorf("error %v", err)
	}
}
