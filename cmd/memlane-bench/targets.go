package main

import (
	"fmt"
	"time"
)

// target is what memlane is to reach beside a command, or by itself.
type target struct {
	text string
	// check tells what was reached, and whether that is enough. own is what
	// memlane takes, it what the command takes that the target stands beside.
	check func(own, it cost) (string, bool)
}

// lessCPU asks that a peer takes at least x times memlane's CPU.
func lessCPU(x float64) target {
	return target{fmt.Sprintf("CPU ≥ %gx", x), func(own, it cost) (string, bool) {
		r := ratio(it.cpu, own.cpu)
		return times(r), r >= x
	}}
}

// lessMemory asks that a peer takes at least x times memlane's memory.
func lessMemory(x float64) target {
	return target{fmt.Sprintf("RSS ≥ %gx", x), func(own, it cost) (string, bool) {
		r := ratio(it.rss, own.rss)
		return times(r), r >= x
	}}
}

// nearLimit asks that memlane takes at most x times the CPU of a limit.
func nearLimit(x float64) target {
	return target{fmt.Sprintf("memlane ≤ %gx its CPU", x), func(own, it cost) (string, bool) {
		r := ratio(own.cpu, it.cpu)
		return times(r), r <= x
	}}
}

func memoryAtMost(text string, bytes int64) target {
	return target{"RSS ≤ " + text, func(_, it cost) (string, bool) { return megabytes(it.rss) + " MB", it.rss <= bytes }}
}

func outputAtMost(bytes int64) target {
	return target{fmt.Sprintf("file ≤ %s MB", megabytes(bytes)), func(_, it cost) (string, bool) { return megabytes(it.out) + " MB", it.out <= bytes }}
}

func cpuAtMost(most time.Duration) target {
	return target{fmt.Sprintf("CPU ≤ %v", most), func(_, it cost) (string, bool) { return seconds(it.cpu) + " s", it.cpu <= most }}
}

func wallAtMost(most time.Duration) target {
	return target{fmt.Sprintf("wall ≤ %v", most), func(_, it cost) (string, bool) { return seconds(it.wall) + " s", it.wall <= most }}
}

func ratio[T int64 | time.Duration](a, b T) float64 { return float64(a) / float64(max(b, 1)) }

func times(r float64) string {
	switch {
	case r >= 10:
		return fmt.Sprintf("%.0fx", r)
	case r >= 1:
		return fmt.Sprintf("%.1fx", r)
	}
	return fmt.Sprintf("%.2fx", r)
}

func megabytes(bytes int64) string {
	switch mb := float64(bytes) / 1e6; {
	case mb < 0.1:
		return fmt.Sprintf("%.3f", mb)
	case mb < 10:
		return fmt.Sprintf("%.1f", mb)
	default:
		return fmt.Sprintf("%.0f", mb)
	}
}

func seconds(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%.3f", d.Seconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f", d.Seconds())
	}
	return fmt.Sprintf("%.1f", d.Seconds())
}
