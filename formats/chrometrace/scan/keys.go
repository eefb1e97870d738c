package scan

import "encoding/binary"

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

// quickField returns what a key of an event means that begins at index i, and
// the index after its closing quote: in most events these keys are half of the
// tokens, and comparing eight bytes with each is cheaper than looking for the
// quote. It returns other for any other key.
func quickField(b []byte, i int) (field, int) {
	if i+8 > len(b) {
		return other, i
	}
	const (
		two   = 1<<24 - 1
		three = 1<<32 - 1
		four  = 1<<40 - 1
	)
	x := binary.LittleEndian.Uint64(b[i:])
	switch byte(x) {
	case 'p':
		if x&two == 'p'|'h'<<8|'"'<<16 {
			return fieldPhase, i + 3
		}
		if x&three == 'p'|'i'<<8|'d'<<16|'"'<<24 {
			return fieldPID, i + 4
		}
	case 't':
		if x&three == 't'|'i'<<8|'d'<<16|'"'<<24 {
			return fieldTID, i + 4
		}
		if x&two == 't'|'s'<<8|'"'<<16 {
			return fieldTS, i + 3
		}
	case 'd':
		if x&three == 'd'|'u'<<8|'r'<<16|'"'<<24 {
			return fieldDur, i + 4
		}
	case 'c':
		if x&three == 'c'|'a'<<8|'t'<<16|'"'<<24 {
			return fieldCat, i + 4
		}
	case 'n':
		if x&four == 'n'|'a'<<8|'m'<<16|'e'<<24|'"'<<32 {
			return fieldName, i + 5
		}
	case 'a':
		if x&four == 'a'|'r'<<8|'g'<<16|'s'<<24|'"'<<32 {
			return fieldArgs, i + 5
		}
	case 'i':
		if x&two == 'i'|'d'<<8|'"'<<16 {
			return fieldID, i + 3
		}
	}
	return other, i
}
