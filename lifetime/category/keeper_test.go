package category_test

import (
	"path/filepath"
	"testing"
)

// TestPrinciples: what each principle tells of a program that shows it, by the bytes at the peak. testdata/README.md says what the
// programs do.
func TestPrinciples(t *testing.T) {
	for _, c := range []struct {
		principle, folder, name string
		right, wrong            float64 // at least, at most, in percent
	}{
		{"what a line puts in the place of a parameter or state is one", "principles", "w01", 99, 0.1},
		{"a momentum encoder gets new parameters in each pass", "libraries", "c08", 99, 0.1},
		{"the graph of a validation is dropped", "principles", "w02", 97, 2.5},
		{"a constructor that makes parameters makes no cache", "principles", "w03", 60, 0.5},
		{"a file that makes caches says so by its name", "principles", "w04", 83, 0.1},
		{"a function that called a model holds its result", "principles", "w05", 97, 0.1},
		{"gradients of inputs are no gradients of parameters", "principles", "w06", 99, 0.1},
		{"a step puts states in the place of zeros", "principles", "w07", 88, 0.1},
		{"copies of the model are older than the first pass, and the momentum is not", "principles", "w09", 99, 0.1},
		{"states fall into holes below the parameters", "principles", "w10", 40, 0.1},
		{"a copy beside an optimizer without states is no momentum", "principles", "w11", 70, 0.1},
		{"weights of 16 bits have states and copies of 32", "principles", "w12", 99, 0.1},
		{"two copies of a model", "principles", "w13", 99, 0.1},
		{"states from a checkpoint are as old as copies", "principles", "w14", 50, 0.1},
		{"a weight has the columns of an input and a result of a product", "", "v27", 99, 0.1},
		{"caches of the size of a weight are more than there are products", "principles", "w15", 15, 0.1},
		{"weights of 8 bits that are converted for each product are buffers", "principles", "w16", 33, 0.1},
		{"a prefill under no_grad returns keys and values", "principles", "w17", 25, 0.1},
		{"without gradients, hooks keep results", "principles", "w18", 36, 1},
		{"a line that keeps what it made on the way shows a graph, without an optimizer", "principles", "w19", 93, 0.7},
		{"a batch that ends in a failure makes what smaller ones made, and a fused layer multiplies", "principles", "w20", 98, 0.1},
		{"a pass that dies in its fourth layer has products for three, and each layer drops what those before it dropped", "principles", "w21", 89, 3.3},
		{"the first step of an optimizer dies while it makes states", "principles", "w22", 99, 0.1},
		{"a copy that was made after the first step may be a state of an own optimizer that drops nothing", "principles", "w23", 74, 0.1},
		{"a cross entropy keeps no logits", "", "a17", 99, 0.1},
		{"FSDP2 makes shards, and gathers parameters for each pass", "libraries", "z51", 99, 0.1},
	} {
		for _, k := range readKnown(t, filepath.Join(testdata, c.folder)) {
			if k.name != c.name {
				continue
			}
			if got := k.shares(k.judge()); got.right < c.right || got.wrong > c.wrong {
				t.Errorf("%s: right %.2f %%, wrong %.2f: %s", c.principle, got.right, got.wrong, k.mistakes())
			}
		}
	}
}
