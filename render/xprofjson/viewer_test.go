package xprofjson_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/memlane/memlane/formats/hlo"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/render/xprofjson"
)

const programs = "../../testdata/xplane"

// reference matches the names of XProf's output for one memory space of one module: the capture, the module,
// its number and the space.
var reference = regexp.MustCompile(`^(.*)\.memory_viewer\.(.*)-(\d+)\.s(\d+)\.json$`)

// TestMemoryViewer compares with the output of XProf 2.24.2 for the same modules.
func TestMemoryViewer(t *testing.T) {
	checkReferences(t, programs, func(capture, module string) []byte {
		files, err := filepath.Glob(programs + "/*.hlo.pb*")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if proto := fileBytes(t, file); strings.HasPrefix(nameOf(t, proto), module) {
				return proto
			}
		}
		return nil
	})
}

// TestMemoryViewerCaptures compares with all references. It takes the modules from the profiles.
func TestMemoryViewerCaptures(t *testing.T) {
	root := os.Getenv("MEMLANE_CAPTURES")
	if root == "" {
		t.Skip("MEMLANE_CAPTURES does not name the folder of captures")
	}
	for _, folder := range []string{"jax", "tpu"} {
		folder = filepath.Join(root, "xplane", folder)
		checkReferences(t, folder, func(capture, module string) []byte {
			return modulesOf(t, filepath.Join(folder, capture+".xplane.pb"))[module]
		})
	}
}

// checkReferences compares with all references of a folder. find returns the HloProto of a module by its full
// name with number.
func checkReferences(t *testing.T, folder string, find func(capture, module string) []byte) {
	files, err := filepath.Glob(folder + "/*.memory_viewer.*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no references in ", folder, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			name := reference.FindStringSubmatch(filepath.Base(file))
			if name == nil {
				t.Fatal("a file name without a module")
			}
			module := fmt.Sprintf("%s(%s)", name[2], name[3])
			proto := find(name[1], module)
			if proto == nil {
				proto = find(name[1], name[2]) // a stand-alone file need not have a number
			}
			if proto == nil {
				t.Fatalf("no module %s", module)
			}
			space, err := strconv.ParseInt(name[4], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			compareViews(t, view(t, module, proto, space), fileBytes(t, file))
		})
	}
}

// TestScopedMemory: the instruction that needs most memory of the chip beside the assigned one, as XProf 2.24.2 has it for the same bytes. Sizes may be
// texts or numbers; of equal ones the first counts.
func TestScopedMemory(t *testing.T) {
	proto := fileBytes(t, programs+"/padded.hlo.pb")
	old := []byte(`"flag_configs":[],"scoped_memory_configs":[],"used_scoped_memory_configs":[]`)
	for _, config := range []string{`"memory_space":"1","size":"4096"`, `"memory_space":"1","size":"8192"`, `"memory_space":1,"size":8192`, `"memory_space":"2","size":"9999"`, `"size":{}`} {
		at := bytes.Index(proto, old)
		copy(proto[at:at+len(old)], fmt.Sprintf("%-*s", len(old), `"used_scoped_memory_configs":[{`+config+`}]`))
	}
	for space, want := range []string{"", `"maxScopedVmemAllocationMib":0.0078125,"maxScopedVmemInstructionName":"ne.0"`, ""} {
		if out := string(view(t, "jit_padded(0)", proto, int64(space))); !strings.Contains(out, want) || strings.Contains(out, "maxScoped") != (want != "") {
			t.Errorf("space %d: %s", space, out)
		}
	}
}

