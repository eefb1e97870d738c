/*
Memlane-bench measures the time and memory of memlane and of the programs that read the same files, and writes Markdown tables:
sections of docs/evidence/speed.md.

	go run ./cmd/memlane-bench --scale 0.05
	go run ./cmd/memlane-bench --only '^[^g]' -o docs/evidence/speed.md
	go run ./cmd/memlane-bench --only growth -o docs/evidence/speed.md

It generates every input from a seed: see makeInput. The works (works.go) run memlane and its peers on the same file in turns; the
series (growth.go) run every command of memlane on five sizes. It finds the peers on the machine (peers.go) and installs nothing; the
row of a missing peer says "not found". The tables also list the targets (targets.go).

Every measurement is of a process. Limits (limits.go) run as subprocesses of this program. It stays small: the
kernel counts the peak memory of a process from that of its parent on.
*/
package main
