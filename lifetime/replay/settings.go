package replay

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

const (
	mib = 1 << 20

	minBlock    = 512      // kMinBlockSize: sizes are multiples of it
	smallSize   = mib      // kSmallSize: the largest block of the small pool
	smallBuffer = 2 * mib  // kSmallBuffer: a segment of the small pool, or a page of it
	minLarge    = 10 * mib // kMinLargeAlloc: from here on a segment serves one request
	roundLarge  = 2 * mib  // kRoundLarge: such a segment is a multiple of it
	largeBuffer = 20 * mib // kLargeBuffer, the default of large_segment_size_mb
	intervals   = 16       // kRoundUpPowerOfTwoIntervals: 1 MiB to 64 GiB
	unlimited   = math.MaxInt64
)

// Settings are the settings of PYTORCH_CUDA_ALLOC_CONF that decide where blocks lie. The
// zero value is not valid; see Default and Parse.
type Settings struct {
	Expandable bool
	MaxSplit   int64 // bytes; math.MaxInt64 = unlimited
	NonSplit   int64 // bytes that an unsplit block may waste (max_non_split_rounding_mb)
	Segment    int64 // bytes of a segment, or page, of the large pool (large_segment_size_mb)
	Collect    float64
	Fraction   float64 // of the device's memory that the process may use; 0 = all

	// Roundup has the divisions of each power of two from 1 MiB to 32 GiB; 0 = none.
	Roundup [intervals]int64
}

// Default returns the settings of an empty PYTORCH_CUDA_ALLOC_CONF.
func Default() Settings {
	return Settings{MaxSplit: unlimited, NonSplit: largeBuffer, Segment: largeBuffer}
}

// option is a key of PYTORCH_CUDA_ALLOC_CONF.
type option struct {
	name   string
	since  string // the first PyTorch with it
	source string // its pull request, or the file that reads it
	read   func(s *Settings, value string) error
}

// options are the keys that Parse knows: the rules of the allocator that differ between versions of PyTorch are behind
// these keys. All other rules are the same in PyTorch 2.0 to 2.15 (c10/cuda/CUDACachingAllocator.cpp). Keys without a
// read function change nothing about addresses.
var options = []option{
	{"max_split_size_mb", "1.10", "c10/core/AllocatorConfig.cpp", readMaxSplit},
	{"garbage_collection_threshold", "1.12", "c10/core/AllocatorConfig.cpp", readCollect},
	{"roundup_power2_divisions", "1.12", "c10/core/AllocatorConfig.cpp", readRoundup},
	{"expandable_segments", "2.1", "pytorch/pytorch#96995", readExpandable},
	{"max_non_split_rounding_mb", "2.6", "pytorch/pytorch#136174", readNonSplit},
	{"per_process_memory_fraction", "2.10", "pytorch/pytorch#161035", readFraction},
	{"large_segment_size_mb", "2.11", "pytorch/pytorch#172056", readSegment},
	{"backend", "2.0", "c10/core/AllocatorConfig.cpp", readBackend},
	{"release_lock_on_cudamalloc", "2.1", "c10/cuda/CUDAAllocatorConfig.h", nil},
	{"release_lock_on_hipmalloc", "2.1", "c10/cuda/CUDAAllocatorConfig.h", nil},
	{"pinned_use_cuda_host_register", "2.1", "c10/cuda/CUDAAllocatorConfig.h", nil},
	{"pinned_use_hip_host_register", "2.1", "c10/cuda/CUDAAllocatorConfig.h", nil},
	{"pinned_num_register_threads", "2.1", "c10/cuda/CUDAAllocatorConfig.h", nil},
	{"pinned_use_background_threads", "2.6", "c10/cuda/CUDAAllocatorConfig.h", nil},
	{"pinned_reserve_segment_size_mb", "2.10", "pytorch/pytorch#164501", nil},
	{"pinned_free_catch_all", "2.11", "c10/cuda/CUDAAllocatorConfig.h", nil},
	{"graph_capture_record_stream_reuse", "2.10", "c10/cuda/CUDAAllocatorConfig.h", nil},
	{"throw_on_cudamalloc_oom", "2.11", "c10/cuda/CUDAAllocatorConfig.h", nil},
	{"pinned_max_round_threshold_mb", "2.15", "c10/core/AllocatorConfig.h", nil},
	{"pinned_max_cached_size_mb", "2.15", "c10/core/AllocatorConfig.h", nil},
	{"expandable_segments_reserve", "2.15", "c10/cuda/CUDAAllocatorConfig.h", nil},
	{"expandable_segments_reserve_by_class", "2.15", "c10/cuda/CUDAAllocatorConfig.h", nil},
}

