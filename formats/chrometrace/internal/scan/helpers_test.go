package scan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
	"testing"
)

// text formats an event for comparison.
func text(e *Event) string {
	a := e.Args
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q pid %q tid %q ts %v dur %v id %q has %b", e.Phase, e.Name, e.Cat, e.PID, e.TID, e.TS, e.Dur, e.ID, a.Has)
	fmt.Fprintf(&b, " %v", []int64{a.Bytes, a.TotalAllocated, a.TotalReserved, a.DeviceType, a.DeviceID, a.Sequence, a.FwdThread, a.PythonID, a.PythonParent, a.Size})
	fmt.Fprintf(&b, " addr %d %q %q %q %q", a.Addr, a.CallFrom, a.Dims, a.Types, a.Name)
	for _, c := range a.Counters {
		fmt.Fprintf(&b, " %q=%v", c.Name, c.Value)
	}
	return b.String()
}

// log is the result of a scan as text.
type log struct {
	events []string
	header []string
	rows   []string
	tol    Tolerated
	err    error
}

func (l log) String() string {
	return fmt.Sprint(strings.Join(l.events, "\n"), "\n", strings.Join(l.header, "\n"), "\n", strings.Join(l.rows, "\n"), "\n", l.tol, l.err)
}

func (l *log) handler() Handler {
	return Handler{
		Event: func(e *Event) { l.events = append(l.events, text(e)) },
		Header: func(key string, text []byte, n int64) {
			l.header = append(l.header, fmt.Sprintf("%s=%s (%d)", key, text, n))
		},
		Row:    func(n []int64, whole bool) { l.rows = append(l.rows, fmt.Sprint(n, whole)) },
		RowEnd: func() { l.rows = append(l.rows, "end") },
	}
}

func read(in io.Reader, window int) *log {
	l := &log{}
	l.tol, l.err = scan(in, l.handler(), window)
	return l
}

func readText(s string) *log { return read(strings.NewReader(s), windowSize) }

// The oracle: encoding/json and exact fractions.

// want returns the text of the event as encoding/json reads it.
func want(t testing.TB, raw json.RawMessage) string {
	m := members(t, raw)
	e := Event{
		Name: plain(m["name"]), Cat: plain(m["cat"]), PID: plain(m["pid"]), TID: plain(m["tid"]), ID: plain(m["id"]),
		TS: nanos(m["ts"]), Dur: nanos(m["dur"]),
	}
	if ph := plain(m["ph"]); len(ph) > 0 && m["ph"][0] == '"' { // not a number
		e.Phase = ph[0]
	}
	if args := m["args"]; len(args) > 0 && args[0] == '{' {
		e.Args = wantArgs(t, members(t, args), e.Phase, args)
	}
	return text(&e)
}

