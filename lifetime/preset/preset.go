package preset

import (
	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime"
)

// Preset is one version of the rules of the original.
type Preset struct {
	Name       string
	Doc        string // the original, in one line
	Thresholds Thresholds

	// Bytes of the reserved memory that count as fragments.
	callFragments   func(c *lifetime.Call) int64
	sampleFragments func(s *lifetime.Sample) (bytes int64, known bool)

	fragmentationAdvice []string
	gapAdvice           map[string][]string // by classification
	gapFragmentation    string              // description; %s is a share
	regularOnly         bool                // only regular samples count for gaps
	dated               bool                // findings about gaps have a time
}

// Presets lists all presets.
var Presets = []Preset{gpumemprof, stormlog}

var gpumemprof = Preset{
	Name:            "gpumemprof",
	Doc:             "the rules of gpu-memory-profiler 0.2.3.post1",
	Thresholds:      thresholds(0.1),
	callFragments:   func(c *lifetime.Call) int64 { return units.AddSat(c.Reserved, -c.After) },
	sampleFragments: func(s *lifetime.Sample) (int64, bool) { return s.Reserved - s.Allocated, s.Allocated >= 0 },
	fragmentationAdvice: []string{
		"Call torch.cuda.empty_cache() periodically",
		"Restructure code to reduce allocation/deallocation cycles",
		"Consider pre-allocating tensors when possible",
		"Use tensor.detach() to break computation graphs early",
	},
	gapAdvice: map[string][]string{
		transientSpike:  spikeAdvice,
		persistentDrift: driftAdvice,
		fragmentationLike: {
			"Call torch.cuda.empty_cache() periodically to release unused reserved blocks.",
			"Reduce allocation churn by pre-allocating tensors or using memory pools.",
			"Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to reduce fragmentation.",
		},
	},
	gapFragmentation: "Allocator fragmentation averaging %s suggests reserved-but-unused memory is inflating the device footprint.",
}

var stormlog = Preset{
	Name:                "stormlog",
	Doc:                 "the rules of its successor stormlog 0.4.3: leaks at a ratio of 0.7, fragmentation by inactive blocks",
	Thresholds:          thresholds(0.7),
	callFragments:       func(c *lifetime.Call) int64 { return c.Inactive },
	sampleFragments:     func(s *lifetime.Sample) (int64, bool) { return s.Inactive, s.Inactive >= 0 },
	fragmentationAdvice: splitAdvice,
	gapAdvice: map[string][]string{
		transientSpike:    spikeAdvice,
		persistentDrift:   driftAdvice,
		fragmentationLike: splitAdvice,
	},
	gapFragmentation: "Inactive split blocks average %s of reserved memory: freed space inside segments still in use, " +
		"which can neither return to the device nor serve a larger request.",
	regularOnly: true,
	dated:       true,
}

var splitAdvice = []string{
	"Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True so segments grow in place instead of being split.",
	"Allocate long-lived tensors (weights, optimizer state, buffers) before the loop, so short-lived ones do not split their segments.",
	"Keep shapes steady: pad or bucket variable sequence lengths and image sizes into a few sizes.",
}

var spikeAdvice = []string{
	"Investigate non-allocator memory consumers active during spikes (cuDNN workspace, NCCL buffers, other frameworks).",
	"Use torch.cuda.memory_snapshot() around spike windows for detailed attribution.",
	"Consider pinning cuDNN workspace size with torch.backends.cudnn.benchmark = False.",
}

var driftAdvice = []string{
	"Look for non-PyTorch CUDA allocations accumulating over time (e.g. custom CUDA kernels, third-party libraries).",
	"Monitor nvidia-smi used memory alongside torch allocator counters.",
	"If gap stabilises after warmup, it may be one-time CUDA context overhead.",
}
