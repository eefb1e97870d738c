package xplane

import (
	"cmp"
	_ "embed"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/memlane/memlane/lifetime"
	"github.com/memlane/memlane/lifetime/frame"
)

// region is the name of an event as a frame of call stacks.
type region struct {
	known    bool
	frame    lifetime.FrameID // 0 = none
	operator bool             // it is an operator, or a region that the program named
	python   bool             // it is a function of Python
}

func (h *host) region(meta int64) region {
	s := &h.calls
	dense := meta >= 0 && meta < maxDense
	switch {
	case !dense:
		if r, ok := s.rare[meta]; ok {
			return r
		}
	case meta < int64(len(s.regions)) && s.regions[meta].known:
		return s.regions[meta]
	}
	f, python := frameOf(h.names.get(meta))
	r := region{known: true, operator: f.Kind == frame.Scope, python: python}
	if f.Function != "" {
		r.frame = h.r.b.Frame(f)
	}
	if !dense {
		if s.rare == nil {
			s.rare = map[int64]region{}
		}
		s.rare[meta] = r
		return r
	}
	for int64(len(s.regions)) <= meta {
		s.regions = append(s.regions, region{})
	}
	s.regions[meta] = r
	return r
}

// function matches the name of a function of Python as XLA's python_hooks.cc writes it: the file without its folder,
// the line of the def, the name. Functions of C have their module in place of the file and line: "$builtins len".
var function = regexp.MustCompile(`^(.+?):([0-9]+) (.*)$`)

// operator matches TensorFlow's full name of an operator, as XProf's tf_op_utils parses it: its name and its type.
var operator = regexp.MustCompile(`^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*:[a-zA-Z_][a-zA-Z0-9_]*$`)

// eager is the beginning of the name of an operator that TensorFlow runs at once.
const eager = "EagerLocalExecute: "

// withoutInstance returns the name of a region without what tells one run of it from the others: metadata as XLA's
// TraceMeEncode appends it, "ThunkExecute#hlo_op=dot.3#", or a number that the program appends, "step 12". Each run
// would be another site.
func withoutInstance(name string) string {
	name, _, _ = strings.Cut(name, "#")
	if short := strings.TrimRight(name, "0123456789"); strings.HasSuffix(short, " ") {
		return strings.TrimRight(short, " ")
	}
	return name
}

// frameOf returns the frame of an event. python reports whether it is a function of Python.
func frameOf(name string) (f frame.Frame, python bool) {
	if call, ok := strings.CutPrefix(name, "$"); ok {
		return functionOf(call), true
	}
	name = withoutInstance(name)
	if operator.MatchString(name) {
		op, _, _ := strings.Cut(name, ":")
		return frame.Frame{Function: op, Kind: frame.Scope}, false
	}
	if op, ok := strings.CutPrefix(name, eager); ok {
		return frame.Frame{Function: op, Kind: frame.Scope}, false
	}
	if slices.Contains(runtimeRegions, name) || strings.Contains(name, "::") || strings.HasPrefix(name, "TFE_Py_") || strings.HasPrefix(name, "PJRT_") { // of C++ or a C API
		return frame.Frame{Function: name, Kind: frame.Native}, false
	}
	return frame.Frame{Function: name, Kind: frame.Scope}, false
}

func functionOf(call string) frame.Frame {
	m := function.FindStringSubmatch(call)
	if m == nil {
		return frame.Frame{Function: strings.TrimPrefix(strings.Replace(call, " ", ".", 1), "<unknown>."), Kind: frame.Framework}
	}
	line, err := strconv.Atoi(m[2])
	if err != nil {
		line = 0 // too large
	}
	return frame.Frame{Function: m[3], File: m[1], Line: line, Kind: kindOfFunction(m[3], m[1])}
}

// runtimeRegions are regions of XLA and TensorFlow that are steps of running an operator and say nothing about it: from
// XLA's pjrt_stream_executor_client.cc, common_pjrt_client.cc and py_executable.cc, and TensorFlow's pywrap_tfe_src.cc
// and eager/execute.cc.
var runtimeRegions = []string{
	"Build buffer allocations", "MakeOutputBuffers", "ParseArguments", "RecordUsage", "Resolve constant globals",
	"Wait for donation holds", "Wait for usage holds", "Handle inputs", "ExecuteReplicated", "shard_args",
	"cpp_pjit_shard_arg_fallback", "EagerExecute", "EagerKernelExecute", "EagerLocalExecute", "EagerCopyToDevice",
	"FunctionRun", "SessionRun", "convert_to_tensor",
}

// kindOfFunction classifies a function of Python. The profiler drops the folder of its file, so that only names tell a
// library from the program: a file of librariesText is a library's. If a program may well have a module of that name,
// such as core.py, the function must be one of the library's too.
func kindOfFunction(name, file string) frame.Kind {
	if kind := frame.KindOf(name, file); kind != frame.User {
		return cmp.Or(kind, frame.Framework)
	}
	functions, ok := libraries()[file]
	nameless := strings.HasPrefix(name, "<") && name != "<module>"
	switch {
	case file == "<string>" && (nameless || strings.HasPrefix(name, "__")), // a method that dataclasses or collections made
		ok && (functions == nil || functions[name] || nameless):
		return frame.Framework
	}
	return frame.User
}

// librariesText lists modules of JAX, TensorFlow, Keras, Flax, Optax, Haiku, Equinox, NumPy and Python, one per line: a
// file name, alone or with the functions that the libraries define in it. testdata/gen/xprof/gen_libraries.py made it.
//
//go:embed libraries.txt
var librariesText string

// libraries returns the functions of the library modules by file name; nil stands for all.
var libraries = sync.OnceValue(func() map[string]map[string]bool {
	modules := map[string]map[string]bool{}
	for line := range strings.Lines(librariesText) {
		file, names, some := strings.Cut(strings.TrimSpace(line), ": ")
		modules[file] = nil
		if some {
			modules[file] = map[string]bool{}
			for _, name := range strings.Fields(names) {
				modules[file][name] = true
			}
		}
	}
	return modules
})
