// Package render lists what a capture can be exported to. Each renderer is one
// folder below; those with options of their own (blocks, pprof) have commands
// of their own, the others one line in [Exports].
package render
