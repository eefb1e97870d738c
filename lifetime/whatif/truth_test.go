package whatif

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/deep"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/category"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/replay"
)

var variants = map[string]string{
	"ckpt=block": "checkpoint=blocks", "b/2": "batch=0.5", "bx2": "batch=2", "sx2": "sequence=2", "optim=sgd": "optimizer=sgd",
	"optim=momentum": "optimizer=momentum",
	"optim=adam8":    "optimizer=adam8bit", "optim=cpu": "optimizer.device=host", "optim=adamw_loop": "foreach=off",
	"optim=adamw_fused": "foreach=fused",
	"accum=2":           "accumulate=2", "set_to_none=0": "set_to_none=off", "offload_act=1": "offload=activations", "chunks=8": "loss.chunks=8",
	"nograd=1": "no_grad", "bf16=1": "precision=bf16", "amp=1": "precision=amp", "ckpt=block bx2": "checkpoint=blocks,batch=2", "optim=adam8 ckpt=block": "optimizer=adam8bit,checkpoint=blocks",
}

func engineOf(t *testing.T, name string) *Engine {
	t.Helper()
	return engineIn(t, "whatif/"+name+".pickle.zst")
}

// opened are the captures of which tests made engines.
var opened = map[string]*lifetime.Capture{}

// engineIn returns the engine of a file in testdata, which is read once.
func engineIn(t *testing.T, file string) *Engine {
	t.Helper()
	c := opened[file]
	if c == nil {
		var err error
		if c, err = formats.Open("../../testdata/"+file, formats.Input{}); err != nil {
			t.Fatal(err)
		}
		category.Of(c, nil)
		opened[file] = c
	}
	e, refused := New(program.Of(c), c.Spaces[0], replay.Check(c.Spaces[0], c.Sources[0].Settings))
	if e == nil {
		t.Fatal(refused)
	}
	return e
}

// TestCopiesOfOlderWeights: weights that are older than the recording, and have no gradients, are copied under autocast whatever the batch is.
func TestCopiesOfOlderWeights(t *testing.T) {
	const real = 40531968
	s, err := Parse("batch=0.5")
	if err != nil {
		t.Fatal(err)
	}
	if r := engineOf(t, "autocast_forward").Run(s, replay.Device{}); r.Low > real || r.High < real {
		t.Errorf("%d to %d, but the program needed %d (%s)", r.Low, r.High, real, r.Refused)
	}
}

// TestOfWeights: what passes make of frozen weights alone has one size whatever the batch is: weights that are dequantized, or cast and saved.
func TestOfWeights(t *testing.T) {
	for capture, real := range map[string]map[string]int64{
		"dequantized": {"batch=0.5": 37572096, "batch=2": 40531968}, "cast": {"batch=0.5": 41392128, "batch=2": 44160000},
	} {
		for edits, real := range real {
			s, err := Parse(edits)
			if err != nil {
				t.Fatal(err)
			}
			r := engineOf(t, capture).Run(s, replay.Device{})
			if off := float64(r.Peak)/float64(real) - 1; r.Low > real || r.High < real || off < -.01 || off > .01 {
				t.Errorf("%s with %s: %d (%d to %d), but the program needed %d (%s)", capture, edits, r.Peak, r.Low, r.High, real, r.Refused)
			}
		}
	}
}

// TestEvaluates: steps that also evaluate, without no_grad: a pass of its own, whose blocks are called from the same line as those that train, or
// from another one, which checkpoints nothing. The loss of the second program is checkpointed in chunks. Blocks of the third one, of a graph, begin backward with nodes that saved
// nothing.
func TestEvaluates(t *testing.T) {
	for capture, real := range map[string]map[string]int64{
		"evaluates":           {"checkpoint=blocks": 116332032, "no_grad=evaluation,checkpoint=blocks": 116332032, "layers=7": 256822784},
		"evaluates_elsewhere": {"layers=8": 435078144, "checkpoint=blocks": 261633024},
		"arguments":           {"checkpoint=blocks": 85411328},
	} {
		for edits, real := range real {
			s, err := Parse(edits)
			if err != nil {
				t.Fatal(err)
			}
			r := engineOf(t, capture).Run(s, replay.Device{})
			if off := float64(r.Peak)/float64(real) - 1; r.Low > real || r.High < real || off < -.02 || off > .02 {
				t.Errorf("%s with %s: %d (%d to %d), but the program needed %d (%s)", capture, edits, r.Peak, r.Low, r.High, real, r.Refused)
			}
		}
	}
}

// TestOnDevice: what the programs needed on a real device after they were changed. What only the first pass makes and keeps there, a
// workspace of cuBLAS, is no part of a block, and no other pass makes it again; factors of a product are no copies of weights.
func TestOnDevice(t *testing.T) {
	for _, of := range []struct {
		capture, scenario string
		real              int64
		exact             bool
	}{
		{"h200_long", "checkpoint=blocks", 249031680, false},
		{"h200_long", "accumulate=2", 427500544, false},
		{"h200_long", "batch=2", 740380672, false},
		{"h200_long", "offload=activations", 241351168, false},
		{"h200_deep", "batch=2", 600326144, false},
		{"h200_deep", "batch=0.5", 363489280, false},
		{"h200_lstm", "optimizer=momentum", 199102464, false},                                         // which of two cached blocks is taken depends on their addresses
		{"h100_tiny", "freeze=model.tok.*|model.pos.*|model.blocks.*|model.norm.*", 130778112, false}, // the workspace of backward stays
		{"h100_fit", "loss.chunks=8", 20629155328, false},
		{"h100_fit", "batch=0.5,accumulate=2", 17007465472, false},
		{"h100_fit", "checkpoint=blocks", 11348649984, false},
		{"h100_fit", "optimizer=adam8bit", 19199089664, false},
		{"h100_tiny", "layers=10", 394593280, false},
		{"h100_tiny", "states=bf16,foreach=fused", 221501952, false},
	} {
		s, err := Parse(of.scenario)
		if err != nil {
			t.Fatal(err)
		}
		r := engineOf(t, of.capture).Run(s, replay.Device{})
		if off := float64(r.Peak)/float64(of.real) - 1; r.Low > of.real || r.High < of.real || r.Exact != of.exact || off < -0.01 || off > 0.01 {
			t.Errorf("%s with %s: %d (%d to %d, exact %v), but the program needed %d", of.capture, of.scenario, r.Peak, r.Low, r.High, r.Exact, of.real)
		}
	}
}

