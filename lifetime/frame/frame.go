// Package frame has the levels of call stacks: their kinds, what people call them, and which of them people read.
//
// Its place in the pipeline: readers classify the frames that they find with [KindOf], the model keeps them in
// lifetime.Tables, and answers and renderers print [Frame.Name] and leave out what [Fold] hides. One table has the
// functions of PyTorch, CPython and the libraries that they are compiled with. What the functions of a program mean is
// known to package program.
package frame

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Frame is one level of a call stack.
type Frame struct {
	Function string // as recorded; of compiled code with its signature
	File     string
	Line     int // line of the call; 0 = not known
	Column   int // 0 = not known
	Kind     Kind
}

// Kind separates the user's frames from those below and above them.
type Kind uint8

const (
	User        Kind = iota // code of the program
	Framework               // Python of site-packages, the standard library, built-ins
	Native                  // C and C++ that no pattern names: extensions, programs without Python
	Scope                   // a name scope of the model, an operator or a region of a trace: "layer_3", "aten::mm"
	Interpreter             // of Python
	Operator                // the entry of an operator of PyTorch
	Plumbing                // dispatcher, kernels, bindings, allocator, start of threads
	Unwinder                // recorded the stack
	Node                    // a node of the backward pass
	Engine                  // ran the nodes of the backward pass
	Runtime                 // a library that allocates for itself: cuBLAS, NCCL
)

var kindNames = [...]string{"user", "framework", "native", "scope", "interpreter", "operator", "plumbing", "unwinder",
	"node", "engine", "runtime"}

// String returns the name used in native text.
func (k Kind) String() string { return kindNames[k] }

// ParseKind is the inverse of String. ok is false for unknown text.
func ParseKind(text string) (k Kind, ok bool) {
	i := slices.Index(kindNames[:], text)
	return Kind(max(i, 0)), i >= 0
}

// Folded reports whether frames of kind k are left out where people read stacks; see Fold.
func (k Kind) Folded() bool { return k != User && k != Scope && k != Node }

// Fold returns the frames of a stack that people read, and how many it leaves out: all that are Folded. A stack of
// nothing else keeps those of libraries, without any its operators and runtimes, without any all.
func Fold[F any](stack []F, kind func(F) Kind) (shown []F, hidden int) {
	return FoldTo(nil, stack, kind)
}

// FoldTo is Fold that appends to an empty list, which may be at the beginning of the stack.
func FoldTo[F any](shown, stack []F, kind func(F) Kind) (_ []F, hidden int) {
	for _, keep := range []func(Kind) bool{
		func(k Kind) bool { return !k.Folded() },
		func(k Kind) bool { return k == Framework },
		func(k Kind) bool { return k == Operator || k == Runtime },
	} {
		for _, f := range stack {
			if keep(kind(f)) {
				shown = append(shown, f)
			}
		}
		if len(shown) > 0 {
			return shown, len(stack) - len(shown)
		}
	}
	return stack, 0
}

// Place returns the file name and the line of a frame: "leak.py:8". It leaves out a line
// that is not known, and is "" without a file.
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

// Name returns what a person calls a frame: "aten::mm" for at::_ops::mm::call(at::Tensor const&, ...), "MmBackward0"
// for the apply function of that node, the qualified name of other compiled code. Other functions stay as they are.
func (f *Frame) Name() string {
	switch f.Kind {
	case Operator, Node, Runtime:
		if name := namesInCode.of(key{function: f.Function}, nameInCode); name != "" {
			return name
		}
	case Native, Plumbing, Engine, Unwinder, Interpreter:
		if name := qualifiedNames.of(key{function: f.Function}, func(k key) string { return qualified(k.function) }); name != unnamed {
			return name
		}
		return path.Base(f.File)
	}
	return f.Function
}

var namesInCode, qualifiedNames memo[string]

// unnamed is the function of code for which the symbolizer found no name. Newer versions of PyTorch name exported
// functions only, and give the library and the offset in it in place of a file and line (TORCH_SYMBOLIZE_MODE).
const unnamed = "??"

// String returns "function (file.py:12)", with the base name of the file.
func (f *Frame) String() string {
	name, place := f.Name(), f.Place()
	switch {
	case name == "":
		return cmp.Or(place, "?")
	case place == "" || f.Kind > Scope:
		return name
	case library.MatchString(f.File): // the line is an offset
		place, _, _ = strings.Cut(place, ":")
	}
	return name + " (" + place + ")"
}

// Code returns a frame of compiled code under its short name. The offset in a library is left out.
func (f *Frame) Code() Frame {
	named := Frame{Function: f.Name(), File: f.File, Line: f.Line, Kind: f.Kind}
	if library.MatchString(f.File) {
		named.Line = 0
	}
	return named
}

