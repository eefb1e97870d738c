package whatif

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/replay"
)

// unitBytes are the bytes of a unit of built programs. The allocator has a segment for each request of so much, so peaks are sums of what is alive.
const unitBytes = 20 << 20

// builder builds a recording in which each buffer has a segment of its own, which is released with it.
type builder struct {
	lifetime.Capture
	s     *lifetime.Space
	now   int64
	live  map[string]int // buffers by name
	sites map[string]lifetime.SiteID
	ids   map[purpose.Purpose]lifetime.PurposeID
}

func build() *builder {
	b := &builder{s: &lifetime.Space{}, live: map[string]int{}, sites: map[string]lifetime.SiteID{}, ids: map[purpose.Purpose]lifetime.PurposeID{}}
	b.Sources, b.Sites, b.Holders = make([]lifetime.Source, 1), make([]lifetime.Site, 1), make([]holder.Holder, 1)
	b.Frames, b.Stacks, b.Purposes = make([]frame.Frame, 1), make([]lifetime.Stack, 1), make([]purpose.Purpose, 1)
	b.s.Device, b.s.Facts = "cuda:0", lifetime.History|lifetime.Regions|lifetime.Addresses|lifetime.Stacks|lifetime.Clock
	return b
}

// site returns the site of an operator below functions of the program, outermost first.
func (b *builder) site(op string, calls ...string) lifetime.SiteID {
	key := op + " " + strings.Join(calls, " ")
	id, ok := b.sites[key]
	if !ok {
		stack := lifetime.StackID(0)
		for _, name := range append([]string{"main"}, calls...) {
			b.Frames = append(b.Frames, frame.Frame{Kind: frame.User, Function: name, File: "train.py", Line: len(name)})
			b.Stacks = append(b.Stacks, lifetime.Stack{Frame: lifetime.FrameID(len(b.Frames) - 1), Caller: stack})
			stack = lifetime.StackID(len(b.Stacks) - 1)
		}
		id = lifetime.SiteID(len(b.Sites))
		b.Sites, b.sites[key] = append(b.Sites, lifetime.Site{Stack: stack, Op: "aten::" + op}), id
	}
	return id
}

// alloc allocates units of memory. Its name is of the parameter, if it is one.
func (b *builder) alloc(name string, units int, is purpose.Purpose, site lifetime.SiteID) {
	id, ok := b.ids[is]
	if !ok {
		id = lifetime.PurposeID(len(b.Purposes))
		b.Purposes, b.ids[is] = append(b.Purposes, is), id
	}
	b.now += 10
	b.live[name] = len(b.s.Buffers)
	size := int64(units) * unitBytes
	addr := uint64(1)<<40 + uint64(len(b.s.Buffers))<<32
	b.s.Buffers = append(b.s.Buffers, lifetime.Buffer{Begin: b.now, Addr: addr, Size: size, Requested: size, Site: site, Edge: lifetime.EndOpen})
	b.s.Regions = append(b.s.Regions, lifetime.Region{Begin: b.now - 5, Addr: addr, Size: size, Kind: "large", Edge: lifetime.EndOpen})
	b.s.Purposes, b.s.Holders = append(b.s.Purposes, id), append(b.s.Holders, 0)
	if is.Category == purpose.ModelParameter {
		b.Holders = append(b.Holders, holder.Holder{Name: name})
		b.s.Holders[len(b.s.Holders)-1] = lifetime.HolderID(len(b.Holders) - 1)
	}
}

func (b *builder) free(names ...string) {
	for _, name := range names {
		b.now += 10
		of, region := &b.s.Buffers[b.live[name]], &b.s.Regions[b.live[name]]
		of.End, region.End, of.Edge, region.Edge = b.now, b.now+3, 0, 0
	}
}

// engine ends the recording.
func (b *builder) engine(t *testing.T) *Engine {
	t.Helper()
	b.s.End = b.now + 10
	for i := range b.s.Buffers {
		if b.s.Buffers[i].Edge&lifetime.EndOpen != 0 {
			b.s.Buffers[i].End, b.s.Regions[i].End = b.s.End, b.s.End
		}
	}
	b.s.SortEnds(nil)
	b.Spaces = []*lifetime.Space{b.s}
	e, refused := New(program.Of(&b.Capture), b.s, replay.Check(b.s, b.Sources[b.s.Source].Settings))
	if e == nil {
		t.Fatal(refused)
	}
	return e
}