// TestLayers: other numbers of blocks, some of them computed again, other states and frozen parameters, as the program really needed them.
// The names of its parameters are recorded.
func TestLayers(t *testing.T) {
	e := engineOf(t, "named")
	for edits, real := range map[string]int64{
		"": 73317376, "layers=2": 47767552, "layers=3": 60542464, "layers=7": 112166400, "checkpoint=every:2": 58915328,
		"checkpoint=layers:1-2": 56187904, "optimizer=lion": 67143680, "states=bf16,foreach=fused": 67173888,
		"freeze=model.tok.*|model.pos.*|model.blocks.0.*|model.blocks.1.*": 48970752, "freeze=model.blocks.*.attn.*": 66083840,
		"freeze=model.tok.*|model.pos.*|model.blocks.*|model.norm.*": 24644608,
	} {
		var s Scenario
		var err error
		if edits != "" {
			if s, err = Parse(edits); err != nil {
				t.Fatal(err)
			}
		}
		r := e.Run(s, replay.Device{})
		if off := float64(r.Peak)/float64(real) - 1; r.Low > real || r.High < real || off < -.025 || off > .001 {
			t.Errorf("%s: %d (%d to %d), but the program needed %d (%s)", edits, r.Peak, r.Low, r.High, real, r.Refused)
		}
	}
	for capture, edits := range map[string][]string{
		"named":     {"layers=4", "checkpoint=layers:4-9", "freeze=nothing.*", "freeze=*", "layers=2,layers=2"},
		"gpt_small": {"freeze=model.*"}, // without names
		"dropped":   {"layers=2", "states=bf16"},
	} {
		e := engineOf(t, capture)
		for _, text := range edits {
			s, err := Parse(text)
			if err == nil && e.Run(s, replay.Device{}).Refused == "" {
				t.Errorf("%s of %s is not refused", text, capture)
			}
		}
	}
	for _, text := range []string{"layers=1", "checkpoint=every:1", "checkpoint=layers:3-2", "checkpoint=layers:a", "freeze=", "states=fp8"} {
		if s, err := Parse(text); err == nil {
			t.Errorf("%s is taken for %v", text, s)
		}
	}
}

// TestModules: modules with some names computed again, and states of rows and columns, as the program really needed them. Modules and shapes
// are recorded.
func TestModules(t *testing.T) {
	e := engineOf(t, "modules")
	for edits, real := range map[string]int64{
		"checkpoint=module:Train.m.blocks.*.attn": 59980800, "checkpoint=module:Train.m.blocks.?": 43276288,
		"checkpoint=module:Train.m.blocks.1.attn|Train.m.blocks.2": 61606912, "checkpoint=module:*.n1|*.up": 73292800,
		"optimizer=adafactor": 61075968,
	} {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		if r := e.Run(s, replay.Device{}); r.Peak != real || r.Low > real || r.High < real || r.Exact {
			t.Errorf("%s: %d (%d to %d), but the program needed %d (%s)", edits, r.Peak, r.Low, r.High, real, r.Refused)
		}
	}
	for edits, capture := range map[string]string{
		"checkpoint=module:*.tok": "modules", "checkpoint=module:attn": "modules", "checkpoint=module:*": "named", "optimizer=adafactor": "gpt_small",
	} {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		if r := engineOf(t, capture).Run(s, replay.Device{}); r.Refused == "" {
			t.Errorf("%s of %s is not refused", edits, capture)
		}
	}
	if _, err := Parse("checkpoint=module:"); err == nil {
		t.Error("no name of a module is taken for one")
	}
}

// TestClosure: several passes for each step of a program whose optimizer calls the passes, as it really needed them.
func TestClosure(t *testing.T) {
	for _, edits := range []string{"accumulate=2", "accumulate=4"} {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		const real = 132258304
		r := engineOf(t, "lightning").Run(s, replay.Device{})
		if off := float64(r.Peak)/real - 1; r.Low > real || r.High < real || off < -.01 || off > .01 || r.Exact {
			t.Errorf("%s: %d (%d to %d), but the program needed %d (%s)", edits, r.Peak, r.Low, r.High, real, r.Refused)
		}
	}
}

