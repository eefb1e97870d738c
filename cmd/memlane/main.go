package main

import (
	"os"

	"github.com/memlane/memlane/internal/memlimit"
)

func main() {
	if os.Getenv("GOGC") == "" {
		memlimit.Pace()
	}
	os.Exit(run(os.Stdin, os.Stdout, os.Stderr, os.Args))
}
