package native_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap"
	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/native"
)

func read(text string) (*lifetime.Capture, error) {
	b := build.New(build.Everything)
	if err := native.Read("test.native", strings.NewReader(text), b); err != nil {
		return nil, err
	}
	return b.Finish()
}

func write(t testing.TB, c *lifetime.Capture) string {
	t.Helper()
	var b bytes.Buffer
	if err := native.Write(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// header is a valid beginning. The space is 100 ns long.
const header = "memlane native 2\nsource format=\"f\" producer=\"p\"\nspace source=0 device=\"cuda:0\" axis=\"time\" begin=1000 end=+100 facts=\"addresses\"\n"

// TestErrors: each error is one line with the line number and the cause.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "no source"},
		{"another magic", "memlane native 3\n", `line 1: want "memlane native 2"`},
		{"no source", "memlane native 2\n", "no source"},
		{"no word", header + "a=1\n", "line 4: no word before the keys"},
		{"unknown word", header + "banana 1\n", `line 4: unknown word "banana"`},
		{"blanks", header + "   \n", `line 4: unknown word ""`},
		{"unclosed quote", header + "note 1 \"abc\n", "line 4: bad quoted text"},
		{"too few words", header + "buffer +1 +2\n", "line 4: buffer: 2 fields without a key"},
		{"too many words", header + "total +1 2 requested 3\n", "line 4: total: 4 fields without a key"},
		{"an empty stack", header + "stack 1\n", "line 4: stack: 1 fields without a key"},
		{"no number", header + "buffer +1 +x 0x1 1 1\n", `line 4: "+x" is not a number`},
		{"a huge number", header + "buffer +1 +2 0x1 99999999999999999999 1\n", "line 4: "},
		{"no address", header + "buffer +1 +2 -5 1 1\n", `line 4: "-5" is not an address`},
		{"unknown edge", header + "buffer +1 +2 0x1 1 1 edge=sharp\n", `line 4: unknown edge "sharp"`},
		{"unknown site", header + "buffer +1 +2 0x1 1 1 site=7\n", "line 4: 7 is not defined before this line"},
		{"unknown note", header + "buffer +1 +2 0x1 1 1 note=1\n", "line 4: 1 is not defined before this line"},
		{"unknown stack", header + "site 1 stack=1\n", "line 4: 1 is not defined before this line"},
		{"unknown frame", header + "stack 1 1\n", "line 4: 1 is not defined before this line"},
		{"frame 0", header + "stack 1 0\n", "line 4: 0 is not a frame"},
		{"frame 0 as hexadecimal", header + "stack 1 0x0\n", "line 4: 0 is not a frame"},
		{"a frame out of turn", header + "frame 2 user \"f\" \"x.py\" 1\n", "line 4: frame 2, want 1"},
		{"a frame without number", header + "frame x user \"f\" \"x.py\" 1\n", `line 4: "x" is not a number`},
		{"a frame of no kind", header + "frame 1 alien \"f\" \"x.py\" 1\n", `line 4: unknown kind of frame "alien"`},
		{"unknown measure", header + "total +1 5 cubits\n", `line 4: unknown measure "cubits"`},
		{"unknown mark", header + "mark +1 +1 stain\n", `line 4: unknown kind of mark "stain"`},
		{"unknown loss", header + "loss of-hope count=1\n", `line 4: unknown loss "of-hope"`},
		{"unknown axis", "memlane native 2\nsource\nspace source=0 axis=\"evil\" end=+5\n", `line 3: unknown axis "evil"`},
		{"unknown facts", "memlane native 2\nsource\nspace source=0 axis=\"time\" end=+5 facts=\"rumours\"\n", `line 3: unknown facts "rumours"`},
		{"unknown source", "memlane native 2\nsource\nspace source=3 axis=\"time\" end=+5\n", "line 3: 3 is not defined before this line"},
		{"a space that ends first", "memlane native 2\nsource\nspace source=0 axis=\"time\" begin=5 end=+0\n", "line 3: the space ends before it begins"},
		{"a space that is damaged twice", "memlane native 2\nsource\nspace source=0 axis=\"time\" begin=x end=y\n", `line 3: "x" is not a number`},
		{"a group without source", "memlane native 2\ngroup \"mesh_tp\" 3 8\n", "line 2: group before any source"},
		{"a group of no size", header + "group \"mesh_tp\" 3\n", "line 4: group: 2 fields without a key"},
		{"a group without number", header + "group \"mesh_tp\" x 8\n", `line 4: "x" is not a number`},
		{"a buffer without space", "memlane native 2\nsource\nbuffer +1 +2 0x1 1 1\n", "line 3: buffer before any space"},
		{"a call without space", "memlane native 2\nsource\ncall 0 1 2 1\n", "line 3: 0 is not defined before this line"},
		{"a call in another space", header + "call 1 1 2 1\n", "line 4: 1 is not defined before this line"},
		{"a call of another site", header + "call 0 1 2 1 site=1\n", "line 4: 1 is not defined before this line"},
		{"a call at no time", header + "call 0 1 NaN 1\n", `line 4: "NaN" is not a time in seconds`},
		{"a call that is endless", header + "call 0 1 2 1e999\n", `line 4: "1e999" is not a time in seconds`},
		{"a sample without time", header + "sample 0 allocated=1\n", "line 4: sample: 1 fields without a key"},
	} {
		_, err := read(c.text)
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		if msg := err.Error(); !strings.Contains(msg, c.want) || strings.Contains(msg, "\n") || len(msg) > 200 {
			t.Errorf("%s: %q, want %q", c.name, msg, c.want)
		}
	}
}