// TestLora: a low rank beside matrices, or frozen parameters, as programs really needed them. Llama has no bias, and scales its
// normalizations in Python.
func TestLora(t *testing.T) {
	llama := "freeze=m.model.embed_tokens.*|m.lm_head.*|*norm*|*.k_proj.*|*.o_proj.*|*.mlp.*"
	for _, of := range []struct {
		capture, scenario string
		real              int64
	}{
		{"modules", "lora=8:*.qkv.weight", 49608704},
		{"modules", "lora=16:*.up.weight|*.down.weight", 54517760},
		{"modules", "lora=64:*.blocks.*.weight", 71579648}, // vectors of normalizations stay as they are
		{"llama", "lora=8:*.q_proj.weight|*.v_proj.weight", 91694080},
		{"llama", llama, 94659584},
	} {
		s, err := Parse(of.scenario)
		if err != nil {
			t.Fatal(err)
		}
		r := engineOf(t, of.capture).Run(s, replay.Device{})
		if off := float64(r.Peak)/float64(of.real) - 1; r.Low > of.real || r.High < of.real || off < -.011 || off > .011 || r.Exact {
			t.Errorf("%s with %s: %d (%d to %d), but the program needed %d (%s)", of.capture, of.scenario, r.Peak, r.Low, r.High, of.real, r.Refused)
		}
	}
	for edits, capture := range map[string]string{
		"lora=8:*.tok.weight": "modules", "lora=8:*.bias": "modules", "lora=8:nothing": "modules", "lora=8:*.qkv.weight": "named",
	} {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		if r := engineOf(t, capture).Run(s, replay.Device{}); r.Refused == "" {
			t.Errorf("%s of %s is not refused", edits, capture)
		}
	}
	for _, text := range []string{"lora=8", "lora=0:*", "lora=x:*", "lora=8:"} {
		if s, err := Parse(text); err == nil {
			t.Errorf("%s is taken for %v", text, s)
		}
	}
}

// TestCacheOfKeys: a generation whose cache holds other numbers of tokens, as it really needed them.
func TestCacheOfKeys(t *testing.T) {
	e := engineOf(t, "kv_cache")
	for edits, real := range map[string]int64{"kv-cache=2": 207534080, "kv-cache=4": 308197376, "kv-cache=0.5": 132626432} {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		off := func(r Result) float64 { return float64(r.Peak)/float64(real) - 1 }
		if r := e.Run(s, replay.Device{}); r.Low > real || r.High < real || off(r) < -.001 || off(r) > .001 || r.Exact {
			t.Errorf("%s: %d (%d to %d), but the program needed %d (%s)", edits, r.Peak, r.Low, r.High, real, r.Refused)
		}
	}
	s, err := Parse("kv-cache=2")
	if err != nil {
		t.Fatal(err)
	}
	if r := engineOf(t, "gpt_small").Run(s, replay.Device{}); r.Refused == "" {
		t.Error("a training without a cache is not refused")
	}
}

// TestOlderStates: dividing states that are older than the recording by two saves half of them, and so does having two bytes for four.
func TestOlderStates(t *testing.T) {
	e, half := engineOf(t, "../meaning/older/all"), int64(0)
	for _, b := range e.base.buffers {
		if b.category == purpose.OptimizerState && b.isOlder() {
			half += b.size / 2
		}
	}
	for _, edits := range []string{"shard=2:optimizer", "states=bf16"} {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		if saved := e.Recorded.Peak - e.Run(s, replay.Device{}).Peak; half < 1<<20 || saved < half-half/10 || saved > half+half/100 { // blocks are rounded
			t.Errorf("%s saves %d of %d", edits, saved, half)
		}
	}
}

// TestStatesOfSums: of parameters and the two states of each, whose sum alone is known, two thirds are states. Gradients from before the recording that are freed before
// others take their place count once.
func TestStatesOfSums(t *testing.T) {
	e, sum := engineOf(t, "../meaning/principles/w10"), int64(0)
	for _, b := range e.base.buffers {
		if e.base.t.Purpose(e.base.s.PurposeOf(int(b.like))).Own == purpose.ParametersAndStates {
			sum += b.size
		}
	}
	peak := func(edits string) int64 {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		r := e.Run(s, replay.Device{})
		if r.Refused != "" {
			t.Error(r.Refused)
		}
		return r.Peak
	}
	sgd := peak("optimizer=sgd")
	for edits, want := range map[string]int64{"optimizer=momentum": sum / 3, "optimizer=adam8bit": sum / 6} {
		if more := peak(edits) - sgd; more < want-want/50 || more > want+want/20 {
			t.Errorf("%s needs %d more than sgd, not %d of %d", edits, more, want, sum)
		}
	}
	if saved := e.Recorded.Peak - peak("states=bf16"); saved < sum/3-sum/100 || saved > sum/3+sum/100 {
		t.Errorf("states=bf16 saves %d of %d", saved, sum)
	}
}

// TestGrowth: a program that only takes more needs at least what it had in use in a recording from its middle.
func TestGrowth(t *testing.T) {
	e := engineOf(t, "../meaning/a14")
	had := e.base.s.Peak(lifetime.Occupied).Bytes
	for edits, grows := range map[string]bool{
		"": true, "batch=1": true, "batch=1.01": true, "set_to_none=off": true, "batch=.99": false, "batch=1,optimizer.device=host": false,
	} {
		var s Scenario
		if edits != "" {
			var err error
			if s, err = Parse(edits); err != nil {
				t.Fatal(err)
			}
		}
		if r := e.Run(s, replay.Device{}); r.Refused != "" || (r.Low >= had-3*had/200) != grows || r.Low > r.Peak {
			t.Errorf("%s: from %d, it had %d in use (%s)", edits, r.Low, had, r.Refused)
		}
	}
}

// TestKeptGradients: a program that keeps gradients, and another run of it that does not, to the byte.
func TestKeptGradients(t *testing.T) {
	s, err := Parse("set_to_none=on")
	if err != nil {
		t.Fatal(err)
	}
	e := engineOf(t, "kept")
	if r := e.Run(s, replay.Device{}); r.Peak != 333162496 || r.Reserved != 352321536 || r.Low > r.Peak || e.Recorded.Peak != 367781888 {
		t.Errorf("%+v, recorded %+v", r, e.Recorded)
	}
	if r := engineOf(t, "gpt_small").Run(s, replay.Device{}); r.Refused == "" {
		t.Error("gradients that are freed were freed again")
	}
}

