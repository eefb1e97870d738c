package scan

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	evA = `{"ph":"X","name":"a","ts":1}`
	evB = `{"ph":"X","name":"b","ts":2}`
)

// dialects are traces, most of them invalid JSON, with the events that Scan keeps and
// the tolerations that it counts.
var dialects = []struct {
	name   string
	in     string
	events string // names and times of the kept events
	count  string // kinds and their counts
	cut    bool
}{
	{"traceEvents first", `{"traceEvents":[` + evA + `],"traceName":"x"}`, "a@1000", "", false},
	{"traceEvents last", `{"metadata":{"traceEvents":[` + evB + `]},"traceEvents":[` + evA + `]}`, "a@1000", "", false},
	{"traceEvents as text", `{"a":"\"traceEvents\":[{","traceEvents":[` + evA + `]}`, "a@1000", "", false},
	{"bare array", `[` + evA + `,` + evB + `]`, "a@1000 b@2000", "", false},
	{"trailing empty object", `[` + evA + `,{}]`, "a@1000 empty", "", false},
	{"byte order mark", "\ufeff[" + evA + "]", "a@1000", "byte order mark 1", false},
	{"CRLF", "{\r\n  \"traceEvents\": [\r\n    {\r\n\t\"name\": \"a\",\r\n      \"ts\": 1\r\n    }\r\n  ]\r\n}\r\n", "a@1000", "", false},
	{"NaN", `[{"name":"a","ts":1,"args":{"x":NaN,"y":[-Infinity,nan],"Bytes":Infinity}}]`, "a@1000", "NaN or Infinity 4", false},
	{"NaN as a time", `[{"name":"a","ts":NaN},` + evB + `]`, "a@- b@2000", "NaN or Infinity 1", false},
	{"NaN in a string", `[{"name":"a","ts":"nan"}]`, "a@-", "NaN or Infinity 1", false},
	{"NaN of a C library", `[{"name":"a","ts":1,"args":{"x":-nan(ind),"y":1.#INF}}]`, "a@1000", "NaN or Infinity 2", false},
	{"control character", "[{\"name\":\"a\nb\tc\",\"ts\":1}]", "a\nb\tc@1000", "control character in a string 1", false},
	{"invalid UTF-8", "[{\"name\":\"a\xff\xfe\xe2\x82\",\"ts\":1}]", "a\ufffd\ufffd\ufffd\ufffd@1000", "invalid UTF-8 1", false},
	{"half a character", `[{"name":"a\ud83d","ts":1}]`, "a\ufffd@1000", "invalid UTF-8 1", false},
	{"surrogate pair", `[{"name":"a\ud83d\ude00\u00e9\/\"","ts":1}]`, "a😀é/\"@1000", "", false},
	{"Windows path", `[{"name":"C:\Users\new\torch.py(8): f","ts":1}]`, `C:\Users\new\torch.py(8): f@1000`, "bad escape 1", false},
	{"Windows path with \\u", `[{"name":"C:\users\x","ts":1,"x":"D:\q"}]`, `C:\users\x@1000`, "bad escape 2", false},
	{"time as a string", `[{"name":"a","ts":"1.5","dur":"2"}]`, "a@1500", "number written as a string 2", false},
	{"time beyond 64 bits", `[{"name":"a","ts":1e30},` + evB + `]`, "a@- b@2000", "number that does not fit 1", false},
	{"bytes beyond 64 bits", `[{"name":"a","ts":1,"args":{"Bytes":99999999999999999999,"Total Allocated":1.5}}]`, "a@1000", "number that does not fit 2", false},
	{"malformed numbers", `[{"name":"a","ts":+1},{"name":"b","ts":002},{"name":"c","ts":.5},{"name":"d","ts":1.2.3}]`, "a@1000 b@2000 c@500 d@-", "malformed number 4", false},
	{"Python's words", `[{"name":"a","ts":1,"x":None,"args":{"y":[True]}}]`, "a@1000", "unknown word 2", false},
	{"duplicate key", `[{"name":"x","name":"a","ts":9,"ts":1}]`, "a@1000", "duplicate key 2", false},
	{"duplicate header", `{"a":1,"a":2,"traceEvents":[` + evA + `]}`, "a@1000", "duplicate key 1", false},
	{"trailing comma", `{"traceEvents":[` + evA + `,{"name":"b","ts":2,"args":{"x":[1,],},},],}`, "a@1000 b@2000", "trailing comma 5", false},
	{"missing comma", `[` + evA + ` ` + evB + `{"name":"c" "ts":3,"args":{"x":[1 2],"y":{"p":1 "q":2}}}]`, "a@1000 b@2000 c@3000", "missing comma 5", false},
	{"missing quote", `[{"name":"a", tid": 0, "ts":1},{name:"b","ts":2}]`, "a@1000 b@2000", "missing quote 2", false},
	{"legacy pid", `[{"name":"a","ph":"X","ts":1,"dur":2,"tid":0,"pid":"CPU functions","args":{}}]`, "a@1000", "", false},
	{"cut in an event", `{"traceEvents":[` + evA + `,{"ph":"X","na`, "a@1000", "incomplete event 1", true},
	{"cut between events", `{"traceEvents":[` + evA + `,` + evB + ",\n", "a@1000 b@2000", "", true},
	{"cut after an event", `[` + evA, "a@1000", "", true},
	{"cut in the header", `{"schemaVersion":1,"trace`, "", "", true},
	{"cut after the header", `{"traceEvents":[` + evA + `],"traceName":"x`, "a@1000", "", true},
	{"cut before the last bracket", `{"traceEvents":[` + evA + `]`, "a@1000", "", true},
	{"bracket left out", `{"traceEvents":[` + evA + `}`, "a@1000", "missing bracket 1", false},
	{"text after the end", `{"traceEvents":[` + evA + `]} xyz [1]`, "a@1000", "text after the end 1", false},
	{"zeros after the end", `[` + evA + "]\x00\x00", "a@1000", "text after the end 1", false},
	{"bad token", `[` + evA + `,{"name":"x","ts":@1,"args":{"name":"no"}},` + evB + `]`, "a@1000 b@2000", "damaged event 1", false},
	{"quote left out", `[` + evA + `,{"ph":"X","name":"x,"ts":1},` + evB + `]`, "a@1000 b@2000", "damaged event 1", false},
	{"brace left out", `[{"ph":"X","name":"x","args":{"a":1},` + evA + `,` + evB + `]`, "a@1000 b@2000", "damaged event 1", false},
	{"two braces left out", `[{"ph":"X","args":{"a":{"b":1,"c":{"d":1},` + evA + `,` + evB + `]`, "a@1000 b@2000", "damaged event 1", false},
	{"inner bracket left out", `[{"ph":"X","args":{"a":[1,[2,"Ev Idx":3}},` + evA + `,` + evB + `]`, "a@1000 b@2000", "damaged event 1", false},
	{"damage in the last event", `{"traceEvents":[` + evA + `,{"ph":"X",,}],"traceName":"x"}`, "a@1000", "damaged event 1", false},
	{"damage and a cut", `{"traceEvents":[` + evA + `,{"ph":"X",,},{"ph`, "a@1000", "damaged event 1", true},
	{"brace too many", `{"traceEvents":[` + evA + `},` + evB + `]}`, "a@1000 b@2000", "damaged event 1", false},
	{"damaged header", `{"schemaVersion":@,"traceEvents":[` + evA + `]}`, "a@1000", "damaged event 1", false},
	{"not events", `[1,"x",[2],null,` + evA + `]`, "a@1000", "not an event 3", false},
	{"interleaved text", `[` + evA + `,` + "\nlog: hello {world}\n" + evB + `]`, "a@1000 b@2000", "damaged event 1", false},
	{"exponents", `[{"name":"a","ts":1.5e3},{"name":"b","ts":25E-4},{"name":"c","ts":-0.0005}]`, "a@1500000 b@3 c@-1", "", false},
	{"number in a name", `[{"name":12,"ts":1}]`, "12@1000", "", false},
	{"args are not an object", `[{"name":"a","ts":1,"args":[1,{"Bytes":2}]}]`, "a@1000", "", false},
	{"deep nesting", `[{"name":"a","ts":1,"args":{"x":` + strings.Repeat("[", 60000) + strings.Repeat("]", 60000) + `}}]`, "a@1000", "", false},
	{"bottomless nesting", `[{"name":"a","ts":1,"x":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `},` + evB + `]`, "b@2000", "damaged event 1", false},
	{"long string", `[{"name":"a","ts":1,"x":"` + strings.Repeat(`\n`, 2<<20) + `"},` + evB + `]`, "a@1000 b@2000", "string of more than 1 MiB 1", false},
}

func TestDialects(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			for _, window := range []int{windowSize, 16, 37} {
				var events, counts []string
				tol, err := scan(iotest.HalfReader(strings.NewReader(d.in)), Handler{Event: func(e *Event) {
					switch {
					case e.Phase == 0 && e.Name == nil && !e.TS.OK:
						events = append(events, "empty")
					case e.TS.OK:
						events = append(events, fmt.Sprintf("%s@%d", e.Name, e.TS.NS))
					default:
						events = append(events, fmt.Sprintf("%s@-", e.Name))
					}
				}}, window)
				for _, m := range tol.List {
					counts = append(counts, fmt.Sprint(m.Kind, " ", m.Count))
				}
				if have := strings.Join(events, " "); have != d.events {
					t.Errorf("kept %q, want %q", have, d.events)
				}
				if have := strings.Join(counts, ", "); have != d.count {
					t.Errorf("counted %q, want %q", have, d.count)
				}
				if err != nil || tol.Truncated != d.cut {
					t.Errorf("error %v, truncated %v", err, tol.Truncated)
				}
			}
		})
	}
}

func TestEveryKindHasAName(t *testing.T) {
	for k := range kinds {
		if k.String() == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
}

func TestHeader(t *testing.T) {
	l := readText(`{"schemaVersion":1,"deviceProperties":[{"id":0}],"distributedInfo":{"rank":3,"x":{"y":"z"},"ranks":[0,1],"pg":[[1]]},` +
		`"baseTimeNanoseconds":1752000000000000001,"ok":true,"n":null,"f":1.5,"t":"12","traceEvents":[],"big":18446744073709551615}`)
	want := "schemaVersion=1 (1) distributedInfo.rank=3 (3) distributedInfo.x.y=z (0) distributedInfo.ranks[]=0 (0) distributedInfo.ranks[]=1 (1) " +
		"baseTimeNanoseconds=1752000000000000001 (1752000000000000001) ok=true (0) n=null (0) f=1.5 (0) t=12 (12) big=18446744073709551615 (0)"
	if have := strings.Join(l.header, " "); have != want {
		t.Errorf("%s\nwant\n%s", have, want)
	}
}

func TestRows(t *testing.T) {
	for in, want := range map[string]string{
		`[[1,2],[-3]]`:            "[1 2] true|end|[-3] true|end",
		`[[1],[[2,3],[4]]]`:       "[1] true|end|[2 3] true|end|[4] true|end",
		`[[1,2.5,3]]`:             "[1 3] false|end",
		`[[2.0,1e3]]`:             "[2 1000] true|end",
		`[["a"],[]]`:              "[] false|end|[] true|end",
		`[[1,[2],3]]`:             "[1] false|end|[2] true|end|[3] false|end",
		`[[1,2],[3,`:              "[1 2] true|end",
		`[[1,@],[3]]`:             "[3] true|end",
		`[[9223372036854775807]]`: "[9223372036854775807] true|end",
	} {
		if have := strings.Join(readText(in).rows, "|"); have != want {
			t.Errorf("%s: %s, want %s", in, have, want)
		}
	}
	numbers, ends, pieces := 0, 0, 0
	in := "[[" + strings.Repeat("1, ", 9999) + "1]]"
	Scan(strings.NewReader(in), Handler{Row: func(n []int64, whole bool) {
		if len(n) > maxRow || !whole {
			t.Fatal(len(n), whole)
		}
		numbers += len(n)
		pieces++
	}, RowEnd: func() { ends++ }})
	if numbers != 10000 || ends != 1 || pieces != 3 {
		t.Error(numbers, ends, pieces)
	}
}

func TestArgs(t *testing.T) {
	for in, want := range map[string]string{
		`{"args":{"x":1,"y":2.5,"z":"no","w":-1e2},"ph":"C"}`:                                    ` "x"=1 "y"=2.5 "w"=-100`,
		`{"ph":"C","args":{"a":1,"a":2}}`:                                                        ` "a"=2`,
		`{"ph":"X","args":{"a":1}}`:                                                              ``,
		`{"ph":"C","args":{"a":1},"args":{"b":3}}`:                                               ` "b"=3`,
		`{"ph":"C","args":{"` + strings.Repeat("k", 70) + `":1,"a\u0062":99999999999999999999}}`: ` "` + strings.Repeat("k", 70) + `"=1 "ab"=1e+20`,
	} {
		for _, window := range []int{windowSize, 16} {
			l := read(strings.NewReader("["+in+"]"), window)
			_, have, _ := strings.Cut(l.events[0], ` addr 0 "" "" "" ""`)
			if have != want {
				t.Errorf("%s: %s, want %s", in, have, want)
			}
		}
	}
	var got Args
	Scan(strings.NewReader(`[{"ph":"N","id":"0x1f","args":{"Addr":"0xffffffffffffffff","snapshot":{"size":7,"x":{"size":1}},"bytes":"5","name":"n"}}]`),
		Handler{Event: func(e *Event) { got = e.Args }})
	if got.Addr != 1<<64-1 || got.Size != 5 || got.Has != HasAddr|HasSize {
		t.Errorf("%+v", got)
	}
}

func TestNoTrace(t *testing.T) {
	for _, in := range []string{"", " \n", "hello", "\x80\x02}", `"text"`, "{@@@@", "\ufeff"} {
		if _, err := Scan(strings.NewReader(in), Handler{}); err == nil || !strings.Contains(err.Error(), "byte") {
			t.Errorf("%q: error %v", in, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for _, window := range []int{16, windowSize} {
		l := read(io.MultiReader(strings.NewReader("["+evA+","+evB), iotest.ErrReader(io.ErrUnexpectedEOF)), window)
		if l.err != nil || len(l.events) != 2 || !l.tol.Truncated {
			t.Error(l)
		}
		bad := errors.New("bad disk")
		l = read(io.MultiReader(strings.NewReader("["+evA+",{"), iotest.ErrReader(bad)), window)
		if !errors.Is(l.err, bad) || len(l.events) != 1 {
			t.Error(l)
		}
	}
}

func TestSniff(t *testing.T) {
	for in, want := range map[string]bool{
		`{"traceEvents":[`: true, "\ufeff\r\n{ \"schemaVersion\" : 1": true, `[{"ph":"X"`: true, "[\n [1, 2": true, `[[], []]`: true,
		`{"metadata":{`: true, `{"displayTimeUnit":"ns"`: true, `[ {`: true,
		`{"schema":"memlane/1","metadata":{}`: false, `{"a":1}`: false, `[1,2]`: false, `["a"]`: false, "": false, "[": false,
		"\x80\x02}q\x00": false, "(dp0\n": false, "]q\x01": false, `{"x":"ph"}`: false, `{'ph': 1}`: false,
	} {
		if have := Sniff([]byte(in)); have != want {
			t.Errorf("%q: %v", in, have)
		}
	}
}
