package category

import (
	"maps"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// maxShards bounds the number of times that a gathered weight is larger than its shard.
const maxShards = 1 << 12

// gatheredOf finds weights that passes put together from shards and give back: a line makes, in one forward pass, for nearly all
// parameters a buffer that is the same number of times larger. The line may do so again in the backward pass.
func (a *analysis) gatheredOf(z *sizes, params []int64) {
	if !a.trains {
		return
	}
	shards, known := map[int64]int{}, z.parametersOf
	if len(known) == 0 {
		known = countsOfSizes(params)
	}
	for size, n := range known {
		if size >= smallWeight { // vectors are not worth it
			shards[size] = n
		}
	}
	lines := map[lifetime.Frame]map[int64]bool{}
	a.eachPass(multiplesOf(shards), func(made map[lifetime.Frame]map[int64]int) {
		for line, counts := range made {
			if sizes := gatheredSizes(counts, shards); lines[line] == nil && sizes != nil {
				lines[line] = sizes
			}
		}
	})
	if len(lines) == 0 {
		return
	}
	found, again := map[lifetime.Frame][]int{}, map[lifetime.Frame]bool{}
	for i := range a.s.Buffers {
		if v := a.look(i); !v.unseen && !v.long && (v.phase == lifetime.Forward || v.inHook()) {
			if line, _ := a.t.FrameOf(v.b.Site); lines[line][v.b.Requested] {
				found[line] = append(found[line], i)
				again[line] = again[line] || v.inHook()
			}
		}
	}
	for line, buffers := range found {
		if len(lines[line]) > 1 || again[line] { // results may have one size by chance, but are not made again
			z.mark(gathered, buffers)
		}
	}
}

func countsOfSizes(all []int64) map[int64]int {
	counts := map[int64]int{}
	for _, size := range all {
		counts[size]++
	}
	return counts
}

// multiplesOf returns a test of forward buffers: whether their size is that of several equal shards. Each size is looked at once.
func multiplesOf(shards map[int64]int) func(p *verdict, size int64) bool {
	known := map[int64]bool{}
	return func(p *verdict, size int64) bool {
		if p.Category != lifetime.TemporaryData && p.Category != lifetime.Activation {
			return false
		}
		is, ok := known[size]
		if !ok {
			for shard := range shards {
				is = is || size%shard == 0 && size > shard && size/shard <= maxShards
			}
			known[size] = is
		}
		return is
	}
}

// gatheredSizes returns the sizes of a line that makes a buffer for each of the shards, as many times larger; nil if it does not.
func gatheredSizes(counts, shards map[int64]int) map[int64]bool {
	tried := map[int64]bool{}
	for _, size := range slices.Sorted(maps.Keys(counts)) {
		for _, shard := range slices.Sorted(maps.Keys(shards)) {
			times := size / shard
			if size%shard != 0 || times < 2 || times > maxShards || tried[times] {
				continue
			}
			tried[times] = true
			if _, ok := sameSizesTimes(counts, shards, [][2]int64{{times, 1}}); !ok {
				continue
			}
			sizes := map[int64]bool{}
			for shard := range shards {
				if counts[shard*times] > 0 {
					sizes[shard*times] = true
				}
			}
			return sizes
		}
	}
	return nil
}
