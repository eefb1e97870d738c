package render_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/pprof/profile"
	"github.com/parquet-go/parquet-go"

	"github.com/memlane/memlane/internal/hostile"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/lifetime/native"
	"github.com/memlane/memlane/render"
	"github.com/memlane/memlane/render/blocks"
	"github.com/memlane/memlane/render/chart"
	"github.com/memlane/memlane/render/pprof"
	"github.com/memlane/memlane/render/text"
)

// drawn are the allowed elements of pictures and their attributes. None of them runs,
// loads or links anything.
var drawn = map[string][]string{
	"svg":   {"xmlns", "class", "role", "width", "height", "viewBox", "font-family", "font-size"},
	"title": nil, "desc": nil, "style": nil, "defs": nil,
	"pattern": {"id", "width", "height", "patternUnits", "patternTransform"},
	"g":       {"class", "fill", "fill-opacity", "shape-rendering"},
	"path":    {"class", "fill", "fill-opacity", "shape-rendering", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "d"},
	"circle":  {"class", "fill", "fill-opacity", "shape-rendering", "r", "cx", "cy"},
	"text":    {"class", "stroke", "text-anchor", "font-size", "font-weight", "x", "y", "transform"},
	"tspan":   {"class"},
}

var (
	ownPattern = regexp.MustCompile(`^url\(#(hatch-[0-9a-f]{6}|hollow-bad)\)$`)
	integer    = regexp.MustCompile(`^-?[0-9]+$`)
	folded     = regexp.MustCompile(`^([^;]+;)*[^;]+ [0-9]+\n$`)
	benchmark  = regexp.MustCompile(`^(Unit \S+( \S+=\S+)*|Benchmark\S* 1( \S+ [a-z-]+)+)\n$`)
)

// checkPicture reads a picture as strict XML and returns its style sheet.
func checkPicture(t *testing.T, name string, svg []byte) (style string) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	inside := ""
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return style
		}
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			inside = token.Name.Local
			may, ok := drawn[inside]
			if !ok || token.Name.Space != "http://www.w3.org/2000/svg" {
				t.Errorf("%q: unexpected element %v", name, token.Name)
			}
			for _, a := range token.Attr {
				// References are only allowed to patterns of the picture.
				if own := ownPattern.MatchString(a.Value); !slices.Contains(may, a.Name.Local) || strings.Contains(a.Value, "(") && !own && !strings.HasPrefix(a.Value, "rotate(") {
					t.Errorf("%q: <%s> has %s=%q", name, inside, a.Name.Local, a.Value)
				}
			}
		case xml.CharData:
			if inside == "style" {
				style += string(token)
			}
			for _, r := range string(token) {
				if r != '\n' && r != '\u00a0' && !unicode.IsPrint(r) {
					t.Errorf("%q: <%s> contains %U", name, inside, r)
					break
				}
			}
		case xml.EndElement:
			inside = ""
		default:
			t.Errorf("%q: unexpected %T: %.60v", name, token, token)
		}
	}
}

// TestHostilePictures checks that hostile names do not change the structure of pictures.
func TestHostilePictures(t *testing.T) {
	pictures := func(name string) (all [][]byte) {
		c := hostile.Capture(name)
		device, program := c.Spaces[0], c.Spaces[1]
		d := diff.Compare(judge.Of(hostile.Capture("other")), judge.Of(c))
		m, err := chart.NewMiniature(name, device)
		if err != nil {
			t.Fatal(err)
		}
		m.Outlier, m.Why = name, name
		leaks := []finding.Finding{{Rule: name, Kind: finding.KindLeak, Severity: finding.Warning, Space: device, Sites: []lifetime.SiteID{device.Buffers[0].Site}}}
		for _, draw := range []func(io.Writer) error{
			func(w io.Writer) error {
				return blocks.Write(w, judge.Of(c), device, blocks.Options{Marks: finding.MarksOf(leaks), Title: name})
			},
			func(w io.Writer) error {
				return blocks.Write(w, judge.Of(c), device, blocks.Options{Layout: blocks.Address, Color: blocks.ByCategory})
			},
			func(w io.Writer) error {
				return blocks.Write(w, judge.Of(c), program, blocks.Options{Layout: blocks.Address})
			},
			func(w io.Writer) error { return chart.Usage(w, judge.Of(c), device, chart.Options{}) },
			func(w io.Writer) error { return chart.Peak(w, c, device, "", chart.Options{}) },
			func(w io.Writer) error { return chart.Peak(w, c, program, "", chart.Options{}) },
			func(w io.Writer) error { return chart.Diff(w, d, d.Main(), chart.Options{}) },
			func(w io.Writer) error {
				return chart.Multiples(w, name, []*chart.Miniature{m, m}, 1, chart.Options{})
			},
		} {
			var svg bytes.Buffer
			if err := draw(&svg); err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			all = append(all, svg.Bytes())
		}
		return all
	}
	var styles []string
	for _, svg := range pictures("plain") {
		styles = append(styles, checkPicture(t, "plain", svg))
	}
	for _, name := range hostile.Texts {
		if !strings.ContainsAny(name, `<>&"'`) && text.Printable(name) == name && len(name) < 1000 {
			continue // harmless in XML
		}
		for i, svg := range pictures(name) {
			if style := checkPicture(t, name, svg); style != styles[i] {
				t.Errorf("%q: the style of picture %d is\n%s", name, i, style)
			}
		}
	}
}