// Purposes of built programs.
var (
	ofParameter  = purpose.Purpose{Category: purpose.ModelParameter, Phase: purpose.OtherPhase, Part: purpose.Setup}
	ofActivation = purpose.Purpose{Category: purpose.Activation, Phase: purpose.Forward}
	ofGradient   = purpose.Purpose{Category: purpose.Gradient, Phase: purpose.Backward}
	ofState      = purpose.Purpose{Category: purpose.OptimizerState, Phase: purpose.OptimizerPhase}
	ofCache      = purpose.Purpose{Category: purpose.Cache, Phase: purpose.Forward}
)

// trained builds steps of a training of blocks with a parameter of 1 unit each. A block makes an inner result of 3 units and its output of 2,
// both saved for the backward pass; that makes the gradient of the block, and then frees what the block saved. AdamW keeps two states of a
// parameter, and gradients are freed after each step. Of 4 blocks, a forward pass leaves 20 units and the first gradient makes the peak: with
// 4 of parameters and 8 of states 33.
func trained(blocks, steps int) *builder {
	b := build()
	each := func(do func(n string)) {
		for k := range blocks {
			do(fmt.Sprint(k))
		}
	}
	each(func(n string) { b.alloc("net."+n+".weight", 1, ofParameter, b.site("empty", "init")) })
	for step := range steps {
		each(func(n string) {
			b.alloc("inner"+n, 3, ofActivation, b.site("linear", "forward", "block", "inner"))
			b.alloc("out"+n, 2, ofActivation, b.site("add", "forward", "block"))
		})
		for k := blocks - 1; k >= 0; k-- {
			b.alloc(fmt.Sprint("gradient", k), 1, ofGradient, b.site("mm"))
			b.free(fmt.Sprint("inner", k), fmt.Sprint("out", k))
		}
		b.now += 10
		mark := lifetime.Mark{Begin: b.now, Kind: lifetime.Annotation, Text: "Optimizer.step#AdamW.step"}
		if step == 0 {
			each(func(n string) {
				b.alloc("mean"+n, 1, ofState, b.site("zeros_like", "step"))
				b.alloc("square"+n, 1, ofState, b.site("zeros_like", "step"))
			})
		}
		b.now += 10
		mark.End = b.now
		b.s.Marks = append(b.s.Marks, mark)
		each(func(n string) { b.free("gradient" + n) })
	}
	return b
}

// run returns what a program needs with edits, in their order or, given as several, in the order of these.
func run(t *testing.T, e *Engine, edits ...string) (peak int64, refused string) {
	t.Helper()
	m := e.program.clone()
	for _, text := range edits {
		s, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, edit := range s {
			m.settle()
			if refused := edit.kind.apply(m, edit.Value); refused != "" {
				return 0, refused
			}
		}
	}
	return m.run().PeakLive, ""
}

// TestBiases: after an edit, biases have the sizes that it gave them.
func TestBiases(t *testing.T) {
	b := build()
	b.alloc("net.weight", 4, ofParameter, b.site("empty", "init"))
	b.alloc("net.bias", 1, ofParameter, b.site("empty", "init"))
	e := b.engine(t)
	m := e.program.clone()
	m.buffers[1].size = largestBias
	s, err := Parse("precision=bf16")
	if err != nil || !m.biases()[largestBias] {
		t.Fatal(err, m.biases())
	}
	if m, _ = e.apply(m, s); !m.biases()[largestBias/2] {
		t.Errorf("%v, want half of %d", m.biases(), largestBias)
	}
}

// TestShardedParts: where passes make far less than there are parameters, they are parts of passes. Sharding all parameters in each would take
// memory with the square of the program.
func TestShardedParts(t *testing.T) {
	m := trained(4, 3).engine(t).program.clone()
	m.passes = slices.Repeat(m.passes, 100)
	if before, refused := len(m.buffers), m.shard("2:parameters"); refused == "" || len(m.buffers) != before {
		t.Errorf("%d buffers, %d before: %s", len(m.buffers), before, refused)
	}
}