// TestPast: the cheapest change with which the failed request finds memory. Without an OOM there is none.
func TestPast(t *testing.T) {
	e := engineOf(t, "../replay/b19.c2.oom")
	past, advice := e.Past()
	if past.String() != "loss.chunks=8" || advice == "" || !e.fits(past, e.Capacity()) || e.fits(nil, e.Capacity()) {
		t.Errorf("%s (%s)", past, advice)
	}
	if past, _ = engineOf(t, "gpt_small").Past(); past != nil {
		t.Errorf("%s, but nothing failed", past)
	}
}

// TestTruth compares predictions with the peaks of the real allocator of programs that were really changed.
func TestTruth(t *testing.T) {
	e := engineOf(t, "gpt_small")
	table, err := os.ReadFile("../../testdata/whatif/gpt_small.table.txt")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for line := range strings.Lines(string(table)) {
		p := strings.Split(line, "|")
		var truth struct{ Allocated, Reserved int64 }
		if err := json.Unmarshal([]byte(p[3]), &truth); err != nil {
			t.Fatal(err)
		}
		var s Scenario
		if edits := variants[p[1]]; edits != "" {
			if s, err = Parse(edits); err != nil {
				t.Fatal(err)
			}
		} else if p[1] != "base" {
			continue
		}
		r := e.Run(s, replay.Device{})
		tried++
		switch {
		case r.Refused != "":
			t.Errorf("%s: refused: %s", p[1], r.Refused)
		case r.Exact && r.Peak != truth.Allocated:
			t.Errorf("%s: exactly %d, but the program needed %d", p[1], r.Peak, truth.Allocated)
		case r.Low > truth.Allocated || r.High < truth.Allocated:
			t.Errorf("%s: %d to %d, but the program needed %d", p[1], r.Low, r.High, truth.Allocated)
		case r.ReservedLow > truth.Reserved || r.ReservedHigh < truth.Reserved:
			t.Errorf("%s: reserved %d to %d, but the program reserved %d", p[1], r.ReservedLow, r.ReservedHigh, truth.Reserved)
		}
	}
	if tried < 15 {
		t.Errorf("only %d variants", tried)
	}
}

// TestSearch holds the promises of Search: each plan fits when it is replayed on such a device, and needs all of its changes; the largest
// batch fits, and twice of it does not.
func TestSearch(t *testing.T) {
	e := engineOf(t, "gpt_small")
	fits := func(edits string, capacity int64) bool {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		return !e.Run(s, replay.Device{Capacity: capacity}).OOM
	}
	for _, share := range []float64{.8, .2, .55, 1.2}[:deep.Or(2, 4)] {
		capacity := int64(share * float64(e.Recorded.Reserved))
		plans, err := e.Search(capacity, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if (share >= .5) != (len(plans) > 0) {
			t.Errorf("%g of the recorded bytes: %d plans", share, len(plans))
		}
		for _, p := range plans {
			var edits []string
			for _, edit := range p.Scenario {
				edits = append(edits, edit.String())
			}
			all := strings.Join(edits, ",")
			if all != "" && !fits(all, capacity) {
				t.Errorf("%s does not fit %d", all, capacity)
			}
			for i := range edits {
				without := slices.Delete(slices.Clone(edits), i, i+1)
				if share < 1 && p.Batch.High > 0 && len(without) > 0 && fits(strings.Join(without, ","), capacity) {
					t.Errorf("%s fits %d without %s", all, capacity, edits[i])
				}
			}
			if p.Batch.High == 0 {
				continue
			}
			with := func(f float64) string { return strings.Trim(fmt.Sprintf("%s,batch=%g", all, f), ",") }
			if p.Batch.Low > p.Batch.High || !fits(with(p.Batch.High), capacity) || fits(with(2*p.Batch.High), capacity) {
				t.Errorf("%s, %d: the batch can grow by %v", all, capacity, p.Batch)
			}
		}
	}
	long := *e
	long.replayed = mostEvents + 1 // before
	if _, err := long.Search(1, func() error { return nil }); err != nil {
		t.Errorf("a search after others: %v", err)
	}
	if _, err := long.Search(1, func() error { long.replayed += mostEvents; return nil }); err != ErrLong {
		t.Errorf("a search that took long: %v", err)
	}
	stopped := errors.New("stopped")
	if _, err := e.Search(1, func() error { return stopped }); err != stopped {
		t.Errorf("a search that is stopped: %v", err)
	}
}

// TestAutocast: autocast is refused where it is not known what it would do.
func TestAutocast(t *testing.T) {
	s, err := Parse("precision=amp")
	if err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{
		"autocast_forward": "already computes in 16 bits", "kv_cache": "no backward pass", "mlp": "which operators run is not recorded",
	} {
		if r := engineOf(t, name).Run(s, replay.Device{}); !strings.Contains(r.Refused, why) {
			t.Errorf("%s: %q", name, r.Refused)
		}
	}
	const real = 291515392
	if r := engineOf(t, "gpt_small").Run(s, replay.Device{}); float64(r.Peak) > 1.001*real || float64(r.Peak) < .999*real || r.Exact || r.Low > real*98/100 || r.High < real*102/100 {
		t.Errorf("%d (%d to %d), but the program needed %d (%s)", r.Peak, r.Low, r.High, real, r.Refused)
	}
}

// TestAutocastRepeats: frozen weights of several sizes may be what a product takes; the answer is the same in each run.
func TestAutocastRepeats(t *testing.T) {
	s, err := Parse("precision=amp")
	if err != nil {
		t.Fatal(err)
	}
	peaks := map[int64]bool{}
	for range 30 {
		peaks[engineOf(t, "held_leaf").Run(s, replay.Device{}).Peak] = true
	}
	if len(peaks) != 1 {
		t.Errorf("30 runs gave the peaks %v", peaks)
	}
}

// TestDrop removes what a function allocates, and nothing else.
func TestDrop(t *testing.T) {
	e := engineOf(t, "gpt_small")
	s, err := Parse("drop=embedding")
	if err != nil {
		t.Fatal(err)
	}
	m, r := e.whole(s)
	if r.Refused != "" {
		t.Fatal(r.Refused)
	}
	gone := 0
	for _, b := range e.base.buffers {
		if e.base.hasCall(b, "embedding") {
			gone++
		}
	}
	if gone == 0 || len(m.buffers) != len(e.base.buffers)-gone {
		t.Errorf("%d of %d buffers remain, %d were of the function", len(m.buffers), len(e.base.buffers), gone)
	}
	if s, err = Parse("drop=nothing.py:1"); err != nil {
		t.Fatal(err)
	}
	if r := e.Run(s, replay.Device{}); r.Refused == "" {
		t.Error("a line that allocates nothing was dropped")
	}
}

// TestCapture asks of captures of scenarios what must hold of every capture, and that the recorded program is what was recorded.
func TestCapture(t *testing.T) {
	e := engineOf(t, "gpt_small")
	for _, edits := range []string{"", "checkpoint=blocks,batch=2", "optimizer=sgd,accumulate=2", "no_grad", "offload=activations", "loss.chunks=4"} {
		var s Scenario
		if edits != "" {
			var err error
			if s, err = Parse(edits); err != nil {
				t.Fatal(err)
			}
		}
		c, refused := e.Capture(s)
		if refused != "" {
			t.Fatal(refused)
		}
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", edits, err)
		}
		r := e.Run(s, replay.Device{})
		if peak := c.Spaces[0].Peak(lifetime.Occupied); peak.Bytes != r.Peak {
			t.Errorf("%s: its peak is %d, its table says %d", edits, peak.Bytes, r.Peak)
		}
		if edits == "" && len(c.Spaces[0].Buffers) != len(e.base.s.Buffers) {
			t.Errorf("%d buffers of %d", len(c.Spaces[0].Buffers), len(e.base.s.Buffers))
		}
	}
}

