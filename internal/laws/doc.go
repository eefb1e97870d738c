// Package laws holds what must be true of any capture whatever, as properties
// that are tried on random ones. It has tests alone. When one fails, rapid
// prints the smallest case that it found.
//
//   - A Builder makes a model that passes Check of whatever facts it is given,
//     in whatever order: any_test.go.
//   - Buffers, taken apart into the events that an allocator would record and
//     given to a Builder, are the same buffers: pair_test.go.
//   - Spaces do not disturb each other: their facts may come one space after
//     the other or all mixed: pair_test.go.
//   - Native text read and written again is the same text, and the models are
//     equal: native_test.go.
//   - The rows of a breakdown sum to the level, at the peak and anywhere else;
//     parts of a capture have the levels of the whole, and a part of a part is
//     a part: levels_test.go.
//   - A comparison and the one the other way round say the same with the
//     opposite sign: diff_test.go.
//   - The heap profile of several captures is the sum of their profiles, in
//     whatever order they come: profile_test.go.
//
// Laws that need the inside of a package stand beside it: lifetime/laws_test.go
// holds peaks against a streaming oracle that knows no buffers, the queries
// against their definitions, and the history of a full ring buffer against the
// whole one; lifetime/fold_test.go what is folded as it comes against all
// buffers; render/pprof/merge_test.go the classes of samples.
package laws
