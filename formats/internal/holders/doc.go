// Package holders reads what memlane's recorder adds to captures: the names of live tensors and what holds them.
//
// [Read] is called by package torchsnap for a key of the snapshot and by package jaxprof for a comment of the profile. The text is a JSON
// object with a column for each fact. Texts are in a list of their own; columns refer to them by number.
package holders
