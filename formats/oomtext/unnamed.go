package oomtext

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/memlane/memlane/lifetime/failure"
)

// Texts of programs that no table names. Errors about memory have few phrases in common, and their figures few words.
var (
	// partsOfPhrases are parts of all of them: a line without one needs no pattern.
	partsOfPhrases = bytes.Fields([]byte("pool bad_alloc OutOfM OutOfD MemoryAlloc OUT_OF_ ut_of_mem nsufficient OOMKilled exceeded aging greater requires enough"))
	spacedPhrases  = bytes.Split([]byte("ut of |to allocate|'t allocate|ot allocate|to alloc |for size|OutOfMemoryError: Alloc|shared memory"), []byte("|"))
	// devicePhrase matches what is an error in itself or, in the first group, only beside the name of an error or a size.
	devicePhrase = lazily(`(?i)std::bad_alloc|kIOGPUCommandBufferCallbackErrorOutOfMemory|cudaErrorMemoryAllocation|\b\w*_?OUT_?OF_?(?:DEVICE_?|HOST_?)MEMORY\b|\b\w+_OUT_OF_MEMORY\b|` +
		`greater than the maximum allowed buffer size|pool size exceeded|allocation failed for size|OutOfMemoryError: Allocation on device|no memory pool big enough|` +
		`(\bout[ _]of[ _](?:gpu |device |cuda |video )?memory\b|insufficient memory\b|` +
		`(?:unable to|failed to|cannot|can't|could not|couldn't) (?:re)?alloc(?:ate)?\b|not enough (?:gpu |device |video |free )?memory\b|` +
		`requires more gpu memory)`)
	besides = lazily(`(?i)(?:error|exception|fatal|abort|terminat|alloc\w* failed).{0,80}$`) // what stands before such a phrase
	sizes   = lazily(printedSize)
	ofHeap  = lazily(`(?i)\bjava\.lang\b|\bjavascript heap|\bheap limit\b`) // of a virtual machine
)

// hostPhrases are errors about the memory of the host, with who prints them and what helps.
var hostPhrases = []struct {
	source, help string
	text         pattern
}{
	{failure.FromKernel, "Raise the memory limit of the container, or use fewer workers and smaller caches.", lazily(`\bReason: +OOMKilled|"OOMKilled": ?true`)},
	{failure.FromHost, "Enlarge the page file of Windows, or use fewer DataLoader workers.", lazily(`paging file is too small`)},
	{failure.FromHost, "Raise --shm-size of the container, or use fewer DataLoader workers.",
		lazily(`possible that dataloader's workers are out of shared memory|unable to (?:open|mmap|allocate|write to) (?:\S+ )?shared memory`)},
	{failure.FromHost, "", lazily(`requires more system memory`)},
}

// printedSize is a size as programs print it, in any unit.
const printedSize = `(?:[0-9][0-9,]*(?:\.[0-9]+)? ?(?:bytes|[KMGT]i?B|[KMGT]i?\b)|[0-9]{5,})`

// figuresOf are the words before the figures of such texts, by the name of the figure: see (*printed).take.
var figuresOf = []struct {
	name string
	text pattern
}{
	{"requested", lazily(`(?i)(?:to (?:re)?alloc(?:ate)?|requested(?: memory)?|allocating|of size|for size|to reserve|alloc failed|requires more \w+ memory|tried to reserve)[ :(=]{1,3}(` + printedSize + `)`)},
	{"free", lazily(`(?i)(?:\bfree(?: memory)?|than is available)[ :(=]{1,3}(` + printedSize + `)`)},
	{"free", lazily(`(?i)(` + printedSize + `) (?:is |are )?(?:free|available)\b`)},
	{"capacity", lazily(`(?i)(?:total(?: memory)?|capacity(?: of)?)[ :(=]{1,3}(` + printedSize + `)|GPU memory usage: [0-9.]+% \([0-9.]+ \w+/(` + printedSize + `)\)`)},
	{"allowed", lazily(`(?i)(?:maximum allowed buffer size(?: of)?|Limits: (?:cpu: \S+ )?memory:|\blimit)[ :(=]{1,3}(` + printedSize + `)`)},
	{"live", lazily(`(?i)(?:already allocated|in use|memory pool usage)[ :(=]{1,3}(` + printedSize + `)`)},
}

// devicesOf are what such a text says of the device; the last one counts.
var devicesOf = []struct {
	name string
	text pattern
}{
	{"cuda", lazily(`(?i)cuda|cumem|OutOfMemoryError: Allocation on device`)}, {"hip", lazily(`(?i)\bhip|rocm`)}, {"metal", lazily(`(?i)metal|IOGPU`)},
}

// phrase returns where a phrase about memory begins that no table names, -1 if a line has none.
func phrase(line []byte) int {
	if !hasAny(line, partsOfPhrases) && !hasAny(line, spacedPhrases) {
		return -1
	}
	for i := range hostPhrases {
		if m := hostPhrases[i].text().FindIndex(line); m != nil {
			return m[0]
		}
	}
	m := devicePhrase().FindSubmatchIndex(line)
	if m == nil || m[2] >= 0 && !besides().Match(line[:m[0]]) && !sizes().Match(line[m[0]:]) || ofHeap().Match(line) {
		return -1
	}
	return m[0]
}

// parseUnnamed reads a text with a phrase; nil if there is none.
func parseUnnamed(text string) *printed {
	at := phrase([]byte(text))
	if at < 0 {
		return nil
	}
	const before, after = 200, 600 // bytes in which its figures stand
	text = text[max(0, at-before):min(len(text), at+after)]
	f := newFailure(failure.FromOther)
	f.device = "gpu"
	for _, d := range devicesOf {
		if d.text().MatchString(text) {
			f.device = d.name
		}
	}
	for i := range hostPhrases {
		if h := &hostPhrases[i]; h.text().MatchString(text) {
			f = newFailure(h.source)
			f.device, f.Help = "cpu", h.help
		}
	}
	for _, figure := range figuresOf {
		if m := figure.text().FindStringSubmatch(text); m != nil {
			f.take(figure.name, strings.ReplaceAll(cmp.Or(m[1:]...), ",", ""), "")
		}
	}
	return f
}
