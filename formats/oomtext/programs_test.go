package oomtext

import (
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/failure"
)

// TestPrograms: help fits a line and is that of the program, and each sentence has a program and known figures.
func TestPrograms(t *testing.T) {
	for source, p := range programs {
		for _, help := range []string{p.help, p.atStart} {
			if help = strings.NewReplacer("{monitor}", "nvidia-smi", "{free share}", "0.85").Replace(help); len(help) > 80 || strings.Contains(help, "PyTorch") {
				t.Errorf("%s is told %q", source, help)
			}
		}
	}
	for _, s := range slices.Concat(sentences, torchSentences, xlaSentences, tpuSentences, bfcSentences, tensorSentences, driverSentences) {
		if p, ok := programs[s.source]; s.source != failure.FromHost && (!ok || p.name == "" && p.help == "") {
			t.Errorf("%q is of an unknown program", s.word)
		}
		for _, name := range s.text().SubexpNames() {
			newFailure(s.source).take(name, "1", s.unit) // panics for an unknown name
		}
	}
}
