package model_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/render/model"
)

// capture is handmade, with every unusual value that a capture may have.
func capture() *lifetime.Capture {
	return &lifetime.Capture{Tables: lifetime.Tables{Sources: []lifetime.Source{{File: "a\x1b\u009b\u202e\U000e0041<b>", Format: "test"}}, Sites: []lifetime.Site{{}}, Stacks: []lifetime.Stack{{}}, Frames: []frame.Frame{{}}, Notes: []string{""}}, Spaces: []*lifetime.Space{
		{SpaceInfo: lifetime.SpaceInfo{Device: "cuda:0\x7f", Begin: -1 << 62, End: 1 << 62}, Buffers: []lifetime.Buffer{
			{Begin: 0, End: 1 << 62, Addr: 1<<64 - 1, Size: 1<<63 - 1, Requested: 1, Edge: lifetime.EndOpen | lifetime.Pending},
			{Begin: 1, End: 2},
		}},
		{SpaceInfo: lifetime.SpaceInfo{Limit: 80 << 30}, Marks: []lifetime.Mark{
			{Kind: lifetime.OOM, Requested: 5, Free: failure.BytesOf(0)}, {Kind: lifetime.OOM}, {Kind: lifetime.Step},
		}},
	}}
}

func write(t *testing.T, c *lifetime.Capture) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := model.Write(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestNumbers: integers of any size are written in full, and unknown values are null.
func TestNumbers(t *testing.T) {
	text := string(write(t, capture()))
	for _, want := range []string{
		`{"begin":0,"end":4611686018427387904,"addr":18446744073709551615,"size":9223372036854775807,"requested":1,"site":0,"edges":["end-open","pending"],"kind":"plain","category":"unknown","phase":"unknown","part":"","module":"","module_inferred":false,"category_how":"none","category_rule":"","category_confidence":0}`,
		`{"begin":1,"end":2,"addr":0,"size":0,"requested":0,"site":0,"edges":[],"kind":"plain","category":"unknown","phase":"unknown","part":"","module":"","module_inferred":false,"category_how":"none","category_rule":"","category_confidence":0}`,
		`"begin":-4611686018427387904,"end":4611686018427387904,"limit_bytes":null,`,
		`"limit_bytes":85899345920,`,
		`"requested":5,"free":0}`, `"requested":0,"free":null}`, `"kind":"step","text":"","site":0,"requested":null,"free":null}`,
		`"stacks":[` + "\n" + `{"frame":0,"caller":0}]`, `"losses":[]`, `"facts":[]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestText: no character controls a terminal, and none is lost.
func TestText(t *testing.T) {
	data := write(t, capture())
	if i := bytes.IndexFunc(data, func(r rune) bool { return r != '\n' && (r < ' ' || r > '~') }); i >= 0 {
		t.Errorf("byte %d is %q", i, data[i:min(len(data), i+10)])
	}
	var doc struct {
		Sources []struct{ File string }
		Spaces  []struct{ ID string }
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if got, want := doc.Sources[0].File, capture().Sources[0].File; got != want {
		t.Errorf("file %q, want %q", got, want)
	}
	if got, want := doc.Spaces[0].ID, capture().Spaces[0].ID(); got != want {
		t.Errorf("ID %q, want %q", got, want)
	}
	if !bytes.Contains(data, []byte("<b>")) {
		t.Error("< is escaped as for HTML")
	}
}

// TestPrograms: the data of compiled programs and of allocators is written. Numbers that JSON cannot represent
// are null.
func TestPrograms(t *testing.T) {
	nan := float32(math.NaN())
	c := &lifetime.Capture{Tables: lifetime.Tables{Sites: []lifetime.Site{{}, {
		Stack: 1, Op: "jit(f)/dot", Region: "temp", Shape: "f32[2]{0}", DType: "f32", Instr: "dot.1{0}", Opcode: "dot", Source: 1, Sharding: compiled.Sharding{Split: "2", Copies: 4}, Role: compiled.Trained,
	}}, Stacks: []lifetime.Stack{{}, {Frame: 1}}, Frames: []frame.Frame{{}, {Function: "dot", File: "a.py", Line: 3, Column: 9, Kind: frame.Scope}}}, Spaces: []*lifetime.Space{{
		SpaceInfo: lifetime.SpaceInfo{Host: "node7", Module: "jit_f(5)", Memory: "space0", Entry: "main.2", Axis: lifetime.ProgramOrder, Begin: -1, End: 9, LifetimePeak: 77},
		Buffers:   []lifetime.Buffer{{Begin: -1, End: 9, Size: 512, Requested: 8, Site: 1, Edge: lifetime.EndOpen, Kind: lifetime.Parameter}},
		ValueIDs:  []int64{0},
		Values:    []lifetime.Value{{ID: 4, Root: 0, Begin: 0, End: -1, Allocation: 3, Offset: 16, Size: 512, Requested: 8, Site: 1}},
		Regions:   []lifetime.Region{{Begin: -1, End: 9, Size: 512, Index: 3, Uses: compiled.ForParameter | compiled.ForOutput}},
		Stack:     []lifetime.Level{{At: -1, Bytes: 4096}},
		Totals: []lifetime.Total{{T: 1, Bytes: 5, Measure: lifetime.Occupied}, {T: 2, Fragmentation: 0.5, HasFragmentation: true},
			{T: 3, Fragmentation: nan, HasFragmentation: true}},
	}}}
	text := string(write(t, c))
	for _, want := range []string{
		`{"function":"dot","file":"a.py","line":3,"column":9,"kind":"scope"}`,
		`{"stack":1,"op":"jit(f)/dot","module":"","region":"temp","shape":"f32[2]{0}","dtype":"f32","instr":"dot.1{0}","opcode":"dot","split":"2","copies":4,"role":"trained","source_stack":1,"unseen":false}`,
		`{"id":"node7/jit_f(5)/space0","source":0,"host":"node7","process":"","device":"","memory":"space0","allocator":"",`,
		`"module":"jit_f(5)","entry":"main.2","axis":"program order"`,
		`"lifetime_peak_bytes":77,`,
		`"edges":["end-open"],"kind":"parameter","value":0,"category":"`,
		`{"id":4,"root":0,"begin":0,"end":-1,"allocation":3,"offset":16,"size":512,"requested":8,"site":1}`,
		`"index":3,"uses":["parameter","output"]}`,
		`"stack":[` + "\n" + `{"at":-1,"bytes":4096}]`,
		`{"t":1,"bytes":5,"measure":"occupied","fragmentation":null}`,
		`"measure":"requested","fragmentation":0.5}`, `{"t":3,"bytes":0,"measure":"requested","fragmentation":null}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if !json.Valid([]byte(text)) {
		t.Error("no valid JSON")
	}
}

func TestEmpty(t *testing.T) {
	data := write(t, &lifetime.Capture{})
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	for _, name := range []string{"sources", "frames", "stacks", "sites", "spaces", "losses"} {
		if list, ok := doc[name].([]any); !ok || len(list) != 0 {
			t.Errorf("%s is %v", name, doc[name])
		}
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"plain"}` + "\n": `{"a":"plain"}` + "\n",
		`"训练 é €"`:             `"训练 é €"`,
		"\"\x7f\"":             `"\u007f"`,
		"\"é\u009b\"":          `"é\u009b"`,
		"\"\u202e\"":           `"\u202e"`,
		"\"\U000e0041\"":       `"\udb40\udc41"`,
	} {
		if got := string(model.Escape([]byte(in))); got != want {
			t.Errorf("Escape(%q) = %s, want %s", in, got, want)
		}
	}
}