// TestBuilt: what a program needs after each edit, counted by hand.
func TestBuilt(t *testing.T) {
	const (
		parameters, states, gradients = 4, 8, 4
		pass                          = 4 * (3 + 2) // what a forward pass saves
		first                         = 1           // gradient
	)
	e := trained(4, 3).engine(t)
	if want := int64(parameters+states+pass+first) * unitBytes; e.Recorded.Peak != want {
		t.Fatalf("recorded %d, want %d", e.Recorded.Peak, want)
	}
	peaks := map[string]float64{ // -1: refused
		"batch=2":                     parameters + states + 2*pass + first,
		"batch=0.5":                   parameters + states + pass/2 + first,
		"sequence=2":                  parameters + states + 2*pass + first, // no scores of attention
		"layers=2":                    (parameters+states+pass)/2 + first,
		"layers=6":                    (parameters+states+pass)/4*6 + first,
		"precision=bf16":              (parameters + states + pass + first) / 2.,
		"optimizer=sgd":               parameters + pass + first,
		"optimizer=momentum":          parameters + states/2 + pass + first,
		"optimizer=lion":              parameters + states/2 + pass + first,
		"optimizer.device=host":       parameters + pass + first,
		"states=bf16":                 parameters + states/2 + pass + first,
		"shard=2:optimizer":           parameters + states/2 + pass + first,
		"shard=2:gradients":           (parameters+states)/2 + parameters + pass + 1,    // whole parameters, and what a block gathered
		"shard=2:parameters":          (parameters+states)/2 + pass + first + 1 + 2,     // one whole parameter, and what two blocks gathered
		"optimizer=adam8bit":          parameters + pass + first + states*(1./4+1./256), // a byte for four, and a float for 256 of them
		"accumulate=2":                parameters + states + gradients + pass + first,
		"accumulate=5":                parameters + states + gradients + pass + first,
		"set_to_none=off":             parameters + states + gradients + pass + first,
		"drop=inner":                  parameters + states + 4*2 + first,
		"no_grad":                     parameters + 2 + 3 + 2,                   // the input, the inner result and the output of a block
		"checkpoint=blocks":           parameters + states + 4*2 + 3 + first,    // outputs, and one inner result again
		"checkpoint=layers:0-1":       parameters + states + pass - 2*3 + first, // of two blocks
		"offload=activations":         parameters + states + gradients + 3 + 1,  // of one node, with its weight
		"freeze=net.0.*|net.1.*":      (parameters*2+states+pass)/2 + first,     // the backward pass ends before them
		"batch=2,optimizer=sgd":       parameters + 2*pass + first,
		"batch=0.5,accumulate=2":      parameters + states + gradients + pass/2 + first,
		"checkpoint=blocks,batch=2":   parameters + states + 2*(4*2+3) + first,
		"optimizer=sgd,accumulate=2":  parameters + gradients + pass + first,
		"checkpoint=blocks,no_grad":   -1,
		"set_to_none=on":              -1, // they are freed
		"foreach=off":                 -1, // it takes one parameter after the other
		"kv-cache=2":                  -1,
		"loss.chunks=4":               -1,
		"layers=4":                    -1,
		"next-step":                   -1,
		"freeze=*":                    -1,
		"checkpoint=layers:4-9":       -1,
		"no_grad=evaluation":          -1,
		"free-early=train.py:1":       -1,
		"lora=8:*":                    -1,
		"optimizer=adafactor":         -1,
		"drop=nothing":                -1,
		"checkpoint=module:net.*":     -1,
		"shard=2:optimizer,batch=0.5": parameters + states/2 + pass/2 + first,
	}
	for _, kind := range Kinds() {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(peaks)), func(edits string) bool { return strings.HasPrefix(edits, kind.Name) }) {
			t.Errorf("%s is not tried", kind.Name)
		}
	}
	for edits, want := range peaks {
		peak, refused := run(t, e, edits)
		if want < 0 != (refused != "") || want >= 0 && peak != int64(want*unitBytes) {
			t.Errorf("%s: %.1f units, want %.1f (%s)", edits, float64(peak)/unitBytes, want, refused)
		}
	}
}

