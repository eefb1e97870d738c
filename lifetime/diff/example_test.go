package diff_test

import (
	"fmt"
	"log"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/lifetime/diff"
	"github.com/memlane/memlane/lifetime/finding"
	"github.com/memlane/memlane/lifetime/judge"
)

// List the changes of a fix: the places that differ at the peak, and the leaks that are gone.
func ExampleCompare() {
	before, after := judgedIn("../../testdata/torchsnap/leak_loss.pickle"), judgedIn("../../testdata/torchsnap/leak_loss_fixed.pickle")
	result := diff.Compare(before, after)
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

// judgedIn opens a capture and judges it.
func judgedIn(file string) *judge.Capture {
	capture, err := formats.Open(file, formats.Input{})
	if err != nil {
		log.Fatal(err)
	}
	return judge.New(capture, finding.Settings{})
}
