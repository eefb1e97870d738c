package scan

// field is the meaning of a member of an event.
type field uint8

const (
	other field = iota

	// Numbers of Args, in the order of their bits.
	fieldBytes
	fieldTotalAllocated
	fieldTotalReserved
	fieldDeviceType
	fieldDeviceID
	fieldSequence
	fieldFwdThread
	fieldPythonID
	fieldPythonParent

	// Sizes. The first one that is present counts.
	fieldSize
	fieldSizeBytes
	fieldLowBytes
	fieldSnapshotSize
	fieldSnapshotSizeBytes
	fieldSnapshotBytes

	// Texts.
	fieldName
	fieldCat
	fieldPID
	fieldTID
	fieldID
	fieldCallFrom
	fieldArgName
	fieldDims
	fieldTypes

	fieldAddr
	fieldPhase
	fieldTS
	fieldDur
	fieldArgs
	fieldSnapshot

	closing // not a field: the end of the object
)

const (
	numbers = int(fieldSize - fieldBytes)
	sizes   = int(fieldSnapshotBytes-fieldSize) + 1
	texts   = int(fieldTypes-fieldName) + 1
)

// level is the object that contains a member.
type level uint8

const (
	inEvent level = iota
	inArgs
	inSnapshot
	levels
)

// fields are the known keys of each level.
var fields = [levels]map[string]field{
	inEvent: {
		"ph": fieldPhase, "cat": fieldCat, "name": fieldName, "pid": fieldPID, "tid": fieldTID, "ts": fieldTS,
		"dur": fieldDur, "args": fieldArgs, "id": fieldID,
	},
	inArgs: {
		"Bytes": fieldBytes, "Total Allocated": fieldTotalAllocated, "Total Reserved": fieldTotalReserved,
		"Device Type": fieldDeviceType, "Device Id": fieldDeviceID, "Sequence number": fieldSequence, "Fwd thread id": fieldFwdThread,
		"Python id": fieldPythonID, "Python parent id": fieldPythonParent, "Addr": fieldAddr, "size": fieldSize,
		"size_bytes": fieldSizeBytes, "bytes": fieldLowBytes, "snapshot": fieldSnapshot, "CallFrom": fieldCallFrom,
		"name": fieldArgName, "Input Dims": fieldDims, "Input dims": fieldDims, "Input type": fieldTypes,
	},
	inSnapshot: {"size": fieldSnapshotSize, "size_bytes": fieldSnapshotSizeBytes, "bytes": fieldSnapshotBytes},
}
