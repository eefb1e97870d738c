package leak_test

import (
	"fmt"
	"testing"
)

// variants are simulated programs that differ in one parameter. Some leak at the site "leak", and no other site leaks.
type variants struct {
	name       string
	leaks      bool
	parameters []int
	pattern    func(p *program, parameter int) func(step int)
}

// judge runs each variant with several seeds, prints a table, and fails for each wrong answer.
func judge(t *testing.T, all []variants) {
	t.Helper()
	const seeds = 10
	for _, v := range all {
		line := fmt.Sprintf("%-62s leaks %-5v", v.name, v.leaks)
		for _, parameter := range v.parameters {
			right := 0
			for seed := range uint64(seeds) {
				p := newProgram(seed)
				c, findings := p.run(t, v.pattern(p, parameter))
				ok := len(findings) == 1 == v.leaks && len(findings) <= 1
				for _, f := range findings {
					if frame, _ := c.FrameOf(f.Sites[0]); frame.Function != "leak" {
						t.Logf("%s, %d, seed %d: %s", v.name, parameter, seed, f.Description)
						ok = false
					}
				}
				if ok {
					right++
				}
			}
			line += fmt.Sprintf("  %d: %d/%d", parameter, right, seeds)
			if right < seeds {
				t.Errorf("%s, %d: %d of %d right", v.name, parameter, right, seeds)
			}
		}
		t.Log(line)
	}
}

// TestStepsAreTime: a leak that retains all that would have been freed stops the clock of work. Steps go on. The parameter is
// the share of the steps, in percent, after which only the leak allocates.
func TestStepsAreTime(t *testing.T) {
	judge(t, []variants{
		{"nothing else is allocated from then on", true, []int{30, 40, 60, 75}, func(p *program, from int) func(int) {
			p.steps += 40
			p.idle = func(step int) bool { return step >= p.steps*from/100 }
			return p.marked(func(step int) {
				if p.idle(step) {
					p.alloc("leak", 1<<18)
				}
			})
		}},
		{"little else is freed from then on", true, []int{30, 40, 60, 75}, func(p *program, from int) func(int) {
			p.steps += 40
			p.idle = func(step int) bool { return step >= p.steps*from/100 }
			return p.marked(func(step int) {
				if p.idle(step) {
					p.free(p.alloc("forward", 1<<16))
					p.alloc("leak", 1<<18)
				}
			})
		}},
		{"a cache fills while nothing else is allocated, then work goes on", false, []int{10, 20, 30, 40}, func(p *program, until int) func(int) {
			p.steps += 40
			p.idle = func(step int) bool { return step < p.steps*until/100 }
			return p.marked(func(step int) {
				if p.idle(step) {
					p.alloc("leak", 1<<18)
				}
			})
		}},
	})
}

// TestSizesThatVary: a leak whose sizes vary is no set-up, also if many of the sizes repeat or are freed. The parameter is the
// number of sizes.
func TestSizesThatVary(t *testing.T) {
	kept := func(every int) func(p *program, sizes int) func(int) {
		return func(p *program, sizes int) func(int) {
			p.steps *= 2
			return func(step int) {
				if x := p.alloc("leak", 512*(1+p.Int64N(int64(sizes)))); step%every > 0 {
					p.free(x)
				}
			}
		}
	}
	sizes := []int{1, 3, 10, 40, 200, 100_000}
	judge(t, []variants{
		{"all are kept", true, sizes, kept(1)},
		{"every second is kept", true, sizes, kept(2)},
		{"every fourth is kept", true, sizes, kept(4)},
		{"a workspace, then each is freed", false, sizes, func(p *program, sizes int) func(int) {
			return func(step int) {
				x := p.alloc("matmul", 512*(1+p.Int64N(int64(sizes))))
				if step == 0 {
					p.alloc("matmul", 8519680)
				}
				p.free(x)
			}
		}},
		{"a pool of one buffer per size, of at most 20 sizes", false, []int{1, 5, 10, 20}, func(p *program, sizes int) func(int) {
			p.steps += 60
			pool := map[int]bool{}
			return func(int) {
				if k := p.IntN(sizes); !pool[k] {
					pool[k] = true
					p.alloc("pool", 512*int64(k+1))
				}
			}
		}},
	})
}
