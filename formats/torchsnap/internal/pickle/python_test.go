package pickle_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"testing"

	"github.com/memlane/memlane/formats/torchsnap/internal/pickle"
	"github.com/memlane/memlane/internal/race"
)

// generate is a Python program that writes lines {"p": pickle in hex, "v": the
// data}, for random plain data in every protocol. Lists occur in several places, to
// use the memo. Long lists and dicts have batches of 1000.
const generate = `
import json, pickle, pickletools, random, sys
rng = random.Random(20240229)
ALPHABET = "ab \\u0041\n\r\t\"'\0\x1a\x7f\x85éß€漢😀\u2028"
def text():
    return "".join(rng.choice(ALPHABET) for _ in range(rng.choice([0, 1, 3, 8, 300])))
def data(depth, shared):
    n = rng.randrange(7 if depth == 0 else 13)
    if n == 0: return None
    if n == 1: return rng.random() < .5
    if n in (2, 3): return rng.choice([1, -1]) * (2 ** rng.choice([0, 7, 8, 15, 16, 31, 32, 59, 60, 63, 64, 2000]) + rng.randrange(-2, 3))
    if n == 4: return rng.choice([0.0, -0.0, 1.5, 5e-324, 1.7976931348623157e308, rng.gauss(0, 1e9)])
    if n in (5, 6): return text()
    if n == 7 and shared: return rng.choice(shared)
    if n == 8: v = tuple(data(depth - 1, shared) for _ in range(rng.randrange(5)))
    elif n == 9: v = {text(): data(depth - 1, shared) for _ in range(rng.randrange(9))}
    else: v = [data(depth - 1, shared) for _ in range(rng.randrange(7))]
    shared.append(v)
    return v
samples = [data(5, []) for _ in range(60)]
samples += [list(range(-1500, 1500)), {str(i): i for i in range(2500)}, [[]] * 5, [()] * 5, [{}, {}], [(1, 2)] * 3]
samples.append([data(3, []) for _ in range(300)])
for v in samples:
    for protocol in range(6):
        for dump in (pickle.dumps, pickle._dumps):
            p = dump(v, protocol)
            for q in (p, pickletools.optimize(p)):
                print(json.dumps({"p": q.hex(), "v": v}))
`

// TestPython compares Python's pickles with the same data as JSON.
func TestPython(t *testing.T) {
	if race.Enabled {
		t.Skip("takes minutes, in one goroutine")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	var stderr bytes.Buffer
	cmd := exec.Command(python, "-c", generate)
	cmd.Env = append(cmd.Environ(), "PYTHONIOENCODING=utf-8")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("python3: %v\n%s", err, &stderr)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 64<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var sample struct {
			P string
			V any
		}
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.UseNumber()
		if err := dec.Decode(&sample); err != nil {
			t.Fatal(err)
		}
		var data []byte
		if _, err := fmt.Sscanf(sample.P, "%x", &data); err != nil {
			t.Fatal(err)
		}
		d, v, err := decode(data)
		if err == nil {
			err = sameJSON(d, v, sample.V, "value")
		}
		if err != nil {
			t.Fatalf("pickle %d: %v\n%.1000q", n, err, data)
		}
	}
	if n < 1000 {
		t.Errorf("only %d pickles", n)
	}
}

// sameJSON compares a decoded value with JSON, in which tuples are lists.
func sameJSON(d *pickle.Decoder, v pickle.Value, want any, path string) error {
	items := d.Items(v)
	ok := false
	switch want := want.(type) {
	case nil:
		ok = v.Kind() == pickle.None
	case bool:
		ok = v.Kind() == pickle.Bool && (v.Int() == 1) == want
	case string:
		ok = v.Kind() == pickle.Str && d.Str(v) == want
	case json.Number:
		switch v.Kind() {
		case pickle.Float:
			f, err := strconv.ParseFloat(want.String(), 64)
			ok = err == nil && math.Float64bits(f) == math.Float64bits(d.Float(v))
		case pickle.Int, pickle.Wide:
			ok = show(d, v, 1<<20) == want.String()
		}
	case []any:
		if ok = (v.Kind() == pickle.List || v.Kind() == pickle.Tuple) && len(items) == len(want); !ok {
			break
		}
		for i, w := range want {
			if err := sameJSON(d, items[i], w, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		if ok = v.Kind() == pickle.Dict && len(items) == 2*len(want); !ok {
			break
		}
		for i := 0; i < len(items); i += 2 {
			key := d.Str(items[i])
			if err := sameJSON(d, items[i+1], want[key], fmt.Sprintf("%s[%q]", path, key)); err != nil {
				return err
			}
		}
	}
	if !ok {
		return fmt.Errorf("%s: %s, Python has %.300v", path, show(d, v, 300), want)
	}
	return nil
}