// Parse returns the settings of a PYTORCH_CUDA_ALLOC_CONF. It fails where PyTorch does,
// for keys that it does not know, and for allocators other than the native one.
func Parse(conf string) (Settings, error) {
	s := Default()
	nonSplit := false
	for _, part := range splitOutside(strings.ReplaceAll(conf, " ", "")) {
		name, value, _ := strings.Cut(part, ":")
		i := slices.IndexFunc(options, func(o option) bool { return o.name == name })
		if i < 0 {
			return s, fmt.Errorf("%q is not a setting of PyTorch's allocator", name)
		}
		nonSplit = nonSplit || name == "max_non_split_rounding_mb"
		if read := options[i].read; read != nil {
			if err := read(&s, value); err != nil {
				return s, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if !nonSplit {
		s.NonSplit = s.Segment
	}
	if s.MaxSplit < s.Segment {
		return s, fmt.Errorf("max_split_size_mb: use more than %d", s.Segment/mib)
	}
	return s, nil
}

func splitOutside(conf string) (parts []string) {
	depth, from := 0, 0
	for i, c := range conf + "," {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth <= 0:
			if i > from {
				parts = append(parts, conf[from:i])
			}
			from = i + 1
		}
	}
	return parts
}

// megabytes reads a size in MiB.
func megabytes(value string, least int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least {
		return 0, fmt.Errorf("%q: use a number of MiB, at least %d", value, least)
	}
	return min(n, unlimited/mib) * mib, nil
}

// readMaxSplit refuses 20, as PyTorch before 2.9 does.
func readMaxSplit(s *Settings, value string) (err error) {
	s.MaxSplit, err = megabytes(value, 2)
	if err == nil && s.MaxSplit == largeBuffer {
		return fmt.Errorf("use more than %d", largeBuffer/mib)
	}
	return err
}

func readNonSplit(s *Settings, value string) (err error) {
	s.NonSplit, err = megabytes(value, largeBuffer/mib+1)
	return err
}

func readSegment(s *Settings, value string) (err error) {
	s.Segment, err = megabytes(value, 2)
	return err
}

func readCollect(s *Settings, value string) (err error) {
	if s.Collect, err = fraction(value); s.Collect == 1 {
		return fmt.Errorf("%q: use a fraction below 1", value)
	}
	return err
}

func readFraction(s *Settings, value string) (err error) {
	s.Fraction, err = fraction(value)
	return err
}

func fraction(value string) (float64, error) {
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || !(f > 0 && f <= 1) {
		return 0, fmt.Errorf("%q: use a fraction such as 0.8", value)
	}
	return f, nil
}

func readExpandable(s *Settings, value string) error {
	if value != "True" && value != "False" {
		return fmt.Errorf("%q: use True or False", value)
	}
	s.Expandable = value == "True"
	return nil
}

func readBackend(_ *Settings, value string) error {
	if value != "native" {
		return fmt.Errorf("%q: only the native allocator can be replayed", value)
	}
	return nil
}

// readRoundup reads one number for all sizes, or a list such as [256:1,512:2,>:4]. As in PyTorch, the first key of a
// list also counts for smaller sizes, keys between two others stay 0, and > overwrites the key before it.
func readRoundup(s *Settings, value string) error {
	list, ok := strings.CutPrefix(value, "[")
	if !ok {
		n, err := divisions(value)
		for i := range s.Roundup {
			s.Roundup[i] = n
		}
		return err
	}
	last, first := 0, true
	for _, pair := range strings.Split(strings.TrimSuffix(list, "]"), ",") {
		size, value, _ := strings.Cut(pair, ":")
		n, err := divisions(value)
		if err != nil {
			return err
		}
		from, to := last, intervals // of >
		if size != ">" {
			megabytes, err := strconv.ParseUint(size, 10, 63)
			if err != nil || bits.OnesCount64(megabytes) != 1 {
				return fmt.Errorf("%q: use a power of two, a number of MiB", size)
			}
			last = min(bits.TrailingZeros64(megabytes), intervals-1)
			from, to = last, last+1
			if first {
				from, first = 0, false
			}
		}
		for i := from; i < to; i++ {
			s.Roundup[i] = n
		}
	}
	return nil
}

func divisions(value string) (int64, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || bits.OnesCount64(n) != 1 {
		return 0, fmt.Errorf("%q: use a power of two", value)
	}
	return int64(n), nil
}

// String returns the settings as PYTORCH_CUDA_ALLOC_CONF; "" for the default.
func (s Settings) String() string {
	var parts []string
	add := func(name, value string, given bool) {
		if given {
			parts = append(parts, name+":"+value)
		}
	}
	mb := func(n int64) string { return strconv.FormatInt(n/mib, 10) }
	add("expandable_segments", "True", s.Expandable)
	add("max_split_size_mb", mb(s.MaxSplit), s.MaxSplit != unlimited)
	add("large_segment_size_mb", mb(s.Segment), s.Segment != largeBuffer)
	add("max_non_split_rounding_mb", mb(s.NonSplit), s.NonSplit != s.Segment)
	add("garbage_collection_threshold", strconv.FormatFloat(s.Collect, 'g', -1, 64), s.Collect > 0)
	add("per_process_memory_fraction", strconv.FormatFloat(s.Fraction, 'g', -1, 64), s.Fraction > 0)
	add("roundup_power2_divisions", s.roundupText(), s.Roundup != [intervals]int64{})
	return strings.Join(parts, ",")
}

// roundupText returns Roundup as Parse reads it. PyTorch refuses 0; 1 has the same effect.
func (s *Settings) roundupText() string {
	same := true
	var list []string
	for i, n := range s.Roundup {
		same = same && n == s.Roundup[0]
		list = append(list, fmt.Sprintf("%d:%d", 1<<i, max(n, 1)))
	}
	if same {
		return strconv.FormatInt(s.Roundup[0], 10)
	}
	return "[" + strings.Join(list, ",") + "]"
}

// size returns the bytes of the block for a request (round_size).
func (s *Settings) size(requested int64) int64 {
	if requested < minBlock {
		return minBlock
	}
	requested = min(requested, maxSize)
	log := bits.Len64(uint64(requested)) - 1
	n := s.Roundup[min(max(log-20, 0), intervals-1)]
	if n <= 1 || requested <= minBlock*n {
		return roundUp(requested, minBlock)
	}
	return roundUp(requested, int64(1)<<log/n)
}

// maxSize bounds requests, so that sums do not overflow.
const maxSize = 1 << 56

func roundUp(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }

// segment returns the bytes of a new segment for a block of size bytes (get_allocation_size).
func (s *Settings) segment(size int64) int64 {
	switch {
	case size <= smallSize:
		return smallBuffer
	case size < minLarge:
		return s.Segment
	}
	return roundUp(size, roundLarge)
}

func (s *Settings) page(small bool) int64 {
	if small {
		return smallBuffer
	}
	return s.Segment
}

// settings returns the settings of a recording. PYTORCH_CUDA_ALLOC_CONF may have been
// changed by the program, so the settings that the allocator reports come first. PyTorch
// before 2.2 reports none: then the segments tell whether they are expandable.
func (h *History) settings(recorded []lifetime.Setting) Settings {
	s := Default()
	for _, r := range recorded {
		if r.Key == "PYTORCH_CUDA_ALLOC_CONF" {
			if given, err := Parse(r.Value); err == nil {
				s = given
			}
		}
	}
	reported := false
	for _, r := range recorded {
		switch r.Key {
		case "expandable_segments":
			s.Expandable, reported = r.Value == "true", true
		case "max_split_size":
			if n, err := strconv.ParseInt(r.Value, 10, 64); err == nil && n > 0 {
				s.MaxSplit = n
			}
		case "garbage_collection_threshold":
			if f, err := strconv.ParseFloat(r.Value, 64); err == nil && f >= 0 && f <= 1 {
				s.Collect = f
			}
		case "roundup_power2_divisions":
			s.readTable(r.Value)
		}
	}
	if !reported {
		s.Expandable = slices.ContainsFunc(h.segments, func(s segment) bool { return s.expandable })
	}
	return s
}

// readTable reads the resolved table of divisions: "1:0,2:0,4:8". Sizes are MiB.
func (s *Settings) readTable(table string) {
	for _, pair := range strings.Split(table, ",") {
		size, value, _ := strings.Cut(pair, ":")
		i, errSize := strconv.ParseUint(size, 10, 63)
		n, err := strconv.ParseUint(value, 10, 31)
		if errSize == nil && err == nil && n&(n-1) == 0 && bits.OnesCount64(i) == 1 && bits.TrailingZeros64(i) < intervals {
			s.Roundup[bits.TrailingZeros64(i)] = int64(n)
		}
	}
}
