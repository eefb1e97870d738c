// Package holders reads what memlane's recorder adds to captures: the names of live tensors and what holds them.
//
// Package torchsnap calls [Read] for a key of the snapshot, package jaxprof for a field of the profile. The text is a
// JSON object with a column for each fact. Texts are in a list of their own; columns refer to them by number.
package holders
