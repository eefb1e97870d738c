package main

import "github.com/memlane/memlane/internal/pickletest"

// Python data for generated captures.
type (
	dict = pickletest.Dict
	list = pickletest.List
)

// leaky returns a snapshot in which the named function never frees its eight buffers.
func leaky(function, file string) []byte {
	const size = 1 << 20
	var events, blocks list
	frames := list{dict{"name", function, "filename", file, "line", 7}}
	event := func(action string, addr, t int, frames list) {
		events = append(events, dict{"action", action, "addr", addr, "size", size, "stream", 0, "time_us", t, "frames", frames})
	}
	other := list{dict{"name", "scratch", "filename", "other.py", "line", 9}}
	for i := range 8 {
		kept, scratch := 1<<30+(i+1)*size, 1<<30
		event("alloc", kept, 10*i, frames)
		event("alloc", scratch, 10*i+1, other)
		event("free_requested", scratch, 10*i+2, other)
		event("free_completed", scratch, 10*i+3, other)
		blocks = append(blocks, dict{"address", kept, "size", size, "requested_size", size, "state", "active_allocated", "frames", frames})
	}
	blocks = append(list{dict{"address", 1 << 30, "size", size, "requested_size", 0, "state", "inactive", "frames", list{}}}, blocks...)
	return pickletest.Pickle(dict{
		"segments", list{dict{"device", 0, "address", 1 << 30, "total_size", 9 * size, "allocated_size", 8 * size, "active_size", 8 * size,
			"stream", 0, "segment_type", "large", "blocks", blocks}},
		"device_traces", list{events},
	})
}
