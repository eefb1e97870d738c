// Package render lists the export formats. Each renderer is one folder below. Those with
// many options (blocks, pprof) have separate commands, the others one line in [Exports].
package render
