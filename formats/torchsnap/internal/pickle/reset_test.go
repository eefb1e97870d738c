package pickle_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
)

// TestReset: a decoder that has read other pickles, whole, cut or damaged, reads the next one as a new decoder does.
func TestReset(t *testing.T) {
	used := pickle.NewDecoder(nil, nil, "known")
	result := func(d *pickle.Decoder, h *numbersAsText) string {
		v, err := d.Decode()
		var b strings.Builder
		for _, item := range d.Items(v) {
			if pair := d.Items(item); len(pair) == 2 && pair[1].Kind() == pickle.Record {
				fmt.Fprintln(&b, h.texts[pair[1].Record()])
			} else {
				fmt.Fprintln(&b, show(d, item, 100))
			}
		}
		fmt.Fprint(&b, err)
		return b.String()
	}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		data, _ := repeatedLists(r)
		if r.IntN(3) == 0 {
			data = data[:r.IntN(len(data))]
		}
		if r.IntN(3) == 0 {
			data[r.IntN(len(data))] ^= byte(1 + r.IntN(255))
		}
		h, g := &numbersAsText{}, &numbersAsText{}
		used.Open(bytes.NewReader(data), h)
		got, want := result(used, h), result(pickle.NewDecoder(bytes.NewReader(data), g, "known"), g)
		if got != want {
			t.Fatalf("pickle %d:\n got %.2000s\nwant %.2000s", seed, got, want)
		}
		if !used.Reset() {
			t.Error("a few strings are not kept")
		}
	}
}

// TestResetStrings: strings keep their Values, unless there are too many.
func TestResetStrings(t *testing.T) {
	d := pickle.NewDecoder(nil, nil, "known")
	read := func(text string) pickle.Value {
		t.Helper()
		d.Open(strings.NewReader("](X"+le32(uint32(len(text)))+text+"X"+le32(5)+"knowne."), keepAll{})
		v, err := d.Decode()
		if err != nil {
			t.Fatal(err)
		}
		items := d.Items(v)
		if d.Str(items[0]) != text || items[1] != pickle.KnownString(0) {
			t.Errorf("%.20q is %.20q; known is %v", text, d.Str(items[0]), items[1])
		}
		return items[0]
	}
	read("first")
	d.Reset()
	if was := read("second"); !d.Reset() || read("second") != was {
		t.Error("a string has another Value in the next pickle")
	}
	d.Reset()
	read(strings.Repeat("x", 8<<20))
	if d.Reset() {
		t.Error("8 MiB of strings are kept")
	}
	if v := read("third"); v != pickle.KnownString(1) {
		t.Errorf("strings of the last pickle are still there: %v", v)
	}
}