// frameworkPaths are parts of paths that do not belong to the user's program: installed packages, the standard library,
// source checkouts of PyTorch and JAX, and code generated by torch.compile.
var frameworkPaths = []string{
	"/site-packages/", "/dist-packages/", "/lib/python3", "/lib/python2",
	"/torch/nn/", "/torch/optim/", "/torch/autograd/", "/torch/utils/", "/torch/cuda/", "/torch/distributed/",
	"/torch/_", "/torch/functional.py", "/torch/serialization.py", "/jax/_src/",
	"/torchinductor_",
}

// windowsLibrary matches the standard library of a Windows installation: C:\Python312\Lib\threading.py.
var windowsLibrary = regexp.MustCompile(`/python[0-9]+/lib/`)

var compiledSuffixes = []string{".cpp", ".cc", ".c", ".h", ".hpp", ".cu", ".cuh", ".so", ".o", ".inc", ".s"}

// KindOf classifies a frame by its function and file, as Python profilers and PyTorch's
// snapshots write them. "<built-in ...>" and "nn.Module: ..." are Framework: they name calls, not places
// in the program. A frame without a file ("??" in C++ stacks) is compiled code.
func KindOf(function, file string) Kind { return kinds.of(key{function, file}, kindOf) }

var kinds memo[Kind]

