// Package whatif tells what the peak of a program would be if the program were changed: another batch, another optimizer, checkpointing.
//
// A [Scenario] is a list of edits. An [Engine] has the buffers of one memory ID as a list of births, deaths and sizes in the order of
// events. Each edit changes the list by a principle that it states; the requests that remain are replayed by package replay, so peaks have
// the rules of the allocator. The result is an ordinary capture that is marked as hypothetical.
//
// Its place in the pipeline: above packages program, category and replay, below answer.
package whatif
