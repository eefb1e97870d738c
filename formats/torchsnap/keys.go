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
	keyAllocatedSize
	keyActiveSize
	// External annotations.
	keyStage
	// Top level.
	keySegments
	keyDeviceTraces
	keyHostSegments
	keyHostTraces
	keyExternalAnnotations
	keyAllocatorSettings
	keyMemlane // of memlane's recorder: names of tensors
	// Known but unused: torch.fx names of a frame, metadata of the allocator.
	keyFxNodeOp
	keyFxNodeName
	keyFxNodeTarget
	keyFxOriginalTrace
	keyForwardFrames
	keyInternalMetadata
	keyVersion
	keyCount

	// Actions.
	actAlloc = iota - 1
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
	keyIsExpandable: "is_expandable", keyBlocks: "blocks", keyAllocatedSize: "allocated_size", keyActiveSize: "active_size",
	keyStage: "stage", keySegments: "segments", keyDeviceTraces: "device_traces", keyHostSegments: "host_segments",
	keyHostTraces: "host_traces", keyExternalAnnotations: "external_annotations", keyAllocatorSettings: "allocator_settings", keyMemlane: "memlane",
	keyFxNodeOp: "fx_node_op", keyFxNodeName: "fx_node_name", keyFxNodeTarget: "fx_node_target",
	keyFxOriginalTrace: "fx_original_trace", keyForwardFrames: "forward_frames", keyInternalMetadata: "internal_metadata", keyVersion: "version",
	actAlloc: "alloc", actFreeRequested: "free_requested", actFreeCompleted: "free_completed", actSegmentAlloc: "segment_alloc",
	actSegmentFree: "segment_free", actSegmentMap: "segment_map", actSegmentUnmap: "segment_unmap", actOOM: "oom",
	actSnapshot: "snapshot", actAnnotate: "annotate",
	stateAllocated: "active_allocated", statePending: "active_pending_free", stateAwaiting: "active_awaiting_free", stateInactive: "inactive",
	valNone: "N/A", valStart: "START", valEnd: "END",
}