// TestBuiltStep: of one recorded step the next one has the states from its beginning. Gradients of the first one may be freed as late as right
// before the backward pass.
func TestBuiltStep(t *testing.T) {
	e := trained(4, 1).engine(t)
	if want := int64(4 + 20 + 1); e.Recorded.Peak != want*unitBytes || !e.OneStep {
		t.Errorf("recorded %d bytes, want %d units; one step: %t", e.Recorded.Peak, want, e.OneStep)
	}
	for edits, want := range map[string]int64{"next-step": 4 + 8 + 20 + 1, "optimizer=sgd": 4 + 20 + 1, "batch=2": 4 + 8 + 40 + 1} {
		if peak, refused := run(t, e, edits); peak != want*unitBytes {
			t.Errorf("%s: %d bytes, want %d units (%s)", edits, peak, want, refused)
		}
	}
}

// TestBuiltLate: of one recorded step it is not known whether the program frees gradients before or after the next forward pass.
func TestBuiltLate(t *testing.T) {
	s, err := Parse("next-step")
	if err != nil {
		t.Fatal(err)
	}
	b := build()
	b.alloc("weight", 4, ofParameter, b.site("empty", "init"))
	b.alloc("out", 5, ofActivation, b.site("linear", "forward"))
	b.alloc("inner", 3, ofActivation, b.site("relu", "forward"))
	b.free("inner")
	b.alloc("gradient", 4, ofGradient, b.site("mm"))
	b.free("out")
	b.now += 10
	b.s.Marks = append(b.s.Marks, lifetime.Mark{Begin: b.now, End: b.now + 5, Kind: lifetime.Annotation, Text: "Optimizer.step#SGD.step"})
	if r := b.engine(t).Run(s, replay.Device{}); r.Low > (4+5+4)*unitBytes || r.High < (4+4+5+3)*unitBytes {
		t.Errorf("%d to %d (%s)", r.Low, r.High, r.Refused)
	}
}

// TestBuiltMetrics: what runs after the only step that trains makes no gradients, so those of the step are still its own.
func TestBuiltMetrics(t *testing.T) {
	b := build()
	b.alloc("weight", 4, ofParameter, b.site("empty", "init"))
	b.alloc("out", 5, ofActivation, b.site("linear", "forward"))
	b.alloc("gradient", 4, ofGradient, b.site("mm"))
	b.free("out")
	b.now += 10
	b.s.Marks = append(b.s.Marks, lifetime.Mark{Begin: b.now, End: b.now + 5, Kind: lifetime.Annotation, Text: "Optimizer.step#SGD.step"})
	b.now += 10
	b.alloc("best", 1, purpose.Purpose{Category: purpose.TemporaryData, Phase: purpose.Forward}, b.site("max", "accuracy"))
	b.free("best")
	if peak, refused := run(t, b.engine(t), "optimizer=momentum"); peak != (4+4+5+4)*unitBytes {
		t.Errorf("%d bytes, want 17 units (%s)", peak, refused)
	}
}

