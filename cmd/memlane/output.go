package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/atomicfile"
	"github.com/memlane/memlane/render/model"
	"github.com/memlane/memlane/render/text"
)

// output writes results and keeps the first error, because most printing code ignores errors.
type output struct {
	to   io.Writer
	stop func() error // returns an error after an interrupt
	err  error
}

func (o *output) Write(b []byte) (n int, err error) {
	if err = o.stop(); err == nil {
		n, err = o.to.Write(b)
	}
	o.err = cmp.Or(o.err, err)
	return n, err
}

// brokenPipe reports whether a write failed because the reader closed the pipe.
func brokenPipe(err error) bool {
	number, ok := errors.AsType[syscall.Errno](err)
	if ok && runtime.GOOS == "windows" { // ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED
		return number == 109 || number == 232 || number == 233
	}
	return ok && number == syscall.EPIPE
}

// toStdout reports whether -o names no file.
func toStdout(c *cli.Context) bool { return c.String("output") == "-" || c.String("output") == "" }

// knownExtensions are those of files whose content people know from the name.
var knownExtensions = []string{".svg", ".png", ".pdf", ".jpg", ".gif", ".html", ".htm", ".md", ".json", ".sarif",
	".csv", ".parquet", ".xlsx", ".pb.gz"}

// pictureExtensions are those of the formats of pictures.
var pictureExtensions = []string{".svg", ".png", ".pdf"}

func outputIsPicture(c *cli.Context) bool {
	return slices.ContainsFunc(pictureExtensions, func(extension string) bool { return outputEndsIn(c, extension) })
}

// checkName refuses a file name that promises another content than one of those written, given by their extensions.
// NAME.gz and NAME.zst are NAME compressed.
func checkName(c *cli.Context, written ...string) error {
	for _, ext := range knownExtensions {
		if outputEndsIn(c, ext) && !slices.ContainsFunc(written, func(w string) bool { return strings.HasSuffix(w, ext) }) {
			return usage("-o %s: memlane %s does not write %s here; it writes %s", c.String("output"), c.Command.Name,
				ext, strings.Join(written, ", "))
		}
	}
	return nil
}

// checkOverwrite refuses an output that is one of the files to read, also by another name, or a capture that another
// program wrote. Unlike an output of memlane, it cannot be made again.
func checkOverwrite(c *cli.Context, captures []string) error {
	output := c.String("output")
	info, err := os.Stat(output)
	if c.Bool("force") || err != nil { // an error: it does not exist, or cannot be written either
		return nil
	}
	what := "the capture to read"
	for i, file := range append(slices.Clip(captures), c.String("categories")) {
		if i == len(captures) {
			what = "the file of --categories"
		}
		if read, err := os.Stat(file); err == nil && os.SameFile(read, info) && info.Mode().IsRegular() {
			return usage("-o %s: it is %s; give another name, or --force to overwrite it", output, what)
		}
	}
	if format := formats.Recorded(output); format != "" {
		return usage("-o %s: it is a capture (%s); give another name, or --force to overwrite it", output, format)
	}
	return nil
}

// profileExtension is that of profiles, which are compressed anyway.
const profileExtension = ".pb.gz"

// outputEndsIn reports whether the name of -o ends in an extension, in any case. NAME.gz and NAME.zst end like NAME.
func outputEndsIn(c *cli.Context, extension string) bool {
	name, _ := plainName(c)
	return strings.HasSuffix(name, extension)
}

// plainName returns the name of -o in lower case without .gz or .zst, and that extension if it had one.
func plainName(c *cli.Context) (name, compression string) {
	name = strings.ToLower(c.String("output"))
	if strings.HasSuffix(name, profileExtension) {
		return name, ""
	}
	for extension := range compressors {
		if plain, ok := strings.CutSuffix(name, extension); ok {
			return plain, extension
		}
	}
	return name, ""
}

// compressors are the compressions of outputs, by extension.
var compressors = map[string]func(io.Writer) (io.WriteCloser, error){
	".gz":  func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
	".zst": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) },
}

// writeOutput calls write with the output that -o names. It compresses NAME.gz and NAME.zst.
func writeOutput(c *cli.Context, write func(io.Writer) error) error {
	if toStdout(c) {
		return write(c.App.Writer)
	}
	if _, compression := plainName(c); compression != "" && c.Command.Name != "pprof" {
		plain := write
		write = func(w io.Writer) error {
			z, err := compressors[compression](w)
			if err == nil {
				err = plain(z)
			}
			if err != nil {
				return err
			}
			return z.Close()
		}
	}
	err := atomicfile.Write(c.Context, c.String("output"), write)
	e, ok := errors.AsType[*atomicfile.Error](err)
	switch {
	case !ok:
		return err
	case e.Folder != "":
		return outputError(fmt.Errorf("-o %w; give -o a file in an existing folder with write permission", e))
	}
	return outputError(fmt.Errorf("-o %w", e))
}

// printAnswer writes an answer to standard output: as JSON with --json, else with write.
func printAnswer(c *cli.Context, answer any, write func(w io.Writer, s text.Style) error) error {
	if c.Bool("json") {
		return model.WriteJSON(c.App.Writer, answer)
	}
	return write(c.App.Writer, styleOf(c.App.Writer))
}

// terminalOf returns the terminal that w writes to, or nil.
func terminalOf(w io.Writer) *os.File {
	if out, ok := w.(*output); ok {
		w = out.to
	}
	if n, ok := w.(*notices); ok {
		w = n.to
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// screen is a terminal that knows its width. Tests write to one.
type screen interface{ columns() int }

// styleOf returns the width and colours of the terminal that w writes to; without one, the style of files and pipes.
func styleOf(w io.Writer) (s text.Style) {
	if out, ok := w.(*output); ok {
		s.Color = os.Getenv("NO_COLOR") == "" && cmp.Or(os.Getenv("FORCE_COLOR"), os.Getenv("CLICOLOR_FORCE"), "0") != "0"
		if to, ok := out.to.(screen); ok {
			s.Width = to.columns()
		}
	}
	f := terminalOf(w)
	if f == nil {
		return s
	}
	s.Width = text.UsualWidth // many terminals inside other programs do not know their width
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		s.Width = width
	}
	s.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return s
}
