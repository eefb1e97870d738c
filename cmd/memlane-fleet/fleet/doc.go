// Package fleet sums up the captures of many ranks and runs without keeping any of
// them.
//
// Its place in the pipeline: after the model and the rules (lifetime/leak). Of
// turns a capture and its findings into a Record of some ten kilobytes; a Fleet is
// a set of records, and what it says of all of them (Memories, Sites, Findings) is
// computed from the set.
//
// # Merging
//
// Because a fleet is a set, merging is a union: it does not matter in what order
// and in what groups fleets are merged, nor whether one of them is merged twice,
// as engines do that run a task again. A record is known by the name of its capture
// and the hash of its content. Sums are made at the end, in the order of names, so
// that equal sets give equal bytes. Spreads over ranks are exact: every record is
// there, and no digest of theirs is needed.
//
// # Binary form
//
// AppendBinary writes a set in one way only, whatever it was merged from: tables of
// strings, frames and sites in order, then the records in order. It begins with a
// version, which changes whenever a capture would be summed up differently; records
// of another version are refused, and caches keyed by it are out of date.
//
// The form is read from object stores and pipes: lengths are checked against what
// is there before anything is allocated.
package fleet