func wantArgs(t testing.TB, m map[string]json.RawMessage, phase byte, raw json.RawMessage) Args {
	a := Args{CallFrom: plain(m["CallFrom"]), Name: plain(m["name"]), Types: rawText(m["Input type"])}
	a.Dims = rawText(m["Input Dims"])
	if a.Dims == nil {
		a.Dims = rawText(m["Input dims"])
	}
	for k, dst := range []*int64{&a.Bytes, &a.TotalAllocated, &a.TotalReserved, &a.DeviceType, &a.DeviceID, &a.Sequence, &a.FwdThread, &a.PythonID, &a.PythonParent} {
		key := []string{"Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id", "Sequence number", "Fwd thread id", "Python id", "Python parent id"}[k]
		if v := whole(m[key]); v != nil && v.IsInt64() {
			*dst = v.Int64()
			a.Has |= 1 << k
		}
	}
	if v := whole(m["Addr"]); v != nil && v.IsUint64() {
		a.Addr = v.Uint64()
		a.Has |= HasAddr
	}
	snap := map[string]json.RawMessage{}
	if s := m["snapshot"]; len(s) > 0 && s[0] == '{' {
		snap = members(t, s)
	}
	for _, v := range []json.RawMessage{m["size"], m["size_bytes"], m["bytes"], snap["size"], snap["size_bytes"], snap["bytes"]} {
		if n := whole(v); n != nil && n.IsInt64() {
			a.Size = n.Int64()
			a.Has |= HasSize
			break
		}
	}
	if phase != 'C' {
		return a
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.Token()
	for dec.More() {
		key, _ := dec.Token()
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if isNumeric(v) {
			if f, err := strconv.ParseFloat(string(v), 64); err == nil {
				a.Counters = append(a.Counters, Counter{[]byte(key.(string)), f})
			}
		}
	}
	return a
}

func members(t testing.TB, raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return m
}

func isNumeric(v json.RawMessage) bool {
	return len(v) > 0 && (v[0] == '-' || v[0] >= '0' && v[0] <= '9')
}

// plain returns the text of a string, or a number as written.
func plain(v json.RawMessage) []byte {
	if isNumeric(v) {
		return v
	}
	var s string
	if len(v) > 0 && v[0] == '"' && json.Unmarshal(v, &s) == nil {
		return []byte(s)
	}
	return nil
}

func rawText(v json.RawMessage) []byte {
	if len(v) > 4<<10 {
		return nil
	}
	if !bytes.ContainsAny(v, "\n\r\t") {
		return v
	}
	var b bytes.Buffer
	json.Compact(&b, v)
	return b.Bytes()
}

// rat returns the value of a number, or of a string with one.
func rat(v json.RawMessage) *big.Rat {
	s := string(v)
	if len(v) > 0 && v[0] == '"' {
		s = strings.TrimSpace(string(plain(v)))
	} else if !isNumeric(v) {
		return nil
	}
	if strings.Contains(s, "/") || strings.Contains(s, "_") || strings.ContainsAny(s, "xXpP") {
		return nil
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil
	}
	return r
}

func whole(v json.RawMessage) *big.Int {
	r := rat(v)
	if r == nil || !r.IsInt() {
		return nil
	}
	return r.Num()
}

func nanos(v json.RawMessage) Time {
	r := rat(v)
	if r == nil {
		return Time{}
	}
	r.Mul(r, big.NewRat(1000, 1))
	half := big.NewRat(1, 2)
	neg := r.Sign() < 0
	r.Abs(r)
	r.Add(r, half)
	n := new(big.Int).Quo(r.Num(), r.Denom())
	if neg {
		n.Neg(n)
	}
	if !n.IsInt64() {
		return Time{}
	}
	return Time{n.Int64(), true}
}

// wantTrace returns the events and rows of a whole trace as encoding/json reads them.
func wantTrace(t testing.TB, data []byte) (events, rows []string) {
	list := json.RawMessage(bytes.TrimSpace(data))
	bare := list[0] == '['
	if !bare {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		if list = m["traceEvents"]; list == nil || list[0] != '[' {
			return nil, nil
		}
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(list, &elements); err != nil {
		t.Fatal(err)
	}
	for _, raw := range elements {
		switch {
		case raw[0] == '{':
			events = append(events, want(t, raw))
		case raw[0] == '[' && bare:
			rows = append(rows, wantRows(t, raw)...)
		}
	}
	return events, rows
}

func wantRows(t testing.TB, raw json.RawMessage) (rows []string) {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		t.Fatal(err)
	}
	var numbers []int64
	for _, e := range elements {
		if e[0] == '[' {
			rows = append(rows, wantRows(t, e)...)
			continue
		}
		n, err := strconv.ParseInt(string(e), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
		if len(numbers) == maxRow {
			rows = append(rows, fmt.Sprint(numbers, true))
			numbers = numbers[:0]
		}
	}
	if len(numbers) > 0 {
		rows = append(rows, fmt.Sprint(numbers, true))
	}
	if len(rows) == 0 || !strings.HasPrefix(rows[len(rows)-1], "end") {
		rows = append(rows, "end")
	}
	return rows
}
