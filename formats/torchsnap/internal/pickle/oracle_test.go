package pickle_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	ogorek "github.com/kisielk/og-rek"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
	"github.com/memlane/memlane/internal/nativetest"
)

// comparison compares a decoded pickle with the result of og-rek. The two differ by
// design:
//
//   - og-rek copies lists, so a list from the memo has only the items at the time
//     that it was stored there, usually none. Such a list may be a prefix of ours,
//     but one of its uses must be complete.
//   - Text and bytes are the same kind here.
//   - og-rek refuses BINUNICODE8, BINBYTES8, LONG4 and text with bad escapes. It
//     accepts values below the top of the stack at STOP, items that are added
//     across a mark or to a used container, and all opcodes that make objects.
//   - og-rek's POP_MARK leaves values that it should drop.
type comparison struct {
	d      *pickle.Decoder
	whole  map[pickle.Value]bool
	budget int // values still to compare, as the memo expands small pickles
}

// Errors of comparisons that prove nothing.
var (
	errNotComparable = errors.New("not comparable")
	errCutShort      = errors.New("a list is longer here at each of its uses")
)

func compare(d *pickle.Decoder, v pickle.Value, want any) error {
	c := &comparison{d: d, whole: map[pickle.Value]bool{}, budget: 2_000_000}
	if err := c.same(v, want, "value"); err != nil {
		return err
	}
	for _, whole := range c.whole {
		if !whole {
			return errCutShort
		}
	}
	return nil
}

func (c *comparison) same(v pickle.Value, want any, path string) error {
	if c.budget--; c.budget < 0 {
		return errNotComparable
	}
	differ := func() error {
		return fmt.Errorf("%s: %s, og-rek has %.200v (%T)", path, show(c.d, v, 200), want, want)
	}
	ok := false
	switch want := want.(type) {
	case ogorek.None:
		ok = v.Kind() == pickle.None
	case bool:
		ok = v.Kind() == pickle.Bool && (v.Int() == 1) == want
	case int64:
		n, is := c.d.Int64(v)
		ok = is && n == want
	case *big.Int:
		n, is := c.d.Int64(v)
		ok = is && want.IsInt64() && want.Int64() == n || v.Kind() == pickle.Wide && c.d.Wide(v).Cmp(want) == 0
	case float64:
		ok = v.Kind() == pickle.Float && (math.Float64bits(c.d.Float(v)) == math.Float64bits(want) || math.IsNaN(c.d.Float(v)) && math.IsNaN(want))
	case string:
		ok = v.Kind() == pickle.Str && c.d.Str(v) == want
	case ogorek.ByteString:
		ok = v.Kind() == pickle.Str && c.d.Str(v) == string(want)
	case ogorek.Bytes:
		ok = v.Kind() == pickle.Str && c.d.Str(v) == string(want)
	case ogorek.Tuple:
		return c.items(v, pickle.Tuple, want, path)
	case []any:
		return c.items(v, pickle.List, want, path)
	case ogorek.Dict:
		return c.dict(v, want, path)
	}
	if !ok {
		return differ()
	}
	return nil
}

func (c *comparison) items(v pickle.Value, kind pickle.Kind, want []any, path string) error {
	items := c.d.Items(v)
	if v.Kind() != kind || len(items) < len(want) || kind == pickle.Tuple && len(items) != len(want) {
		return fmt.Errorf("%s: %s, og-rek has %.200v", path, show(c.d, v, 200), want)
	}
	if kind == pickle.List {
		c.whole[v] = c.whole[v] || len(items) == len(want)
	}
	for i, w := range want {
		if err := c.same(items[i], w, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// dict compares dicts with text keys. For other keys og-rek has Python's rules of
// equality (1, 1.0 and True), which snapshots do not need.
func (c *comparison) dict(v pickle.Value, want ogorek.Dict, path string) error {
	if v.Kind() != pickle.Dict {
		return fmt.Errorf("%s: %s, og-rek has a dict", path, show(c.d, v, 200))
	}
	items := c.d.Items(v)
	last := map[string]pickle.Value{} // the last of equal keys counts
	for i := 0; i < len(items); i += 2 {
		if items[i].Kind() != pickle.Str {
			return errNotComparable
		}
		last[c.d.Str(items[i])] = items[i+1]
	}
	if len(last) != want.Len() {
		return fmt.Errorf("%s: %d keys, og-rek has %d", path, len(last), want.Len())
	}
	for key, v := range last {
		w, ok := want.Get_(key)
		if !ok {
			w, ok = want.Get_(ogorek.Bytes(key))
		}
		if !ok {
			return fmt.Errorf("%s: og-rek has no key %q", path, key)
		}
		if err := c.same(v, w, fmt.Sprintf("%s[%q]", path, key)); err != nil {
			return err
		}
	}
	return nil
}

// ogrek decodes with og-rek. It returns an error if og-rek fails or panics.
func ogrek(data []byte) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("og-rek panics: %v", p)
		}
	}()
	return ogorek.NewDecoderWithConfig(bytes.NewReader(data), &ogorek.DecoderConfig{StrictUnicode: true, PyDict: true}).Decode()
}

