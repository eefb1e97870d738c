package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// word is a possible value of a flag or an argument.
type word struct{ name, doc string }

// wordFlag is a flag with words that completion suggests as its value.
type wordFlag struct {
	visibleFlag
	words []word
}

// visibleFlag is a flag that cli can show in help and whose action it runs.
type visibleFlag interface {
	cli.DocGenerationFlag
	cli.ActionableFlag
	cli.VisibleFlag
	cli.CategorizableFlag
}

// oneOf returns a flag that accepts only these words.
func oneOf(f *cli.StringFlag, words ...word) cli.Flag {
	f.Action = func(c *cli.Context, value string) error {
		if value == f.Value || hasWord(words, value) { // f.Value may be "", as for --input-format
			return nil
		}
		others := flagWords(c.Command.VisibleFlags()) // json is a flag and svg a command, no formats
		for _, command := range c.App.VisibleCommands() {
			others = append(others, word{name: "memlane " + command.Name})
		}
		return usage("--%s %q: use %s%s", f.Name, value, orList(words), cmp.Or(suggestion(value, words), inDoc(value, words), suggestion(value, others)))
	}
	return wordFlag{f, words}
}

// suggesting returns a flag that accepts any value and suggests these words.
func suggesting(f visibleFlag, words ...word) cli.Flag { return wordFlag{f, words} }

func named(names ...string) (words []word) {
	for _, name := range names {
		words = append(words, word{name: name})
	}
	return words
}

func hasWord(words []word, name string) bool {
	return slices.ContainsFunc(words, func(w word) bool { return w.name == name })
}

// orList joins words for running text: "blocks, peak or usage".
func orList(words []word) string {
	var names []string
	for _, w := range words {
		names = append(names, w.name)
	}
	last := len(names) - 1
	return strings.TrimPrefix(strings.Join(names[:last], ", ")+" or "+names[last], " or ")
}

// minSimilarity is the similarity (Jaro-Winkler, 1 = equal) from which on a word counts as mistyped.
const minSimilarity = 0.82

// suggestion asks whether the most similar of the words was meant; "" if no word is similar, or the given one is among them.
func suggestion(given string, words []word) string {
	plain := func(s string) string {
		return strings.TrimPrefix(strings.TrimLeft(strings.ToLower(s), "-"), "memlane ")
	}
	best, most := "", minSimilarity
	for _, w := range words {
		if similarity := smetrics.JaroWinkler(plain(given), plain(w.name), 0.7, 4); similarity >= most {
			best, most = w.name, similarity
		}
	}
	if best == "" || hasWord(words, given) {
		return ""
	}
	return "; did you mean " + best + "?"
}

// inDoc asks whether the word was meant whose description has the given one, or it in the singular: line is a call site.
func inDoc(given string, words []word) string {
	for _, w := range words {
		if slices.Contains(strings.Fields(strings.ToLower(w.doc)), strings.TrimSuffix(given, "s")) {
			return "; did you mean " + w.name + "?"
		}
	}
	return ""
}
