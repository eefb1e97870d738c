// Package pickle decodes plain data from Python pickles, protocols 0 to 5, as
// a stream: dicts, lists, tuples, strings, numbers, booleans and None.
//
// Its place in the pipeline: formats/torchsnap hands it a byte stream and a
// [Handler]; the handler turns complete dicts and lists into records of its
// own, so that a snapshot of millions of events never stands in memory as a
// tree.
//
// A pickle is a program, and unpickling one that somebody else wrote runs it.
// This package executes nothing: every opcode that imports, calls, builds or
// asks for an object is refused by name and offset (GLOBAL, STACK_GLOBAL,
// REDUCE, BUILD, INST, OBJ, NEWOBJ, NEWOBJ_EX, EXT1, EXT2, EXT4, PERSID,
// BINPERSID), and so is whatever plain snapshots do not hold (sets, bytearrays,
// out-of-band buffers, Python 2 string literals).
//
// Memory is bounded by a small multiple of the bytes read: nothing is reserved
// because a length field says so, shared objects stay shared, and nesting does
// not recurse.
//
// The opcodes are described in CPython's Lib/pickletools.py.
package pickle