// TestShard: with PyTorch's fully_shard of each block and of the whole over four ranks of a fake process group, the allocator of one rank
// had this peak. Ranks share states alone with ZeRO 1.
func TestShard(t *testing.T) {
	e := engineOf(t, "gpt_small")
	run := func(edits string) Result {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		return e.Run(s, replay.Device{})
	}
	const real = 268297216
	if r := run("shard=4:parameters"); r.Low > real || r.High < real {
		t.Errorf("%d to %d, but the program needed %d (%s)", r.Low, r.High, real, r.Refused)
	}
	states, without := run("shard=4:optimizer"), run("optimizer.device=host")
	if states.Peak >= e.Recorded.Peak || states.Peak <= without.Peak {
		t.Errorf("states over four ranks: %d, all %d, none %d", states.Peak, e.Recorded.Peak, without.Peak)
	}
	e = engineOf(t, "mlp")
	if r, real := run("shard=4:gradients"), int64(386217472); r.Low > real || r.High < real {
		t.Errorf("not sharded again after the forward pass: %d to %d, but a rank needed %d (%s)", r.Low, r.High, real, r.Refused)
	}
	for _, edits := range []string{"shard=1:optimizer", "shard=4", "shard=4:activations"} {
		if _, err := Parse(edits); err == nil {
			t.Errorf("%s is no error", edits)
		}
	}
}

// TestSixteenBits: a program computes in 16 bits already if most of its weights have copies of half their size. A temporary of another program
// may have the size of one. The programs are known.
func TestSixteenBits(t *testing.T) {
	for name, already := range map[string]bool{
		"whatif/autocast_forward.pickle.zst": true, "meaning/a08.pickle.zst": true, "replay/b06.pickle.zst": true,
		"meaning/a12.pickle.zst": false, "replay/b02.c2.oom.pickle.zst": false, "meaning/libraries/c04.pickle.zst": false, "meaning/libraries/c73.pickle.zst": false,
		"meaning/libraries/c50.pickle.zst": false, "meaning/m06.pickle.zst": false, "labelled/d07_hook_out.pickle.zst": false, "whatif/kv_cache.pickle.zst": false,
	} {
		s, err := Parse("precision=bf16")
		if err != nil {
			t.Fatal(err)
		}
		if r := engineIn(t, name).Run(s, replay.Device{}); strings.Contains(r.Refused, "already computes in 16 bits") != already {
			t.Errorf("%s: %q", name, r.Refused)
		}
	}
}

