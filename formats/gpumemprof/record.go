package gpumemprof

import (
	"strconv"

	"github.com/memlane/memlane/internal/units"
)

// record is a result or an event; its keys determine which.
type record struct {
	FunctionName    string   `json:"function_name"`
	ExecutionTime   number   `json:"execution_time"` // seconds
	MemoryBefore    snapshot `json:"memory_before"`
	MemoryAfter     snapshot `json:"memory_after"`
	MemoryPeak      snapshot `json:"memory_peak"`
	MemoryAllocated number   `json:"memory_allocated"`
	MemoryFreed     number   `json:"memory_freed"`

	TimestampNS number `json:"timestamp_ns"`
	EventType   string `json:"event_type"`
	Collector   string `json:"collector"`
	Host        string `json:"host"`
	DeviceID    number `json:"device_id"`
	Rank        number `json:"rank"`
	WorldSize   number `json:"world_size"`
	Allocated   number `json:"allocator_allocated_bytes"`
	Reserved    number `json:"allocator_reserved_bytes"`
	Inactive    number `json:"allocator_inactive_bytes"`
	DeviceUsed  number `json:"device_used_bytes"`
	DeviceTotal number `json:"device_total_bytes"`

	Metadata struct {
		Capabilities struct {
			Inactive      *bool `json:"supports_allocator_inactive"`
			Fragmentation *bool `json:"supports_fragmentation_analysis"`
		} `json:"memory_capabilities"`
	} `json:"metadata"`
}

type snapshot struct {
	Timestamp number `json:"timestamp"` // seconds
	Allocated number `json:"allocated_memory"`
	Reserved  number `json:"reserved_memory"`
	Inactive  number `json:"inactive_memory"`
	DeviceID  number `json:"device_id"`
}

// fragmented returns the bytes in split blocks that were not in use. It is not known if the collector declares
// that it cannot measure them.
func (r *record) fragmented() number {
	can := r.Metadata.Capabilities
	for _, able := range []*bool{can.Inactive, can.Fragmentation} {
		if able != nil && !*able {
			return number{}
		}
	}
	return r.Inactive
}

// number is a JSON number as an integer and as a float. Any other JSON value is not known.
type number struct {
	int   int64 // saturates
	float float64
	known bool
}

// UnmarshalJSON reads integers exactly and rounds other numbers.
func (n *number) UnmarshalJSON(text []byte) error {
	*n = number{}
	if text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return nil
	}
	i, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		i = units.Whole(f)
	}
	*n = number{i, f, true}
	return nil
}

// bytes returns a number of bytes, or -1 if it is not known.
func (n number) bytes() int64 {
	if !n.known {
		return -1
	}
	return n.int
}