// TestBuiltLoss: of a loss in parts, its product is in parts, what a library needs between them or not, and so is the sum of the gradient of a bias,
// with no scratch over few rows. That of an evaluation stays whole, if lines of its own
// compute it.
func TestBuiltLoss(t *testing.T) {
	isTemporary := purpose.Purpose{Category: purpose.TemporaryData, Phase: purpose.Forward}
	isWorkspace := purpose.Purpose{Category: purpose.Workspace, Phase: purpose.Forward}
	back := purpose.Purpose{Category: purpose.TemporaryData, Phase: purpose.Backward}
	for _, evaluates := range []string{"", "cross_entropy", "own_cross_entropy"} {
		b := build()
		b.alloc("net.weight", 6, ofParameter, b.site("empty", "init"))
		b.alloc("net.bias", 1, ofParameter, b.site("empty", "init"))
		forward := func(h, loss purpose.Purpose, function string) {
			b.alloc("h", 4, h, b.site("relu", "forward"))
			b.alloc("logits", 12, isTemporary, b.site("linear", "forward"))
			b.alloc("workspace", 1, isWorkspace, b.site("linear", "forward"))
			b.free("workspace")
			b.alloc("softmax", 12, loss, b.site("log_softmax", "forward", function))
			b.free("logits")
		}
		for range 3 {
			forward(ofActivation, ofActivation, "cross_entropy")
			b.alloc("nll", 12, back, b.site("nll_loss_backward"))
			b.alloc("ofLogits", 12, back, b.site("_log_softmax_backward_data"))
			b.free("nll", "softmax")
			b.alloc("ofInput", 4, back, b.site("mm"))
			b.alloc("ofWeight", 6, ofGradient, b.site("mm"))
			b.alloc("ofBias", 1, ofGradient, b.site("sum"))
			b.alloc("scratch", 16, back, b.site("sum"))
			b.free("scratch", "ofLogits", "h", "ofInput")
			b.now += 10
			b.s.Marks = append(b.s.Marks, lifetime.Mark{Begin: b.now, End: b.now + 5, Kind: lifetime.Annotation, Text: "Optimizer.step#SGD.step"})
			b.now += 10
			b.free("ofWeight", "ofBias")
			if evaluates != "" {
				forward(isTemporary, isTemporary, evaluates)
				b.free("softmax", "h")
				b.alloc("h", 4, isTemporary, b.site("relu", "forward"))
				b.alloc("workspace", 12, isWorkspace, b.site("log_softmax", "forward", evaluates)) // the size of scores alone does not make a loss
				b.free("workspace", "h")
			}
		}
		want := int64(7 + 4 + 3*6 + 4/2) // as the contributions of two parts are added, with what these made for the input
		if evaluates == "own_cross_entropy" {
			want = 7 + 4 + 12 + 12
		}
		if peak, refused := run(t, b.engine(t), "loss.chunks=4"); (peak+unitBytes/2)/unitBytes != want {
			t.Errorf("%q: %.2f units, want %d (%s)", evaluates, float64(peak)/unitBytes, want, refused)
		}
	}
}

// TestBuiltExit: what a program frees as it ends is there in the step after the only one that was recorded.
func TestBuiltExit(t *testing.T) {
	b := trained(4, 1)
	for k := range 4 {
		b.free(fmt.Sprint("net.", k, ".weight"), fmt.Sprint("mean", k), fmt.Sprint("square", k))
	}
	if peak, refused := run(t, b.engine(t), "next-step"); peak != (4+8+20+1)*unitBytes {
		t.Errorf("%d bytes (%s)", peak, refused)
	}
}

// TestBuiltResidual: blocks whose caller adds what they take have sums as arguments. A variable holds the result of a block until the next one
// returns, and checkpointing keeps it no longer. The last block makes the peak: beside parameters, two sums and that result, 12 units and its own result.
func TestBuiltResidual(t *testing.T) {
	b := build()
	for k := range 3 {
		b.alloc(fmt.Sprint("net.", k, ".weight"), 1, ofParameter, b.site("empty", "init"))
	}
	for range 3 {
		for k := range 3 {
			b.alloc(fmt.Sprint("inner", k), 12, ofActivation, b.site("linear", "forward", "block", "inner"))
			b.alloc(fmt.Sprint("out", k), 2, ofActivation, b.site("mul", "forward", "block"))
			if k > 0 {
				b.free(fmt.Sprint("out", k-1))
			}
			b.alloc(fmt.Sprint("sum", k), 2, ofActivation, b.site("add", "forward"))
		}
		b.free("out2")
		for k := 2; k >= 0; k-- {
			b.alloc(fmt.Sprint("gradient", k), 1, ofGradient, b.site("mm"))
			b.free(fmt.Sprint("inner", k), fmt.Sprint("sum", k))
		}
		b.now += 10
		b.s.Marks = append(b.s.Marks, lifetime.Mark{Begin: b.now, End: b.now + 5, Kind: lifetime.Annotation, Text: "Optimizer.step#SGD.step"})
		b.free("gradient0", "gradient1", "gradient2")
	}
	if peak, refused := run(t, b.engine(t), "checkpoint=blocks"); peak != (3+2*2+2+12+2)*unitBytes {
		t.Errorf("%.1f units (%s)", float64(peak)/unitBytes, refused)
	}
}

