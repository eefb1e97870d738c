package finding

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/holder"
	"github.com/memlane/memlane/lifetime/purpose"
)

// Held says what the recorder found to hold buffers of a finding.
type Held struct {
	By        string // the reference, with "*" for indexes
	Kind      holder.Kind
	Where     string // where the reference begins: a module or a call
	Container string // class of the list, dict and so on that it leads through; "" = none
	Count     int    // buffers that By holds, of Of that are alive at the end
	Of        int
	How       purpose.How
}

const (
	maxHeld   = 3    // holders that a text names
	leastHeld = 0.05 // share of the buffers that each but the first holds: the step that failed holds some, too
)

// heldOf returns what holds buffers that are alive at the end, most buffers first; none if it is not known for half of
// them.
func (p *Pass) heldOf(buffers []int) (all []Held) {
	index := map[string]int{}
	alive, known := 0, 0
	for _, i := range buffers {
		if p.Space.Buffers[i].Edge&lifetime.EndOpen == 0 {
			continue
		}
		alive++
		h := p.HolderOf(p.Space, i)
		if h == nil || h.Kind == holder.Unreached {
			continue
		}
		known++
		by := holder.FoldIndexes(h.By())
		k, ok := index[by]
		if !ok {
			k = len(all)
			index[by], all = k, append(all, Held{By: by, Kind: h.Kind, Where: h.Where, Container: h.Container, How: purpose.Recorded})
		}
		all[k].Count++
	}
	if 2*known < alive {
		return nil
	}
	for i := range all {
		all[i].Of = alive
	}
	slices.SortStableFunc(all, func(x, y Held) int { return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.By, y.By)) })
	return all
}

// hold sets what holds the buffers of a leak: it is the cause, and comes first.
func (p *Pass) hold(f *Finding) {
	explained := f.Held != nil
	if f.Kind == KindLeak && !explained {
		f.Held = p.heldOf(f.Kept)
	}
	if f.Held == nil {
		return
	}
	named := f.Held[:min(len(f.Held), maxHeld)] // most first
	for n := len(named) - 1; n > 0 && float64(named[n].Count) < leastHeld*float64(named[n].Of); n-- {
		named = named[:n]
	}
	var texts, advice []string
	for i := range named {
		_, one := named[i].cause()
		if texts = append(texts, named[i].text()); !slices.Contains(advice, one) {
			advice = append(advice, one)
		}
	}
	if !explained {
		f.Cause, _ = named[0].cause()
	}
	if i := f.index(FigLikelyCause); i >= 0 {
		f.Evidence[i].Text, f.Evidence[i].How = f.Cause.String(), named[0].How
	}
	if !f.loads {
		f.Suggestions = advice
	}
	place := p.PlaceOf(f.Place()).String()
	was, hasPlace := strings.CutPrefix(f.Description, place+": ")
	if !hasPlace {
		place = ""
	}
	parts := strings.Split(was, "; ")
	if len(texts) == 1 {
		texts[0] += f.pace()
	}
	f.describe(place, strings.Join(texts, ", "), parts...)
}

// grows returns the first container of the reference whose members differ.
func (h *Held) grows() string {
	for at := 0; at < len(h.By); at++ {
		if inside, _, _ := strings.Cut(h.By[at:], "]"); h.By[at] == '[' && (strings.Contains(inside, "*") || inside == "[...") {
			return h.By[:at]
		}
	}
	return h.By
}

// inContainer reports whether a container holds most of some buffers, as the recorder saw.
func inContainer(held []Held) bool { return held != nil && held[0].grows() != held[0].By }

// root returns the variable or container that must let go of the buffers, itself or of their graph.
func (h *Held) root() string { return h.Where + " " + strings.TrimPrefix(h.grows(), "the graph of ") }

func (h *Held) text() string {
	text := "held by " + h.By
	switch {
	case h.Kind == holder.ByCycle:
		text = "waits for the garbage collector in " + h.By
	case h.Where != "__main__" && h.Where != "":
		text += " of " + h.Where
	}
	return text + fmt.Sprintf(" (%s of %s)", units.Count(int64(h.Count)), units.Count(int64(h.Of)))
}

// pace says how the container of the only holder grows, if it grows by a whole number in each step.
func (f *Finding) pace() string {
	h := &f.Held[0]
	if h.Container == "" || h.Kind != holder.ByVariable {
		return ""
	}
	mean := float64(f.Amount.Bytes) / float64(f.Amount.Count)
	if n := math.Round(f.BytesPerStep / mean); mean > 0 && n >= 1 && math.Abs(f.BytesPerStep/mean-n) < 0.05*n {
		return fmt.Sprintf(", a %s that grows by %.0f each step", h.Container, n)
	}
	return ", a " + h.Container
}

// cause returns the cause and the advice that follow from a holder.
func (h *Held) cause() (Cause, string) {
	switch {
	case h.Kind == holder.ByGraph:
		return LossGraph, fmt.Sprintf("Store .item() or .detach() of %s: its graph keeps them.",
			strings.TrimPrefix(h.By, "the graph of "))
	case h.Kind == holder.ByCycle:
		return ReferenceCycle, ReferenceCycle.Advice()
	case strings.Contains(h.By, ".__traceback__") || strings.HasPrefix(h.Where, "exception "):
		return FailedAllocations, FailedAllocations.Advice()
	case strings.Contains(h.By, "_hooks["):
		return Hook, Hook.Advice()
	case strings.HasSuffix(h.By, ".grad"):
		return Gradients, Gradients.Advice()
	case strings.Contains(h.By, ".<lru_cache>"):
		return UnboundedCache, fmt.Sprintf("Limit %s with maxsize.", strings.TrimSuffix(h.By, ".<lru_cache>[*]"))
	case h.Container != "":
		return Collection, fmt.Sprintf("Clear or bound %s.", h.grows())
	}
	return Collection, fmt.Sprintf("Delete %s when it is no longer needed.", h.By)
}
