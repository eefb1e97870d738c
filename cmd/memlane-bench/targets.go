package main

import (
	"fmt"
	"strconv"
	"time"
)

// target is a requirement on the cost of a row.
type target struct {
	text  string
	holds func(own, it cost) bool // own is the cost of memlane, it that of the target's row
}

// lessCPU requires that a peer takes at least x times the CPU of memlane.
func lessCPU(x float64) target {
	return target{fmt.Sprintf("CPU ≥ %gx", x), func(own, it cost) bool { return ratio(it.cpu, own.cpu) >= x }}
}

// lessMemory requires that a peer takes at least x times the memory of memlane.
func lessMemory(x float64) target {
	return target{fmt.Sprintf("RSS ≥ %gx", x), func(own, it cost) bool { return ratio(it.rss, own.rss) >= x }}
}

// nearLimit requires that memlane takes at most x times the CPU of a limit.
func nearLimit(x float64) target {
	return target{fmt.Sprintf("memlane ≤ %gx its CPU", x), func(own, it cost) bool { return ratio(own.cpu, it.cpu) <= x }}
}

func memoryAtMost(text string, bytes int64) target {
	return target{"RSS ≤ " + text, func(_, it cost) bool { return it.rss <= bytes }}
}

func outputAtMost(bytes int64) target {
	return target{fmt.Sprintf("file ≤ %s MB", megabytes(bytes)), func(_, it cost) bool { return it.out <= bytes }}
}

func cpuAtMost(most time.Duration) target {
	return target{fmt.Sprintf("CPU ≤ %v", most), func(_, it cost) bool { return it.cpu <= most }}
}

func wallAtMost(most time.Duration) target {
	return target{fmt.Sprintf("wall ≤ %v", most), func(_, it cost) bool { return it.wall <= most }}
}

func ratio[T int64 | time.Duration](a, b T) float64 { return float64(a) / float64(max(b, 1)) }

func times(r float64) string         { return rounded(r, 1, [3]int{2, 1, 0}) + "x" }
func megabytes(bytes int64) string   { return rounded(float64(bytes)/1e6, 0.1, [3]int{3, 1, 0}) }
func seconds(d time.Duration) string { return rounded(d.Seconds(), 1, [3]int{3, 2, 1}) }

// rounded writes v with the decimals for values below small, below 10, and above.
func rounded(v, small float64, decimals [3]int) string {
	n := decimals[2]
	switch {
	case v < small:
		n = decimals[0]
	case v < 10:
		n = decimals[1]
	}
	return strconv.FormatFloat(v, 'f', n, 64)
}
