package oomtext

import (
	"strings"
	"testing"
)

// TestPrograms: help fits a line and is that of the program, and each sentence has a program.
func TestPrograms(t *testing.T) {
	for source, p := range programs {
		for _, help := range []string{p.help, p.atStart} {
			if help = strings.NewReplacer("{monitor}", "nvidia-smi", "{free share}", "0.85").Replace(help); len(help) > 80 || strings.Contains(help, "PyTorch") {
				t.Errorf("%s is told %q", source, help)
			}
		}
	}
	for _, s := range sentences {
		if p, ok := programs[s.source]; s.source != "host" && (!ok || p.name == "" && p.help == "") {
			t.Errorf("%q is of an unknown program", s.word)
		}
	}
}
