package lifetime_test

import (
	"fmt"
	"log"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/build"
	"github.com/memlane/memlane/lifetime/frame"
)

// Print the buffers that are alive at the end of the window.
func ExampleSpace_Breakdown() {
	capture, err := formats.Open("../testdata/torchsnap/pair_before.pickle", formats.Input{})
	if err != nil {
		log.Fatal(err)
	}
	for _, space := range capture.Spaces {
		for _, row := range space.Breakdown(space.AtEnd()) {
			fmt.Printf("%s %8d bytes %s\n", space.ID(), row.Bytes, capture.PlaceOf(row.Site))
		}
	}
	// Output:
	// cuda:0 25165824 bytes <listcomp> (pair.py:6)
	// cuda:0 12582912 bytes duplicate (pair.py:10)
}

// Build a capture from your own records of allocations.
func ExampleBuilder() {
	b := build.New(build.Everything)
	file := b.Source(lifetime.Source{File: "pool.log", Format: "pool"})
	pool := b.Space()
	b.Describe(pool, lifetime.SpaceInfo{Source: file, Device: "npu:0"})
	load := b.Stack([]lifetime.FrameID{b.Frame(frame.Frame{Function: "load", File: "model.py", Line: 3})})
	weights := b.Site(lifetime.Site{Stack: load})
	b.Alloc(pool, 10, build.Block{Addr: 0x1000, Requested: 1000, Occupied: 1024, Site: weights})
	b.Alloc(pool, 20, build.Block{Addr: 0x2000, Requested: 4096, Occupied: 4096})
	b.Free(pool, 30, build.Block{Addr: 0x2000, Requested: 4096, Occupied: 4096})

	capture, err := b.Finish()
	if err != nil {
		log.Fatal(err)
	}
	space := capture.Spaces[0]
	fmt.Println("peak:", space.Peak(lifetime.Occupied).Bytes)
	for _, i := range space.LiveAt(space.AtEnd()) {
		buffer := &space.Buffers[i]
		fmt.Println("alive:", buffer.Requested, "bytes,", capture.PlaceOf(buffer.Site))
	}
	fmt.Println("losses:", len(capture.Losses))
	// Output:
	// peak: 5120
	// alive: 1000 bytes, load (model.py:3)
	// losses: 0
}
