package hlo

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"google.golang.org/protobuf/encoding/protowire"
)

// Sniff reports whether head may begin an HloProto: its first field is the program, which begins with its name,
// followed by the name of its entry computation or by a computation.
func Sniff(head []byte) bool {
	program, ok := first(head)
	if !ok {
		return false
	}
	name, ok := first(program)
	if !ok || len(name) == 0 || len(name) == len(program)-2 || !utf8.Valid(name) {
		return false
	}
	for _, c := range name {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	_, n := protowire.ConsumeVarint(program[1:])
	rest := program[1+n+len(name):]
	return len(rest) == 0 || rest[0] == moduleEntry || rest[0] == moduleComputations
}

// first returns the available bytes of the first field of head, if that is field 1 with bytes.
func first(head []byte) ([]byte, bool) {
	if len(head) == 0 || head[0] != protoModule {
		return nil, false
	}
	size, n := protowire.ConsumeVarint(head[1:])
	if n < 0 || size == 0 {
		return nil, false
	}
	body := head[1+n:]
	return body[:min(uint64(len(body)), size)], true
}

// maxBytes bounds a file, which is read into memory as a whole. Protocol buffers cannot exceed 2 GiB anyway.
const maxBytes = 1 << 30

func readAll(in io.Reader) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(in, maxBytes+1))
	if err == nil && len(all) > maxBytes {
		err = fmt.Errorf("larger than %d bytes, the limit for a compiled program", maxBytes)
	}
	return all, err
}

// Read reads a file that contains one HloProto into b. It refuses a truncated file, because the buffer
// assignment is its last part.
func Read(file string, in io.Reader, b *build.Builder) error {
	proto, err := readAll(in)
	if err != nil {
		return err
	}
	p, err := parse(proto)
	if err != nil {
		return err
	}
	if !p.assigned {
		return errors.New("the program has no buffer assignment, because the compiler adds it last: " +
			"use the file that it writes after optimizations (--xla_dump_to=DIR --xla_dump_hlo_as_proto)")
	}
	name := p.name
	if p.id != 0 {
		name = fmt.Sprintf("%s(%d)", p.name, p.id)
	}
	source := b.Source(lifetime.Source{File: file, Format: "hlo", Producer: "XLA"})
	return addSpaces(p, b, Module{Name: name, Source: source})
}

// Module identifies the origin of a compiled program.
type Module struct {
	Name   string // with the number of the program: "jit_f(5)"
	Host   string // machine, if the capture names one
	Source int    // index of the capture, from Builder.Source
}

// Add adds the memory spaces of the program in an HloProto to b. If it fails, it adds nothing, and the error
// names the field and the byte offset in the proto. A program without allocations becomes one empty space.
func Add(b *build.Builder, m Module, proto []byte) error {
	p, err := parse(proto)
	if err != nil {
		return err
	}
	return addSpaces(p, b, m)
}
