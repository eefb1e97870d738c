package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/memlane/memlane/lifetime"
)

// schema names the version of the JSON that commands write.
const schema = "memlane/1"

// writeOutput lets write fill the file that -o names. The file appears under
// its name only when it is complete.
func writeOutput(c *cli.Context, write func(io.Writer) error) error {
	file := c.String("output")
	if file == "-" || file == "" {
		return write(c.App.Writer)
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(file); err == nil {
		if !info.Mode().IsRegular() { // a pipe or device cannot be replaced
			f, err := os.OpenFile(file, os.O_WRONLY, 0)
			if err != nil {
				return fail(statusUsage, "-o: %w", err)
			}
			return errors.Join(write(f), f.Close())
		}
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fail(statusUsage, "-o: %w", err)
	}
	err = write(f)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(v)
}

// siteJSON is a site in every JSON output.
type siteJSON struct {
	Function string      `json:"function"`
	File     string      `json:"file"`
	Line     int         `json:"line"`
	Op       string      `json:"op"`
	Stack    []frameJSON `json:"stack"` // leaf first
}

type frameJSON struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
}

func siteToJSON(capture *lifetime.Capture, site lifetime.SiteID) siteJSON {
	s := capture.Sites[site]
	out := siteJSON{Op: s.Op, Stack: []frameJSON{}}
	for _, id := range capture.Stacks[s.Stack] {
		f := capture.Frames[id]
		out.Stack = append(out.Stack, frameJSON{f.Function, f.File, f.Line})
	}
	if f, ok := capture.UserFrame(site); ok {
		out.Function, out.File, out.Line = f.Function, f.File, f.Line
	}
	return out
}

// known returns nil for a figure that is not known: absent is not 0.
func known(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// percent formats a share.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }
