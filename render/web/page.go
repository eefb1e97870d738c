package web

import (
	"bufio"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/memlane/memlane/render/text"
)

//go:embed assets/page.js
var script string

//go:embed assets/page.css
var style string

//go:embed page/uplot/LICENSE
var uplotLicence string

// Bundle is what a page is made of besides its data.
type Bundle struct {
	Script, Style string
	Instead       string // where to read the same without JavaScript
}

// Part is data of a page: what its script finds under the ID.
type Part struct {
	ID   string
	Data []byte
}

// Write writes a page with its data as one HTML file, which needs nothing else.
func (b *Bundle) Write(w io.Writer, title string, parts []Part) error {
	out := bufio.NewWriterSize(w, 1<<16)
	b.head(out, title, "'none'", "")
	for _, p := range parts {
		if err := element(out, p.ID, p.Data); err != nil {
			return err
		}
	}
	b.foot(out)
	return out.Flush()
}

var capturePage = Bundle{script, style, "memlane report writes the same as text."}

// Write writes captures as one HTML file, which needs nothing else.
func Write(w io.Writer, captures []Capture) error {
	return write(w, captures, "'none'", "")
}

// write writes the page; it may connect to the sources of connect, and attributes
// tell its script where it is.
func write(w io.Writer, captures []Capture, connect, attributes string) error {
	out := bufio.NewWriterSize(w, 1<<16)
	var names []string
	for _, c := range captures {
		names = append(names, c.Tables.Name())
	}
	capturePage.head(out, strings.Join(names, ", "), connect, attributes)
	for i, c := range captures {
		if err := writeCapture(out, i, c); err != nil {
			return err
		}
	}
	capturePage.foot(out)
	return out.Flush()
}

// head writes what stands before the data: the policy before anything that it
// is to hold for.
func (b *Bundle) head(out io.Writer, title, connect, attributes string) {
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
<noscript>This page draws with JavaScript, all of which is inside the page. %s</noscript>
`, b.policy(connect), html.EscapeString(text.Printable(title)+" · memlane"), uplotLicence, b.Style, attributes, b.Instead)
}

// foot writes what stands behind the data.
func (b *Bundle) foot(out io.Writer) {
	fmt.Fprintf(out, "<script>%s</script>\n</body>\n</html>\n", b.Script)
}

// policy returns the Content-Security-Policy of the page.
func (b *Bundle) policy(connect string) string {
	return fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data: blob:; connect-src %s; base-uri 'none'; form-action 'none'",
		hash(b.Script), hash(b.Style), connect)
}

// hash names an inline script or style in a policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// writeCapture writes the document of a capture and the columns of its spaces.
func writeCapture(out io.Writer, number int, c Capture) error {
	var place []places
	for _, s := range c.Spaces {
		place = append(place, placesOf(s))
	}
	data, err := Encode(documentOf(c, place))
	if err != nil {
		return err
	}
	if err := element(out, fmt.Sprintf("capture-%d", number), data); err != nil {
		return err
	}
	for i, s := range c.Spaces {
		if err := element(out, fmt.Sprintf("capture-%d-%d", number, i), spaceColumns(s, place[i])); err != nil {
			return err
		}
	}
	return nil
}

// element writes data as an element that a browser leaves alone.
func element(out io.Writer, id string, data []byte) error {
	fmt.Fprintf(out, `<script type="text/plain" id="%s">`, id)
	if err := pack(out, data); err != nil {
		return err
	}
	_, err := io.WriteString(out, "</script>\n")
	return err
}
