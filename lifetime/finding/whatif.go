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

// Advice against fragmentation in PyTorch that no replay has tested.
const (
	adviceFragmented = "Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; bucket batch sizes."
	adviceBuckets    = "Bucket or pad batch sizes; allocate long-lived buffers first."
)

// leastApart is the minimum gain of a pool of its own.
const leastApart = 0.05

// replayed replays the space under other settings, and with pinning buffers in a pool of their own. The advice of a
// finding about fragmentation becomes what helps. instant is that of the holes. It returns parts
// of the text. Without a recording that can be replayed, it only removes advice that the program already follows.
func (p *Pass) replayed(f *Finding, instant int64) (parts []string) {
	h := p.facts.Replay(p.Space)
	if h == nil || h.Refused != "" {
		if slices.Contains(f.Suggestions, adviceFragmented) && p.expandable() {
			f.Suggestions = []string{adviceBuckets}
		}
		return nil
	}
	d := replay.Device{Capacity: h.Capacity()}
	own, best, better := h.Advise(d)
	if own.OOM { // the replay has the failure, not what the finding is about
		if better && !best.OOM {
			f.Suggestions = []string{fmt.Sprintf("Set PYTORCH_CUDA_ALLOC_CONF=%s.", best.Settings.String())}
			return []string{"other settings get past the failure"}
		}
		f.Suggestions = []string{adviceBuckets}
		return []string{"no other settings get past the failure"}
	}
	f.add(figure(FigReplayedOwn, own.PeakReserved))
	var advice string
	if better {
		conf, how := cmp.Or(best.Settings.String(), `""`), replayedHow(&best)
		f.add(textFigure(FigReplayedConf, conf).known(how), figure(FigReplayed, best.PeakReserved).known(how), figure(FigReplayedExact, int(how)))
		parts = []string{f.gives("other settings", &own, &best)}
		advice = fmt.Sprintf("Set PYTORCH_CUDA_ALLOC_CONF=%s to save %s.", conf, units.Bytes(own.PeakReserved-best.High))
	} else {
		parts = []string{"a replay shows that no other settings help"}
	}
	if pool := oom.Apart(&p.Tables, p.Space, h.History, d, &own, instant); pool != nil {
		f.add(textFigure(FigPinnedBy, pool.Place.String()), figure(FigPinned, pool.Holes),
			figure(FigApart, pool.Least.PeakReserved).known(replayedHow(&pool.Least)))
		if pool.Least.OOM || float64(pool.Least.High) > (1-leastApart)*float64(own.PeakReserved) {
			parts = append(parts, fmt.Sprintf("%s is next to %s of holes", pool.Place, units.Bytes(pool.Holes)))
		} else {
			parts = append(parts, f.gives(pool.Place.String()+" in its own pool", &own, &pool.Least))
			advice = cmp.Or(advice, pool.Advice())
		}
	}
	f.Suggestions = []string{cmp.Or(advice, adviceBuckets)}
	return parts
}

// expandable reports whether the program has expandable segments.
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
