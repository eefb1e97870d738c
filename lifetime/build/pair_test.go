package build

import (
	"math"
	"strings"
	"testing"
)

// TestEdgeRules has every kind of gap. The window begins one unit before the first event
// and ends one after the last.
func TestEdgeRules(t *testing.T) {
	const A, B = 0x1000, 0x2000
	long := strings.Repeat("a", maxNote/2)
	for _, c := range []struct {
		name   string
		facts  []fact
		want   string // buffers, as text writes them
		losses string // as lossText writes them
	}{
		{"pair", []fact{alloc(10, A, 100, "a"), free(20, A, 100, "a")},
			"10-20 0x1000 512/100 size-inferred site=a", ""},
		{"occupied size recorded", []fact{allocOccupied(10, A, 100, 640), free(20, A, 100, "")},
			"10-20 0x1000 640/100 -", ""},
		{"requested nothing", []fact{alloc(10, A, 0, ""), free(20, A, 0, "")},
			"10-20 0x1000 512/0 size-inferred", ""},
		{"negative size", []fact{alloc(10, A, -7, ""), free(20, A, -7, "")},
			"10-20 0x1000 512/0 size-inferred", "odd-size 2 0"},
		{"already a multiple of 512", []fact{alloc(10, A, 1024, ""), free(20, A, 1024, "")},
			"10-20 0x1000 1024/1024 size-inferred", ""},
		{"the free's size does not count when the allocation was seen", []fact{alloc(10, A, 100, ""), free(20, A, 4000, "")},
			"10-20 0x1000 512/100 size-inferred", ""},
		{"address 0", []fact{alloc(10, 0, 100, ""), free(20, 0, 100, "")},
			"10-20 0x0 512/100 size-inferred", ""},

		{"free without allocation", []fact{alloc(10, B, 1, ""), free(20, A, 100, "f")},
			`9-20 0x1000 512/100 begin-unseen+size-inferred free=f
			 10-21 0x2000 512/1 end-open+size-inferred`, "before-window 1 512"},
		{"requested, then freed", []fact{alloc(10, A, 100, "a"), freeRequested(15, A, 100, "f"), free(20, A, 100, "g")},
			"10-20 0x1000 512/100 size-inferred site=a free=f", ""},
		{"requested twice: the first counts", []fact{alloc(10, A, 100, "a"), freeRequested(12, A, 100, "f"), freeRequested(15, A, 100, "g"), alloc(20, A, 1, "b")},
			`10-12 0x1000 512/100 end-inferred+size-inferred site=a free=f
			 20-21 0x1000 512/1 end-open+size-inferred site=b`, "lost-free 1 512"},
		{"requested and freed without allocation", []fact{freeRequested(15, A, 100, "f"), free(20, A, 100, "g")},
			"14-20 0x1000 512/100 begin-unseen+size-inferred free=f", "before-window 1 512"},
		{"alive at the end", []fact{alloc(10, A, 100, "a")},
			"10-11 0x1000 512/100 end-open+size-inferred site=a", ""},
		{"pending at the end, no end state", []fact{alloc(10, A, 100, "a"), freeRequested(15, A, 100, "")},
			"10-16 0x1000 512/100 end-open+size-inferred+pending site=a", ""},
		{"pending and older than the window", []fact{freeRequested(15, A, 100, "f")},
			"14-16 0x1000 512/100 begin-unseen+end-open+size-inferred+pending free=f", "before-window 1 512"},

		{"lost free at an address used again", []fact{alloc(10, A, 100, "a"), alloc(20, A, 600, "b"), free(30, A, 600, "b")},
			`10-20 0x1000 512/100 end-inferred+size-inferred site=a
			 20-30 0x1000 1024/600 size-inferred site=b`, "lost-free 1 512"},
		{"lost free that was requested", []fact{alloc(10, A, 100, "a"), freeRequested(15, A, 100, "f"), alloc(20, A, 600, "b"), free(30, A, 600, "b")},
			`10-15 0x1000 512/100 end-inferred+size-inferred site=a free=f
			 20-30 0x1000 1024/600 size-inferred site=b`, "lost-free 1 512"},
		{"unseen, then lost", []fact{freeRequested(10, A, 100, "f"), alloc(20, A, 1, "b")},
			`9-10 0x1000 512/100 begin-unseen+end-inferred+size-inferred free=f
			 20-21 0x1000 512/1 end-open+size-inferred site=b`, "lost-free 1 512\nbefore-window 1 512"},
		{"unseen begins after the last buffer there", []fact{alloc(10, A, 100, "a"), free(20, A, 100, ""), free(30, A, 700, "f")},
			`10-20 0x1000 512/100 size-inferred site=a
			 20-30 0x1000 1024/700 begin-unseen+size-inferred free=f`, "before-window 1 1024"},
		{"unseen begins after the last buffer over it", []fact{
			alloc(10, A+512, 100, "a"), free(20, A+512, 100, ""), alloc(22, A, 64, "b"), free(25, A, 64, ""), free(30, A, 2000, "")},
			`10-20 0x1200 512/100 size-inferred site=a
			 22-25 0x1000 512/64 size-inferred site=b
			 25-30 0x1000 2048/2000 begin-unseen+size-inferred`, "before-window 1 2048"},
		{"two unseen, one after the other", []fact{free(10, A, 100, ""), free(20, A, 100, "")},
			`9-10 0x1000 512/100 begin-unseen+size-inferred
			 10-20 0x1000 512/100 begin-unseen+size-inferred`, "before-window 2 1024"},

		{"end state confirms", []fact{endState, alloc(10, A, 100, "a"), live(A, 100, 640, "x")},
			"10-11 0x1000 640/100 end-open site=a", ""},
		{"end state names the site", []fact{endState, alloc(10, A, 100, ""), live(A, 100, 640, "x")},
			"10-11 0x1000 640/100 end-open site=x", ""},
		{"end state confirms that it is pending", []fact{endState, alloc(10, A, 100, "a"), freeRequested(11, A, 100, ""), livePending(A, 100, 512)},
			"10-12 0x1000 512/100 end-open+pending site=a", ""},
		{"end state does not know of the request", []fact{endState, alloc(10, A, 100, "a"), freeRequested(11, A, 100, ""), live(A, 100, 512, "")},
			"10-12 0x1000 512/100 end-open site=a", ""},
		{"end state without occupied size", []fact{endState, alloc(10, A, 100, "a"), live(A, 100, 0, "")},
			"10-11 0x1000 512/100 end-open+size-inferred site=a", ""},
		{"end state has more", []fact{endState, alloc(10, B, 1, "b"), free(20, B, 1, ""), live(A, 100, 512, "x")},
			`9-21 0x1000 512/100 begin-unseen+end-open site=x
			 10-20 0x2000 512/1 size-inferred site=b`, "before-window 1 512"},
		{"end state has more, where one ended", []fact{endState, alloc(10, A, 1, "b"), free(20, A, 1, ""), alloc(30, B, 1, "c"), free(40, B, 1, ""), live(A, 100, 512, "x")},
			`10-20 0x1000 512/1 size-inferred site=b
			 20-41 0x1000 512/100 begin-unseen+end-open site=x
			 30-40 0x2000 512/1 size-inferred site=c`, "before-window 1 512"},
		{"end state has less: settled before the end", []fact{endState, alloc(10, A, 100, "a"), alloc(20, B, 1, "b"), free(30, B, 1, "")},
			`10-30 0x1000 512/100 end-inferred+size-inferred site=a
			 20-30 0x2000 512/1 size-inferred site=b`, "lost-free 1 512"},
		{"end state has less: the last allocation is gone", []fact{endState, alloc(10, A, 100, "a")},
			"10-11 0x1000 512/100 end-inferred+size-inferred site=a", "lost-free 1 512"},
		{"end state has less: settled where its memory was used again", []fact{endState,
			alloc(10, A, 4096, "a"), alloc(20, A+1024, 1, "b"), free(30, A+1024, 1, ""), alloc(40, A+2048, 1, "c"), free(50, A+2048, 1, "")},
			`10-20 0x1000 4096/4096 end-inferred+size-inferred site=a
			 20-30 0x1400 512/1 size-inferred site=b
			 40-50 0x1800 512/1 size-inferred site=c`, "lost-free 1 4096"},
		{"end state has less: settled where a neighbour's occupied size reaches in: it proves nothing", []fact{endState,
			alloc(10, A+100, 100, "a"), alloc(20, A, 100, "b"), free(30, A, 1, "")},
			`10-30 0x1064 512/100 end-inferred+size-inferred site=a
			 20-30 0x1000 512/100 size-inferred site=b`, "lost-free 1 512"},
		{"end state has less: its free was requested", []fact{endState, alloc(10, A, 100, "a"), freeRequested(15, A, 100, "f"), alloc(30, B, 1, "b"), free(40, B, 1, "")},
			`10-15 0x1000 512/100 end-inferred+size-inferred site=a free=f
			 30-40 0x2000 512/1 size-inferred site=b`, "lost-free 1 512"},
		{"end state has another size", []fact{endState, alloc(10, A, 100, "a"), alloc(20, B, 1, "b"), free(30, B, 1, ""), live(A, 200, 512, "x")},
			`10-30 0x1000 512/100 end-inferred+size-inferred site=a
			 20-30 0x2000 512/1 size-inferred site=b
			 30-31 0x1000 512/200 begin-unseen+end-open site=x`, "lost-free 1 512\nstate-mismatch 1 512\nbefore-window 1 512"},
		{"end state has another size, and the free was requested", []fact{endState,
			alloc(10, A, 100, "a"), freeRequested(15, A, 100, "f"), alloc(20, B, 1, "b"), free(30, B, 1, ""), live(A, 200, 512, "x")},
			`10-15 0x1000 512/100 end-inferred+size-inferred site=a free=f
			 15-31 0x1000 512/200 begin-unseen+end-open site=x
			 20-30 0x2000 512/1 size-inferred site=b`, "lost-free 1 512\nstate-mismatch 1 512\nbefore-window 1 512"},
		{"a block is listed twice in the end state", []fact{endState, alloc(10, A, 100, "a"), live(A, 100, 512, ""), live(A, 100, 512, "")},
			"10-11 0x1000 512/100 end-open site=a", "state-mismatch 1 512"},
		{"a block is listed twice in the end state and not in the history", []fact{endState, alloc(10, B, 1, "b"), free(11, B, 1, ""), live(A, 100, 512, ""), live(A, 300, 512, "")},
			`9-12 0x1000 512/100 begin-unseen+end-open
			 10-11 0x2000 512/1 size-inferred site=b`, "state-mismatch 1 512\nbefore-window 1 512"},
		{"negative sizes in the end state", []fact{endState, live(A, -5, -512, "")},
			"0-1 0x1000 0/0 begin-unseen+end-open", "odd-size 2 0\nbefore-window 1 0"},
		{"an incomplete end state proves no end", []fact{alloc(10, A, 100, "a"), alloc(20, B, 1, "b"), live(A, 100, 512, "")},
			`10-21 0x1000 512/100 end-open site=a
			 20-21 0x2000 512/1 end-open+size-inferred site=b`, ""},

		{"history cut: additional blocks of the end state cannot be placed", []fact{endState, cut, alloc(10, A, 100, "a"), live(B, 100, 512, "x")},
			"10-11 0x1000 512/100 end-open+size-inferred site=a", "end-state-after-cut 1 512"},
		{"history cut: another size cannot be placed", []fact{endState, cut, alloc(10, A, 100, "a"), live(A, 200, 512, "x")},
			"10-11 0x1000 512/100 end-open+size-inferred site=a", "end-state-after-cut 1 512"},
		{"history cut: a confirmed block is kept", []fact{endState, cut, alloc(10, A, 100, "a"), live(A, 100, 640, "x")},
			"10-11 0x1000 640/100 end-open site=a", ""},
		{"ring full", []fact{ringFull, alloc(10, B, 1, ""), free(20, A, 100, "")},
			`9-20 0x1000 512/100 begin-unseen+size-inferred
			 10-21 0x2000 512/1 end-open+size-inferred`, "ring-overflow 1 512"},
		{"ring full, but nothing older", []fact{ringFull, alloc(10, A, 100, "")},
			"10-11 0x1000 512/100 end-open+size-inferred", ""},
		{"no history, only the end state", []fact{endState, noHistory, live(A, 100, 512, "x")},
			"0-1 0x1000 512/100 begin-unseen+end-open site=x", "not-a-history 1 0"},

		{"notes", []fact{alloc(10, A, 1, ""), note(10, A, "one"), alloc(20, B, 1, ""), note(25, A, "two"), note(26, 0x3000, "nobody"), free(30, A, 1, ""), note(31, A, "late")},
			`10-30 0x1000 512/1 size-inferred note="one; two"
			 20-32 0x2000 512/1 end-open+size-inferred`, ""},

		{"notes as long as both may be", []fact{alloc(10, A, 1, ""), note(11, A, long), note(12, A, "b"+long[1:])},
			`10-13 0x1000 512/1 end-open+size-inferred note="` + long + "; b" + long[1:] + `"`, ""},
		{"notes longer than that: the last", []fact{alloc(10, A, 1, ""), note(11, A, long), note(12, A, "b"+long)},
			`10-13 0x1000 512/1 end-open+size-inferred note="b` + long + `"`, ""},

		{"ties are pushed by one unit", []fact{alloc(10, A, 1, ""), free(10, A, 1, ""), alloc(10, A, 1, ""), free(12, A, 1, "")},
			`10-11 0x1000 512/1 size-inferred
			 12-13 0x1000 512/1 size-inferred`, ""},
		{"events are brought in order of time, ties in order of arrival", []fact{
			free(30, A, 1, ""), allocOccupied(20, B, 1, 2048), alloc(10, A, 1, "a"), free(20, B, 1, "")},
			`10-30 0x1000 512/1 size-inferred site=a
			 20-21 0x2000 2048/1 -`, ""},

		{"sizes that saturate", []fact{
			alloc(10, A, math.MaxInt64, "a"), alloc(11, math.MaxUint64-5, math.MaxInt64, "b"), free(12, A, 1, ""), free(13, math.MaxUint64-5, 1, "")},
			`10-12 0x1000 9223372036854775807/9223372036854775807 size-inferred site=a
			 11-13 0xfffffffffffffffa 9223372036854775807/9223372036854775807 size-inferred site=b`, "overflow 1 0"},
		{"lost at the very top of the addresses", []fact{endState, alloc(10, math.MaxUint64, 100, "a"), alloc(20, math.MaxUint64-1, 100, "b"), free(30, math.MaxUint64-1, 1, "")},
			`10-20 0xffffffffffffffff 512/100 end-inferred+size-inferred site=a
			 20-30 0xfffffffffffffffe 512/100 size-inferred site=b`, "lost-free 1 512"},
		{"unseen at the very top of the addresses", []fact{alloc(10, A, 1, ""), free(20, A, 1, ""), free(30, math.MaxUint64, 1, "")},
			`9-30 0xffffffffffffffff 512/1 begin-unseen+size-inferred
			 10-20 0x1000 512/1 size-inferred`, "before-window 1 512"},
		{"the largest size that is rounded", []fact{alloc(10, A, math.MaxInt64-512, ""), free(20, A, 1, "")},
			"10-20 0x1000 9223372036854775296/9223372036854775295 size-inferred", "overflow 1 0"},
		{"earliest times, moved to -2^62", []fact{alloc(math.MinInt64, A, 1, ""), free(math.MinInt64, A, 1, "")},
			"-4611686018427387904--4611686018427387903 0x1000 512/1 size-inferred", ""},
		{"latest times, moved to 2^62", []fact{alloc(math.MaxInt64, A, 1, ""), free(math.MaxInt64, A, 1, ""), alloc(math.MaxInt64, A, 2, "")},
			`4611686018427387904-4611686018427387905 0x1000 512/1 size-inferred
			 4611686018427387906-4611686018427387907 0x1000 512/2 end-open+size-inferred`, ""},
		{"nothing", nil, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			capture, s := made(t, c.facts...)
			if got, want := text(capture, s), lines(c.want); got != want {
				t.Errorf("buffers\n%swant\n%s", got, want)
			}
			if got, want := lossText(capture), lines(c.losses); got != want {
				t.Errorf("losses\n%swant\n%s", got, want)
			}
		})
	}
}

