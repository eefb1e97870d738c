package frame_test

import (
	"os"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime/frame"
)

func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		function, file string
		want           frame.Kind
	}{
		{"train", "/home/me/train.py", frame.User},
		{"train", "train.py", frame.User},
		{"<module>", "<stdin>", frame.User},
		{"<module>", "/tmp/ipykernel_7/123.py", frame.User},
		{"f", `C:\work\train.py`, frame.User},
		{"f", "/home/me/torchvision_fork/models.py", frame.User},
		{"forward", "/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", frame.Framework},
		{"forward", `C:\Python312\Lib\Site-Packages\torch\nn\modules\linear.py`, frame.Framework},
		{"run", "/usr/lib/python3.12/threading.py", frame.Framework},
		{"x", "/usr/lib/python3/dist-packages/numpy/core.py", frame.Framework},
		{"step", "/src/pytorch/torch/optim/adam.py", frame.Framework},
		{"call", "/tmp/torchinductor_me/ab/cab.py", frame.Framework},
		{"<built-in method empty>", "", frame.Framework},
		{"nn.Module: Linear_0", "", frame.Framework},
		{"_call", "<frozen importlib._bootstrap>", frame.Framework},
		{"forward", "<eval_with_key>.12", frame.Framework},
		{"at::empty", "??", frame.Plumbing},
		{"at::empty", "", frame.Plumbing},
		{"malloc", "/src/c10/cuda/CUDACachingAllocator.cpp", frame.Native},
		{"f", "/usr/lib/libtorch.so", frame.Native},
		{"f", "/usr/lib/libc.so.6", frame.Native},
		{"??", "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so", frame.Plumbing},
		{"??", "/lib/x86_64-linux-gnu/libc.so.6", frame.Plumbing},
		{"??", "/usr/lib/libpython3.11.so.1.0", frame.Interpreter},
		{"_start", "/usr/bin/python3.11", frame.Plumbing},
		{"main", "/usr/bin/python3.11", frame.Interpreter},
		{"main", "/home/me/bin/train", frame.User},
		{"??", "/venv/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", frame.Native},
	} {
		if got := frame.KindOf(c.function, c.file); got != c.want {
			t.Errorf("KindOf(%q, %q) = %v, want %v", c.function, c.file, got, c.want)
		}
	}
}

// TestFrames: kinds and names of the frames of compiled code in snapshots of PyTorch 2.0 to 2.15, one for each name. The
// columns of frames.tsv are kind, name, function and file.
func TestFrames(t *testing.T) {
	table, err := os.ReadFile("testdata/frames.tsv")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(table)) {
		want := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		f := frame.Frame{Function: want[2], File: want[3], Kind: frame.KindOf(want[2], want[3])}
		if f.Kind.String() != want[0] || f.Name() != want[1] {
			t.Errorf("%.200s in %q is %s %s, want %s %s", want[2], want[3], f.Kind, f.Name(), want[0], want[1])
		}
		n++
	}
	if n < 600 {
		t.Errorf("only %d frames", n)
	}
}

// TestCompiledFrames: kinds and names of frames that the captures at hand do not have.
func TestCompiledFrames(t *testing.T) {
	for _, c := range []struct {
		function, name string
		kind           frame.Kind
	}{
		{"torch::autograd::PyNode::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)", frame.CustomNode, frame.Node},
		{"torch::autograd::CppNode<vision::ops::(anonymous namespace)::ROIAlignFunction>::apply(std::vector<at::Tensor>&&)", "ROIAlignFunction", frame.Node},
		{"torch::distributed::autograd::RecvRpcBackward::apply(std::vector<at::Tensor>&&)", "RecvRpcBackward", frame.Node},
		{"c10d::ProcessGroupNCCL::initWork(at::Device&, int, c10d::OpType)", "NCCL", frame.Runtime},
		{"at::cuda::getCurrentCUDABlasHandle()", "cuBLAS workspace", frame.Runtime},
		{"at::_ops::add__Tensor::call(at::Tensor&, at::Tensor const&, c10::Scalar const&)", "aten::add_", frame.Operator},
		{"at::_ops::split_with_sizes::redispatch(c10::DispatchKeySet, at::Tensor const&)", "aten::split_with_sizes", frame.Operator},
		{"vllm::paged_attention_v1(torch::Tensor&, int)", "vllm::paged_attention_v1", frame.Native},
		{"MyModel::forward(at::Tensor)", "MyModel::forward", frame.Native},
		{"main", "main", frame.Native},
		{"operator new(unsigned long)", "operator new", frame.Plumbing},
		{strings.Repeat("(", 1<<16), "", frame.Native},
	} {
		f := frame.Frame{Function: c.function, Kind: frame.KindOf(c.function, "??")}
		if f.Kind != c.kind || c.name != "" && f.Name() != c.name {
			t.Errorf("%.100s is %s %q, want %s %q", c.function, f.Kind, f.Name(), c.kind, c.name)
		}
	}
}

// TestParseKind: ParseKind reads every name and no other text.
func TestParseKind(t *testing.T) {
	for k := range frame.Runtime + 1 {
		if got, ok := frame.ParseKind(k.String()); !ok || got != k {
			t.Errorf("%s is read as %s", k, got)
		}
	}
	for _, bad := range []string{"", "x", "USER"} {
		if k, ok := frame.ParseKind(bad); ok {
			t.Errorf("%q is a kind: %s", bad, k)
		}
	}
}