// TestBuiltTurns: of two nets with an optimizer each that take turns, a program that keeps gradients keeps those of both.
func TestBuiltTurns(t *testing.T) {
	b := build()
	nets := []string{"a", "b"} // of 1 and of 2 units
	for k, net := range nets {
		b.alloc(net+".weight", k+1, ofParameter, b.site("empty", "init"))
	}
	for range 3 {
		for k, net := range nets {
			b.alloc("out", 5, ofActivation, b.site("linear", "forward", net))
			b.alloc("gradient", k+1, ofGradient, b.site("mm"))
			b.free("out")
			b.now += 10
			b.s.Marks = append(b.s.Marks, lifetime.Mark{Begin: b.now, End: b.now + 5, Kind: lifetime.Annotation, Text: "Optimizer.step#SGD.step"})
			b.free("gradient")
		}
	}
	e := b.engine(t)
	for edits, want := range map[string]int64{"set_to_none=off": 3 + 3 + 5 + 2, "batch=2": 3 + 10 + 2, "optimizer=momentum": 3 + 3 + 5 + 2} {
		if peak, refused := run(t, e, edits); peak != want*unitBytes {
			t.Errorf("%s: %d bytes, want %d units (%s)", edits, peak, want, refused)
		}
	}
}

// TestBuiltEqualTurns: two nets take turns, with weights of equal sizes. Of a weight that only one has, an optimizer keeps two states, so both nets are trained.
func TestBuiltEqualTurns(t *testing.T) {
	b := build()
	nets, sizes := []string{"a", "b"}, map[string]int{"weight": 2, "head": 1}
	of := func(net string) (weights []string) {
		return append(weights, "weight", "head")[:2-strings.Index("ab", net)] // b has no head
	}
	for _, net := range nets {
		for _, w := range of(net) {
			b.alloc(net+w, sizes[w], ofParameter, b.site("empty", "init"))
			b.alloc(net+w+"average", sizes[w], ofState, b.site("zeros_like", "step"))
			b.alloc(net+w+"square", sizes[w], ofState, b.site("zeros_like", "step"))
		}
	}
	for range 3 {
		for _, net := range nets {
			b.alloc("out", 5, ofActivation, b.site("linear", "forward", net))
			for _, w := range of(net) {
				b.alloc("gradient"+w, sizes[w], ofGradient, b.site("mm"))
			}
			b.free("out")
			b.now += 10
			b.s.Marks = append(b.s.Marks, lifetime.Mark{Begin: b.now, End: b.now + 5, Kind: lifetime.Annotation, Text: "Optimizer.step#Adam.step"})
			for _, w := range of(net) {
				b.free("gradient" + w)
			}
		}
	}
	e := b.engine(t)
	for edits, want := range map[string]int64{"set_to_none=off": 5 + 10 + 5 + 5 + 3, "optimizer=momentum": 5 + 5 + 5 + 3} {
		if peak, refused := run(t, e, edits); peak != want*unitBytes {
			t.Errorf("%s: %d units, want %d (%s)", edits, peak/unitBytes, want, refused)
		}
	}
}

// TestBuiltSlots: rows are counted up for each of 4 experts, so their slots are a share of the rows: masks of rows and slots grow with the square of the batch.
func TestBuiltSlots(t *testing.T) {
	b := build()
	b.alloc("w", 1, ofParameter, b.site("empty", "init"))
	for range 3 {
		b.alloc("index", 1, ofActivation, b.site("topk", "forward"))
		b.alloc("chosen", 4, ofActivation, b.site("one_hot", "forward"))
		b.alloc("counted", 2, ofActivation, b.site("cumsum", "forward"))
		b.alloc("slots", 6, ofActivation, b.site("one_hot", "forward"))
		b.alloc("combine", 12, ofActivation, b.site("mul", "forward"))
		b.alloc("out", 5, ofActivation, b.site("linear", "forward"))
		b.alloc("gradient", 1, ofGradient, b.site("mm"))
		b.free("index", "chosen", "counted", "slots", "combine", "out")
		b.now += 10
		b.s.Marks = append(b.s.Marks, lifetime.Mark{Begin: b.now, End: b.now + 5, Kind: lifetime.Annotation, Text: "Optimizer.step#SGD.step"})
		b.free("gradient")
	}
	if peak, refused := run(t, b.engine(t), "batch=2"); peak != (2+2*(1+4+2+5)+4*(6+12))*unitBytes {
		t.Errorf("%d units (%s)", peak/unitBytes, refused)
	}
}

