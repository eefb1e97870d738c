package torchsnap

// Keys and values of a snapshot that the reader uses. The decoder knows these strings
// in advance, so each has its number here (see pickle.NewDecoder).
const (
	// Trace events.
	keyAction = iota
	keyAddr
	keySize
	keyStream
	keyFrames
	keyTime
	keyCompileContext
	keyUserMetadata
	keyPoolID
	keyDeviceFree
	// Frames.
	keyName
	keyFilename
	keyLine
	// Blocks.
	keyAddress
	keyRequestedSize
	keyState
	keyHistory
	keyRealSize
	// Segments.
	keyDevice
	keyTotalSize
	keySegmentType
	keySegmentPoolID
	keyIsExpandable
	keyBlocks
	// External annotations.
	keyStage
	// Top level.
	keySegments
	keyDeviceTraces
	keyHostSegments
	keyHostTraces
	keyAllocatorSettings
	keyMemlane // of memlane's recorder: names of tensors
	// Known but unused, ten keys: torch.fx names of a frame, metadata of the allocator.
	keyUnused
	keyCount = keyUnused + 10

	// Actions.
	actAlloc = iota + 8 // keyCount
	actFreeRequested
	actFreeCompleted
	actSegmentAlloc
	actSegmentFree
	actSegmentMap
	actSegmentUnmap
	actOOM
	actSnapshot
	actAnnotate
	// States of a block.
	stateAllocated
	statePending
	stateAwaiting
	stateInactive
	// Other values.
	valNone
	valStart
	valEnd
)

var known = [...]string{
	keyAction: "action", keyAddr: "addr", keySize: "size", keyStream: "stream", keyFrames: "frames", keyTime: "time_us",
	keyCompileContext: "compile_context", keyUserMetadata: "user_metadata", keyPoolID: "pool_id", keyDeviceFree: "device_free",
	keyName: "name", keyFilename: "filename", keyLine: "line",
	keyAddress: "address", keyRequestedSize: "requested_size", keyState: "state", keyHistory: "history", keyRealSize: "real_size",
	keyDevice: "device", keyTotalSize: "total_size", keySegmentType: "segment_type", keySegmentPoolID: "segment_pool_id",
	keyIsExpandable: "is_expandable", keyBlocks: "blocks",
	keyStage: "stage", keySegments: "segments", keyDeviceTraces: "device_traces", keyHostSegments: "host_segments",
	keyHostTraces: "host_traces", keyAllocatorSettings: "allocator_settings", keyMemlane: "memlane",
	keyUnused: "fx_node_op", "fx_node_name", "fx_node_target", "fx_original_trace", "forward_frames", "internal_metadata", "version",
	"allocated_size", "active_size", "external_annotations",
	actAlloc: "alloc", actFreeRequested: "free_requested", actFreeCompleted: "free_completed", actSegmentAlloc: "segment_alloc",
	actSegmentFree: "segment_free", actSegmentMap: "segment_map", actSegmentUnmap: "segment_unmap", actOOM: "oom",
	actSnapshot: "snapshot", actAnnotate: "annotate",
	stateAllocated: "active_allocated", statePending: "active_pending_free", stateAwaiting: "active_awaiting_free", stateInactive: "inactive",
	valNone: "N/A", valStart: "START", valEnd: "END",
}
