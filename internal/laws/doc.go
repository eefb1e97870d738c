// Package laws contains properties that must hold for any capture, tested on random ones. It
// has only tests. When a test fails, rapid prints the smallest failing case.
//
//   - A Builder makes a model that passes Check from any facts, in any order: any_test.go.
//   - Buffers that are converted to allocator events and given to a Builder become the same
//     buffers: pair_test.go.
//   - Spaces are independent: their facts may come space by space or mixed: pair_test.go.
//   - Native text that is read and written again is the same text, and the models are equal:
//     native_test.go.
//   - The rows of a breakdown sum to the level, at the peak and at any other time. Parts of a
//     capture have the levels of the whole, and a part of a part is a part: levels_test.go.
//   - A comparison in the other direction has the opposite signs: diff_test.go.
//   - A snapshot that is changed in a way that says nothing has the same answers: evidence_test.go.
//   - The heap profile of several captures is the sum of theirs, in any order: profile_test.go.
//
// Laws that need package internals are in those packages. lifetime/build/laws_test.go compares
// peaks with a streaming oracle without buffers, queries with their definitions, and the
// history of a full ring buffer with the complete one. lifetime/build/fold_test.go compares folding
// with keeping all buffers. render/pprof/merge_test.go tests the classes of samples.
package laws
