package lifetime

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Place returns where a frame is for people: "leak.py:8", without the folders,
// and without the line where it is not known. It is "" without a file.
func (f Frame) Place() string {
	if f.File == "" {
		return ""
	}
	place := path.Base(strings.ReplaceAll(f.File, `\`, "/"))
	if f.Line > 0 {
		place += ":" + strconv.Itoa(f.Line)
	}
	return place
}

// frameworkPaths are parts of the paths of files that do not belong to the
// user's program: installed packages, the standard library, PyTorch from a
// source checkout, and code that torch.compile generates.
var frameworkPaths = []string{
	"/site-packages/", "/dist-packages/", "/lib/python3", "/lib/python2",
	"/torch/nn/", "/torch/optim/", "/torch/autograd/", "/torch/utils/", "/torch/cuda/", "/torch/distributed/",
	"/torch/_", "/torch/functional.py", "/torch/serialization.py",
	"/torchinductor_",
}

// windowsLibrary matches the standard library of a Windows installation:
// C:\Python312\Lib\threading.py.
var windowsLibrary = regexp.MustCompile(`/python[0-9]+/lib/`)

// nativeSuffixes end the names of files that are not Python.
var nativeSuffixes = []string{".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".cuh", ".so", ".o", ".inc"}

// KindOfFrame classifies a frame by its function and file, in the words of
// Python profilers: "<built-in ...>" and "nn.Module: ..." are calls, not
// places in the program; a frame without a file ("??" in C++ stacks) is
// native.
func KindOfFrame(function, file string) FrameKind {
	slashed := strings.ReplaceAll(file, `\`, "/")
	switch {
	case strings.HasPrefix(function, "<built-in "), strings.HasPrefix(function, "nn.Module:"),
		strings.HasPrefix(slashed, "<frozen "), strings.HasPrefix(slashed, "<eval_with_key>"):
		return Framework
	case slashed == "" || slashed == "??":
		return Native
	}
	if strings.Contains(slashed, ".so.") {
		return Native
	}
	for _, s := range nativeSuffixes {
		if strings.HasSuffix(slashed, s) {
			return Native
		}
	}
	lower := strings.ToLower(slashed)
	if strings.Contains(lower, "/lib/") && windowsLibrary.MatchString(lower) {
		return Framework
	}
	for _, p := range frameworkPaths {
		if strings.Contains(lower, p) {
			return Framework
		}
	}
	return User
}
