package hlo

import "github.com/memlane/memlane/formats/internal/wire"

const (
	number = wire.Number
	packed = wire.Bytes
)

// Tags of the messages of hlo.proto and xla_data.proto that are read.
const (
	protoModule     = 1<<3 | packed
	protoAssignment = 3<<3 | packed

	moduleName         = 1<<3 | packed
	moduleEntry        = 2<<3 | packed
	moduleComputations = 3<<3 | packed
	moduleID           = 5<<3 | number
	moduleEntryID      = 6<<3 | number
	moduleSchedule     = 7<<3 | packed
	moduleAliases      = 8<<3 | packed
	moduleOutputs      = 12<<3 | packed
	moduleParameters   = 14<<3 | packed
	moduleDevices      = 15<<3 | packed
	moduleFrames       = 17<<3 | packed

	devicesComputations = 2<<3 | number

	shardingType       = 1<<3 | number
	shardingDimensions = 3<<3 | packed
	shardingTuple      = 5<<3 | packed
	shardingCopiesLast = 6<<3 | number
	shardingLastKinds  = 8<<3 | packed

	scheduleSequences = 1<<3 | packed
	sequenceKey       = 1<<3 | number
	sequenceValue     = 2<<3 | packed
	sequenceIDs       = 1<<3 | packed

	computationInstructions = 2<<3 | packed
	computationID           = 5<<3 | number
	computationRoot         = 6<<3 | number

	instructionName       = 1<<3 | packed
	instructionOpcode     = 2<<3 | packed
	instructionShape      = 3<<3 | packed
	instructionMetadata   = 7<<3 | packed
	instructionParameter  = 9<<3 | number
	instructionFusion     = 11<<3 | packed
	instructionTupleIndex = 13<<3 | number
	instructionID         = 35<<3 | number
	instructionOperands   = 36<<3 | packed
	instructionCalls      = 38<<3 | packed
	instructionBackend    = 43<<3 | packed

	aliasEntries   = 1<<3 | packed
	aliasOutputs   = 1<<3 | packed
	aliasParameter = 2<<3 | number

	metadataOpName       = 2<<3 | packed
	metadataSourceFile   = 3<<3 | packed
	metadataSourceLine   = 4<<3 | number
	metadataStackFrame   = 15<<3 | number
	metadataSourceColumn = 18<<3 | number

	framesFileNames     = 1<<3 | packed
	framesFunctionNames = 2<<3 | packed
	framesLocations     = 3<<3 | packed
	framesFrames        = 4<<3 | packed

	locationFile     = 1<<3 | number
	locationFunction = 2<<3 | number
	locationLine     = 3<<3 | number
	locationColumn   = 4<<3 | number

	frameLocation = 1<<3 | number
	frameParent   = 2<<3 | number

	assignmentBuffers     = 1<<3 | packed
	assignmentAllocations = 3<<3 | packed
	assignmentTraces      = 4<<3 | packed

	bufferID        = 1<<3 | number
	bufferSize      = 2<<3 | number
	bufferDefinedAt = 3<<3 | packed
	bufferColor     = 4<<3 | number

	definedInstructionName = 2<<3 | packed
	definedShapeIndex      = 3<<3 | packed
	definedInstructionID   = 4<<3 | number

	allocationIndex       = 1<<3 | number
	allocationSize        = 2<<3 | number
	allocationThreadLocal = 3<<3 | number
	allocationParameter   = 5<<3 | number
	allocationLiveOut     = 7<<3 | number
	allocationColor       = 8<<3 | number
	allocationAssigned    = 9<<3 | packed
	allocationTuple       = 11<<3 | number
	allocationConstant    = 12<<3 | number

	assignedBuffer = 1<<3 | number
	assignedOffset = 2<<3 | number

	traceEvents = 1<<3 | packed

	eventKind        = 1<<3 | number
	eventBuffer      = 2<<3 | number
	eventInstruction = 4<<3 | packed
	eventCanonical   = 5<<3 | number

	shapeElement      = 2<<3 | number
	shapeDimensions   = 3<<3 | packed
	shapeTupleShapes  = 4<<3 | packed
	shapeLayout       = 5<<3 | packed
	shapeDynamicFlags = 6<<3 | packed

	layoutMinorToMajor = 1<<3 | packed
	layoutTiles        = 6<<3 | packed
	layoutElementBits  = 7<<3 | number
	layoutMemorySpace  = 8<<3 | number
	layoutTailPadding  = 16<<3 | number
	layoutSplit        = 17<<3 | packed

	splitDimension = 1<<3 | number
	splitIndices   = 2<<3 | packed

	tileDimensions = 1<<3 | packed
)