// TestSiteFromFree: the stack of a free is the site of the free, unless all frees repeat
// the stack of their allocation.
func TestSiteFromFree(t *testing.T) {
	const A, B, C = 0x1000, 0x2000, 0x3000
	for _, c := range []struct {
		name  string
		facts []fact
		want  string
	}{
		{"every paired free repeats its allocation", []fact{alloc(10, A, 1, "a"), free(20, A, 1, "a"), free(30, B, 1, "b")},
			`9-30 0x2000 512/1 begin-unseen+size-inferred+site-from-free site=b
			 10-20 0x1000 512/1 size-inferred site=a`},
		{"one does not", []fact{alloc(10, A, 1, "a"), free(20, A, 1, "a"), alloc(21, C, 1, "c"), free(22, C, 1, "d"), free(30, B, 1, "b")},
			`9-30 0x2000 512/1 begin-unseen+size-inferred free=b
			 10-20 0x1000 512/1 size-inferred site=a
			 21-22 0x3000 512/1 size-inferred site=c free=d`},
		{"one does not, later", []fact{free(5, B, 1, "b"), alloc(10, A, 1, "a"), free(20, A, 1, "x")},
			`4-5 0x2000 512/1 begin-unseen+size-inferred free=b
			 10-20 0x1000 512/1 size-inferred site=a free=x`},
		{"the allocation had no stack", []fact{alloc(10, A, 1, ""), free(20, A, 1, "f"), free(30, B, 1, "b")},
			`9-30 0x2000 512/1 begin-unseen+size-inferred free=b
			 10-20 0x1000 512/1 size-inferred free=f`},
		{"nothing to compare with proves nothing", []fact{free(30, B, 1, "b"), alloc(40, A, 1, "a")},
			`29-30 0x2000 512/1 begin-unseen+size-inferred free=b
			 40-41 0x1000 512/1 end-open+size-inferred site=a`},
		{"a free without a stack proves nothing", []fact{alloc(10, A, 1, "a"), free(20, A, 1, ""), free(30, B, 1, "b")},
			`9-30 0x2000 512/1 begin-unseen+size-inferred free=b
			 10-20 0x1000 512/1 size-inferred site=a`},
		{"the end state knows better", []fact{endState, alloc(10, A, 1, "a"), free(20, A, 1, "a"), freeRequested(30, B, 1, "b"), livePending(B, 1, 512)},
			`9-31 0x2000 512/1 begin-unseen+end-open+pending+site-from-free site=b
			 10-20 0x1000 512/1 size-inferred site=a`},
	} {
		t.Run(c.name, func(t *testing.T) {
			capture, s := made(t, c.facts...)
			if got, want := text(capture, s), lines(c.want); got != want {
				t.Errorf("buffers\n%swant\n%s", got, want)
			}
		})
	}
}

// TestLossNamesTheFirst: a loss has the place of its first case in order of time.
func TestLossNamesTheFirst(t *testing.T) {
	for range 20 {
		facts := []fact{endState}
		for i := range int64(30) {
			addr := uint64(0x10000 - 0x200*i)
			facts = append(facts, alloc(10+2*i, addr, 1, ""), freeRequested(11+2*i, addr, 1, ""))
		}
		c, _ := made(t, facts...)
		if got, want := c.Losses[0].First, "cuda:0: address 0x10000"; got != want {
			t.Fatalf("first loss at %q, want %q", got, want)
		}
	}
}
