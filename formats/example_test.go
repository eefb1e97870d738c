package formats_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/loss"
)

// Open captures of a format of your own: lines "TIME alloc|free ADDRESS BYTES", in nanoseconds, after a line "pool log".
func ExampleInput() {
	pool := formats.Format{
		Name: "pool", Doc: "logs of our pool",
		Sniff: func(head []byte) bool { return strings.HasPrefix(string(head), "pool log\n") },
		Read:  readPool,
	}
	// The own format is tried first. Files that are compressed are decompressed for it.
	in := formats.Input{Formats: append([]formats.Format{pool}, formats.All()...)}
	in.Stdin = strings.NewReader("pool log\n10 alloc 0x1000 1024\n20 alloc 0x2000 4096\n30 free 0x1000 1024\n40 alloc 0x3")
	capture, err := formats.Open("-", in)
	if err != nil {
		log.Fatal(err)
	}
	for _, space := range capture.Spaces {
		sum := space.Sums()
		fmt.Printf("%s: peak %d bytes, %d bytes at the end\n", space.ID(), sum.Peak.Bytes, sum.Live.Bytes)
	}
	for _, l := range capture.Losses {
		fmt.Println(l)
	}
	// Output:
	// npu:0: peak 5120 bytes, 4096 bytes at the end
	// truncated: the file ends early; everything before that point was used (at line 5)
}

func readPool(file string, in io.Reader, b *build.Builder) error {
	source, space, found := b.Source(lifetime.Source{File: file, Format: "pool"}), b.Space(), false
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err == io.EOF && line == "" {
			break
		}
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) { // the last line may lack digits
			b.Lose(loss.Truncated, 1, 0, fmt.Sprint("line ", n))
			break
		}
		if err != nil {
			return err
		}
		var t int64
		var action string
		var block build.Block
		if _, err := fmt.Sscanf(line, "%d %s 0x%x %d\n", &t, &action, &block.Addr, &block.Requested); err != nil {
			if n > 1 {
				b.Lose(loss.IncompleteRecord, 1, 0, fmt.Sprint("line ", n))
			}
			continue
		}
		block.Occupied, found = block.Requested, true
		if action == "alloc" {
			b.Alloc(space, t, block)
		} else {
			b.Free(space, t, block)
		}
	}
	if found { // without a description the capture has no space: it holds no memory data
		b.Describe(space, lifetime.SpaceInfo{Source: source, Device: "npu:0", Facts: lifetime.Clock})
	}
	return nil
}
