package lifetime

import (
	"regexp"
	"strings"
)

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
var windowsLibrary = regexp.MustCompile(`(?i)/python[0-9]+/lib/`)

// nativeSuffixes end the names of files that are not Python.
var nativeSuffixes = []string{".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".cuh", ".so", ".o", ".inc"}

// KindOfFrame classifies a frame by its function and file, in the words of
// Python profilers: "<built-in ...>" and "nn.Module: ..." are calls, not
// places in the program; a frame without a file ("??" in C++ stacks) is
// native.
func KindOfFrame(function, file string) FrameKind {
	path := strings.ReplaceAll(file, `\`, "/")
	switch {
	case strings.HasPrefix(function, "<built-in "), strings.HasPrefix(function, "nn.Module:"),
		strings.HasPrefix(path, "<frozen "), strings.HasPrefix(path, "<eval_with_key>"):
		return Framework
	case path == "" || path == "??":
		return Native
	}
	for _, s := range nativeSuffixes {
		if strings.HasSuffix(path, s) || strings.Contains(path, ".so.") {
			return Native
		}
	}
	if windowsLibrary.MatchString(path) {
		return Framework
	}
	lower := strings.ToLower(path)
	for _, p := range frameworkPaths {
		if strings.Contains(lower, p) {
			return Framework
		}
	}
	return User
}
