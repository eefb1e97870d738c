package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/klauspost/compress/gzip"
)

// input is a file to measure with, made from its fields alone: the same fields,
// the same bytes.
type input struct {
	kind   string // of kinds
	n      int    // how much of it
	seed   uint64
	stacks int // of a snapshot
}

// kinds are the kinds of input.
var kinds = map[string]struct {
	extension string
	write     func(w io.Writer, in input) (truth, error)
}{
	"xspace":     {".xplane.pb", func(w io.Writer, in input) (truth, error) { return writeXSpace(w, in.n, in.seed) }},
	"sparse":     {".xplane.pb", func(w io.Writer, in input) (truth, error) { return writeSparse(w, in.n, in.seed) }},
	"trace":      {".json", func(w io.Writer, in input) (truth, error) { return writeTrace(w, in.n, in.seed) }},
	"trace-gz":   {".json.gz", writeTraceGzip},
	"trace-line": {".json", func(w io.Writer, in input) (truth, error) { return writeTrace(&oneLine{w: w}, in.n, in.seed) }},
	"snapshot":   {".pickle", func(w io.Writer, in input) (truth, error) { return writeSnapshot(w, in.n, in.stacks, in.seed) }},
	"hlo":        {".hlo_proto.pb", func(w io.Writer, in input) (truth, error) { return writeHLO(w, in.n) }},
	"hlo-xspace": {".xplane.pb", func(w io.Writer, in input) (truth, error) { return writeHLOSpace(w, in.n) }},
}

func writeTraceGzip(w io.Writer, in input) (truth, error) {
	z := gzip.NewWriter(w)
	t, err := writeTrace(z, in.n, in.seed)
	if err != nil {
		return t, err
	}
	return t, z.Close()
}

// name is the name of the file, which tells everything it is made from.
func (in input) name() string {
	name := fmt.Sprintf("%s-%d", in.kind, in.n)
	if in.stacks > 0 {
		name += fmt.Sprintf("-%dstacks", in.stacks)
	}
	return fmt.Sprintf("%s-seed%d%s", name, in.seed, kinds[in.kind].extension)
}

// args is what "memlane-bench make" takes.
func (in input) args() []string {
	return []string{in.kind, strconv.Itoa(in.n), strconv.FormatUint(in.seed, 10), strconv.Itoa(in.stacks)}
}

func inputOf(args []string) (in input, err error) {
	if len(args) != 4 || kinds[args[0]].write == nil {
		return in, fmt.Errorf("make takes KIND N SEED STACKS, not %q", args)
	}
	in.kind = args[0]
	if in.n, err = strconv.Atoi(args[1]); err != nil {
		return in, err
	}
	if in.seed, err = strconv.ParseUint(args[2], 10, 64); err != nil {
		return in, err
	}
	in.stacks, err = strconv.Atoi(args[3])
	return in, err
}

// write makes the input. It goes by a name of its own until it is whole.
func (in input) write(file string) error {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".part*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := kinds[in.kind].write(f, in); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

// makeInput makes an input in a folder unless it is there, in a process of its
// own: what a process starts has its peak memory counted from that of the
// process on, so this one stays small.
func (b *bench) makeInput(ctx context.Context, in input) (string, error) {
	file := filepath.Join(b.inputs, in.name())
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	fmt.Fprintln(b.log, "making", in.name())
	cmd := exec.CommandContext(ctx, b.self, append([]string{"make", file}, in.args()...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("making %s: %w: %s", in.name(), err, out)
	}
	return file, nil
}
