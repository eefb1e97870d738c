// Package lifetime is the model between the readers and the renderers: which
// buffer lived when, how big, where, and who allocated it.
//
// Its place in the pipeline:
//
//  1. A reader in formats/* turns bytes into facts and hands them, in file
//     order, to a [Builder].
//  2. [Builder.Finish] pairs allocations with frees, reconciles the end state
//     with the history, and returns a [Capture].
//  3. Queries ([Space.Peak], [Space.LiveAt], [Space.Breakdown], ...) answer
//     from a Capture; opinions live in lifetime/leak; pictures in render/*.
//
// A capture is a set of spaces. A [Space] is one heap on one axis (XProf calls
// it a memory ID): buffers are rectangles [Begin, End) x [Addr, Addr+Size) in
// it. Every peak, drawing and comparison happens inside one space.
//
// Who asks for nothing but the peak and the end ([Builder.KeepPeakAndEnd]) gets the
// buffers of those two alone; reports that come in order are then folded as they
// come, in memory that grows with what is alive and not with the file. Where that
// could not be exact, the reader starts over and keeps all.
//
// Two sizes are kept apart everywhere: requested is what the program asked
// for, occupied what the allocator set aside. Their peaks are maximised
// separately.
//
// The package imports the standard library only. It refuses nothing that a
// capture may contain: what cannot be used becomes a counted [Loss].
package lifetime