// TestBuiltFreeze: scratch of sums with the size of a gradient does not count as a use of a parameter: the backward pass ends before frozen blocks.
func TestBuiltFreeze(t *testing.T) {
	b := build()
	for k := range 4 {
		b.alloc(fmt.Sprint("net.", k, ".weight"), 1, ofParameter, b.site("empty", "init"))
	}
	scratch := purpose.Purpose{Category: purpose.TemporaryData, Phase: purpose.Backward}
	for range 3 {
		for k := range 4 {
			b.alloc(fmt.Sprint("inner", k), 3, ofActivation, b.site("linear", "forward", "block", "inner"))
			b.alloc(fmt.Sprint("out", k), 2, ofActivation, b.site("add", "forward", "block"))
		}
		for k := 3; k >= 0; k-- {
			op := "mm"
			if k < 2 { // its node needs what it saved for the gradient of the input, too
				op = "native_layer_norm_backward"
			}
			b.alloc(fmt.Sprint("gradient", k), 1, ofGradient, b.site(op))
			b.alloc("scratch", 1, scratch, b.site("sum"))
			b.free("scratch", fmt.Sprint("inner", k), fmt.Sprint("out", k))
		}
		b.now += 10
		b.s.Marks = append(b.s.Marks, lifetime.Mark{Begin: b.now, End: b.now + 5, Kind: lifetime.Annotation, Text: "Optimizer.step#SGD.step"})
		b.free("gradient0", "gradient1", "gradient2", "gradient3")
	}
	if peak, refused := run(t, b.engine(t), "freeze=net.0.*|net.1.*"); peak != (4+2*(3+2)+1+1)*unitBytes {
		t.Errorf("%.1f units (%s)", float64(peak)/unitBytes, refused)
	}
}

// TestBuiltRetained: a variable holds a loss of 1 unit into the next step, and its graph what the loss kept inside, 4 units: only autograd can hold that. Without a
// backward pass the parameter, both losses, the result and what is inside of the loss are left.
func TestBuiltRetained(t *testing.T) {
	b := build()
	b.alloc("w", 1, ofParameter, b.site("empty", "init"))
	for step := range 3 {
		b.alloc("out", 2, ofActivation, b.site("linear", "forward"))
		b.alloc(fmt.Sprint("inside", step), 4, ofActivation, b.site("cross_entropy_loss", "loss"))
		b.alloc(fmt.Sprint("loss", step), 1, ofActivation, b.site("cross_entropy_loss", "loss"))
		if step > 0 {
			b.free(fmt.Sprint("loss", step-1), fmt.Sprint("inside", step-1))
		}
		b.alloc("gradient", 1, ofGradient, b.site("mm"))
		b.free("out")
		b.now += 10
		b.s.Marks = append(b.s.Marks, lifetime.Mark{Begin: b.now, End: b.now + 5, Kind: lifetime.Annotation, Text: "Optimizer.step#SGD.step"})
		b.free("gradient")
	}
	if peak, refused := run(t, b.engine(t), "no_grad"); peak != (1+1+2+4+1)*unitBytes {
		t.Errorf("%.1f units (%s)", float64(peak)/unitBytes, refused)
	}
}

// TestBuiltCache: of a cache of 6 units beside parameters of 1 and a result of 2, only the cache grows.
func TestBuiltCache(t *testing.T) {
	b := build()
	b.alloc("w", 1, ofParameter, b.site("empty", "init"))
	b.alloc("cache", 6, ofCache, b.site("zeros", "generate"))
	for range 3 {
		b.alloc("out", 2, ofActivation, b.site("mm", "generate", "forward"))
		b.free("out")
	}
	e := b.engine(t)
	if peak, refused := run(t, e, "kv-cache=2"); peak != (1+12+2)*unitBytes {
		t.Errorf("%d (%s)", peak, refused)
	}
}

// laws are programs on which edits must hold to laws.
func laws(t *testing.T) map[string]*Engine {
	all := map[string]*Engine{"built": trained(4, 3).engine(t), "one step": trained(5, 1).engine(t)}
	for _, name := range []string{"gpt_small", "mlp", "modules", "lightning", "one_step", "kv_cache", "accumulated"} {
		all[name] = engineOf(t, name)
	}
	return all
}

