package memlane_test

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/answer"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
	"github.com/memlane/memlane/render/blocks"
	"github.com/memlane/memlane/render/pprof"
	"github.com/memlane/memlane/render/web"
)

// Open a capture, print what leaks, and write an interactive page, a picture and a heap
// profile with the leaks marked.
func Example() {
	capture, err := formats.Open("testdata/torchsnap/leak_4mib_20steps.pickle", formats.Input{})
	if err != nil {
		log.Fatal(err)
	}
	judged := judge.New(capture, finding.Settings{})
	leaks := answer.LeaksOf(judged, "")
	fmt.Println(leaks.Verdict)
	for _, f := range leaks.Findings {
		fmt.Printf("%s: %s: %d buffers, %d bytes\n", f.Severity, f.Name, f.Count, f.Bytes)
	}

	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	marks := finding.MarksOf(judged.Findings())
	write(dir+"/leak.html", func(w io.Writer) error {
		return web.Write(w, []*judge.Capture{judged})
	})
	write(dir+"/leak.svg", func(w io.Writer) error {
		return blocks.Write(w, judged, capture.Spaces[0], blocks.Options{Marks: marks})
	})
	write(dir+"/leak.pb.gz", func(w io.Writer) error {
		return pprof.Write(w, []*lifetime.Capture{capture}, pprof.Options{Marks: marks})
	})
	// Output:
	// 1 leak
	// warning: make_activation (leak.py:8): 20 buffers, 83886080 bytes
}

func write(name string, render func(io.Writer) error) {
	file, err := os.Create(name)
	if err != nil {
		log.Fatal(err)
	}
	if err := render(file); err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}
}
