package pickle_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
)

// numbersAsText replaces each list of numbers by a record with its text.
type numbersAsText struct{ texts []string }

func (*numbersAsText) Dict([]pickle.Value, pickle.Value) (pickle.Value, error) {
	return pickle.Keep, nil
}

func (h *numbersAsText) List(items []pickle.Value, _ pickle.Value) (pickle.Value, error) {
	for _, v := range items {
		if v.Kind() != pickle.Int {
			return pickle.Keep, nil
		}
	}
	text := numbersOf(items)
	n := slices.Index(h.texts, text)
	if n < 0 {
		n = len(h.texts)
		h.texts = append(h.texts, text)
	}
	return pickle.NewRecord(0, n), nil
}

func numbersOf(items []pickle.Value) string {
	var b strings.Builder
	for _, v := range items {
		fmt.Fprintf(&b, "%d ", v.Int())
	}
	return b.String()
}

// TestRepeatedLists: lists of references have their items, also if they were read before, if a number of the memo gets another value, and if
// they go on after the first batch.
func TestRepeatedLists(t *testing.T) {
	for seed := range uint64(200) {
		data, want := repeatedLists(rand.New(rand.NewPCG(seed, 1)))
		h := &numbersAsText{}
		d := pickle.NewDecoder(bytes.NewReader(data), h)
		v, err := d.Decode()
		if err != nil {
			t.Fatalf("seed %d: %.200q: %v", seed, data[len(data)-600:], err)
		}
		var got []string
		for _, item := range d.Items(v) {
			got = append(got, h.texts[d.Items(item)[1].Record()])
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d:\n got %q\nwant %q", seed, got, want)
		}
	}
}

// TestListWithMore: a list that gets items after its references is no list of these references.
func TestListWithMore(t *testing.T) {
	data := "\x80\x04" + strings.Repeat("N0", 20) + "K\x07q\x000K\x08q\x010K\x09q\x020](" +
		"}(K\x00]q\x05(h\x00h\x01e0h\x05(h\x02eu" + strings.Repeat("}(K\x00](h\x00h\x01eu", 3) + "e." + filler(100)
	h := &numbersAsText{}
	if _, err := pickle.NewDecoder(strings.NewReader(data), h).Decode(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"7 8 9 ", "7 8 "}; !slices.Equal(h.texts, want) {
		t.Errorf("lists %q, want %q", h.texts, want)
	}
}

// repeatedLists returns a pickle of a list of dicts with a list each, and the texts of these lists.
func repeatedLists(r *rand.Rand) (data []byte, want []string) {
	const numbers = 300
	memo := map[int]int{}
	set := func(index, number int) {
		data = append(data, "J"+le32(uint32(number))+"r"+le32(uint32(index))+"0"...)
		memo[index] = number
	}
	data = append(data, "\x80\x04"...)
	data = append(data, strings.Repeat("N0", 4*numbers)...) // numbers of the memo do not exceed the bytes read
	for i := range numbers {
		set(i, i+1000)
	}
	data = append(data, "]("...)
	next := numbers // of the memo
	var stacks [][]int
	for range 5 {
		var stack []int
		for range r.IntN(12) {
			stack = append(stack, r.IntN(numbers))
		}
		stacks = append(stacks, stack)
	}
	for range 60 {
		stack := stacks[r.IntN(len(stacks))]
		if r.IntN(10) == 0 {
			set(r.IntN(numbers), r.IntN(5))
		}
		data = append(data, "}(K\x00]"...)
		switch r.IntN(4) {
		case 0:
			data = append(data, 0x94)
			next++
		case 1:
			data = append(data, "r"+le32(uint32(next))...)
			next++
		}
		text := ""
		add := func(of []int) {
			for _, i := range of {
				if i < 256 {
					data = append(data, 'h', byte(i))
				} else {
					data = append(data, "j"+le32(uint32(i))...)
				}
				text += fmt.Sprintf("%d ", memo[i])
			}
		}
		data = append(data, '(')
		add(stack)
		data = append(data, 'e')
		switch r.IntN(8) {
		case 0:
			data = append(data, '(')
			add(stack[:len(stack)/2])
			data = append(data, 'e')
		case 1:
			add([]int{3})
			data = append(data, 'a')
		}
		data = append(data, 'u')
		want = append(want, text)
	}
	return append(data, "e."...), want
}
