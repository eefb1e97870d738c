package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// word is a value that a flag or an argument may have.
type word struct{ name, doc string }

// wordFlag is a flag whose value is a word, or may be one.
type wordFlag struct {
	shownFlag
	words []word
}

// shownFlag is what cli wants of a flag to show it in help and to run its action.
type shownFlag interface {
	cli.DocGenerationFlag
	cli.ActionableFlag
	cli.VisibleFlag
	cli.CategorizableFlag
}

// oneOf is a flag that takes these words and no others.
func oneOf(f *cli.StringFlag, words ...word) cli.Flag {
	f.Action = func(_ *cli.Context, value string) error {
		if value == f.Value || isWord(words, value) { // --input-format "" is none
			return nil
		}
		return usage("--%s %q: want %s%s", f.Name, value, orList(words), meant(value, words))
	}
	return wordFlag{f, words}
}

// suggesting is a flag that takes other values besides these words.
func suggesting(f shownFlag, words ...word) cli.Flag { return wordFlag{f, words} }

// wordsOf returns the keys of the values of a flag.
func wordsOf[V any](values map[string]V) []word {
	return named(slices.Sorted(maps.Keys(values))...)
}

// named returns words that need no explanation.
func named(names ...string) (words []word) {
	for _, name := range names {
		words = append(words, word{name: name})
	}
	return words
}

func isWord(words []word, name string) bool {
	return slices.ContainsFunc(words, func(w word) bool { return w.name == name })
}

// orList lists words in running text: "blocks, peak or usage".
func orList(words []word) string {
	var names []string
	for _, w := range words {
		names = append(names, w.name)
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// nearEnough is from which likeness on (Jaro-Winkler, 1 = the same) a word is taken
// for a mistyped other one.
const nearEnough = 0.82

// meant asks whether the nearest of the words was meant, "" where none is near.
func meant(given string, words []word) string {
	best, most := "", nearEnough
	for _, w := range words {
		if near := smetrics.JaroWinkler(strings.ToLower(given), w.name, 0.7, 4); near >= most {
			best, most = w.name, near
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}
