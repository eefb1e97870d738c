package nativetest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Contents returns the decompressed contents of the files that match the patterns, in order
// of their names. Services that run fuzz targets, such as OSS-Fuzz, have no testdata: a target then has no seeds.
func Contents(t testing.TB, patterns ...string) (contents [][]byte) {
	t.Helper()
	for _, pattern := range patterns {
		folder, _, _ := strings.Cut(pattern, "*")
		if _, err := os.Stat(filepath.Dir(folder)); err != nil && strings.HasPrefix(t.Name(), "Fuzz") {
			continue
		}
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no captures %s: %v", pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			contents = append(contents, unpacked(t, file, data))
		}
	}
	return contents
}

func unpacked(t testing.TB, file string, data []byte) []byte {
	t.Helper()
	var in io.Reader
	var err error
	switch {
	case bytes.HasPrefix(data, []byte{0x1f, 0x8b}):
		in, err = gzip.NewReader(bytes.NewReader(data))
	case bytes.HasPrefix(data, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		in, err = zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1))
	default:
		return data
	}
	if err == nil {
		data, err = io.ReadAll(in)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return data
}

// Bounded runs read, which reads an input of n bytes. It fails if read allocates more than
// setAside bytes plus perByte bytes per byte of the input, including garbage.
func Bounded(t testing.TB, n, setAside, perByte int, read func()) {
	t.Helper()
	before := allocated()
	read()
	if took := allocated() - before; took > uint64(setAside+n*perByte) {
		t.Errorf("%d bytes allocated for an input of %d bytes; the limit is %d and %d per byte", took, n, setAside, perByte)
	}
}

// allocated returns the bytes allocated since the program started.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
