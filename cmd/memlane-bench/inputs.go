package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/memlane/memlane/internal/atomicfile"
)

// input is a file to measure with. Equal fields make equal bytes.
type input struct {
	kind   string // a key of kinds
	n      int    // number of events, records or buffers
	seed   uint64
	stacks int // of a snapshot; of "shared", the lists of frames
}

var kinds = map[string]struct {
	extension string
	write     func(w io.Writer, in input) (truth, error)
}{
	"xspace":     {".xplane.pb", func(w io.Writer, in input) (truth, error) { return writeXSpace(w, in.n, in.seed) }},
	"sparse":     {".xplane.pb", func(w io.Writer, in input) (truth, error) { return writeSparse(w, in.n, in.seed) }},
	"trace":      {".json", func(w io.Writer, in input) (truth, error) { return writeTrace(w, in.n, in.seed, false) }},
	"trace-gz":   {".json.gz", writeTraceGzip},
	"trace-line": {".json", func(w io.Writer, in input) (truth, error) { return writeTrace(w, in.n, in.seed, true) }},
	"snapshot":   {".pickle", func(w io.Writer, in input) (truth, error) { return writeSnapshot(w, shallow, in.n, in.stacks, in.seed) }},
	"deep":       {".pickle", func(w io.Writer, in input) (truth, error) { return writeSnapshot(w, deep, in.n, in.stacks, in.seed) }},
	"all":        {".pickle", func(w io.Writer, in input) (truth, error) { return writeSnapshot(w, all, in.n, in.stacks, in.seed) }},
	"blocks":     {".pickle", func(w io.Writer, in input) (truth, error) { return writeBlocks(w, in.n, in.stacks, in.seed, false) }},
	"shared":     {".pickle", func(w io.Writer, in input) (truth, error) { return writeBlocks(w, in.n, in.stacks, in.seed, true) }},
	"nested":     {".json", func(w io.Writer, in input) (truth, error) { return writeNested(w, in.n, in.seed) }},
	"hlo":        {".hlo_proto.pb", func(w io.Writer, in input) (truth, error) { return writeHLO(w, in.n) }},
	"hlo-xspace": {".xplane.pb", func(w io.Writer, in input) (truth, error) { return writeHLOSpace(w, in.n) }},
}

func writeTraceGzip(w io.Writer, in input) (truth, error) {
	z := gzip.NewWriter(w)
	t, err := writeTrace(z, in.n, in.seed, false)
	if err != nil {
		return t, err
	}
	return t, z.Close()
}

// name returns the name of the file, which contains all fields.
func (in input) name() string {
	name := fmt.Sprintf("%s-%d", in.kind, in.n)
	if in.stacks > 0 {
		name += fmt.Sprintf("-%dstacks", in.stacks)
	}
	return fmt.Sprintf("%s-seed%d%s", name, in.seed, kinds[in.kind].extension)
}

// args returns the arguments of "memlane-bench make".
func (in input) args() []string {
	return []string{in.kind, fmt.Sprint(in.n), fmt.Sprint(in.seed), fmt.Sprint(in.stacks)}
}

// inputOf parses the arguments of "memlane-bench make".
func inputOf(args []string) (in input, err error) {
	if _, err := fmt.Sscan(strings.Join(args, " "), &in.kind, &in.n, &in.seed, &in.stacks); err != nil || kinds[in.kind].write == nil {
		return in, fmt.Errorf("make needs KIND N SEED STACKS, got %q", args)
	}
	return in, nil
}

// write makes the input. The file is not there until it is complete.
func (in input) write(ctx context.Context, file string) error {
	return atomicfile.Write(ctx, file, func(w io.Writer) error {
		_, err := kinds[in.kind].write(w, in)
		return err
	})
}

// makeInput makes an input unless it exists, and returns its file. It does so in a subprocess, because the kernel counts the peak
// memory of measured processes from that of this one on.
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