func kindOf(k key) Kind {
	function, file := k.function, k.file
	slashed := strings.ToLower(strings.ReplaceAll(file, `\`, "/"))
	switch {
	case strings.HasPrefix(function, "<built-in "), strings.HasPrefix(function, "nn.Module:"),
		strings.HasPrefix(slashed, "<frozen "), strings.HasPrefix(slashed, "<eval_with_key>"):
		return Framework
	case slashed == "", slashed == "??", strings.Contains(slashed, ".so."), isProgram(slashed),
		!strings.Contains(slashed, ".py") && compiledName.MatchString(function),
		slices.ContainsFunc(compiledSuffixes, func(suffix string) bool { return strings.HasSuffix(slashed, suffix) }):
		return kindOfCode(function, slashed)
	case slices.ContainsFunc(frameworkPaths, func(part string) bool { return strings.Contains(slashed, part) }),
		strings.Contains(slashed, "/lib/") && windowsLibrary.MatchString(slashed):
		return Framework
	}
	return User
}

// compiledName matches names that only compiled code has. The symbolizer may cut the name of their file.
var compiledName = regexp.MustCompile(`::.*\(|^\?\?$|^_start$|^__libc_`)

// library matches shared libraries.
var library = regexp.MustCompile(`\.so(\.[0-9.]+)?$|\.dylib$|\.dll$`)

// isProgram reports whether a file is the interpreter's own: /usr/bin/python3.12.
func isProgram(file string) bool {
	version, ok := strings.CutPrefix(file[max(0, strings.LastIndexByte(file, '/')):], "/python")
	return ok && strings.Trim(version, "0123456789.") == ""
}

// libraries are the kinds of unnamed code by library.
var libraries = []struct {
	kind    Kind
	pattern *regexp.Regexp
}{
	{Interpreter, regexp.MustCompile(`/libpython[^/]*$|/python[0-9.]*$`)},
	{Plumbing, regexp.MustCompile(`/torch/lib/[^/]*$|/lib(torch|c10|c|m|pthread|dl|stdc\+\+|gcc_s|gomp|cuda|cudart)[^/a-z]*(_\w+)?[^/]*$|/ld-[^/]*$`)},
}

// code lists the patterns of compiled code, matched against the qualified name; the first one counts. Frames of C++ are
// recorded by torch.cuda.memory._record_memory_history(stacks="all"), the default. A pattern with a group or with a
// name gives the name that people know the frame by.
var code = []struct {
	kind    Kind
	pattern *regexp.Regexp
	name    string
}{
	// torch/csrc/profiler/unwind, combined_traceback.cpp, cuda/memory_snapshot.cpp. The first two are also what
	// PyTorch's own viewer drops (_frame_filter of torch/cuda/_memory_viz.py).
	{Unwinder, regexp.MustCompile(`^torch::(unwind::|CapturedTraceback::|symbolize|\w+::{}::gather)`), ""},

	// torch/csrc/autograd/generated/Functions.h, functions/, custom_function.h, python_function.h, input_buffer.cpp.
	{Node, regexp.MustCompile(`^torch::autograd::CppNode::apply`), ""},
	{Node, regexp.MustCompile(`^torch::autograd::PyNode::apply`), CustomNode},
	{Node, regexp.MustCompile(`^torch::(?:distributed::)?autograd::(?:generated::)?(\w+)::apply$`), ""},
	{Node, regexp.MustCompile(`^torch::autograd::InputBuffer::`), "sum of gradients"},
	{Engine, regexp.MustCompile(`^torch::(distributed::)?autograd::(python::)?(Engine|DistEngine|PythonEngine|GraphTask|ReadyQueue|Node)::`), ""},
	{Engine, regexp.MustCompile(`^torch::autograd::validate_outputs|^torch::dynamo::autograd::`), ""},

	// aten/src/ATen/cuda/CublasHandlePool.cpp, CUDABlas.cpp, CUDAContextLight.h, CUDAGraph.cpp;
	// aten/src/ATen/native/cudnn; torch/csrc/distributed/c10d, torch/csrc/cuda/nccl.cpp.
	{Runtime, regexp.MustCompile(`CublasLtWorkspace|CuBlasLtWorkspace|^at::cuda::getCUDABlasLtWorkspace`), "cuBLASLt workspace"},
	{Runtime, regexp.MustCompile(`^at::cuda::(getCurrentCUDABlasHandle|({}::)?getNewWorkspace|setWorkspaceForHandle)`), "cuBLAS workspace"},
	{Runtime, regexp.MustCompile(`^at::cuda::getCurrentCUDASolver`), "cuSOLVER workspace"},
	{Runtime, regexp.MustCompile(`^at::cuda::getCurrentCUDASparse`), "cuSPARSE workspace"},
	{Runtime, regexp.MustCompile(`^at::native::({}::)?Workspace::`), "cuDNN workspace"},
	{Runtime, regexp.MustCompile(`^c10d::ProcessGroupNCCL|^c10d::NCCL|^torch::cuda::nccl::`), "NCCL"},
	{Runtime, regexp.MustCompile(`^c10d::ProcessGroupGloo`), "Gloo"},
	{Runtime, regexp.MustCompile(`^c10d::Reducer::`), "DDP buckets"},
	{Runtime, regexp.MustCompile(`^at::cuda::CUDAGraph::`), "CUDA graph"},

	// torchgen writes a struct at::_ops::NAME with call and redispatch for each operator
	// (build/aten/src/ATen/Operators.h).
	{Operator, regexp.MustCompile(`^at::_ops::(\w+)::(?:call|redispatch)$`), ""},

	// The rest of PyTorch, and the libraries that it is compiled with.
	{Plumbing, regexp.MustCompile(`^(at|c10|c10d|torch|caffe2|std|__gnu_cxx|pybind11|cub|thrust|cuda|cutlass|fbgemm|at_cuda_detail)::|^dispatch_cutlass`), ""},
	{Plumbing, regexp.MustCompile(`^({}::)?(TH[PC]\w+|THPFunction_\w+|pythonFallback|pythonTLSSnapshotFallback|operator (new|delete))$`), ""},

	// Objects/, Python/ and Modules/ of CPython, and torch/csrc/dynamo/eval_frame.c.
	{Interpreter, regexp.MustCompile(`^_?_?Py[A-Z_]|^py(main|run|thread)_|^dynamo_|dealloc$|_dealloc\b|^(slot|wrap|method|cfunction|builtin|object|vectorcall|` +
		`func|function|gen|partial|context|subtype|type|tuple|list|dict|set|cell|frame|binary|unary|ternary|run|thread|gc|` +
		`delitem|setitem|insert|map|filter|infinite|bounded|import|builtins?|call|do|eval|lru|thread)_\w+$|^(binary_op1?|run_mod|thread_run|delete_garbage|deduce_unreachable|visit_decref)$`), ""},

	// The C library and the loader: where threads and processes start. pthread_condattr_setpshared and __xmknodat are
	// what the symbolizer calls unnamed code between two symbols.
	{Plumbing, regexp.MustCompile(`^(_?_start|__libc_\w+|__clone\d?|clone\d?|start_thread|execute_native_thread_routine\w*|pthread_\w+|__xmknodat|__\w+)$`), ""},
}

// CustomNode is the name of the node of a torch.autograd.Function written in Python. The stack does not have the class.
const CustomNode = "custom Function"

// NoPython is the function of the only frame of a stack that a thread without Python recorded.
const NoPython = "thread without Python"

// OuterCalls is the name of the frame that stands for calls that lifetime.Tables.Innermost leaves out.
const OuterCalls = "[outer calls left out]"

// pythonSource matches C files of CPython.
var pythonSource = regexp.MustCompile(`/(objects|python|modules)/\w+\.c$`)

// kindOfCode classifies a frame of compiled code.
func kindOfCode(function, file string) Kind {
	name := qualified(function)
	for i := range code {
		if code[i].pattern.MatchString(name) {
			return code[i].kind
		}
	}
	if pythonSource.MatchString(file) {
		return Interpreter
	}
	if name == unnamed || name == "main" {
		for _, l := range libraries {
			if l.pattern.MatchString(file) {
				return l.kind
			}
		}
	}
	return Native
}

func nameInCode(k key) string {
	function := k.function
	name := qualified(function)
	for i := range code {
		c := &code[i]
		m := c.pattern.FindStringSubmatch(name)
		switch {
		case m == nil:
			continue
		case c.name != "":
			return c.name
		case c.kind == Operator:
			return "aten::" + WithoutOverload(m[1])
		case c.kind == Node && len(m) == 1: // CppNode<Function>::apply
			if open, end := strings.IndexByte(function, '<'), strings.LastIndex(function, ">::apply"); open >= 0 && open < end {
				_, class := path.Split(strings.ReplaceAll(function[open+1:end], "::", "/"))
				return class
			}
		case len(m) > 1:
			return m[1]
		}
		return ""
	}
	return ""
}

// overload matches the name of an overload, which at::_ops joins to that of the operator: "add_Tensor",
// "sum_dim_IntList". Lower-case names are those of native_functions.yaml that end no operator's own name.
var overload = regexp.MustCompile(`(_[A-Z]\w*|_(int|dim|dims|self|vec|names|dtype|layout|input|source|other|device|correction|out|output|output_mask|stable|values|start|step|` +
	`tensor_lr|grad_input|memory_format))+$`)

// WithoutOverload returns the name of an operator in at::_ops or VariableType without its overload: "sum" for
// "sum_dim_IntList".
func WithoutOverload(operator string) string {
	if at := overload.FindStringIndex(operator); at != nil && at[0] > 0 {
		return operator[:at[0]]
	}
	return operator
}

// maxSignature bounds the characters of a signature that qualified looks at.
const maxSignature = 1 << 14

// qualified returns the name of a C++ function without its return type, parameters and template arguments:
// "at::native::empty_cuda". Anonymous namespaces and lambdas become "{}".
func qualified(function string) string {
	s := function[:min(len(function), maxSignature)]
	s, _, _ = strings.Cut(s, " [clone ")
	s, _, _ = strings.Cut(s, ".llvm.")
	for _, suffix := range []string{".localalias", ".constprop.", ".isra.", ".part.", ".lto_priv."} {
		s, _, _ = strings.Cut(s, suffix)
	}
	if !strings.ContainsAny(s, "(<{") {
		return s
	}
	s = strings.ReplaceAll(s, "(anonymous namespace)", "{}")
	s = strings.ReplaceAll(s, "operator()", "operator{}")
	var name strings.Builder
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '-' && i+1 < len(s) && s[i+1] == '>':
			i++
		case c == '<' || c == '{' || c == '(' && depth > 0:
			if depth++; c == '{' && depth == 1 {
				name.WriteString("{}")
			}
		case c == '(': // the parameters; a lambda's call operator may follow
			end := closing(s, i)
			rest := strings.TrimPrefix(s[end:], " const")
			if !strings.HasPrefix(rest, "::") {
				return lastWord(name.String())
			}
			i = len(s) - len(rest) - 1
		case c == '>' || c == '}' || c == ')':
			depth = max(depth-1, 0)
		case depth == 0:
			name.WriteByte(c)
		}
	}
	return lastWord(name.String())
}

// closing returns the index after the bracket that closes the one at i.
func closing(s string, i int) int {
	depth := 0
	for ; i < len(s); i++ {
		switch s[i] {
		case '(', '{':
			depth++
		case ')', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return i
}

// lastWord drops a return type. "operator new" and "operator bool" are one word.
func lastWord(name string) string {
	name = strings.TrimSpace(name)
	head, tail, ok := strings.Cut(name, "operator ")
	if i := strings.LastIndexByte(head, ' '); i >= 0 {
		head = head[i+1:]
	}
	if ok {
		return head + "operator " + tail
	}
	return head
}

// memo remembers for the whole process what a frame is: the files of one job have the same frames.
type memo[V any] struct {
	sync.RWMutex
	known map[key]V
}

type key struct{ function, file string }

// Most frames that a memo remembers, and the most bytes of each: a file may have frames without end. A full memo begins again.
const maxKnown, maxKey = 1 << 14, 1 << 10

func (m *memo[V]) of(k key, find func(key) V) V {
	m.RLock()
	v, ok := m.known[k]
	m.RUnlock()
	if ok {
		return v
	}
	v = find(k)
	if len(k.function)+len(k.file) > maxKey {
		return v
	}
	m.Lock()
	defer m.Unlock()
	if m.known == nil || len(m.known) == maxKnown {
		m.known = map[key]V{}
	}
	m.known[key{strings.Clone(k.function), strings.Clone(k.file)}] = v // they may be parts of a large text
	return v
}