// TestFamilies: what programs needed that were really changed, with a cell that runs in a loop, edges of a graph, pairs of a batch, what they make
// before their first module, and attention that other kernels compute in 16 bits.
func TestFamilies(t *testing.T) {
	for _, of := range []struct {
		capture, edits string
		real           int64
		off            float64 // as a share, at most
	}{
		{"gru", "no_grad", 16511488, .15},
		{"gru", "batch=2", 72049664, .01},
		{"gnn", "checkpoint=blocks", 61574144, .02},
		{"gnn", "batch=2", 368413696, .01},
		{"gnn", "precision=amp", 138578944, .01},
		{"gnn", "precision=bf16", 108139520, .01},
		{"gru", "offload=activations", 34757632, .001},
		{"gnn", "offload=activations", 56993792, .01},
		{"table", "precision=bf16", 113733632, .01},
		{"quantized", "precision=bf16", 19811840, .01},
		{"cast_linear", "batch=0.5", 11360256, .001},
		{"cast_linear", "batch=2", 15319552, .001},
		{"cast_linear", "precision=amp", 11781120, .02},
		{"norms_groups", "precision=amp", 19030016, .03},
		{"promotes_frozen", "precision=amp", 23858176, .001},
		{"promotes_tied", "precision=amp", 31536128, .03},
		{"promotes_edges", "precision=amp", 26278400, .001},
		{"promotes_masks", "precision=amp", 23350272, .04},
		{"promotes_heads", "precision=amp", 18976256, .02},
		{"norms_roots", "precision=bf16", 22033920, .03},
		{"table", "offload=activations", 85878784, .001},
		{"table", "no_grad", 65663488, .16},
		{"clip", "batch=2", 101770240, .35}, // whether pairs grow with the square is not recorded
		{"clip", "batch=0.5", 21591040, .35},
		{"clip", "no_grad", 24248832, .06},
		{"attention_cross", "precision=amp", 144206848, .03},
		{"attention_cross", "precision=bf16", 89439744, .03},
		{"attention_grouped", "precision=amp", 349902336, .03},
		{"attention_grouped", "precision=bf16", 216036352, .03},
		{"attention_math", "precision=amp", 139432448, .03},
		{"attention_math", "precision=bf16", 101766144, .03},
		{"attention_narrow", "precision=amp", 168895488, .03},
		{"attention_narrow", "precision=bf16", 117227008, .03},
		{"attention_odd", "precision=amp", 120905728, .03},
		{"attention_odd", "precision=bf16", 86445056, .03},
		{"agents_sac", "offload=activations", 60316160, .01},
		{"agents_gat", "no_grad", 37928960, .20}, // a variable of a loop holds what the next round makes anew
		{"resume", "optimizer=sgd", 18627072, .01},
		{"variable", "accumulate=2", 45790208, .001},
		{"variable", "accumulate=4", 45790208, .001},
		{"halves", "accumulate=4", 118351872, .001}, // a variable keeps the first batch
		{"halves", "checkpoint=blocks", 49162752, .001},
		{"graphs_factors", "offload=activations", 19961344, .004}, // a call of one line that calls one kind of module twice
		{"graphs_field", "offload=activations", 29698560, .001},   // each activation comes back for two nodes, without operators
		{"graphs_validates", "offload=activations", 43653632, .001},
		{"graphs_validates", "no_grad", 23886848, .001}, // a variable holds the graph of an evaluation
		{"graphs_validates", "batch=0.5", 32081920, .001},
		{"graphs_validates", "loss.chunks=4", 27483648, .001},
		{"graphs_shared", "freeze=net.embed.*|net.encoder.*", 24163328, .001}, // the head has the size of the embedding
		{"graphs_store", "accumulate=2", 50259968, .001},
		{"graphs_results", "checkpoint=blocks", 41481216, .001}, // blocks take two results
		{"turns_nets", "optimizer=momentum", 19655680, .001},
		{"turns_nets", "optimizer=sgd", 15975936, .001},
		{"turns_nets", "optimizer=adamw", 27306496, .001},
		{"turns_layers", "optimizer=momentum", 28310016, .001},
		{"turns_layers", "optimizer=sgd", 21800960, .001},
		{"turns_layers", "optimizer=adamw", 41064960, .001},
	} {
		s, err := Parse(of.edits)
		if err != nil {
			t.Fatal(err)
		}
		r := engineOf(t, of.capture).Run(s, replay.Device{})
		if off := float64(r.Peak)/float64(of.real) - 1; r.Low > of.real || r.High < of.real || math.Abs(off) > of.off {
			t.Errorf("%s, %s: %d (%d to %d), but the program needed %d (%s)", of.capture, of.edits, r.Peak, r.Low, r.High, of.real, r.Refused)
		}
	}
}

// TestHeld: what held.py and sac.py needed with options. A variable holds what autograd may not, a program collects before several steps, a backward pass goes
// on to its input, and modules run in another order than they are registered.
func TestHeld(t *testing.T) {
	for _, of := range []struct {
		capture, edits string
		real           int64
		off            float64 // as a share, at most
	}{
		{"leaf", "offload=activations", 82672640, .001},
		{"leaf", "accumulate=2", 97123328, .011},
		{"rollout", "batch=0.5", 21335552, .001}, // what it reads whole grows
		{"rollout", "batch=2", 57910272, .001},
		{"rollout", "precision=bf16", 25206272, .001},
		{"unroll", "batch=0.5", 20044288, .001}, // with one row more than it reads
		{"unroll", "batch=2", 45013504, .001},
		{"unroll", "precision=bf16", 21591552, .05},
		{"bytes", "precision=bf16", 47355392, .001}, // what it casts at once is not a float
		{"bytes", "batch=0.5", 56853504, .001},      // and what it samples from does not grow
		{"bytes", "batch=2", 73622528, .001},
		{"sac", "precision=amp", 587996160, .005}, // a pass of one number has nothing to cast
		{"sac", "precision=bf16", 457624064, .002},
		{"sac", "batch=0.5", 502651392, .001}, // what variables hold of the first step is as that of others
		{"sac", "batch=2", 774968832, .001},
		{"pair", "checkpoint=blocks", 65577984, .03}, // two calls in the body of a loop, of one function
	} {
		s, err := Parse(of.edits)
		if err != nil {
			t.Fatal(err)
		}
		r := engineOf(t, "held_"+of.capture).Run(s, replay.Device{})
		if off := float64(r.Peak)/float64(of.real) - 1; r.Low > of.real || r.High < of.real || math.Abs(off) > of.off {
			t.Errorf("%s, %s: %d (%d to %d), but the program needed %d (%s)", of.capture, of.edits, r.Peak, r.Low, r.High, of.real, r.Refused)
		}
	}
}

// TestRecurrent: what a whole recurrent layer casts is not known.
func TestRecurrent(t *testing.T) {
	s, err := Parse("precision=amp")
	if err != nil {
		t.Fatal(err)
	}
	if r := engineOf(t, "recurrent").Run(s, replay.Device{}); !strings.Contains(r.Refused, "recurrent layer") {
		t.Errorf("%d, %q", r.Peak, r.Refused)
	}
}