// TestOgrekCaptures compares every capture with the result of og-rek.
func TestOgrekCaptures(t *testing.T) {
	all := captures(t)
	for _, name := range sortedNames(all) {
		d, v, err := decode(all[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := ogrek(all[name])
		if err != nil {
			t.Errorf("%s: og-rek: %v", name, err)
			continue
		}
		if err := compare(d, v, want); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOgrekGenerated decodes random data that og-rek writes, in every protocol.
func TestOgrekGenerated(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for protocol := range 6 {
		for range 300 {
			data := randomData(rng, 4)
			var b bytes.Buffer
			if err := ogorek.NewEncoderWithConfig(&b, &ogorek.EncoderConfig{Protocol: protocol, StrictUnicode: true}).Encode(data); err != nil {
				t.Fatal(err)
			}
			d, v, err := decode(b.Bytes())
			if err != nil && strings.Contains(err.Error(), "opcode GLOBAL") && protocol < 3 {
				continue // bytes are made by a call there
			}
			if err == nil {
				err = compare(d, v, data)
			}
			if err != nil {
				t.Fatalf("protocol %d: %v\n%.2000q", protocol, err, b.Bytes())
			}
		}
	}
}

// randomData returns data of every kind that og-rek writes.
func randomData(rng *rand.Rand, depth int) any {
	n := rng.IntN(12)
	if depth == 0 {
		n = rng.IntN(8)
	}
	switch n {
	case 0:
		return ogorek.None{}
	case 1:
		return rng.IntN(2) == 0
	case 2, 3:
		return int64(rng.Uint64()) >> rng.IntN(64)
	case 4:
		n := new(big.Int).Lsh(big.NewInt(rng.Int64()+1), uint(64+rng.IntN(200)))
		if rng.IntN(2) == 0 {
			n.Neg(n)
		}
		return n
	case 5:
		return math.Ldexp(rng.NormFloat64(), rng.IntN(200)-100)
	case 6, 7:
		return randomText(rng)
	case 8:
		d := ogorek.NewDict()
		for range rng.IntN(8) {
			d.Set(randomText(rng), randomData(rng, depth-1))
		}
		return d
	case 9:
		t := ogorek.Tuple{}
		for range rng.IntN(5) {
			t = append(t, randomData(rng, depth-1))
		}
		return t
	default:
		l := []any{}
		for range rng.IntN(6) {
			l = append(l, randomData(rng, depth-1))
		}
		return l
	}
}

func randomText(rng *rand.Rand) string {
	alphabet := []rune("ab \\u0041\n\r\t\"'\x00\x1aéß€漢😀\u0085\u2028")
	var b strings.Builder
	n := rng.IntN(12)
	if rng.IntN(20) == 0 {
		n = 300
	}
	for range n {
		b.WriteRune(alphabet[rng.IntN(len(alphabet))])
	}
	return b.String()
}

// longInteger reports whether there may be a LONG1 of 128 bytes or more, whose length
// og-rek misreads as UTF-8.
func longInteger(data []byte) bool {
	for i := 1; i < len(data); i++ {
		if data[i-1] == 0x8a && data[i] >= 0x80 {
			return true
		}
	}
	return false
}

// FuzzDecode decodes arbitrary input. It must return a clear error, or the same value as
// og-rek. One of the two may refuse the input; see comparison.
func FuzzDecode(f *testing.F) {
	for _, data := range nativetest.Contents(f, "../../../../testdata/torchsnap/*.pickle") {
		if len(data) < 5<<10 {
			f.Add(data)
		}
	}
	for _, p := range plain {
		f.Add([]byte(p.pickle))
	}
	for _, a := range refused {
		f.Add([]byte(a.pickle))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, v, err := decode(data)
		if err != nil {
			checkMessage(t, err)
			return
		}
		want, err := ogrek(data)
		if err != nil || longInteger(data) {
			return
		}
		err = compare(d, v, want)
		used := opcodesIn(data)
		// The only use of a list may be a GET, after a POP of the list.
		fromMemo := used['g'] || used['h'] || used['j'] || used['2']
		if err != nil && err != errNotComparable && !used['1'] && !(err == errCutShort && fromMemo) {
			t.Errorf("%v\n%q", err, data)
		}
	})
}
