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
	"github.com/memlane/memlane/internal/units"
)

// schema is the part of hlo.proto that the oracle reads.
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

// allocationsIn returns the number of allocations of a program and their bytes, decoded by the protobuf
// library; false if the library rejects it.
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
		bytes = units.AddSat(bytes, max(get(list.Get(i).Message(), "size").Int(), 0))
	}
	return list.Len(), bytes, true
}

// FuzzRead reads arbitrary input: no panic, bounded memory, one clear error or a model that passes Check, the
// laws and a round trip through native text (in readProgram). It has the allocations that the protobuf library
// finds.
func FuzzRead(f *testing.F) {
	for _, data := range nativetest.Contents(f, "../../testdata/xplane/*.hlo.pb", "../../testdata/hlotext/proto/*.pb") {
		if len(data) < 32<<10 {
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
			bytes = units.AddSat(bytes, s.Regions[i].Size)
		}
	}
	if wantN, want, ok := allocationsIn(t, data); ok && (n != wantN || bytes != want) {
		t.Errorf("%d allocations of %d bytes, the protobuf library finds %d of %d", n, bytes, wantN, want)
	}
}
