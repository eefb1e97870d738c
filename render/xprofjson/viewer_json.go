package xprofjson

import (
	"reflect"
	"strings"

	"github.com/memlane/memlane/lifetime"
)

// preprocessed is XProf's PreprocessResult. Fields with the default value are omitted, as in XProf's JSON.
type preprocessed struct {
	HeapSizes                     []float64         `json:"heapSizes,omitempty"`
	UnpaddedHeapSizes             []float64         `json:"unpaddedHeapSizes,omitempty"`
	MaxHeap                       []heapRow         `json:"maxHeap,omitempty"`
	MaxHeapBySize                 []heapRow         `json:"maxHeapBySize,omitempty"`
	LogicalBufferSpans            map[string]steps  `json:"logicalBufferSpans,omitempty"`
	MaxHeapToBySize               []int             `json:"maxHeapToBySize,omitempty"`
	BySizeToMaxHeap               []int             `json:"bySizeToMaxHeap,omitempty"`
	ModuleName                    string            `json:"moduleName,omitempty"`
	EntryComputationName          string            `json:"entryComputationName,omitempty"`
	PeakHeapMib                   float64           `json:"peakHeapMib,omitempty"`
	PeakUnpaddedHeapMib           float64           `json:"peakUnpaddedHeapMib,omitempty"`
	PeakHeapSizePosition          int64             `json:"peakHeapSizePosition,omitempty"`
	EntryComputationParametersMib float64           `json:"entryComputationParametersMib,omitempty"`
	NonReusableMib                float64           `json:"nonReusableMib,omitempty"`
	MaybeLiveOutMib               float64           `json:"maybeLiveOutMib,omitempty"`
	IndefiniteLifetimes           []wholeAllocation `json:"indefiniteLifetimes,omitempty"`
	TotalBufferAllocationMib      float64           `json:"totalBufferAllocationMib,omitempty"`
	IndefiniteBufferAllocationMib float64           `json:"indefiniteBufferAllocationMib,omitempty"`
	MaxScopedVmemAllocationMib    float64           `json:"maxScopedVmemAllocationMib,omitempty"`
	MaxScopedVmemInstructionName  string            `json:"maxScopedVmemInstructionName,omitempty"`
	HloInstructionNames           []string          `json:"hloInstructionNames,omitempty"`
	BufferBlocks                  []blockRow        `json:"bufferBlocks,omitempty"`
}

// heapRow and blockRow are what a heapObject and a bufferBlock are made of while they are written: there are as many as
// values, each with a label and a stack.
type (
	heapRow struct {
		number int
		value  *lifetime.Value // nil: the row of small values
		bytes  int64
	}
	blockRow struct {
		region *lifetime.Region
		value  *lifetime.Value // nil: the block of the allocation
		offset uint64          // of the allocation
		color  string
	}
)

// write writes the result as one line, member by member. Lists are written element by element.
func (v *viewer) write(s *stream, p *preprocessed) {
	separator := "{"
	value := reflect.ValueOf(p).Elem()
	for i := range value.NumField() {
		field := value.Field(i)
		if field.IsZero() || (field.Kind() == reflect.Slice || field.Kind() == reflect.Map) && field.Len() == 0 { // omitempty
			continue
		}
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		s.text(separator)
		separator = ","
		switch list := field.Interface().(type) {
		case []heapRow:
			streamList(s, name, list, func(r heapRow) any { return v.heapObject(r) })
		case []blockRow:
			streamList(s, name, list, func(r blockRow) any { return v.block(r) })
		case []wholeAllocation:
			streamList(s, name, list, func(a wholeAllocation) any { return a })
		case []string:
			streamList(s, name, list, func(text string) any { return text })
		default:
			s.value(name)
			s.text(":")
			s.value(list)
		}
	}
	if separator == "{" {
		s.text("{")
	}
	s.text("}\n")
}

type heapObject struct {
	Numbered             int         `json:"numbered"` // in a oneof: never omitted
	Label                string      `json:"label,omitempty"`
	LogicalBufferID      int64       `json:"logicalBufferId,omitempty"`
	LogicalBufferSizeMib float64     `json:"logicalBufferSizeMib,omitempty"`
	UnpaddedShapeMib     float64     `json:"unpaddedShapeMib,omitempty"`
	InstructionName      string      `json:"instructionName,omitempty"`
	ShapeString          string      `json:"shapeString,omitempty"`
	TfOpName             string      `json:"tfOpName,omitempty"`
	GroupName            string      `json:"groupName,omitempty"`
	OpCode               string      `json:"opCode,omitempty"`
	SourceInfo           *sourceInfo `json:"sourceInfo,omitempty"`
}

type steps struct {
	Start int64 `json:"start,omitempty"`
	Limit int64 `json:"limit,omitempty"`
}

type wholeAllocation struct {
	ID             int64           `json:"id,omitempty,string"`
	SizeMib        float64         `json:"sizeMib,omitempty"`
	Attributes     []string        `json:"attributes,omitempty"`
	LogicalBuffers []logicalBuffer `json:"logicalBuffers,omitempty"`
	CommonShape    string          `json:"commonShape,omitempty"`
}

type logicalBuffer struct {
	ID         int64    `json:"id,omitempty,string"`
	Shape      string   `json:"shape,omitempty"`
	SizeMib    float64  `json:"sizeMib,omitempty"`
	HloName    string   `json:"hloName,omitempty"`
	ShapeIndex []string `json:"shapeIndex,omitempty"`
}

type bufferBlock struct {
	LogicalBufferID int64       `json:"logicalBufferId,omitempty"`
	Name            string      `json:"name,omitempty"`
	Offset          uint64      `json:"offset,omitempty"`
	Size            int64       `json:"size,omitempty"`
	StartStep       int64       `json:"startStep,omitempty"`
	EndStep         int64       `json:"endStep,omitempty"`
	TfOpName        string      `json:"tfOpName,omitempty"`
	Category        string      `json:"category,omitempty"`
	SourceInfo      *sourceInfo `json:"sourceInfo,omitempty"`
	ShapeString     string      `json:"shapeString,omitempty"`
	UnpaddedSize    int64       `json:"unpaddedSize,omitempty"`
	Color           string      `json:"color,omitempty"`
}

type sourceInfo struct {
	FileName   string `json:"fileName,omitempty"`
	LineNumber int    `json:"lineNumber,omitempty"`
	StackFrame string `json:"stackFrame,omitempty"`
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
