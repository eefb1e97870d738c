package finding

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/oom"
	"github.com/memlane/memlane/lifetime/purpose"
	"github.com/memlane/memlane/lifetime/replay"
)

// Advice against fragmentation in PyTorch.
const (
	adviceFragmented = "Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; bucket batch sizes."
	adviceBuckets    = "Bucket or pad batch sizes; allocate long-lived buffers first."
	adviceOnePool    = "Share one private pool: torch.cuda.graph(..., pool=POOL), or one MemPool."
)

// replayed is what replays tell about fragmentation.
type replayed struct {
	gain  int64    // bytes that another way of allocating saves for sure, if exact; else as far as is known
	exact bool     // the recording determines it
	parts []string // of the text
}

// replayed replays the space under other settings, with buffers that pin holes in a pool of their own, and with one private pool
// instead of many; pools: only that. The advice of a finding about fragmentation becomes what helps. instant is that of the holes. Without a
// recording that can be replayed, it only removes advice that the program already follows.
func (p *Pass) replayed(f *Finding, instant int64, pools bool) (r replayed) {
	h := p.facts.Replay(p.Space)
	if h == nil || h.Refused != "" {
		if slices.Contains(f.Suggestions, adviceFragmented) && p.expandable() {
			f.Suggestions = []string{adviceBuckets}
		}
		return r
	}
	d := replay.Device{Capacity: h.Capacity()}
	own, best, better := h.Advise(d)
	if own.OOM && pools {
		return r
	}
	if own.OOM { // the replay has the failure, not what the finding is about
		if better && !best.OOM {
			f.Suggestions = []string{fmt.Sprintf("Set PYTORCH_CUDA_ALLOC_CONF=%s.", best.Settings.String())}
			return replayed{parts: []string{"other settings get past the failure"}}
		}
		f.Suggestions = []string{adviceBuckets}
		return replayed{parts: []string{"no other settings get past the failure"}}
	}
	f.add(figure(FigReplayedOwn, own.PeakReserved))
	advice := ""
	helps := func(change string, o *replay.Outcome, advise string) {
		r.parts = append(r.parts, f.gives(change, &own, o))
		if advice == "" {
			advice, r.gain, r.exact = advise, own.PeakReserved-o.High, own.Exact && o.Exact
		}
	}
	if better && !pools {
		conf, how := cmp.Or(best.Settings.String(), `""`), replayedHow(&best)
		f.add(textFigure(FigReplayedConf, conf).known(how), figure(FigReplayed, best.PeakReserved).known(how), figure(FigReplayedExact, int(how)))
		helps("other settings", &best, fmt.Sprintf("Set PYTORCH_CUDA_ALLOC_CONF=%s to save %s.", conf, units.Bytes(own.PeakReserved-best.High)))
	}
	if one := h.OnePool(); one != nil {
		if o := one.RunBoth(own.Settings, d); saves(&own, &o) {
			f.add(figure(FigOnePool, o.PeakReserved).known(replayedHow(&o)))
			helps("one private pool", &o, adviceOnePool)
		}
	}
	if pools {
		f.Suggestions = []string{cmp.Or(advice, f.Suggestions[0])}
		return r
	}
	if pool := oom.Apart(&p.Tables, p.Space, h.History, d, &own, instant); pool != nil {
		f.add(textFigure(FigPinnedBy, pool.Place.String()), figure(FigPinned, pool.Holes),
			figure(FigApart, pool.Least.PeakReserved).known(replayedHow(&pool.Least)))
		if saves(&own, &pool.Least) {
			helps(pool.Place.String()+" in its own pool", &pool.Least, pool.Advice())
		} else {
			r.parts = append(r.parts, fmt.Sprintf("%s is next to %s of holes", pool.Place, units.Bytes(pool.Holes)))
		}
	}
	if advice == "" {
		r.parts = slices.Insert(r.parts, 0, "a replay shows that no other settings help")
	}
	f.Suggestions = []string{cmp.Or(advice, adviceBuckets)}
	return r
}

// saves reports whether a pool of its own gives enough.
func saves(own, other *replay.Outcome) bool {
	const least = 0.05 // minimum gain
	return !other.OOM && float64(other.High) <= (1-least)*float64(own.PeakReserved)
}

func (p *Pass) expandable() bool {
	return slices.Contains(p.Sources[p.Space.Source].Settings, lifetime.Setting{Key: "expandable_segments", Value: "true"}) ||
		slices.ContainsFunc(p.Space.Regions, func(r lifetime.Region) bool { return r.Kind == lifetime.Expandable })
}

// replayedHow returns how an outcome is known: Derived if the recording determines it.
func replayedHow(o *replay.Outcome) purpose.How {
	if o.Exact {
		return purpose.Derived
	}
	return purpose.Inferred
}

// gives says what a change gives, compared with the recorded outcome, if that is not what the finding is about.
func (f *Finding) gives(change string, own, other *replay.Outcome) string {
	how := "replayed exactly"
	switch {
	case other.Low < other.High:
		how = "as far as a recording from the middle tells"
	case !other.Exact:
		how = "replayed within 5 %"
	}
	least := units.Bytes(other.PeakReserved)
	if float64(own.PeakReserved) != f.Value(FigReserved) {
		least += " instead of " + units.Bytes(own.PeakReserved)
	}
	return fmt.Sprintf("with %s %s suffice, %s", change, least, how)
}
