// Package hostile contains the content of malicious captures: texts that try to be more
// than text, and a capture with such a text in every name.
//
// Its place in the pipeline: none; only tests import it. One test per target checks the output: terminals, logs and
// browsers in cmd/memlane, code hosts in render/report, pictures and other programs in render.
package hostile

import (
	"strings"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/compiled"
	"github.com/memlane/memlane/lifetime/failure"
	"github.com/memlane/memlane/lifetime/frame"
	"github.com/memlane/memlane/lifetime/loss"
)

// Pwned is the name of the variable that scripts in Texts set in a browser's window.
const Pwned = "pwned"

// Texts are names that try to be more than text, grouped by target.
var Texts = []string{
	// Browsers and XML.
	`<script>window.pwned=1;alert(1)</script>`,
	`</script><script>window.pwned=1</script>`,
	`</title></desc></text></style></noscript><img src=x onerror="window.pwned=1">`,
	`"><svg onload=window.pwned=1>`,
	`' onmouseover='window.pwned=1' style='background:url(//evil.example)`,
	`<foreignObject><body xmlns="http://www.w3.org/1999/xhtml" onload="window.pwned=1"/></foreignObject>`,
	`<a xlink:href="javascript:window.pwned=1">x</a>`,
	`javascript:window.pwned=1`,
	`data:text/html,<script>window.pwned=1</script>`,
	`<iframe srcdoc="<script>parent.pwned=1</script>" src=//evil.example>`,
	`<base href=//evil.example/><link rel=stylesheet href=//evil.example/x.css>`,
	`<meta http-equiv=refresh content="0;url=http://evil.example">`,
	`--><b> --!> <!-- ]]> <![CDATA[ <b> ]]>`,
	`<?xml-stylesheet href="http://evil.example"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>&e;`,
	`&lt;script&gt; &#60;b&#62; &#x3c;b> &nbsp;&amp;`,
	"{{constructor.constructor('window.pwned=1')()}} ${window.pwned=1} <%= 1 %>",
	"'\u2028;window.pwned=1//\u2029\"",

	// Markdown.
	`[x](http://evil.example) ![x](http://evil.example/x.png "t") [x](javascript:alert)`,
	"x\n\n[r]: http://evil.example \"t\"\n\n[r] ![r] [^1]\n\n[^1]: note",
	"`code` ```x``` ~~~ **b** __b__ *e* _e_ ~~s~~ $x$ $$y$$",
	"<http://evil.example> http://evil.example www.evil.example HTTPS://evil.example ftp://evil.example",
	"a@evil.example mailto:a@evil.example xmpp:a@evil.example",
	"@team @octo-cat org/repo@main #123 org/repo#4",
	"a | b |\n|---|---|\n| c | d |",
	"\n\n# heading\n===\n\n---\n\n> quote\n\n1. item\n- [ ] task\n\n    code\n\n<details><b>",
	`\[x\](http://evil.example) \`,
	`x\`,

	// Logs of pipelines, and SARIF.
	"::error file=x,line=1::evil",
	" ::add-mask::a b ::stop-commands::x",
	"a word ##[error]evil ##vso[task.setvariable]x",
	"%0A::error::evil%0D%25,title=x::y",
	"{0} {{1}} {x} [x](0) [x](sarif:/runs/0)",

	// Terminals.
	"\x1b[31;1mred\x1b[2J\x1b]0;title\x07\x1b]8;;http://evil.example\x1b\\link\x1b]52;c;ZXZpbA==\x07\x1bP+q\x1b\\\x1b(0",
	"\u009b31m\u009d0;title\u009c\u0085\u008d\u0090\u009f",
	"a\rb\bc\vd\fe\x00f\x7fg\x07\n\nh",
	"\u202egnirts\u202c \u2066x\u2069 \u200f\u200e\u061c",
	"zero\u200bwidth\u200d\u2060\ufeff\u00ad\u034f\ufff9\ufffb\U000e0041",

	// Invalid text.
	"\xff\xfe\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80\x9b31m\xf0\x9f",
	"\ufffe\uffff\U0001fffe\ufffd",

	// Spreadsheets.
	`=HYPERLINK("http://evil.example";"x")`,
	`+1+cmd|' /C calc'!A0`,
	"-2+3",
	"@SUM(1)",
	"\t=1+1",
	"\r=1+1",
	"\n=1+1",
	" \u00a0=1+1",
	"\u200b=1+1",
	"\uff1d1+1",
	"a,b\"c\nd;e",

	// Other formats, and paths.
	"a;b;c 123\nd 4",
	"Benchmark/x 1 5 ns/op\nUnit x",
	"%s%d%n%!x(MISSING)",
	"../../../etc/passwd",
	`C:\evil\..\x.py`,
	"//evil.example/x.py?a=b#c",
	"file:///etc/passwd",
	strings.Repeat("W", 5000),
	"e" + strings.Repeat("\u0301", 500),
}

// Capture returns a capture with text in every name: a device with leaks, and a compiled program.
func Capture(text string) *lifetime.Capture {
	b := build.New(build.Everything)
	b.Source(lifetime.Source{File: text, Format: text, Producer: text})
	frameOf := func(kind frame.Kind, line int) lifetime.FrameID {
		return b.Frame(frame.Frame{Function: text, File: text, Line: line, Kind: kind})
	}
	stack := b.Stack([]lifetime.FrameID{frameOf(frame.Scope, 0), frameOf(frame.User, 7), frameOf(frame.Framework, 8), frameOf(frame.Native, 0), frameOf(frame.User, 9)})
	named := b.Site(lifetime.Site{Stack: stack, Op: text, Module: text, Region: text, Shape: text, DType: text})
	bare := b.Site(lifetime.Site{Op: text, Shape: text})
	device(b, text, named, bare)
	program(b, text, stack)
	b.Operations(lifetime.Operation{Name: text, Kind: "operator", Calls: 1, Time: 1, SelfTime: 1, Host: lifetime.OperationBytes{Allocated: 4, SelfBytes: 4}})
	b.Lose(loss.UnknownKey, 1, 1, text)
	b.Lose(loss.ProducerMessage, 1, 0, text)
	c, err := b.Finish()
	if err != nil {
		panic(err) // no text causes this
	}
	return c
}

// device adds a space with marks of all kinds in which both sites leak.
func device(b *build.Builder, text string, sites ...lifetime.SiteID) {
	s := b.Space()
	b.LiveRegion(s, lifetime.Region{Size: 1 << 30, Kind: text, Pool: text, Site: sites[0]})
	addr := uint64(0)
	for step := range int64(40) {
		t := 100 * step
		b.Mark(s, lifetime.Mark{Begin: t + 1, End: t + 90, Kind: lifetime.Step, Text: text})
		for i, site := range sites {
			b.Alloc(s, t+2+int64(i), build.Block{Addr: addr, Requested: 1 << 20, Occupied: 1 << 20, Site: site})
			b.Annotate(s, t+2+int64(i), addr, b.Note(text))
			addr += 1 << 20
		}
		b.Alloc(s, t+5, build.Block{Addr: 1 << 29, Requested: 1 << 20, Occupied: 1 << 20, Site: sites[0]})
		b.Free(s, t+6, build.Block{Addr: 1 << 29, Requested: 1 << 20, Occupied: 1 << 20, Site: sites[1]})
	}
	b.Mark(s, lifetime.Mark{Begin: 10, End: 3000, Kind: lifetime.Annotation, Text: text})
	b.Mark(s, lifetime.Mark{Begin: 3950, End: 3950, Kind: lifetime.OOM, Text: text, Site: sites[0], Requested: 1 << 30, Free: failure.BytesOf(1)})
	b.Describe(s, lifetime.SpaceInfo{Host: text, Process: text, Device: text, Memory: text, Allocator: text, Facts: lifetime.Clock, Limit: 1 << 30})
}

// program adds a compiled program.
func program(b *build.Builder, text string, stack lifetime.StackID) {
	s := b.Space()
	site := b.Site(lifetime.Site{Op: text, Module: text, Shape: text, DType: text, Instr: text, Opcode: text, Source: stack})
	b.Region(s, lifetime.Region{Begin: 0, End: 3, Size: 1 << 20, Kind: text, Pool: text, Site: site, Edge: lifetime.EndOpen, Uses: compiled.ForOutput})
	value := int64(1)
	b.Interval(s, build.Interval{Buffer: lifetime.Buffer{Begin: 0, End: 3, Size: 1 << 20, Requested: 1 << 19,
		Site: site, Edge: lifetime.EndOpen, Kind: lifetime.Output}, ValueID: &value, Note: b.Note(text)})
	b.Value(s, lifetime.Value{ID: 1, Root: 1, Begin: 0, End: 3, Size: 1 << 20, Requested: 1 << 19, Site: site})
	for at := range int64(3) {
		b.Mark(s, lifetime.Mark{Begin: at, End: at, Kind: lifetime.Instruction, Site: site, Text: text})
	}
	b.Describe(s, lifetime.SpaceInfo{Module: text, Entry: text, Memory: "space0", Axis: lifetime.ProgramOrder, Begin: -1, End: 3, Facts: lifetime.Addresses | lifetime.Regions})
}