// TestHostileExports checks that exports with hostile names are valid in their formats, and
// contain the names if the format allows them.
func TestHostileExports(t *testing.T) {
	for _, text := range hostile.Texts {
		c := hostile.Capture(text)
		write := func(name string, o render.Options) []byte {
			i := slices.IndexFunc(render.Exports, func(e render.Export) bool { return e.Name == name })
			var out bytes.Buffer
			if err := render.Exports[i].Write(&out, c, o); err != nil {
				t.Fatalf("%s of %q: %v", name, text, err)
			}
			if e := render.Exports[i]; !e.Binary {
				for _, r := range out.String() {
					if r != '\n' && r != '\u00a0' && !unicode.IsPrint(r) {
						t.Errorf("%s of %q: %U is written", name, text, r)
						break
					}
				}
			}
			return out.Bytes()
		}
		for _, name := range []string{"json", "xprof.memory_viewer"} {
			var v any
			out := write(name, render.Options{Module: text})
			if err := json.Unmarshal(out, &v); err != nil || !utf8.Valid(out) {
				t.Errorf("%s of %q: %v", name, text, err)
			}
			if m, _ := v.(map[string]any); name == "json" && m["frames"].([]any)[1].(map[string]any)["function"] != text && utf8.ValidString(text) {
				t.Errorf("JSON has %q for %q", m["frames"].([]any)[1], text)
			}
		}
		checkNative(t, text, write("native", render.Options{}))
		for _, table := range []string{"buffers", "sites", "stacks", "usage"} {
			rows, err := csv.NewReader(bytes.NewReader(write("csv", render.Options{Table: table}))).ReadAll()
			if err != nil || len(rows) < 2 {
				t.Fatalf("%s of %q: %d rows, %v", table, text, len(rows), err)
			}
			for _, cell := range slices.Concat(rows...) {
				bare := strings.TrimLeft(cell, " \u00a0\t\r\n")
				if bare != "" && strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", []rune(bare)[0]) && !integer.MatchString(cell) {
					t.Errorf("%s of %q: a spreadsheet evaluates %q", table, text, cell)
				}
			}
			out := write("parquet", render.Options{Table: table})
			if f, err := parquet.OpenFile(bytes.NewReader(out), int64(len(out))); err != nil || f.NumRows() != int64(len(rows)-1) {
				t.Errorf("parquet %s of %q: %v", table, text, err)
			}
		}
		for line := range strings.Lines(string(write("collapsed", render.Options{}))) {
			if !folded.MatchString(line) || strings.Count(line, ";") > 6 {
				t.Errorf("folded stacks of %q: %q", text, line)
			}
		}
		for line := range strings.Lines(string(write("benchfmt", render.Options{}))) {
			if !benchmark.MatchString(line) {
				t.Errorf("benchmarks of %q: %q", text, line)
			}
		}
		checkProfile(t, text, c)
	}
}

// checkNative checks that native text reads as the same capture.
func checkNative(t *testing.T, text string, out []byte) {
	t.Helper()
	b := build.New(build.Everything)
	if err := native.Read("text", bytes.NewReader(out), b); err != nil {
		t.Fatalf("native of %q: %v", text, err)
	}
	c, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := native.Write(&again, c); err != nil || !bytes.Equal(out, again.Bytes()) {
		t.Errorf("native of %q is read as another capture (%v)", text, err)
	}
	if name := c.Frames[1].Function; name != text {
		t.Errorf("native has %q for %q", name, text)
	}
}

// checkProfile reads a heap profile like go tool pprof.
func checkProfile(t *testing.T, text string, c *lifetime.Capture) {
	t.Helper()
	var out bytes.Buffer
	if err := pprof.Write(&out, []*lifetime.Capture{c}, pprof.Options{}); err != nil {
		t.Fatalf("profile of %q: %v", text, err)
	}
	p, err := profile.Parse(&out)
	if err != nil {
		t.Fatalf("profile of %q: %v", text, err)
	}
	if err := p.CheckValid(); err != nil {
		t.Errorf("profile of %q: %v", text, err)
	}
	for _, f := range p.Function {
		for _, name := range []string{f.Name, f.SystemName, f.Filename} {
			if !utf8.ValidString(name) {
				t.Errorf("profile of %q: %q is not valid UTF-8", text, name)
			}
		}
	}
	for _, s := range p.Sample {
		for key, values := range s.Label {
			if !utf8.ValidString(key) || !utf8.ValidString(strings.Join(values, "")) {
				t.Errorf("profile of %q: label %q=%q", text, key, values)
			}
		}
	}
}
