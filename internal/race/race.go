//go:build race

package race

// Enabled reports whether the race detector is in the program.
const Enabled = true