// TestSums: sums over more rows than recorded take scratch that the recording does not have. With four times the batch, 84 MiB are enough and 80
// are not.
func TestSums(t *testing.T) {
	e := engineOf(t, "rows")
	for edits, real := range map[string]int64{"batch=2": 42089984, "batch=4": 64110080, "batch=8": 108150272} {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		if r := e.Run(s, replay.Device{}); r.Low > real || r.High < real {
			t.Errorf("%s: %d to %d, but the program needed %d", edits, r.Low, r.High, real)
		}
		if edits != "batch=4" {
			continue
		}
		for mib := int64(44); mib < 128; mib += 4 {
			r := e.Run(s, replay.Device{})
			if fits, sure := e.Fits(s, &r, mib<<20); sure && fits != (mib >= 84) {
				t.Errorf("%s: it is sure that it fits %d MiB: %t", edits, mib, fits)
			}
		}
	}
}

// TestUnknownStates: which buffers are the states of an optimizer is not known if a variable holds all that was read from a checkpoint.
func TestUnknownStates(t *testing.T) {
	e := engineOf(t, "resume_kept")
	for _, edits := range []string{"optimizer=sgd", "optimizer=adam8bit", "optimizer.device=host"} {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		if r := e.Run(s, replay.Device{}); !strings.Contains(r.Refused, "is not known") {
			t.Errorf("%s: %d, %q", edits, r.Peak, r.Refused)
		}
	}
}

// TestCutOff: of a program that ran out of memory, in its first step, its second one, its optimizer, or with a second try, ranges hold what it needs as
// a whole; of one that is unfinished, their lower ends. So they do of one step alone, beside which the next one has states.
func TestCutOff(t *testing.T) {
	type truths map[string]int64
	small, mlp := truths{}, truths{"": 764295680, "optimizer=sgd": 317906944, "no_grad": 173310464}
	table, err := os.ReadFile("../../testdata/whatif/gpt_small.table.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Split(line, "|")
		var peaks struct{ Allocated int64 }
		if err := json.Unmarshal([]byte(f[3]), &peaks); err != nil {
			t.Fatal(err)
		}
		if edits, ok := variants[f[1]]; ok && f[1] != "sx2" {
			small[edits] = peaks.Allocated
		}
	}
	for _, of := range []struct {
		capture    string
		unfinished bool
		real       truths
		off        float64 // at most, where it is finished
		predicted  int     // at least so many
	}{
		{"cut_first", true, small, 0, 6}, {"cut_second", false, small, .01, 15}, {"cut_states", true, mlp, 0, 2},
		{"retry", true, small, 0, 10}, {"one_step", false, small, .01, 15},
	} {
		e := engineOf(t, of.capture)
		if e.Unfinished != of.unfinished {
			t.Errorf("%s: unfinished is %t", of.capture, e.Unfinished)
		}
		if capacity := e.Capacity(); capacity > 0 && (!runsOut(e, capacity) || runsOut(e, 2*capacity)) {
			t.Errorf("%s: runs out with %d bytes: %t; with twice as many: %t", of.capture, capacity, runsOut(e, capacity), runsOut(e, 2*capacity))
		}
		predicted := 0
		for edits, real := range of.real {
			s := e.Start()
			if edits != "" {
				if s, err = Parse(edits); err != nil {
					t.Fatal(err)
				}
			}
			r := e.Run(s, replay.Device{})
			if r.Refused != "" {
				continue
			}
			predicted++
			off := math.Abs(float64(r.Peak)/float64(real) - 1)
			isWide := strings.Contains(edits, "precision") || edits == "no_grad" || of.off == 0
			if r.Low > real || !of.unfinished && r.High < real || !isWide && off > of.off {
				t.Errorf("%s, %s: %d (%d to %d), but the program needs %d", of.capture, edits, r.Peak, r.Low, r.High, real)
			}
		}
		if predicted < of.predicted {
			t.Errorf("%s: %d changes are predicted", of.capture, predicted)
		}
	}
}

// TestOwnSoftmax: scores of attention grow with the square of sequences also where the program computes its softmax itself.
func TestOwnSoftmax(t *testing.T) {
	e := engineOf(t, "own_softmax")
	for edits, real := range map[string]int64{"sequence=2": 2363715584, "sequence=0.5": 217833472} {
		s, err := Parse(edits)
		if err != nil {
			t.Fatal(err)
		}
		if r := e.Run(s, replay.Device{}); r.Low > real || r.High < real || math.Abs(float64(r.Peak)/float64(real)-1) > .01 {
			t.Errorf("%s: %d (%d to %d), but the program needed %d (%s)", edits, r.Peak, r.Low, r.High, real, r.Refused)
		}
	}
}

// TestOpenCheckpoint: of a recording that ends before the backward pass, the unit that a backward pass computes first is computed again.
func TestOpenCheckpoint(t *testing.T) {
	again := func(m *model) (first []int64) {
		if refused := m.checkpoint("blocks"); refused != "" {
			t.Fatal(refused)
		}
		begin := noEvent
		for _, b := range m.buffers {
			if b.added && b.pass == 0 {
				begin = min(begin, b.begin.event)
			}
		}
		for _, b := range m.buffers {
			if b.added && b.begin.event == begin {
				first = append(first, b.size)
			}
		}
		return first
	}
	whole := engineOf(t, "gpt_small").base.clone()
	cut := cutIn(whole, 0)
	if whole.isUnfinished() || !cut.isUnfinished() {
		t.Error("the whole recording is unfinished, or the part of it is not")
	}
	want, got := again(whole), again(cut)
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("computes buffers of %d again, want %d", got, want)
	}
	if cut.recomputed != int64(len(want)) {
		t.Errorf("counts %d buffers, want %d", cut.recomputed, len(want))
	}
}

