package laws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/loss"
	"github.com/memlane/memlane/render/model"
)

// TestSums: no sum of sizes wraps around, in JSON or in text.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { checkSums(t, subjectOf("", judge.Of(anyCapture(t, extreme)))) })
}

// signed are the keys of sizes that may be negative: changes, and what random facts claim.
var signed = []string{"padding_bytes"}

func checkSums(t fataler, of *subject) {
	c, file := of.Capture, of.file
	peaks := answer.Peaks{}
	for _, s := range c.Spaces {
		for _, at := range []int64{s.Begin, s.Peak(lifetime.Occupied).At, s.AtEnd()} {
			peaks.Peaks = append(peaks.Peaks, answer.PeakOf(&c.Tables, s, at))
		}
	}
	for _, p := range peaks.Peaks {
		sum := new(big.Int)
		for _, r := range p.Rows {
			sum.Add(sum, big.NewInt(r.Bytes))
		}
		want := int64(math.MaxInt64)
		if sum.IsInt64() {
			want = sum.Int64()
		}
		if p.Bytes != want || p.Total.Bytes != want {
			t.Fatalf("%s: %s at %d: %d bytes, in text %d; the rows sum to %s", file, p.Space, p.At, p.Bytes, p.Total.Bytes, sum)
		}
	}
	d := of.diff()
	if belowZero(c.Capture) {
		return
	}
	for name, v := range map[string]any{
		"info":   answer.Info{Captures: []answer.Capture{of.info()}},
		"leaks":  answer.NewLeaks([]answer.CaptureLeaks{of.leaks()}, &answer.Ranks{}, nil),
		"peak":   peaks,
		"report": reportOf(of.report()),
		"diff":   answer.DiffOf(d, false),
		"step":   answer.DiffOf(d, true),
	} {
		var out bytes.Buffer
		if err := model.WriteJSON(&out, v); err != nil {
			t.Fatalf("%v", err)
		}
		decoder := json.NewDecoder(&out)
		decoder.UseNumber()
		var tree any
		if err := decoder.Decode(&tree); err != nil {
			t.Fatalf("%v", err)
		}
		if path := negative(tree, ""); path != "" {
			t.Fatalf("%s: %s: %s", file, name, path)
		}
	}
}

// belowZero reports whether the facts themselves have a size below zero.
func belowZero(c *lifetime.Capture) bool {
	for _, s := range c.Spaces {
		if slices.ContainsFunc(s.Marks, func(m lifetime.Mark) bool { return m.Requested < 0 }) ||
			slices.ContainsFunc(s.Totals, func(t lifetime.Total) bool { return t.Bytes < 0 }) {
			return true
		}
		for _, m := range []lifetime.Measure{lifetime.Requested, lifetime.Occupied} {
			for l := range s.Levels(m) {
				if l.Bytes < 0 {
					return true
				}
			}
		}
	}
	return slices.ContainsFunc(c.Losses, func(l loss.Loss) bool { return l.Bytes < 0 })
}

// negative returns the path and value of a size below zero, "" if there is none.
func negative(v any, path string) string {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if found := negative(inner, path+"/"+k); found != "" {
				return found
			}
		}
	case []any:
		for _, inner := range v {
			if found := negative(inner, path); found != "" {
				return found
			}
		}
	case json.Number:
		key := path[strings.LastIndexByte(path, '/')+1:]
		if (key == "bytes" || strings.HasSuffix(key, "_bytes")) && !slices.Contains(signed, key) && strings.HasPrefix(v.String(), "-") {
			return fmt.Sprint(path, " ", v)
		}
	}
	return ""
}
