package scan

// Kind is a kind of invalid or unexpected JSON that Scan tolerates.
type Kind uint8

// The kinds, and what Scan does.
const (
	NotANumber     Kind = iota // NaN, Infinity or similar: the value is skipped
	ControlChar                // a raw control character in a string: kept
	InvalidUTF8                // invalid bytes or surrogates in a string: replaced by U+FFFD
	BadEscape                  // a backslash without a valid escape: all backslashes of the string are kept
	BigNumber                  // a number that exceeds 64 bits, or is not whole where it must be: skipped
	StringNumber               // a string instead of a number: read as a number
	BadNumber                  // not a JSON number: read if its meaning is clear, else skipped
	UnknownWord                // a bare word that is not JSON: read as null
	DuplicateKey               // a key twice in one object: the last one counts
	TrailingComma              // a comma without a value: ignored
	MissingComma               // two values without a comma between them: both kept
	MissingQuote               // a key without its first or both quotes: kept
	ByteOrderMark              // a byte order mark before the text: ignored
	MissingBracket             // the object ends before its event array: both end there
	LongString                 // a string of more than 1 MiB: truncated
	TooMany                    // more than 16,384 counters in one event: the others are skipped
	Damaged                    // an unreadable event or header: skipped up to the next event
	NotAnEvent                 // another value than an object in the event array: skipped
	Incomplete                 // an event that the end of the file truncates: skipped
	Garbage                    // text after the end of the JSON: ignored
	kinds
)

// Toleration is the number of occurrences of one kind.
type Toleration struct {
	Kind  Kind
	Count int64
	First int64 // offset of the first one in the input
}

// Tolerated lists the tolerations in a trace.
type Tolerated struct {
	List      []Toleration // in the order of kinds, none with Count 0
	Truncated bool         // the input ends before its JSON does
	End       int64        // offset of the end of the input, or of text after the JSON
}

var kindNames = [kinds]string{
	NotANumber:     "NaN or Infinity",
	ControlChar:    "control character in a string",
	InvalidUTF8:    "invalid UTF-8",
	BadEscape:      "bad escape",
	BigNumber:      "number that does not fit",
	StringNumber:   "number written as a string",
	BadNumber:      "malformed number",
	UnknownWord:    "unknown word",
	DuplicateKey:   "duplicate key",
	TrailingComma:  "trailing comma",
	MissingComma:   "missing comma",
	MissingQuote:   "missing quote",
	ByteOrderMark:  "byte order mark",
	MissingBracket: "missing bracket",
	LongString:     "string of more than 1 MiB",
	TooMany:        "too many counters",
	Damaged:        "damaged event",
	NotAnEvent:     "not an event",
	Incomplete:     "incomplete event",
	Garbage:        "text after the end",
}

// String returns the name of the kind.
func (k Kind) String() string { return kindNames[k] }