// cutIn returns a program as if its recording had ended before the backward pass of pass k.
func cutIn(m *model, k int) *model {
	cut := m.clone()
	p := &cut.passes[k]
	end := p.backward
	cut.buffers = slices.DeleteFunc(cut.buffers, func(b *buffer) bool { return b.begin.event >= end })
	for _, b := range cut.buffers {
		if b.end.event >= end {
			b.end = never
		}
	}
	cut.n, cut.sorted, p.end, cut.passes, cut.rounds = end, len(cut.buffers), end, cut.passes[:k+1], cut.rounds[:p.round+1]
	r := &cut.rounds[p.round]
	r.optimizer, r.end, r.open = end, end, true
	return cut
}

// TestUnfinished: a recording that ends in a forward pass is unfinished if none before it was whole.
func TestUnfinished(t *testing.T) {
	for _, name := range []string{"gpt_small", "mlp", "h200_deep"} {
		m := engineOf(t, name).base
		if m.isUnfinished() {
			t.Errorf("%s: the whole recording is unfinished", name)
		}
		for k := range m.passes {
			if got, want := cutIn(m, k).isUnfinished(), k == 0; got != want {
				t.Errorf("%s, cut in pass %d: unfinished is %t", name, k, got)
			}
		}
	}
}

// TestRunsOut: a recorded program that ran out of memory surely does so again, and not with twice as much.
func TestRunsOut(t *testing.T) {
	e := engineIn(t, "replay/b03.c2.oom.pickle.zst")
	if capacity := e.Capacity(); capacity == 0 || !runsOut(e, capacity) || runsOut(e, 2*capacity) {
		t.Errorf("with %d bytes it runs out: %t; with twice as many: %t", capacity, runsOut(e, capacity), runsOut(e, 2*capacity))
	}
}

// TestEveryEdit: each edit of every recording, alone and beside another one, is predicted, with a range around its peak, or refused, also where
// a pass was recorded in part. Without MEMLANE_DEEP=1 each edit of a recording is tried in one of four ways.
func TestEveryEdit(t *testing.T) {
	values := map[string]string{
		"drop": "forward", "free-early": "forward", "freeze": "*", "lora": "4:*", "shard": "2:parameters", "offload": "activations", "no_grad": "", "states": "bf16",
		"batch": "2", "sequence": "2", "kv-cache": "2", "layers": "2", "precision": "amp", "loss.chunks": "2", "checkpoint": "blocks", "optimizer": "sgd",
		"next-step": "", "optimizer.device": "host", "foreach": "off", "accumulate": "2", "set_to_none": "off",
	}
	files, err := filepath.Glob("../../testdata/meaning/*.pickle.zst")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	predicted, n := map[string]int{}, 0
	for _, file := range files {
		c, err := formats.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		category.Of(c, nil)
		for _, s := range c.Spaces {
			e, _ := New(program.Of(c), s, replay.Check(s, c.Sources[s.Source].Settings))
			if e == nil {
				continue
			}
			for _, kind := range Kinds() {
				value, ok := values[kind.Name]
				if !ok {
					t.Fatalf("no value for %s", kind.Name)
				}
				edit := strings.TrimSuffix(kind.Name+"="+value, "=")
				ways := []string{"", ",checkpoint=blocks", ",shard=2:parameters", ",accumulate=2"}
				if n++; !deep.Is() {
					ways = ways[n%4 : n%4+1]
				}
				for _, beside := range ways {
					scenario, err := Parse(edit + beside)
					if err != nil && beside != "" {
						continue // the same twice
					} else if err != nil {
						t.Fatal(err)
					}
					switch r := e.Run(scenario, replay.Device{}); {
					case r.Refused != "":
					case r.Low < 0 || r.Low > r.Peak || r.Peak > r.High:
						t.Errorf("%s, %s: %d is not in %d to %d", file, scenario, r.Peak, r.Low, r.High)
					default:
						predicted[kind.Name]++
					}
				}
			}
		}
	}
	if len(predicted) < len(values)/2 {
		t.Errorf("predicted %v", predicted)
	}
}

// runsOut reports whether the recorded program surely finds no memory for all its requests with a capacity.
func runsOut(e *Engine, capacity int64) bool {
	fits, sure := e.Fits(nil, &e.Recorded, capacity)
	return !fits && sure
}

// TestWithoutOperators: of recordings without operators, precision=bf16 has the range of those with them, as what lines make tells attention.
func TestWithoutOperators(t *testing.T) {
	s, err := Parse("precision=bf16")
	if err != nil {
		t.Fatal(err)
	}
	for name, real := range map[string]int64{
		"gpt_small": 170641408, "attention_cross": 89439744, "attention_grouped": 216036352, "attention_math": 101766144, "attention_odd": 86445056, "agents_gat": 61850624,
	} {
		c, err := formats.Open("../../testdata/whatif/"+name+".pickle.zst", formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Sites {
			c.Sites[i].Op = ""
		}
		category.Of(c, nil)
		e, refused := New(program.Of(c), c.Spaces[0], replay.Check(c.Spaces[0], c.Sources[0].Settings))
		if e == nil {
			t.Fatal(refused)
		}
		r := e.Run(s, replay.Device{})
		if off := float64(r.Peak)/float64(real) - 1; r.Low > real || r.High < real || math.Abs(off) > .03 || float64(r.High-r.Low) > .15*float64(real) {
			t.Errorf("%s: %d (%d to %d), but the program needed %d (%s)", name, r.Peak, r.Low, r.High, real, r.Refused)
		}
	}
}

// TestQuantized: weights of 8 bits are those that passes dequantize.
func TestQuantized(t *testing.T) {
	for name, want := range map[string]bool{"quantized": true, "gpt_small": false, "evaluates": false, "attention_odd": false} {
		if got := engineOf(t, name).base.quantized(); len(got) > 0 != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
