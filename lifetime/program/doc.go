// Package program tells what the program of a capture did: what the frames of its stacks and its operators are, its
// phases, steps and passes, and which of its buffers wait for a backward pass. Everything else asks it; nothing else looks at the name of a file.
package program
