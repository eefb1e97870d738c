package web

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/plot"
	"github.com/memlane/memlane/render/text"
)

//go:embed assets/page.js
var script string

//go:embed assets/page.css
var style string

//go:embed page/uplot/LICENSE
var uplotLicence string

// Bundle is a page without its data.
type Bundle struct {
	Script, Style string
	Instead       string // a sentence for readers without JavaScript
	// Wasm is set if the script fetches a WebAssembly program from the server of the page and
	// runs it in workers. The script must forbid further connections before it reads any data.
	Wasm bool
}

// Part is data of a page. The script reads it by its ID.
type Part struct {
	ID   string
	Data []byte
}

// Write writes a page with its data as one self-contained HTML file.
func (b *Bundle) Write(w io.Writer, title string, parts []Part) error {
	connect := "'none'"
	if b.Wasm {
		connect = "'self'"
	}
	return b.write(w, title, connect, "", func(out io.Writer) error {
		for _, p := range parts {
			if err := element(out, p.ID, p.Data); err != nil {
				return err
			}
		}
		return nil
	})
}

var capturePage = Bundle{Script: script, Style: style, Instead: "Run memlane report for the same as text."}

// Write writes captures as one self-contained HTML file.
func Write(w io.Writer, captures []*judge.Capture) error {
	return write(w, captures, "'none'", "")
}

// write writes the page of captures. Its policy allows connections to connect. attributes are those of its body.
func write(w io.Writer, captures []*judge.Capture, connect, attributes string) error {
	var names []string
	for _, c := range captures {
		names = append(names, c.Tables.Name())
	}
	return capturePage.write(w, strings.Join(names, ", "), connect, attributes, func(out io.Writer) error {
		return Parts(captures, func(p Part) error { return element(out, p.ID, p.Data) }, func() {})
	})
}

// write writes a page; data writes its data. The policy comes first, because it applies only to later elements.
func (b *Bundle) write(w io.Writer, title, connect, attributes string, data func(out io.Writer) error) error {
	out := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(out, `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>%s</title>
<!-- The charts are drawn by uPlot.
%s-->
<style>%s</style>
</head>
<body%s>
<noscript>This page needs JavaScript; the script is inside the page. %s</noscript>
`, b.policy(connect), html.EscapeString(text.Printable(title)+" · memlane"), uplotLicence, b.Style, attributes, b.Instead)
	if err := data(out); err != nil {
		return err
	}
	fmt.Fprintf(out, "<script>%s</script>\n</body>\n</html>\n", b.Script)
	return out.Flush()
}

// policy returns the Content-Security-Policy of the page.
func (b *Bundle) policy(connect string) string {
	compile, workers := "", ""
	if b.Wasm {
		compile, workers = " 'wasm-unsafe-eval'", " worker-src blob:;"
	}
	return fmt.Sprintf("default-src 'none'; script-src '%s'%s;%s style-src '%s'; img-src data: blob:; connect-src %s; base-uri 'none'; form-action 'none'",
		hash(b.Script), compile, workers, hash(b.Style), connect)
}

// hash returns the source expression of an inline script or style in a policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// Parts passes the data of the page of captures to take, one part after the other: for each capture the pictures and
// the columns of its spaces, and its document. Then it calls complete: the page can be shown, and only changes to
// try follow, which take longer. It returns the first error of take.
func Parts(captures []*judge.Capture, take func(Part) error, complete func()) error {
	frames, known := make([][]*plot.Frame, len(captures)), make([][]saving, len(captures))
	var ranks answer.Ranks
	var series finding.Series
	for _, c := range captures {
		ranks.Add(c.Outline())
		series.Add(c.Capture)
	}
	if ranks.Known() { // each is judged alone
		series = finding.Series{}
	}
	for number, c := range captures {
		pictures, narrow, err := picturesOf(c, func(space int, name string, svg []byte) error {
			return take(Part{fmt.Sprintf("capture-%d-%d-%s", number, space, name), svg})
		})
		if err != nil {
			return err
		}
		frames[number] = pictures
		var place []places
		for i, s := range c.Spaces {
			place = append(place, placesOf(s))
			if err := take(Part{fmt.Sprintf("capture-%d-%d", number, i), spaceColumns(s, place[i])}); err != nil {
				return err
			}
		}
		d := documentOf(c, place, pictures, len(captures) > 1, &series)
		if narrow != nil {
			d.Spaces[d.Main].Picture.Narrow = pictureOf(narrow)
		}
		if len(d.Spaces) > 0 {
			known[number] = d.Spaces[d.Main].Savings
		}
		data, err := Encode(d)
		if err != nil {
			return err
		}
		if err := take(Part{fmt.Sprintf("capture-%d", number), data}); err != nil {
			return err
		}
	}
	complete()
	for number, c := range captures {
		s := mainOf(c)
		tries := answer.TriesOf(c, s)
		if tries == nil {
			continue
		}
		i := slices.Index(c.Spaces, s)
		data, err := Encode(savingsOf(s, frames[number][i], tries, known[number]))
		if err != nil {
			return err
		}
		if err := take(Part{fmt.Sprintf("capture-%d-%d-tries", number, i), data}); err != nil {
			return err
		}
	}
	return nil
}

// element writes data as an element that browsers do not interpret.
func element(out io.Writer, id string, data []byte) error {
	fmt.Fprintf(out, `<script type="text/plain" id="%s">`, id)
	if err := pack(out, data); err != nil {
		return err
	}
	_, err := io.WriteString(out, "</script>\n")
	return err
}
