package oomtext

import (
	"bytes"
	"slices"
	"strings"

	"github.com/memlane/memlane/lifetime/failure"
)

// Settings of PyTorch's allocator against fragmentation. Versions to 2.0 end with an error if expandable_segments is set: "Unrecognized
// CachingAllocator option". Windows and builds without the driver's virtual memory ignore expandable_segments, with a warning.
// Sources: c10/cuda/CUDAAllocatorConfig.h of github.com/pytorch/pytorch, NPUCachingAllocator.cpp of github.com/Ascend/pytorch.
const (
	expandable = "expandable_segments:True" // 2.1 and later
	split      = "max_split_size_mb:128"    // 1.10 and later
)

var (
	confName = lazily(`\bPYTORCH_(?:[A-Z]{2,8}_)?ALLOC_CONF\b`)
	confSet  = lazily(`(?:^[+$> ]*(?:export |set |env |ENV |os\.environ\[)?["']?|^.* -e ["']?|^.* --env[ =]["']?|["'])PYTORCH_(?:[A-Z]{2,8}_)?ALLOC_CONF["']?\]?\s*[=:]\s*["']?` +
		`([\w.,:[\]-]+)["']?(.*)`)
	windowsPath = lazily(`\b[A-Za-z]:\\\w`)
)

// allocConf is what a log says about the settings.
type allocConf struct {
	expandable, split bool // it was set
	fixed             bool // expandable_segments is ignored
}

// notice takes a line outside of messages. One that advises a setting does not tell that it is set.
func (c *allocConf) notice(line []byte) {
	if bytes.Contains(line, []byte("expandable_segments not supported")) {
		c.fixed = true
		return
	}
	if !bytes.Contains(line, []byte("ALLOC_CONF")) { // regular expressions are slow
		return
	}
	m := confSet().FindSubmatch(bytes.TrimSpace(line))
	if m == nil || bytes.HasPrefix(bytes.TrimSpace(m[2]), []byte("to ")) {
		return
	}
	c.expandable = c.expandable || bytes.Contains(m[1], []byte(expandable))
	c.split = c.split || bytes.Contains(m[1], []byte("max_split_size_mb:"))
}

// locate looks for paths of Windows around a message.
func (c *allocConf) locate(text []byte) {
	text = text[max(0, len(text)-maxJAX):]
	c.fixed = c.fixed || bytes.Contains(text, []byte(`:\`)) && windowsPath().Match(text)
}

// settingOf returns the setting that may help a failure: one that its version knows, that is not ignored and was not set already, with the
// variable that the text names. It returns "" if none is known.
func (c *allocConf) settingOf(f *printed) string {
	kind, _, _ := strings.Cut(f.device, ":")
	name := f.conf
	if defaults := map[string]string{"cuda": "CUDA_", "hip": "HIP_", "npu": "NPU_"}; name == "" && defaults[kind] != "" {
		name = "PYTORCH_" + defaults[kind] + "ALLOC_CONF"
	}
	windows := slices.ContainsFunc(f.frames, func(l level) bool { return windowsPath().MatchString(l.file) })
	switch {
	case f.Source != failure.FromTorch || name == "" || f.known == "":
		return ""
	case f.known == expandable && !c.fixed && !windows:
		if c.expandable {
			return ""
		}
		return name + "=" + expandable
	case c.split:
		return ""
	}
	return name + "=" + split
}

// dialect sets which settings the version of PyTorch knows that printed a text, and the variable that it names.
func (f *printed) dialect(text string) {
	f.conf = confName().FindString(text)
	switch {
	case f.known != "":
	case strings.Contains(text, laterInTorch):
		f.known = expandable
	case strings.Contains(text, "max_split_size_mb"):
		f.known = split
	}
}
