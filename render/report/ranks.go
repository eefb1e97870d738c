package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/memlane/memlane/internal/units"
)

// RankLeak is a finding that one or more of several ranks have.
type RankLeak struct {
	What         string // the rule and the place
	Ranks        []string
	Bytes        int64   // of them all
	BytesPerStep float64 // in the median; 0 when not known
}

// maxNamed is how many ranks a sentence names.
const maxNamed = 4

// String says how many of all ranks have it, and which have not where those are few.
// Names stand in it as captures have them.
func (l *RankLeak) String(all []string) string {
	text := fmt.Sprintf("%s: %s of %s, %s in all", l.What, units.Count(int64(len(l.Ranks))), units.Several(len(all), "rank"), units.Bytes(l.Bytes))
	if l.BytesPerStep > 0 {
		text += fmt.Sprintf(", %s a step in the median", units.Bytes(int64(l.BytesPerStep)))
	}
	without := len(all) - len(l.Ranks)
	switch {
	case without > 0 && without <= len(l.Ranks) && without <= maxNamed:
		text += "; not on " + strings.Join(others(all, l.Ranks), ", ")
	case len(l.Ranks) <= maxNamed:
		text += "; on " + strings.Join(l.Ranks, ", ")
	}
	return text
}

// others returns what all has and some has not.
func others(all, some []string) (rest []string) {
	has := map[string]bool{}
	for _, name := range some {
		has[name] = true
	}
	for _, name := range all {
		if !has[name] {
			rest = append(rest, name)
		}
	}
	return rest
}

// textWidth is how wide running text gets.
const textWidth = 78

// Wrap breaks text at spaces so that lines with indent stay within 78 columns, and
// leaves only what prints.
func Wrap(text, indent string) string {
	var b strings.Builder
	width := len(indent)
	for i, word := range strings.Fields(text) {
		word = Printable(word)
		n := utf8.RuneCountInString(word)
		if i > 0 && width+1+n > textWidth {
			b.WriteString("\n" + indent)
			width = len(indent)
		} else if i > 0 {
			b.WriteByte(' ')
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}
