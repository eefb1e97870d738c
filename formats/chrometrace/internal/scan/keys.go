package scan

// field is what a member of an event means.
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
	fieldPythonModule
	fieldEvIdx

	// Sizes, the first one counts.
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

	closing // no field: the object ends
)

const (
	texts = int(fieldTypes-fieldName) + 1
	sizes = int(fieldSnapshotBytes-fieldSize) + 1
)

// level is where a member stands.
type level uint8

const (
	inEvent level = iota
	inArgs
	inSnapshot
	levels
)

// keyField returns what a key means.
func keyField(key []byte, at level) field {
	switch at {
	case inEvent:
		return eventField(key)
	case inArgs:
		return argField(key)
	}
	switch string(key) {
	case "size":
		return fieldSnapshotSize
	case "size_bytes":
		return fieldSnapshotSizeBytes
	case "bytes":
		return fieldSnapshotBytes
	}
	return other
}

func eventField(key []byte) field {
	switch string(key) {
	case "ph":
		return fieldPhase
	case "cat":
		return fieldCat
	case "name":
		return fieldName
	case "pid":
		return fieldPID
	case "tid":
		return fieldTID
	case "ts":
		return fieldTS
	case "dur":
		return fieldDur
	case "args":
		return fieldArgs
	case "id":
		return fieldID
	}
	return other
}

func argField(key []byte) field {
	switch string(key) {
	case "Bytes":
		return fieldBytes
	case "Total Allocated":
		return fieldTotalAllocated
	case "Total Reserved":
		return fieldTotalReserved
	case "Device Type":
		return fieldDeviceType
	case "Device Id":
		return fieldDeviceID
	case "Sequence number":
		return fieldSequence
	case "Fwd thread id":
		return fieldFwdThread
	case "Python id":
		return fieldPythonID
	case "Python parent id":
		return fieldPythonParent
	case "Python module id":
		return fieldPythonModule
	case "Ev Idx":
		return fieldEvIdx
	case "Addr":
		return fieldAddr
	case "size":
		return fieldSize
	case "size_bytes":
		return fieldSizeBytes
	case "bytes":
		return fieldLowBytes
	case "snapshot":
		return fieldSnapshot
	case "CallFrom":
		return fieldCallFrom
	case "name":
		return fieldArgName
	case "Input Dims", "Input dims":
		return fieldDims
	case "Input type":
		return fieldTypes
	}
	return other
}
