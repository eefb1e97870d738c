package diff_test

import (
	"fmt"
	"log"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/finding"
)

// List the changes of a fix: the places that differ at the peak, and the leaks that are gone.
func ExampleCompare() {
	before, after := judge("../../testdata/torchsnap/leak_loss.pickle"), judge("../../testdata/torchsnap/leak_loss_fixed.pickle")
	result := diff.Compare(before, after, finding.Settings{})
	for i := range result.Rows {
		row := &result.Rows[i]
		fmt.Printf("%+d bytes %s %s\n", row.DeltaPeak(), row.Place(), row.Status)
	}
	fmt.Println(len(result.Fixed), "findings fixed,", len(result.New), "new")
	// Output:
	// -14680064 bytes forward (leak_loss.py:9) shrank
	// -7340032 bytes step (leak_loss.py:19) shrank
	// -3670016 bytes forward (leak_loss.py:10) shrank
	// -512 bytes step (leak_loss.py:24) gone
	// 3 findings fixed, 0 new
}

// judge opens a capture and finds what its buffers are for, which findings depend on.
func judge(file string) *lifetime.Capture {
	capture, err := formats.Open(file, formats.Input{})
	if err != nil {
		log.Fatal(err)
	}
	finding.Judge(capture, finding.Settings{})
	return capture
}
