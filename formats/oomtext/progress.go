package oomtext

import (
	"bytes"
	"slices"
	"strconv"
)

// watched is the number of lines after a failure in which its writer may show that it went on.
const watched = 2000

var (
	// handled matches what a program says that goes on after a failure.
	handled = lazily(`(?i)\bskipping (?:(?:this|the|a) )?(?:batch|step|sample|tactic|config|request)|\bretrying\b|\bfalling back\b|` +
		`\breducing (?:the )?batch|\blistening on\b|\bmodel loaded\b|HTTP/1\.1" 200\b|\btraining (?:finished|completed?)\b`)
	// stepped matches a line of a training loop: the number of a step and a figure of the training.
	stepped = lazily(`(?i)\b(?:(?:global_?)?step|iter(?:ation)?|epoch|batch)\b\W{0,3}([0-9]+).{0,200}\b(?:loss|lr|acc(?:uracy)?|tok(?:ens)?/s|it/s|s/it|reward|ppl)\b`)
	summed  = []byte("wandb:") // prints the last figures of a run that ended
)

// Parts of the words of these patterns: lines without them need no pattern.
var (
	partsOfHandled = [][]byte{[]byte("ipping"), []byte("rying"), []byte("ing back"), []byte("ducing"), []byte("tening"), []byte(" loaded"), []byte("200"), []byte("raining")}
	partsOfSteps   = [][]byte{[]byte("tep"), []byte("ter"), []byte("poch"), []byte("atch")}
)

// stepOf returns the number of the step of a line of a training loop, -1 if it is none.
func stepOf(line []byte) int64 {
	if !hasAny(line, partsOfSteps) || bytes.Contains(line, summed) {
		return -1
	}
	if m := stepped().FindSubmatch(line); m != nil {
		if n, err := strconv.ParseInt(string(m[1]), 10, 64); err == nil {
			return n
		}
	}
	return -1
}

// stepBefore returns the number of the last step in the lines before a text, -1 if they have none.
func stepBefore(before []byte) int64 {
	for line := range backwards(before, nearLines) {
		if n := stepOf(line); n >= 0 {
			return n
		}
	}
	return -1
}

// goesOn reports whether a line shows that its writer goes on after a failure at a step. An earlier step is one of a run that was started
// again.
func goesOn(line []byte, step int64) bool {
	return hasAny(line, partsOfHandled) && handled().Match(line) || step >= 0 && stepOf(line) > step
}

// watch marks the failures of a writer as survived if a line shows that it goes on.
func (r *reader) watch(w *writer, line []byte) {
	switch {
	case w.open != nil:
		w.open.survived = w.open.survived || goesOn(line, w.open.step)
	case w.last != nil && !w.last.Survived && goesOn(line, w.last.step):
		r.survived(w)
	}
}

// survived marks the failures of a writer since the last one that it survived.
func (r *reader) survived(w *writer) {
	for _, f := range slices.Backward(r.failures) {
		if f.writer == w && f.Survived {
			return
		}
		f.Survived = f.Survived || f.writer == w
	}
}
