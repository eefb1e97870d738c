package memlane_test

import (
	"fmt"
	"io"
	"log"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/leak"
	"github.com/memlane/memlane/render/blocks"
)

// Open a capture, say what leaks in each memory ID of it, and draw the buffers with
// the leaks marked.
func Example() {
	capture, err := formats.Open("testdata/torchsnap/leak_4mib_20steps.pickle", formats.Input{})
	if err != nil {
		log.Fatal(err)
	}
	for _, space := range capture.Spaces {
		peak := space.Peak(lifetime.Occupied)
		fmt.Printf("%s: at most %d bytes\n", space.ID(), peak.Bytes)

		leaks := map[lifetime.SiteID]string{}
		for _, f := range leak.Find(capture, []*lifetime.Space{space}, leak.Settings{}) {
			if f.IsLeak() {
				fmt.Printf("%s: %d buffers, %d bytes\n", capture.PlaceOf(f.Place()), f.Amount.Count, f.Amount.Bytes)
				leaks[f.Place()] = f.Description
			}
		}
		picture := io.Discard // os.Create("leak.svg")
		if err := blocks.Write(picture, capture, space, blocks.Options{Color: blocks.ByLeak, Leaks: leaks}); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// cuda:0: at most 109051904 bytes
	// make_activation (leak.py:8): 20 buffers, 83886080 bytes
}
