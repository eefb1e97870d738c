package hlo_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/lifetime"
)

// schema is what the oracle reads of hlo.proto.
const schema = `
name: "hlo.proto" syntax: "proto3"
message_type: { name: "HloProto"
	field: { name: "module" number: 1 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".Module" }
	field: { name: "assignment" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".Assignment" } }
message_type: { name: "Module"
	field: { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES } }
message_type: { name: "Assignment"
	field: { name: "allocations" number: 3 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: ".Allocation" } }
message_type: { name: "Allocation"
	field: { name: "size" number: 2 label: LABEL_OPTIONAL type: TYPE_INT64 } }
`

// allocationsIn returns the allocations of a program and their bytes by the decoder
// of protocol buffers, false where that refuses it.
func allocationsIn(t testing.TB, data []byte) (n int, bytes int64, ok bool) {
	t.Helper()
	var file descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(schema), &file); err != nil {
		t.Fatal(err)
	}
	known, err := protodesc.NewFile(&file, nil)
	if err != nil {
		t.Fatal(err)
	}
	program := dynamicpb.NewMessage(known.Messages().ByName("HloProto"))
	if proto.Unmarshal(data, program) != nil {
		return 0, 0, false
	}
	get := func(m protoreflect.Message, name protoreflect.Name) protoreflect.Value {
		return m.Get(m.Descriptor().Fields().ByName(name))
	}
	list := get(get(program, "assignment").Message(), "allocations").List()
	for i := range list.Len() {
		bytes = lifetime.AddSat(bytes, max(get(list.Get(i).Message(), "size").Int(), 0))
	}
	return list.Len(), bytes, true
}

// FuzzRead reads anything: no panic, bounded memory, one clear error or a model that
// passes Check, the laws and a trip through native text (readProgram sees to that).
// It has the allocations that the decoder of protocol buffers finds.
func FuzzRead(f *testing.F) {
	for _, file := range programs(f) {
		if data := contentOf(f, file); len(data) < 32<<10 {
			f.Add(data)
		}
	}
	for _, c := range cases {
		f.Add(c.program.proto())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		nativetest.Bounded(t, len(data), 16<<20, 10_000, func() { readAnything(t, data) })
	})
}

func readAnything(t *testing.T, data []byte) {
	c, err := readProgram(t, data)
	if err != nil {
		nativetest.Message(t, err, 300)
		return
	}
	n, bytes := 0, int64(0)
	for _, s := range c.Spaces {
		n += len(s.Regions)
		for i := range s.Regions {
			bytes = lifetime.AddSat(bytes, s.Regions[i].Size)
		}
	}
	if wantN, want, ok := allocationsIn(t, data); ok && (n != wantN || bytes != want) {
		t.Errorf("%d allocations of %d bytes, %d of %d stand there", n, bytes, wantN, want)
	}
}
