package oomtext_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// shapes are prefixes of loggers and launchers, with which a log may begin each line. %[1]d is a number that differs between lines, %[2]s a level.
var shapes = []string{
	"trainer-1  | ", "2026-05-03 10:00:%02[1]d,%03[1]d - train - %[2]s - ", "[2026-05-03 10:00:%02[1]d] [%[2]s] [worker-3] ",
	"May 03 10:00:%02[1]d node07 python[4242]: ", "2026-05-03T10:00:%02[1]d.%[1]dZ stderr F ", "task 3: ", "%[2]s:root:", "(job-17, rank 5) ",
}

// TestPrefixed: what a log says does not depend on the prefix of its lines.
func TestPrefixed(t *testing.T) {
	files, err := filepath.Glob(captures + "*.log")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	said := func(text string) string {
		all := failuresOf(t, text)
		for i := range all {
			f := &all[i]
			f.Space, f.Rank, f.First = "", nil, false
		}
		data, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, file := range files {
		text := contentOf(t, file)
		if strings.Contains(text, "\r") {
			continue // one line, on a terminal
		}
		want := said(text)
		for _, shape := range shapes {
			var b strings.Builder
			for i, line := range strings.SplitAfter(text, "\n") {
				fmt.Fprintf(&b, shape+"%[3]s", i%60, []string{"INFO", "ERROR", "WARNING", "INFO"}[i%4], line)
			}
			if got := said(b.String()); got != want {
				t.Errorf("%s with the prefix %q:\n%s\nwant\n%s", file, shape, got, want)
			}
		}
	}
}

const (
	figures = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 11.60 GiB of which 25.00 MiB is free. " +
		"Of the allocated memory 9.10 GiB is allocated by PyTorch, and 2.00 MiB is reserved by PyTorch but unallocated."
	old = "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 7.79 GiB total capacity; 5.61 GiB already allocated; 1.10 GiB free; " +
		"5.70 GiB reserved in total by PyTorch)"
)

// TestQuoted: people write about errors, too; memlane reads no failure there.
func TestQuoted(t *testing.T) {
	for _, text := range []string{
		"If you see `torch.OutOfMemoryError: CUDA out of memory.` lower `--batch-size`.",
		"| `RuntimeError: CUDA error: out of memory` | close other programs |",
		"## CUDA out of memory",
		"# raises torch.OutOfMemoryError: CUDA out of memory if the batch is too large",
		"- Fix CUDA out of memory in evaluation (#1234)",
		"3f2a1bc fix(train): CUDA out of memory when resuming",
		"docs: explain what to do about CUDA out of memory errors",
		"  --low-vram   use this if you get RuntimeError: " + old,
		"INFO request: prompt: 'My script dies with RuntimeError: " + old + " What can I do?'",
		`INFO chat: {"role": "user", "content": "I get torch.OutOfMemoryError: ` + figures + `"}`,
		`{"E17": {"title": "CUDA out of memory", "text": "torch.OutOfMemoryError: CUDA out of memory"}}`,
		"Use gradient checkpointing to avoid RuntimeError: CUDA out of memory.",
		"    except RuntimeError as e:  # RuntimeError: CUDA out of memory",
		`    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")`,
		"* RuntimeError: CUDA out of memory is now caught in the batch finder",
		"Common errors such as RuntimeError: CUDA out of memory mean that the batch is too large.",
		"> “torch.OutOfMemoryError: CUDA out of memory” is what users report.",
		"When the allocator prints CUDA out of memory, restart the kernel.",
	} {
		if _, err := read(t, strings.NewReader(text+"\n")); err == nil {
			t.Errorf("a failure: %s", text)
		}
	}
	for _, text := range []string{
		"RuntimeError: CUDA out of memory.",
		"ERROR worker failed with RuntimeError: CUDA out of memory",
		"2026-05-03 10:00:00,123 - train - WARNING - " + figures + " -- skipping this batch",
		"E       torch.OutOfMemoryError: " + figures,
		"RuntimeError('" + old + "')",
		`level=error msg="` + figures + `"`,
		`{"error": "` + figures + `"}`,
		`{"level": "ERROR", "time": "10:00", "msg": "it failed: ` + figures + `"}`,
		`{"log": "torch.OutOfMemoryError: ` + figures + `\n", "stream": "stderr", "time": "2026-05-03T10:00:00Z"}`,
		"# RuntimeError: " + old, // a comment on what happened
		"Epoch 3:  10%|█         | 12/120 [00:10<01:30] torch.OutOfMemoryError: " + figures,
		"terminate called after throwing an instance of 'c10::Error'  what():  " + figures,
	} {
		if c, err := read(t, strings.NewReader(text+"\n")); err != nil || len(c.Spaces) != 1 {
			t.Errorf("%v: %s", err, text)
		}
	}
}

// TestWriters: a prefix that a log teaches tells its writers apart.
func TestWriters(t *testing.T) {
	lines := func(format string, writers ...string) string {
		var b strings.Builder
		for _, line := range []string{"loading", "Traceback (most recent call last):", `  File "/w/train.py", line 31, in fit`, "    opt.step()", "torch.OutOfMemoryError: " + figures} {
			for _, w := range writers {
				fmt.Fprintf(&b, format+"%s\n", w, line)
			}
		}
		return b.String()
	}
	for _, test := range []struct {
		text string
		want string
	}{
		{lines("%s | ", "trainer-0", "trainer-1"), "trainer-0/cuda:0 fit, trainer-1/cuda:0 fit"},
		{lines("[%s] ", "worker-3"), "rank 3/cuda:0 fit"},
		{lines("2026-05-03 10:00:00 [%s] ", "TP1", "TP0"), "rank 1/cuda:0 fit, rank 0/cuda:0 fit"},
		{lines("10:00:00 %s> ", "task 3"), "rank 3/cuda:0 fit"},
		{lines("%s: ", "main"), "cuda:0 fit"},
		{`{"level": "ERROR", "ts": 1, "rank": 2, "msg": "failed\nTraceback (most recent call last):\n  File \"/w/train.py\", line 31, in fit\n    x()\n` +
			"torch.OutOfMemoryError: " + figures + `"}` + "\n", "rank 2/cuda:0 fit"},
	} {
		var got []string
		for _, f := range failuresOf(t, test.text) {
			got = append(got, f.Space+" "+f.Requester.Function)
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%q, want %q:\n%s", got, test.want, test.text)
		}
	}
}
