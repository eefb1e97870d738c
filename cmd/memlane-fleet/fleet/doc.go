// Package fleet summarizes the captures of many ranks and runs without keeping any of them.
//
// Its place in the pipeline: after the model and the rules (lifetime/finding). Of reduces a capture and its findings to
// a Record of about ten kilobytes. A Fleet is a set of records; the results over all of them (Kinds, Sites, Findings,
// Outliers with their causes, OtherCode, Failures) are computed from the set.
//
// # Merging
//
// A fleet is a set, so merging is a union. The order and the grouping of merges do not matter, and an engine may merge
// a record twice after it repeated a task. A record is identified by the name of its capture and the hash of its
// content. Sums are computed at the end in the order of names, so that equal sets give equal bytes. Distributions over
// ranks are exact, because the set has every record.
//
// # Binary form
//
// The binary form of a set is canonical: it does not depend on how the set was merged. It has tables of strings, frames
// and sites, then the records, all sorted. It begins with a version, which changes whenever the content of records
// changes. Records since version 5 are read, others refused. Caches of other versions are not used.
//
// The form is read from object stores and pipes, so the reader checks lengths against the
// remaining input before it allocates.
package fleet