// TestContradictions: Check finds errors that Read cannot find, because Read sees one
// line at a time. formats.Open calls Check.
func TestContradictions(t *testing.T) {
	for name, lines := range map[string]string{
		"ends before it begins":  "buffer +5 +3 0x200 1 1\n",
		"outside of the window":  "buffer +5 +300 0x200 1 1\n",
		"before the recording":   "buffer -5 +3 0x200 1 1\n",
		"negative size":          "buffer +1 +3 0x200 -1 1\n",
		"one address twice":      "buffer +1 +5 0x200 1 1\nbuffer +2 +6 0x200 1 1\n",
		"one instant twice":      "buffer +1 +5 0x200 1 1\nbuffer +1 +6 0x400 1 1\n",
		"a region that ends":     "region +5 +5 0x200 1\n",
		"a region of -1 byte":    "region +5 +6 0x200 -1\n",
		"an overflow of begins":  "buffer +9223372036854775807 +3 0x200 1 1\n",
		"an overflow of regions": "region +5 +9223372036854775807 0x200 1\n",
	} {
		c, err := read(header + lines)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Check() == nil {
			t.Errorf("%s: passes Check", name)
		}
	}
}

// TestText reads text that uses everything, and writes it again.
func TestText(t *testing.T) {
	text := `memlane native 2
source format="torch-snapshot" producer="PyTorch \"2.8\""
setting "expandable_segments" "false"
source format="b" producer=""
setting "a key" "\n"
group "mesh_tp" 3 8
group "a group \"of all\"" 0 1
space source=0 host="h\nost" process="rank 1" device="cuda:0" memory="pinned" allocator="a=b" module="m" axis="time" begin=-5 end=+100 limit=7 base=9 allocations=3 frees=2 facts="history,end state,addresses,totals,regions,stacks,clock" lifetime_peak=77 only_occupied=true target="gpu"
change "donate" 4 5 what="w['a'], b"
change "in_place" 0 9 what=""
frame 1 framework "g" "\xff\x00" 0
stack 1 1
frame 2 native "h" "" 0
stack 2 2 caller=1
stack 3 1 caller=2
frame 3 user "f \"quoted\"" "dir with blanks/x=y.py" 12
stack 4 3 caller=3
site 1 stack=4 op="add" module="graph"
region +0 +100 0x7f0000000000 4096 kind="large" stream=2 pool="0,1" site=1 edge=begin-unseen+end-open
buffer +0 +50 0x7f0000000000 512 500 site=1 edge=begin-unseen+size-inferred+site-from-free
site 2 stack=0 op="free" module=""
note 1 "a\nnote"
buffer +1 +100 0x7f0000000200 512 500 site=0 edge=end-open+pending kind=constant free=2 note=1
buffer +2 +3 0xffffffffffffffff 0 0 site=0 edge=end-inferred
beside +0 4096
beside +5 0
total +3 1024 occupied fragmentation=0.25
total +3 1024 occupied fragmentation=NaN
total +3 4096 reserved
total +4 1000 requested
total +4 1 occupied-less-pending
mark -3 +7 step site=0 requested=0 free=0 text="step 1"
mark +5 +5 oom site=1 requested=99 free=-1 text=""
mark +6 +6 snapshot site=0 requested=0 free=0 text=""
mark +8 +9 annotation site=0 requested=0 free=0 text="forward"
space source=1 module="jit_f(5)" entry="main.6" axis="program order" begin=-1 end=+3 limit=0 base=0 allocations=0 frees=0 facts=""
region +0 +3 0x0 512 kind="" stream=0 pool="" site=0 edge=end-open index=3 uses="parameter,output,constant,thread-local,tuple"
frame 4 scope "layer_3" "m.py" 4 column=9
stack 5 4
site 3 stack=5 op="" module="" region="r" shape="f32[2]{0}" dtype="f32" instr="add.1{0}" opcode="add" split="2" copies=4 role="state" source=4
buffer +1 +2 0x0 512 8 site=3 edge=- kind=temporary value=-4
buffer +1 +2 0x200 512 8 site=3 edge=- kind=output value=0
value -4 +1 +2 512 8 root=-4 allocation=3 offset=0 site=3
value 5 +0 -1 512 8 root=-4 allocation=3 offset=64 site=0
mark +1 +1 instruction site=0 requested=0 free=0 text="add.1"
call 0 1.7000000001234567e+09 1e-07 0.1 site=1 before=-1 after=5 peak=6 reserved=7 inactive=8 allocated=9 freed=10
call 1 -0 5e-324 1.7976931348623157e+308 site=0 before=0 after=0
sample 1 +1 allocated=1 reserved=2 inactive=3 device_used=4 device_total=5 regular=true
sample 0 +5 allocated=-1 reserved=-1 inactive=-1 device_used=-1 device_total=-1 regular=false
operation operator "aten::add" 3 time=500 self_time=100 allocated=64 freed=8 self_bytes=-8 device_allocated=1 device_freed=2 device_self_bytes=3
operation range "b" 1 time=0
operation function "c.py(3): f" 2 time=9 allocated=1
loss truncated count=1 bytes=2 first="byte \"3\""
loss before-window count=4 bytes=9223372036854775807 first=""
`
	c, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if got := write(t, c); got != text {
		t.Errorf("got\n%s\nwant\n%s", got, text)
	}
	// In version 1, a line has all frames of a stack, innermost first. Version 2 allows it, too.
	again, err := read(strings.NewReplacer("memlane native 2", "memlane native 1", "stack 4 3 caller=3", "stack 4 3 1 caller=2").Replace(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := write(t, again); got != text {
		t.Errorf("of two frames in a line\n%s\nwant\n%s", got, text)
	}
}

// TestLongText writes and reads a name that is as long as a snapshot allows. Quoted, it is
// four times as long.
func TestLongText(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{Format: "f"})
	name := strings.Repeat("\x01", 16<<20)
	at := b.Space()
	b.Describe(at, lifetime.SpaceInfo{Device: "cuda:0", Facts: lifetime.Addresses})
	b.Alloc(at, 1, build.Block{Addr: 0x200, Requested: 1, Occupied: 1, Site: b.Site(lifetime.Site{Op: name})})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	again, err := read(write(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Sites[again.Spaces[0].Buffers[0].Site].Op; got != name {
		t.Errorf("a name of %d bytes", len(got))
	}
}

// TestWideWindow writes and reads times with a difference that overflows int64.
func TestWideWindow(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Begin: math.MinInt64 + 1, End: math.MaxInt64})
	b.Interval(s, build.Interval{Buffer: lifetime.Buffer{Begin: math.MinInt64 + 5, End: math.MaxInt64 - 5, Addr: 1, Size: 1}})
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	want := write(t, c)
	again, err := read(want)
	if err != nil {
		t.Fatal(err)
	}
	if got := write(t, again); got != want || again.Check() != nil {
		t.Errorf("%v\n%s\n%s", again.Check(), got, want)
	}
}

// TestUsageOnly: a space without buffers keeps its counts of allocations and frees.
func TestUsageOnly(t *testing.T) {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{})
	s := b.Space()
	b.Describe(s, lifetime.SpaceInfo{Device: "cpu"})
	b.Delta(s, 1, 100)
	b.Delta(s, 2, 50)
	b.Delta(s, 3, -100)
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	again, err := read(write(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Spaces[0]; got.Allocations != 2 || got.Frees != 1 {
		t.Errorf("%d allocations, %d frees", got.Allocations, got.Frees)
	}
}

// seeds returns the native text of the smaller captures.
func seeds(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("../../testdata/torchsnap/*.pickle")
	if err != nil || len(files) == 0 {
		t.Fatal("no captures", err)
	}
	var texts []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 10<<10 {
			continue
		}
		b := build.New(build.Everything)
		if err := torchsnap.Read(file, bytes.NewReader(data), b); err != nil {
			t.Fatal(err)
		}
		c, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, write(t, c))
	}
	return texts
}

