package chrometrace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"github.com/memlane/memlane/lifetime"
)

// maxHeader bounds the header of a trace in which process groups are looked for, in bytes. The groups of ten thousand
// ranks take 100 kB.
const maxHeader = 1 << 20

// withGroups returns the process groups that the header of a trace lists, and a reader of the whole trace.
func withGroups(in io.Reader) (io.Reader, []lifetime.Group) {
	buffered := bufio.NewReaderSize(in, maxHeader)
	head, err := buffered.Peek(maxHeader)
	if err != nil { // it returns the error after the head
		return buffered, groupsOf(head)
	}
	return io.MultiReader(bytes.NewReader(head), in), groupsOf(head) // the rest is not copied
}

// groupsOf reads member distributedInfo if it comes before the events, as PyTorch writes it. A list that is damaged or
// that does not contain the rank of the process has no groups.
func groupsOf(head []byte) (groups []lifetime.Group) {
	header := json.NewDecoder(bytes.NewReader(head))
	if open, err := header.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for {
		switch key, err := header.Token(); {
		case err != nil, key == "traceEvents":
			return nil
		case key == "distributedInfo":
			var info struct {
				Rank   *int `json:"rank"`
				Groups []struct {
					Name  string `json:"pg_desc"`
					Ranks []int  `json:"ranks"`
				} `json:"pg_config"`
			}
			if header.Decode(&info) != nil || info.Rank == nil {
				return nil
			}
			for _, g := range info.Groups {
				if at := slices.Index(g.Ranks, *info.Rank); at >= 0 && g.Name != "" {
					groups = append(groups, lifetime.Group{Name: g.Name, Number: at, Of: len(g.Ranks)})
				}
			}
			return groups
		}
		var other json.RawMessage
		if header.Decode(&other) != nil {
			return nil
		}
	}
}
