package lifetime

// Bytes is a number of bytes that may be unknown. The zero value is unknown, so a field that nobody sets does not say 0.
type Bytes struct {
	inverse int64 // ^n: 0 stands for -1
}

// BytesOf returns n bytes; unknown if n is negative.
func BytesOf(n int64) Bytes { return Bytes{^max(n, -1)} }

// Known reports whether the number is known.
func (b Bytes) Known() bool { return b != Bytes{} }

// Or returns the number, and other if it is unknown.
func (b Bytes) Or(other int64) int64 {
	if !b.Known() {
		return other
	}
	return ^b.inverse
}
