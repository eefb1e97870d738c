// Package build makes the model of a capture from the facts that a reader finds:
// allocations, frees, blocks that are alive at the end, reserved memory, totals.
// It is what a reader sees of the model.
//
// Its place in the pipeline: after a reader (package formats), before
// [lifetime.Capture].
//
//  1. A reader tells a [Builder] facts as they come, in any order.
//  2. Events are put in order of time and made strictly increasing (space.go).
//  3. pair.go and regions.go make buffers and regions of them. What was recorded is
//     believed; rules fill the gaps, mark what they infer, and count losses.
//  4. [Builder.Finish] returns the model. [Builder.FinishOutline] returns its peak and
//     end alone; fold.go then keeps no more of the events than these need.
package build
