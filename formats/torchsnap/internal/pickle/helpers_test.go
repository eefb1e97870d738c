package pickle_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"

	"github.com/memlane/memlane/internal/nativetest"
)

// keepAll is a Handler that keeps every list and dict.
type keepAll struct{}

func (keepAll) Dict([]pickle.Value, pickle.Value) (pickle.Value, error) { return pickle.Keep, nil }
func (keepAll) List([]pickle.Value, pickle.Value) (pickle.Value, error) { return pickle.Keep, nil }

// decode decodes a pickle. It fails if the pickle is truncated.
func decode(data []byte) (*pickle.Decoder, pickle.Value, error) {
	d := pickle.NewDecoder(bytes.NewReader(data), keepAll{})
	v, err := d.Decode()
	return d, v, err
}

// show writes a value like Python, in about budget bytes. It writes shared values once
// for each use.
func show(d *pickle.Decoder, v pickle.Value, budget int) string {
	var b strings.Builder
	var walk func(pickle.Value)
	list := func(open, end string, items []pickle.Value) {
		b.WriteString(open)
		for i, item := range items {
			if i > 0 {
				b.WriteString(", ")
			}
			if b.Len() > budget {
				b.WriteString("...")
				break
			}
			walk(item)
		}
		b.WriteString(end)
	}
	walk = func(v pickle.Value) {
		items := d.Items(v)
		switch v.Kind() {
		case pickle.None:
			b.WriteString("None")
		case pickle.Bool:
			b.WriteString(map[int64]string{0: "False", 1: "True"}[v.Int()])
		case pickle.Int:
			fmt.Fprint(&b, v.Int())
		case pickle.Wide:
			b.WriteString(d.Wide(v).String())
		case pickle.Float:
			fmt.Fprintf(&b, "float(%v)", d.Float(v))
		case pickle.Str:
			fmt.Fprintf(&b, "%q", d.Str(v))
		case pickle.Tuple:
			list("(", ")", items)
		case pickle.List:
			list("[", "]", items)
		case pickle.Dict:
			b.WriteString("dict")
			list("[", "]", items)
		default:
			fmt.Fprintf(&b, "kind %d", v.Kind())
		}
	}
	walk(v)
	return b.String()
}

// captures returns the snapshots in testdata by name.
func captures(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../../../testdata/torchsnap/*.pickle")
	if err != nil || len(files) == 0 {
		t.Fatal("no captures", err)
	}
	all := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = data
	}
	return all
}

func sortedNames(all map[string][]byte) []string {
	var names []string
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// checkMessage checks that an error is one safe line, and contains an offset.
func checkMessage(t *testing.T, err error) {
	t.Helper()
	nativetest.Message(t, err, 300)
	if !strings.Contains(err.Error(), "byte ") {
		t.Errorf("message %.400q", err)
	}
}

// opcodesIn returns the opcodes of a pickle up to STOP. It does not use the decoder.
func opcodesIn(data []byte) map[byte]bool {
	fixed := map[byte]int{'J': 4, 'K': 1, 'M': 2, 'h': 1, 'j': 4, 'q': 1, 'r': 4, 'G': 8, 0x80: 1, 0x82: 1, 0x83: 2, 0x84: 4, 0x95: 8}
	counted := map[byte]int{'T': 4, 'U': 1, 'X': 4, 'B': 4, 'C': 1, 0x8a: 1, 0x8b: 4, 0x8c: 1, 0x8d: 8, 0x8e: 8, 0x96: 8}
	lines := map[byte]int{'F': 1, 'I': 1, 'L': 1, 'S': 1, 'V': 1, 'p': 1, 'g': 1, 'P': 1, 'c': 2, 'i': 2}
	found := map[byte]bool{}
	for i := 0; i < len(data) && !found['.']; {
		op := data[i]
		found[op] = true
		i += 1 + fixed[op]
		if width := counted[op]; width > 0 && i+width <= len(data) {
			var n uint64
			for k := width - 1; k >= 0; k-- {
				n = n<<8 | uint64(data[i+k])
			}
			i += width + int(min(n, uint64(len(data))))
		}
		for range lines[op] {
			end := bytes.IndexByte(data[min(i, len(data)):], '\n')
			if end < 0 {
				return found
			}
			i += end + 1
		}
	}
	return found
}
