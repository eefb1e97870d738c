package oomtext

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/failure"
)

// Servers take a share of the device and give to their cache what the model leaves of it. Advice is their own setting, with the value with
// which the request fits, as far as the log has the figures.
var (
	// shareOfDevice matches the setting of that share.
	shareOfDevice = lazily(`\b(gpu[_-]memory[_-]utilization|mem[_-]fraction[_-]static|(?:kv_cache_)?free_gpu_mem(?:ory)?_fraction)\W{1,5}([01]?\.[0-9]+)`)
	partsOfShare  = [][]byte{[]byte("utilization"), []byte("fraction")}
	// planned matches what servers print while they start: what is available and free, the layers and the tokens of the model, and what was allocated.
	planned = lazily(`avail mem=(?P<avail>[0-9.]+)|\bn_layer += (?P<layers>[0-9]+)|\bn_ctx += (?P<tokens>[0-9]+)|` +
		`\b(?P<device>[A-Z]+[a-z]*[0-9]+)(?: \(.{1,80} (?P<free>[0-9]+) MiB free| +(?:model|KV|compute) buffer size = +(?P<taken>[0-9.]+) MiB)`)
)

type share struct {
	name  string
	value float64
}

const (
	maxPlans = 16       // failures for which plans are searched
	maxPlan  = 64 << 10 // bytes before a text with its plan
	maxAfter = 1 << 10  // bytes after its first line that tell what failed
)

// startHelp returns what helps a server that prints its plan before a text and what failed after its first line; "" if the plan says no more
// than the text.
func startHelp(before, after []byte, f *printed) string {
	names, plan, free := planned().SubexpNames(), map[string]float64{}, map[string]float64{}
	for _, m := range planned().FindAllSubmatch(before, -1) {
		for i, name := range names {
			switch value, _ := strconv.ParseFloat(string(m[i]), 64); {
			case name == "" || len(m[i]) == 0 || name == "device":
			case name == "free":
				free[string(m[i-1])] = value
			case name == "taken":
				free[string(m[i-2])] -= value
			default:
				plan[name] = value
				plan["most "+name] = max(plan["most "+name], value)
			}
		}
	}
	share := free[strings.ToUpper(strings.Replace(f.device, ":", "", 1))] * (1 << 20) / float64(max(f.requested, 1))
	switch left, whole := plan["avail"], plan["most avail"]; {
	case f.Source == "sglang" && left < whole:
		return fmt.Sprintf("Raise --mem-fraction-static to at least %.2f, or use more devices (--tp).", math.Ceil(100-100*left/whole)/100)
	case f.Source != "llama.cpp" || share <= 0 || share >= 1:
	case bytes.Contains(after, []byte("kv cache")) && plan["tokens"] > 0:
		return fmt.Sprintf("Shorten the context: -c %d at most, or offload fewer layers (-ngl).", int64(plan["tokens"]*share)&^255)
	case bytes.Contains(after, []byte("unable to allocate")) && plan["layers"] > 0:
		return fmt.Sprintf("Offload fewer layers: -ngl %d at most.", int64((plan["layers"]+1)*share))
	}
	return ""
}

// lessCache returns what helps if the cache of the server took what the request needed; "" if no server printed so.
func (r *reader) lessCache(w *writer, f *printed, setting string) string {
	of, ok := r.shares[w.key]
	if !ok {
		of = r.share
	}
	isServer := setting != "" || of.name != "" && f.Source == failure.FromXLA
	name, missing := cmp.Or(of.name, setting), f.requested-f.free
	switch {
	case !isServer:
		return ""
	case of.value == 0 || f.free < 0 || missing <= 0:
		return fmt.Sprintf("Lower %s: the KV cache took the rest.", name)
	case f.Capacity > 0:
		if to := math.Floor(100*(of.value-float64(missing)/float64(f.Capacity))) / 100; to > 0 {
			return fmt.Sprintf("Lower %s from %g to %.2f: the KV cache took the rest.", name, of.value, to)
		}
	}
	return fmt.Sprintf("Lower %s below %g: %s more must stay free.", name, of.value, units.Bytes(missing))
}