// TestTruncatedText cuts the text of a small capture at every byte. Each cut is an error
// with its line, or ends at a line.
func TestTruncatedText(t *testing.T) {
	for _, text := range seeds(t)[:4] {
		for at := 0; at < len(text); at += 1 + len(text)/500 {
			c, err := read(text[:at])
			if err != nil {
				if !strings.Contains(err.Error(), "line ") && !strings.Contains(err.Error(), "no source") {
					t.Errorf("cut at %d: %v", at, err)
				}
				continue
			}
			if err := c.Check(); err != nil {
				t.Errorf("cut at %d: %v", at, err)
			}
		}
	}
}

// FuzzNative reads any text. It must not panic. A capture that passes Check must be the
// same after it is written and read again.
func FuzzNative(f *testing.F) {
	for _, data := range nativetest.Contents(f, "../../testdata/*/*.native") {
		// Only whole lines: later lines are mostly the same.
		text := string(data[:min(len(data), 6<<10)])
		f.Add(text[:strings.LastIndexByte(text, '\n')+1])
	}
	f.Add(header + "buffer +1 +5 0x200 1 1 edge=end-open note=0\nmark +1 +1 oom text=\"x\"\ntotal +1 5 requested\nregion +1 +5 0x1 5 kind=\"k\"\n")
	f.Add(header + "mark +1 +1 oom text=\"\" failure=\"torch\" rounding=-5\n")
	f.Add(header + "call 0 1.5 2e9 0.1 site=0 before=1 after=2 freed=3\nsample 0 -1 allocated=-1 regular=true\n")
	f.Fuzz(func(t *testing.T, text string) {
		var c *lifetime.Capture
		var err error
		nativetest.Bounded(t, len(text), 4<<20, 1500, func() { c, err = read(text) })
		if err != nil {
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 300 {
				t.Errorf("message %q", err)
			}
			return
		}
		if c.Check() != nil {
			return // formats.Open refuses it
		}
		want := write(t, c)
		again, err := read(want)
		if err != nil {
			t.Fatalf("%v\n%s", err, want)
		}
		if err := again.Check(); err != nil {
			t.Errorf("%v\n%s", err, want)
		}
		if got := write(t, again); got != want {
			t.Errorf("changes when it is read and written again:\n%s\n%s", want, got)
		}
	})
}
