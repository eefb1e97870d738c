package main

import (
	"os"
	"runtime/debug"
)

func main() {
	// Readers make little garbage and keep what they make: collecting less often
	// saves a tenth of the time and costs next to no memory.
	debug.SetGCPercent(400)
	os.Exit(run(os.Stdin, os.Stdout, os.Stderr, os.Args))
}
