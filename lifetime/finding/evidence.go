package finding

import (
	"slices"

	"github.com/memlane/memlane/lifetime/purpose"
)

// Unit is the unit of a figure.
type Unit string

// The units of figures.
const (
	UnitBytes   Unit = "bytes"
	UnitCount   Unit = "count"
	UnitSteps   Unit = "steps" // a number of steps, or the index of a step, from 0
	UnitShare   Unit = "share" // 0 to 1
	UnitTime    Unit = "ns"    // events in a space without a clock
	UnitAddress Unit = "address"
	UnitText    Unit = "text"
	UnitForeign Unit = "" // unknown: a figure of another tool
)

// Figure is one kind of evidence. All figures of memlane's rules are in Figures; those of other tools are
// ForeignFigures. A rule of a program's own may use any of Figures, or make a Figure.
type Figure struct {
	Name string // as in JSON
	Unit Unit
	Doc  string      // meaning, in one line
	How  purpose.How // how it is usually known
}

// Figures are all figures of the rules.
var Figures []Figure

// newFigure adds a figure to Figures. Most are counted: derived from recorded events.
func newFigure(name string, unit Unit, doc string) Figure {
	return newFigureKnown(purpose.Derived, name, unit, doc)
}

func newFigureKnown(how purpose.How, name string, unit Unit, doc string) Figure {
	Figures = append(Figures, Figure{name, unit, doc, how})
	return Figures[len(Figures)-1]
}

// ForeignFigure returns a figure of another tool with the name that the tool uses.
func ForeignFigure(name string) Figure { return Figure{Name: name, How: purpose.Derived} }

// Figures about buffers that were retained or freed late.
var (
	FigAllocated     = newFigure("allocated", UnitCount, "allocations of the call sites in the recording")
	FigFreed         = newFigure("freed", UnitCount, "allocations of the call sites that were freed")
	FigOlder         = newFigure("older_than_window", UnitCount, "buffers of the call sites that are older than the recording")
	FigSurvivors     = newFigure("survivors", UnitCount, "buffers that are alive at the end")
	FigMeanBytes     = newFigure("mean_bytes", UnitBytes, "mean occupied size of the survivors")
	FigFirstBytes    = newFigure("first_bytes", UnitBytes, "occupied size of the first buffer that grew")
	FigLastBytes     = newFigure("last_bytes", UnitBytes, "occupied size of the last buffer that grew")
	FigBeganAfter    = newFigure("began_after", UnitTime, "when the first of the buffers was allocated, since the recording began")
	FigSteps         = newFigureKnown(purpose.Recorded, "steps", UnitSteps, "steps in the recording")
	FigBeganStep     = newFigure("began_step", UnitSteps, "step in which the first of the buffers was allocated")
	FigInferred      = newFigure("steps_inferred", UnitCount, "1 where memlane inferred the steps, because nothing marks them")
	FigProjected     = newFigureKnown(purpose.Inferred, "projected_step", UnitSteps, "step in which the growth reaches the capacity")
	FigOutlives      = newFigure("outlives_releases", UnitCount, "releases of cached memory that the buffers outlived")
	FigCausePlace    = newFigureKnown(purpose.Inferred, "cause", UnitText, "place of the largest finding that one change may fix together with this one")
	FigLikelyCause   = newFigureKnown(purpose.Inferred, "likely_cause", UnitText, "probable reason why the buffers stay alive; of the first of held_by, if the recorder saw what holds them")
	FigShareInBursts = newFigure("share_in_bursts", UnitShare, "frees of the call site that came many at a time, as a share of all its frees")
	FigSaved         = newFigure("saved_bytes", UnitBytes, "by how much the peak would be lower without the buffers")
	FigFreedBy       = newFigure("freed_by", UnitText, "place that freed most buffers of the call site, if few places freed them")
)

// Figures about failed allocations, reserved memory and limits.
var (
	FigFailures         = newFigure("failures", UnitCount, "allocations that failed")
	FigAfter            = newFigure("after", UnitTime, "when the allocation failed, since the recording began")
	FigRequested        = newFigureKnown(purpose.Recorded, "requested", UnitBytes, "size of the failed allocation")
	FigInUse            = newFigure("in_use", UnitBytes, "memory in use when the allocation failed")
	FigReason           = newFigure("reason", UnitText, "reason of the failure, as memlane oom names it")
	FigDeviceFree       = newFigureKnown(purpose.Recorded, "device_free", UnitBytes, "memory of the device that was free when the allocation failed")
	FigOutside          = newFigure("outside", UnitBytes, "memory of the device in use outside this allocator")
	FigLimit            = newFigureKnown(purpose.Recorded, "limit", UnitBytes, "capacity of the device")
	FigReserved         = newFigure("reserved", UnitBytes, "memory that the allocator took from the device")
	FigFree             = newFigure("free_in_reserved", UnitBytes, "reserved memory that is not in use")
	FigLargestHole      = newFigure("largest_hole", UnitBytes, "largest hole in the reserved memory")
	FigHoleAddress      = newFigure("hole_address", UnitAddress, "address of the largest hole")
	FigFragmentation    = newFigure("fragmentation", UnitShare, "share of the free memory outside the largest hole")
	FigMaxFragmentation = newFigureKnown(purpose.Recorded, "fragmentation_max", UnitShare, "highest fragmentation in the recording")
	FigSinceReserved    = newFigure("allocations_since_last_reservation", UnitCount, "allocations since memory was last reserved")
)

