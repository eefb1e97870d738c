package oomtext

import (
	"github.com/memlane/memlane/lifetime/failure"

	"bytes"
	"cmp"
	"strconv"
	"strings"
)

// torch.cuda.memory_summary() and memory_stats(): torch/cuda/memory.py of github.com/pytorch/pytorch. The table prints
// sizes cut down to whole units.
var (
	summaryHead   = lazily(`PyTorch ([A-Z]+) memory summary, device ID ` + number)
	summaryCounts = lazily(`([A-Z]+) OOMs: ` + number)
	summaryRow    = lazily(`^\| *([A-Za-z][A-Za-z -]*?) *\| *(-?[0-9]+) ?([KMGTPE]?i?B)? *\| *(-?[0-9]+) ?([KMGTPE]?i?B)? *\|`)
	statsEntry    = lazily(`['"]([a-z_]+(?:\.all\.(?:current|peak))?)['"](?:,|:) ?(-?[0-9]+)`)
)

// parseSummary reads the head of a table; nil if there is none. It is a failure only if the table counts one.
func parseSummary(text string) *printed {
	m := summaryHead().FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	f := newFailure(failure.FromTorch)
	f.device = backend(m[1], m[2])
	f.state = true
	return f
}

// summaryLine takes a line of the table. It returns false for a line of something else.
func (f *printed) summaryLine(line []byte) bool {
	text := string(bytes.TrimSpace(line))
	if !strings.HasPrefix(text, "|") {
		return false
	}
	if m := summaryCounts().FindStringSubmatch(text); m != nil {
		f.counted, _ = strconv.ParseInt(m[2], 10, 64)
		f.state = f.counted == 0
		return true
	}
	m := summaryRow().FindStringSubmatch(text)
	if m == nil {
		return true
	}
	if strings.HasSuffix(m[3], "iB") { // 2.1: before, units had no i
		f.known = expandable
	} else if strings.HasPrefix(m[1], "Oversize") && f.known == "" {
		f.known = split
	}
	current, peak := f.figure(m[2]+" "+m[3]), f.figure(m[4]+" "+m[5])
	if f.set(strings.ToLower(m[1]), current); strings.EqualFold(m[1], "allocated memory") {
		f.peak = peak
	}
	f.spare()
	return true
}

// figureNames are the names of figures that tables and dumps have: memory_summary(), memory_stats() and those of TensorFlow.
var figureNames = map[string]string{"allocated memory": "live", statsKey: "live", "InUse": "live", "USED CURRENT": "live",
	"allocated_bytes.all.peak": "peak", "MaxInUse": "peak", "USED HIGH": "peak", "requested memory": "live_requested", "requested_bytes.all.current": "live_requested",
	"gpu reserved memory": "reserved", "reserved_bytes.all.current": "reserved", "RESERVED CURRENT": "reserved",
	"non-releasable memory": "in_pieces", "inactive_split_bytes.all.current": "in_pieces", "Limit": "allowed"}

// set sets a figure by the name that a table has for it.
func (f *printed) set(name string, bytes int64) {
	if figure := figureNames[name]; figure != "" {
		f.takeFigure(figure, bytes)
	}
}

// spare sets what is reserved and in no buffer.
func (f *printed) spare() {
	if f.Live >= 0 && f.Reserved >= 0 {
		f.Unallocated = max(f.Reserved-f.Live, 0)
	}
}

// statsKey is in every printout of memory_stats().
const statsKey = "allocated_bytes.all.current"

// parseStats reads a printout of memory_stats(); nil if there is none.
func parseStats(text string) *printed {
	if !strings.Contains(text, statsKey) {
		return nil
	}
	f := newFailure(failure.FromTorch)
	f.device, f.state = "cuda", true
	for _, m := range statsEntry().FindAllStringSubmatch(text, -1) {
		v, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil || v < 0 {
			continue
		}
		switch f.set(m[1], v); m[1] {
		case "max_split_size":
			f.known = cmp.Or(f.known, split)
		case "num_device_alloc", "num_sync_all_streams":
			f.known = expandable
		case "num_ooms":
			f.counted, f.state = v, v == 0
		}
	}
	if f.Reserved < 0 || f.Live < 0 {
		return nil
	}
	f.spare()
	return f
}
