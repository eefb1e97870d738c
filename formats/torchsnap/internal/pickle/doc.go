// Package pickle decodes plain data from Python pickles, protocols 0 to 5, as
// a stream: dicts, lists, tuples, strings, numbers, booleans and None.
//
// formats/torchsnap gives it a byte stream and a [Handler]. The handler turns complete dicts and lists into its
// records, so that memory never contains the tree of a snapshot with millions of events.
//
// A pickle is a program, and Python runs it when it unpickles. This package executes nothing. It refuses every opcode
// that imports, calls, builds or loads an object, by name and offset (GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ,
// NEWOBJ, NEWOBJ_EX, EXT1, EXT2, EXT4, PERSID, BINPERSID). It also refuses data that snapshots do not contain: sets,
// bytearrays, out-of-band buffers and Python 2 string literals.
//
// Memory is bounded by a small multiple of the bytes read: length fields reserve
// nothing, shared objects stay shared, and nesting does not recurse.
//
// CPython's Lib/pickletools.py describes the opcodes.
package pickle