// Figures from a replay of PyTorch's allocator.
var (
	FigReplayedOwn  = newFigure("replayed_recorded_bytes", UnitBytes, "peak of reserved memory with the recorded settings, replayed")
	FigReplayedConf = newFigure("replayed_conf", UnitText,
		"PYTORCH_CUDA_ALLOC_CONF with which the program needs least, or gets past the failure")
	FigReplayed      = newFigure("replayed_bytes", UnitBytes, "peak of reserved memory with replayed_conf")
	FigReplayedExact = newFigure("replayed_exact", UnitCount, "1 if the recording determines replayed_bytes; otherwise expect it within 5 %")
	FigPinnedBy      = newFigure("pinned_by", UnitText,
		"of the places with buffers in segments with holes, the one for which a pool of its own gives most")
	FigPinned  = newFigure("pinned_bytes", UnitBytes, "holes in the segments in which buffers of pinned_by lie")
	FigApart   = newFigure("own_pool_bytes", UnitBytes, "peak of reserved memory with pinned_by in a pool of its own, replayed")
	FigOnePool = newFigure("one_pool_bytes", UnitBytes, "peak of reserved memory with one private pool instead of several, replayed")
)

// Figures about a run as a whole and about waste.
var (
	FigPeak          = newFigure("peak", UnitBytes, "highest memory in use; for spike, in the step with the highest peak")
	FigUsualPeak     = newFigure("usual_peak", UnitBytes, "peak of the median step")
	FigStepsAbove    = newFigure("steps_above", UnitSteps, "steps whose peak is much higher than the median")
	FigStep          = newFigure("step", UnitSteps, "the step with the highest peak")
	FigSlices        = newFigure("slices", UnitCount, "slices of the recording whose lowest levels were compared")
	FigNotHigher     = newFigure("not_higher", UnitCount, "slices whose lowest level is not above that of the previous slice")
	FigGrown         = newFigure("grown_bytes", UnitBytes, "rise of the lowest level over the slices")
	FigShareOfWindow = newFigure("share_of_window", UnitShare, "part of the recording that contains all allocations and frees")
	FigAllocations   = newFigure("allocations", UnitCount,
		"allocations of the memory ID; for repeated_allocation, of the size that repeats")
	FigFrees              = newFigure("frees", UnitCount, "frees of the memory ID")
	FigSize               = newFigure("size", UnitBytes, "the size that repeats")
	FigShareOfAllocations = newFigure("share_of_allocations", UnitShare, "allocations of the size that repeats, as a share of all allocations")
	FigPadding            = newFigure("padding", UnitBytes, "padding at the peak of a compiled program")
	FigWasted             = newFigure("wasted_bytes", UnitBytes, "memory at the peak that holds no data")
	FigPeakBytes          = newFigure("peak_bytes", UnitBytes, "peak of the compiled program")
	FigShareOfPeak        = newFigure("share_of_peak", UnitShare, "bytes of the finding as a share of the peak")
)

// Figures about a rank that differs.
var (
	FigRanks           = newFigure("ranks", UnitCount, "ranks that were compared")
	FigValue           = newFigure("value", UnitBytes, "the measure of this rank")
	FigMedian          = newFigure("median", UnitBytes, "median of the measure over all ranks")
	FigMedianDeviation = newFigure("median_deviation", UnitBytes, "median absolute deviation of the measure")
	FigMeasure         = newFigure("measure", UnitText, "the measure that differs: peak, growth or leaked bytes")
	FigRank            = newFigureKnown(purpose.Recorded, "rank", UnitText, "the rank that differs")
	FigFile            = newFigureKnown(purpose.Recorded, "file", UnitText, "capture file of the rank")
)

// Evidence is one figure behind a finding, with its value.
type Evidence struct {
	Figure
	Value float64
	Text  string // replaces Value unless it is ""
	How   purpose.How
}

func figure[N int | int64 | float64](of Figure, value N) Evidence {
	return Evidence{Figure: of, Value: float64(value), How: of.How}
}

// known returns evidence that is known in another way than usual.
func (e Evidence) known(how purpose.How) Evidence {
	e.How = how
	return e
}

func textFigure(of Figure, text string) Evidence {
	return Evidence{Figure: of, Text: text, How: of.How}
}

// add adds evidence to a finding. It sums the numbers of a figure that is already there.
func (f *Finding) add(evidence ...Evidence) {
	for _, e := range evidence {
		if i := f.index(e.Figure); i >= 0 {
			f.Evidence[i].Value += e.Value
		} else {
			f.Evidence = append(f.Evidence, e)
		}
	}
}

func (f *Finding) index(of Figure) int {
	return slices.IndexFunc(f.Evidence, func(e Evidence) bool { return e.Name == of.Name })
}

// Value returns the number of a figure, 0 if the finding lacks it.
func (f *Finding) Value(of Figure) float64 {
	if i := f.index(of); i >= 0 {
		return f.Evidence[i].Value
	}
	return 0
}

// Text returns the text of a figure, "" if the finding lacks it.
func (f *Finding) Text(of Figure) string {
	if i := f.index(of); i >= 0 {
		return f.Evidence[i].Text
	}
	return ""
}
