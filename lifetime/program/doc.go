// Package program tells what the program of a capture did: what the frames of its stacks are, its phases and steps, and
// which of its buffers wait for a backward pass. Everything else asks it; nothing else looks at the name of a file.
package program