// view reads a module and returns its memory viewer JSON.
func view(t *testing.T, module string, proto []byte, space int64) []byte {
	t.Helper()
	b := build.New(build.Everything | build.XProf)
	if err := hlo.Add(b, hlo.Module{Name: module, Source: b.Source(lifetime.Source{Format: "hlo"})}, proto); err != nil {
		t.Fatal(err)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := xprofjson.WriteMemoryViewer(&out, c, module, space); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// compareViews compares the output with a reference: all keys and values. In the
// list by size, equal sizes may have any order.
func compareViews(t *testing.T, got, want []byte) {
	t.Helper()
	g, w := object(t, got), object(t, want)
	bySize(t, g)
	bySize(t, w)
	keys := map[string]bool{}
	for k := range g {
		keys[k] = true
	}
	for k := range w {
		keys[k] = true
	}
	for k := range keys {
		if !reflect.DeepEqual(g[k], w[k]) {
			t.Errorf("%s:\n%.1500s\nwant\n%.1500s", k, fmt.Sprint(g[k]), fmt.Sprint(w[k]))
		}
	}
}

// bySize checks the list of rows by size and its index lists, then removes them.
func bySize(t *testing.T, j map[string]any) {
	t.Helper()
	rows, sorted, to, from := listOf(j["maxHeap"]), listOf(j["maxHeapBySize"]), listOf(j["maxHeapToBySize"]), listOf(j["bySizeToMaxHeap"])
	if len(sorted) != len(rows) || len(to) != len(rows) || len(from) != len(rows) {
		t.Fatalf("%d rows, %d by size, %d and %d numbers", len(rows), len(sorted), len(to), len(from))
	}
	last := -1.0
	for place, i := range slices.Backward(from) {
		row := rows[int(i.(float64))]
		size := row.(map[string]any)["logicalBufferSizeMib"].(float64)
		if !reflect.DeepEqual(row, sorted[place]) || to[int(i.(float64))] != float64(place) || size < last {
			t.Errorf("row %v is not in place %d by size", i, place)
		}
		last = size
	}
	for _, k := range []string{"maxHeapBySize", "maxHeapToBySize", "bySizeToMaxHeap"} {
		delete(j, k)
	}
}

func listOf(v any) []any {
	l, _ := v.([]any)
	return l
}

func object(t *testing.T, text []byte) (j map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &j); err != nil {
		t.Fatal(err)
	}
	return j
}

func fileBytes(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err == nil && strings.HasSuffix(file, ".zst") {
		var z *zstd.Decoder
		if z, err = zstd.NewReader(nil); err == nil {
			data, err = z.DecodeAll(data, nil)
			z.Close()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// eachField calls use with every field of a message whose wire type is used for names and bytes in a profile.
func eachField(t *testing.T, message []byte, use func(number protowire.Number, value uint64, body []byte)) {
	t.Helper()
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		message = message[n:]
		n = protowire.ConsumeFieldValue(number, wire, message)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		switch wire {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(message)
			use(number, v, nil)
		case protowire.BytesType:
			b, _ := protowire.ConsumeBytes(message)
			use(number, 0, b)
		}
		message = message[n:]
	}
}

// lastField returns the last value of a field.
func lastField(t *testing.T, message []byte, want protowire.Number) (value uint64, body []byte) {
	t.Helper()
	eachField(t, message, func(number protowire.Number, v uint64, b []byte) {
		if number == want {
			value, body = v, b
		}
	})
	return value, body
}

// nameOf returns the name of the program in an HloProto, with its number if it has one.
func nameOf(t *testing.T, proto []byte) string {
	t.Helper()
	_, module := lastField(t, proto, 1)
	_, name := lastField(t, module, 1)
	if id, _ := lastField(t, module, 5); id != 0 {
		return fmt.Sprintf("%s(%d)", name, id)
	}
	return string(name)
}

// modulesOf returns the HloProtos of a profile by the name of the module.
func modulesOf(t *testing.T, file string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	eachField(t, fileBytes(t, file), func(number protowire.Number, _ uint64, plane []byte) {
		if number != 1 {
			return
		}
		if _, name := lastField(t, plane, 2); string(name) != "/host:metadata" {
			return
		}
		stats := map[uint64]string{}
		eachField(t, plane, func(number protowire.Number, _ uint64, entry []byte) {
			if number == 5 {
				id, _ := lastField(t, entry, 1)
				_, meta := lastField(t, entry, 2)
				_, name := lastField(t, meta, 2)
				stats[id] = string(name)
			}
		})
		eachField(t, plane, func(number protowire.Number, _ uint64, entry []byte) {
			if number != 4 {
				return
			}
			_, meta := lastField(t, entry, 2)
			_, name := lastField(t, meta, 2)
			eachField(t, meta, func(number protowire.Number, _ uint64, stat []byte) {
				if number != 5 {
					return
				}
				if id, _ := lastField(t, stat, 1); stats[id] == "Hlo Proto" {
					_, found[string(name)] = lastField(t, stat, 6)
				}
			})
		})
	})
	return found
}
