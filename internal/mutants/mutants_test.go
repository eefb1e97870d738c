package mutants

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/memlane/memlane/internal/nativetest"
)

// TestOf: what is parsed is written as it was, and mutants of a seed are the same each time and differ from the capture.
func TestOf(t *testing.T) {
	forms := map[string]int{}
	for n, data := range nativetest.Contents(t, "../../testdata/torchsnap/*.pickle", "../../testdata/xplane/*.pb", "../../testdata/chrome/*.json.gz", "../../testdata/gpumemprof/*.json", "../../testdata/*/*.native") {
		if len(data) > 64<<10 {
			continue
		}
		root := parse(data)
		if !bytes.Equal(root.append(nil), data) {
			t.Errorf("capture %d of %d bytes is written in another way", n, len(data))
		}
		forms[formOf(data)]++
		same := 0
		for seed := range uint64(4) {
			first, second := Of(data, rand.New(rand.NewPCG(seed, 0))), Of(data, rand.New(rand.NewPCG(seed, 0)))
			if !bytes.Equal(first, second) {
				t.Errorf("capture %d has two mutants of seed %d", n, seed)
			}
			if bytes.Equal(first, data) {
				same++
			}
		}
		if same > 2 && len(data) > 100 {
			t.Errorf("capture %d: %d of 4 mutants are the capture", n, same)
		}
	}
	t.Log(forms)
	for _, form := range []string{"pickle", "json", "proto", "text"} {
		if forms[form] == 0 {
			t.Errorf("no capture is a %s", form)
		}
	}
}

func formOf(data []byte) string {
	if _, ok := parsePickle(data); ok {
		return "pickle"
	}
	if _, ok := parseJSON(data); ok {
		return "json"
	}
	if _, ok := parseProto(data); ok {
		return "proto"
	}
	return "text"
}