// TestIdentity: edits that change nothing change no byte.
func TestIdentity(t *testing.T) {
	for name, e := range laws(t) {
		want := e.program.clone().run().PeakLive
		for _, edits := range []string{"batch=1", "sequence=1", "kv-cache=1"} {
			if peak, refused := run(t, e, edits); refused == "" && peak != want {
				t.Errorf("%s with %s: %d, without %d", name, edits, peak, want)
			}
		}
	}
	for _, name := range []string{"built", "one step"} {
		e := laws(t)[name]
		if peak, refused := run(t, e, "optimizer=adamw"); peak < e.Needs.Peak {
			t.Errorf("%s with its own optimizer: %d, without %d (%s)", name, peak, e.Needs.Peak, refused)
		}
	}
}

// TestMonotone: more of something never needs less, and more ranks or parts never need more.
func TestMonotone(t *testing.T) {
	for name, e := range laws(t) {
		for _, of := range []struct {
			edit   string
			values []string
			falls  bool
		}{
			{"batch", []string{"0.25", "0.5", "1", "1.5", "2", "8"}, false},
			{"sequence", []string{"0.5", "1", "2", "4"}, false},
			{"kv-cache", []string{"0.5", "1", "2"}, false},
			{"layers", []string{"2", "3", "5", "6", "9", "12"}, false},
			{"accumulate", []string{"2", "3", "4", "8"}, false},
			{"lora", []string{"1:*.weight", "8:*.weight", "64:*.weight"}, false},
			{"loss.chunks", []string{"2", "4", "8", "32"}, true},
			{"shard", []string{"2:optimizer", "4:optimizer", "16:optimizer"}, true},
			{"shard", []string{"2:parameters", "4:parameters", "16:parameters"}, true},
			{"checkpoint", []string{"layers:0-0", "layers:0-1", "blocks"}, true},
		} {
			last := int64(-1)
			for _, value := range of.values {
				peak, refused := run(t, e, of.edit+"="+value)
				if refused != "" {
					continue
				}
				const unsplit = 1 << 20 // the allocator does not split off so much
				if last >= 0 && (peak < last && !of.falls || peak > last+unsplit && of.falls) {
					t.Errorf("%s with %s=%s: %d, with the value before %d", name, of.edit, value, peak, last)
				}
				last = peak
			}
		}
	}
}

// TestOrder: edits of different things need the same in either order, and factors multiply.
func TestOrder(t *testing.T) {
	for name, e := range laws(t) {
		for _, pair := range [][2]string{
			{"batch=2", "optimizer=sgd"}, {"batch=2", "states=bf16"}, {"batch=0.5", "shard=4:optimizer"}, {"sequence=2", "optimizer=momentum"},
			{"optimizer=sgd", "no_grad"}, {"checkpoint=blocks", "optimizer.device=host"}, {"checkpoint=blocks", "states=bf16"},
		} {
			one, refused := run(t, e, pair[0], pair[1])
			other, alsoRefused := run(t, e, pair[1], pair[0])
			if (refused == "") == (alsoRefused == "") && one != other {
				t.Errorf("%s with %s, then %s: %d, the other way round %d", name, pair[0], pair[1], one, other)
			}
		}
		twice, _ := run(t, e, "batch=2", "batch=2")
		if four, refused := run(t, e, "batch=4"); refused == "" && twice != four {
			t.Errorf("%s with twice the batch, twice: %d, with four times %d", name, twice, four)
		}
		back, _ := run(t, e, "batch=2", "batch=0.5")
		if want := e.program.clone().run().PeakLive; back != 0 && back != want {
			t.Errorf("%s with twice the batch, and half of that: %d, without %d", name, back, want)
		}
		s, _ := Parse("optimizer=sgd,batch=2")
		turned, _ := Parse("batch=2,optimizer=sgd")
		if Scenario(s).String() != Scenario(turned).String() || e.Run(s, replay.Device{}) != e.Run(turned, replay.Device{}) {
			t.Errorf("%s: the order of edits in a text counts", name)
		}
	}
}

// TestRanks: the ranks of an event are in order around the event itself.
func TestRanks(t *testing.T) {
	if itself != 0 || before >= itself || after <= itself || at(3).compare(after.at(2)) <= 0 || before.at(3).compare(after.at(2)) <= 0 {
		t.Error("ranks are not in order")
	}
	if at(1).in(1, 0).compare(at(1).in(2, 0)) >= 0 || at(1).by(1).compare(at(1).in(1, 0)) >= 0 {
		t.Error("rounds are not in order")
	}
}
