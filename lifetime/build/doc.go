// Package build makes the model of a capture from the data that a reader finds:
// allocations, frees, blocks that are alive at the end, reserved memory, totals.
//
// Its place in the pipeline: between the readers (package formats) and [lifetime.Capture].
//
//  1. A reader gives events and states to a [Builder], in any order.
//  2. space.go sorts the events by time and makes times strictly increasing.
//  3. pair.go turns them into buffers and regions. It uses recorded data
//     as it is. Rules fill the gaps, mark inferred data, and count losses.
//  4. [Builder.Finish] returns the model. [Builder.FinishOutline] returns only its peak
//     and end; fold.go then keeps only the buffers that these need.
package build
