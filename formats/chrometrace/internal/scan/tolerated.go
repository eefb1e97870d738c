package scan

// Kind is a kind of what no JSON parser would take.
type Kind uint8

// The kinds, each with what is done about it.
const (
	NotANumber     Kind = iota // NaN, Infinity or the like: the value is left out
	ControlChar                // a raw control character in a string: kept
	InvalidUTF8                // bytes or escapes in a string that are no character: replaced by U+FFFD
	BadEscape                  // a string with a backslash that escapes nothing: its backslashes are kept
	BigNumber                  // a number that does not fit into 64 bits or is not whole: left out
	StringNumber               // a string where a number belongs: read as one
	OddNumber                  // a number written as JSON does not: read as one, or left out
	OddWord                    // a bare word that JSON does not know: taken as null
	DuplicateKey               // a key twice in one object: the last one counts
	TrailingComma              // a comma with nothing after it: ignored
	MissingComma               // two values without a comma between them: both kept
	MissingQuote               // a key without its first or both quotes: kept
	ByteOrderMark              // a byte order mark before the text: ignored
	MissingBracket             // the object ends before its event array: both end there
	LongString                 // a string of more than 1 MiB: cut
	TooMany                    // more counters in one event than are kept: left out
	Damaged                    // an event or header with something that makes no sense: left out, reading goes on at the next event
	NotAnEvent                 // something else than an object in the event array: left out
	Incomplete                 // an event that the end of the file cuts: left out
	Garbage                    // text after the end of the JSON: ignored
	kinds
)

// Toleration is how often one kind was met.
type Toleration struct {
	Kind  Kind
	Count int64
	First int64 // offset in the input
}

// Tolerated is what was tolerated in a trace.
type Tolerated struct {
	List      []Toleration // in the order of kinds, those that were met
	Truncated bool         // the input ends before its JSON does
	End       int64        // where reading ended: at the end of the input, or at text after the JSON
}

// Count returns how often a kind was met.
func (t Tolerated) Count(k Kind) int64 {
	for _, seen := range t.List {
		if seen.Kind == k {
			return seen.Count
		}
	}
	return 0
}

var kindNames = [kinds]struct{ name, doc string }{
	NotANumber:     {"NaN or Infinity", "a value that is no number is left out"},
	ControlChar:    {"control character in a string", "it is kept"},
	InvalidUTF8:    {"invalid UTF-8", "it is replaced by U+FFFD"},
	BadEscape:      {"bad escape", "the backslashes of the string are kept as they stand"},
	BigNumber:      {"number that does not fit", "a number beyond 64 bits, or not whole where it should be, is left out"},
	StringNumber:   {"number written as a string", "it is read as a number"},
	OddNumber:      {"number not as JSON writes it", "it is read where it is plain, and left out otherwise"},
	OddWord:        {"unknown word", "it is taken as null"},
	DuplicateKey:   {"duplicate key", "the last one counts"},
	TrailingComma:  {"trailing comma", "it is ignored"},
	MissingComma:   {"missing comma", "what stands on both sides is kept"},
	MissingQuote:   {"missing quote", "the key is read as if it had its quotes"},
	ByteOrderMark:  {"byte order mark", "it is ignored"},
	MissingBracket: {"missing bracket", "the event array ends where its object does"},
	LongString:     {"string of more than 1 MiB", "it is cut"},
	TooMany:        {"too many counters", "those of an event beyond 16,384 are left out"},
	Damaged:        {"damaged event", "it is left out, and reading goes on at the next event"},
	NotAnEvent:     {"no event", "what stands between events and is no object is left out"},
	Incomplete:     {"incomplete event", "the event that the end of the file cuts is left out"},
	Garbage:        {"text after the end", "it is ignored"},
}

// String names the kind.
func (k Kind) String() string { return kindNames[k].name }

// Doc says in a sentence what is done about it.
func (k Kind) Doc() string { return kindNames[k].doc }
