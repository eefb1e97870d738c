package answer_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memlane/memlane/formats"
	"github.com/memlane/memlane/internal/judged"
	"github.com/memlane/memlane/lifetime/answer"
)

// TestUnnamed checks that answers say that the recorder stopped before it had named all that is alive.
func TestUnnamed(t *testing.T) {
	const full = "../../testdata/torchsnap/held.pickle"
	content, err := os.ReadFile(full)
	if err != nil {
		t.Fatal(err)
	}
	begin := bytes.Index(content, []byte(`{"version"`))
	size := int(binary.LittleEndian.Uint32(content[begin-4:]))
	var names map[string]any
	if err := json.Unmarshal(content[begin:begin+size], &names); err != nil {
		t.Fatal(err)
	}
	names["note"], names["address"] = "stopped early", names["address"].([]any)[:20]
	text, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	stopped := filepath.Join(t.TempDir(), "stopped.pickle")
	before := binary.LittleEndian.AppendUint32(bytes.Clone(content[:begin-4]), uint32(len(text)))
	if err := os.WriteFile(stopped, append(append(before, text...), content[begin+size:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{full, stopped} {
		c, err := judged.Open(file, formats.Input{})
		if err != nil {
			t.Fatal(err)
		}
		said := false
		for _, part := range answer.InfoOf(c.Outline()).Spaces[0].HeldBy {
			said = said || part.Name == "not named: stopped early"
		}
		noted := strings.Contains(strings.Join(answer.LeaksOf(c, "").Notes, " "), "stopped early")
		if want := file == stopped; said != want || noted != want {
			t.Errorf("%s: held by says it: %v, notes say it: %v", file, said, noted)
		}
	}
}
