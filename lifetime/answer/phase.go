package answer

import (
	"cmp"
	"slices"

	"github.com/memlane/memlane/internal/keyed"
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/layer"
	"github.com/memlane/memlane/lifetime/program"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Layer is the memory of one layer: its activations, parameters, gradients and so on.
type Layer struct {
	Part
	Categories []Part `json:"categories"` // by category, largest first
}

// PhasePeak is what the runs of one phase reach, and what one of them leaves behind.
type PhasePeak struct {
	Phase     string `json:"phase"`      // forward, backward, optimizer or other
	Part      string `json:"part"`       // part of the phase: evaluation, setup, data and so on; "" if none is known
	How       string `json:"how"`        // how its name, category or phase is known: recorded, derived or inferred, as its weakest part; empty if it is not
	Runs      int64  `json:"runs"`       // runs of allocations of this phase
	PeakAt    int64  `json:"peak_at"`    // instant of the peak
	PeakBytes int64  `json:"peak_bytes"` // highest level in a run: occupied
	LeftBytes int64  `json:"left_bytes"` // most that a run allocated and that was alive when the next phase began
	Left      []Part `json:"left"`       // what that was, by category

	how purpose.How
}

// Name returns the phase and its part: "other, setup".
func (p *PhasePeak) Name() string {
	if p.Part == "" {
		return p.Phase
	}
	return p.Phase + ", " + p.Part
}

// layersOf sums up rows by layer, and each layer by category.
func layersOf(layers *layer.Layers, t *lifetime.Tables, s *lifetime.SpaceInfo, rows []lifetime.Row) []Layer {
	if !slices.ContainsFunc(rows, func(r lifetime.Row) bool { return layers.ModuleOf(r.Site, r.Purpose) != "" }) {
		return []Layer{}
	}
	of := map[string][]lifetime.Row{}
	layerOf := func(r *lifetime.Row) (string, purpose.How) {
		return layers.OfBuffer(r.Site, r.Purpose), t.Purpose(r.Purpose).ModuleHow()
	}
	for i := range rows {
		name, _ := layerOf(&rows[i])
		name = cmp.Or(name, purpose.UnknownCategory.String())
		of[name] = append(of[name], rows[i])
	}
	all := []Layer{}
	for _, p := range partsBy(rows, layerOf) {
		all = append(all, Layer{p, categoriesOf(t, s, of[p.Name])})
	}
	return all
}

// phasePeaksOf returns the peak of each phase, and what it leaves. s may be nil. If outlines have no whole history,
// there are none: an answer does not depend on what was read.
func phasePeaksOf(t *lifetime.Tables, s *lifetime.Space) []PhasePeak {
	all := []PhasePeak{}
	if s == nil || t.Sources[s.Source].Traits.Folded {
		return all
	}
	type phase struct {
		purpose.Phase
		purpose.Part
	}
	index := map[phase]int{}
	var most []program.PhaseSpan // of each phase: the run that leaves most
	for _, span := range program.PhasesOf(t, s) {
		k, ok := index[phase{span.Phase, span.Part}]
		if !ok {
			k = len(all)
			index[phase{span.Phase, span.Part}] = k
			all, most = append(all, PhasePeak{Phase: span.Phase.String(), Part: span.Part.String(), Left: []Part{}, how: span.How}), append(most, span)
		}
		p := &all[k]
		p.Runs++
		p.how = min(p.how, span.How)
		if span.Peak.Bytes > p.PeakBytes {
			p.PeakAt, p.PeakBytes = span.Peak.At, span.Peak.Bytes
		}
		if span.Left > most[k].Left {
			most[k] = span
		}
	}
	for k, span := range most {
		all[k].LeftBytes, all[k].How = span.Left, all[k].how.String()
		all[k].Left = categoriesOf(t, &s.SpaceInfo, leftOf(s, span))
	}
	return all
}

// leftOf returns what a run leaves behind.
func leftOf(s *lifetime.Space, span program.PhaseSpan) (rows []lifetime.Row) {
	from, _ := slices.BinarySearchFunc(s.Buffers, span.Begin, func(b lifetime.Buffer, t int64) int { return cmp.Compare(b.Begin, t) })
	index := map[lifetime.Row]int{}
	for i := from; i < len(s.Buffers) && s.Buffers[i].Begin < span.End; i++ {
		b := &s.Buffers[i]
		if b.Edge&lifetime.BeginUnseen != 0 || b.End <= span.End && b.Edge&lifetime.EndOpen == 0 {
			continue
		}
		key := lifetime.Row{Site: b.Site, Kind: b.Kind, Purpose: s.PurposeOf(i)}
		keyed.At(index, &rows, key, key).Add(lifetime.Amount{Count: 1, Bytes: b.Size, Requested: b.Requested})
	}
	return rows
}

// Of returns the bytes of a category.
func (l *Layer) Of(category string) (bytes int64) {
	for _, p := range l.Categories {
		if p.Name == category {
			bytes = units.AddSat(bytes, p.Bytes)
		}
	}
	return bytes
}
