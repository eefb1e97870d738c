/*
Memlane-bench measures how much time and memory memlane takes, beside the
programs that read the same files, and writes Markdown; docs/performance.md and
docs/growth.md are what it wrote last.

	go run ./cmd/memlane-bench --scale 0.05
	go run ./cmd/memlane-bench --only '^[^g]' -o docs/performance.md
	go run ./cmd/memlane-bench --only growth -o docs/growth.md

Every input is made from a seed: see makeInput. The works (works.go) run memlane
and its peers on the same file in turns; the series (growth.go) run every command
of memlane on five sizes. Peers are what is found (peers.go); nothing is
installed, and what is missing has a row that says so. Targets (targets.go) stand
beside what was measured.

Everything that is measured is a process, also the limits (limits.go), which this
program runs as processes of itself. It keeps small: the kernel counts the peak
memory of a process from that of the one which started it.
*/
package main
