package xplane

import (
	"fmt"
	"strings"
)

// dtypes lists the names of TensorFlow's DataType enum, as its DataTypeString returns them (types.proto, types.cc).
var dtypes = [...]string{
	1: "float", 2: "double", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string", 8: "complex64", 9: "int64", 10: "bool",
	11: "qint8", 12: "quint8", 13: "qint32", 14: "bfloat16", 15: "qint16", 16: "quint16", 17: "uint16", 18: "complex128", 19: "half",
	20: "resource", 21: "variant", 22: "uint32", 23: "uint64", 24: "float8_e5m2", 25: "float8_e4m3fn",
	26: "float8_e4m3fnuz", 27: "float8_e4m3b11fnuz", 28: "float8_e5m2fnuz", 29: "int4", 30: "uint4",
}

// refTypes is the offset between the number of a type and the number of a reference to it.
const refTypes = 100

// dtypeName returns the name of a type, or "" for 0.
func dtypeName(n int64) string {
	switch {
	case n == 0:
		return ""
	case n > refTypes && n-refTypes < int64(len(dtypes)):
		return dtypes[n-refTypes] + "_ref"
	case n > 0 && n < int64(len(dtypes)):
		return dtypes[n]
	}
	return fmt.Sprintf("unknown dtype enum (%d)", n)
}

// accelerator returns the kind of device in the file, TPU or GPU, or "" if the file has no device plane.
func (r *reader) accelerator() string {
	for _, p := range r.planes {
		switch {
		case strings.HasPrefix(p.name, tpuPrefix):
			return "TPU"
		case strings.HasPrefix(p.name, gpuPrefix):
			return "GPU"
		}
	}
	return ""
}
