package oomtext

import "bytes"

// What a program prints when memory runs out begins a message. What people write about it stands in their sentences, quotations, headings
// and tables.
var (
	// classBefore matches the class of an error before its words.
	classBefore = lazily(`(?:[\w.]*(?:Error|Exception)(?:: |\(["']))+[^:]*$`)
	// condition matches a sentence that has not ended and that is about errors in general or of the past.
	condition = lazily(`(?i)\b(?:(?:if|when|whenever|until) (?:it|the|this|that|your?|we|an?)\b|in case of|errors? (?:like|such as)|e\.g\.|\brais(?:e[sd]?|ing) $|` +
		`(?:fix(?:es|ed)?|avoid(?:s|ing)?|prevent(?:s|ing)?|handles?|catch(?:es)?)\b(?:\([^)]*\))?:?)[^.:;]*$`)
	// openQuote matches a quotation that has not ended. One that begins with the message may be the value of a field.
	openQuote  = lazily("(?:^|[\\s\\[{:,(])(?:\"[^\"]*|'[^']*|`[^`]*|[“‘«][^”’»]*)$")
	inSentence = lazily(`^ [a-z]+(?: |$)`)
	field      = lazily(`(?i)(?:=|"(?:err|error|exception|detail|reason)": ?|failure (?:[0-9]+ )?)["']$`)
)

// isQuoted reports whether a line with the words of an opener says what people wrote. isHeading tells that it began with #.
func isQuoted(line []byte, text start, isHeading bool) bool {
	before, after := line[:text.at], line[text.at:]
	if m := classBefore().FindIndex(before); m != nil {
		before = before[:m[0]]
	} else {
		before = before[:bytes.LastIndexAny(before, " \t\"'`(=:")+1] // the beginning of the first word
		before = bytes.TrimSuffix(before, []byte("CUDA "))
	}
	after, isBare := bytes.CutPrefix(bytes.TrimPrefix(after, []byte("o")), []byte(bareWords))
	isBare = isBare && !bytes.ContainsAny(after, "0123456789")
	return line[0] == '|' && line[len(line)-1] == '|' ||
		condition().Match(before) ||
		openQuote().Match(before) && !field().Match(before) ||
		isBare && (isHeading || bytes.HasSuffix(before, []byte("# ")) || inSentence().Match(after))
}
