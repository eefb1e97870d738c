package lifetime_test

import (
	"os"
	"strings"
	"testing"

	"github.com/memlane/memlane/lifetime"
)

func TestKindOfFrame(t *testing.T) {
	for _, c := range []struct {
		function, file string
		want           lifetime.FrameKind
	}{
		{"train", "/home/me/train.py", lifetime.User},
		{"train", "train.py", lifetime.User},
		{"<module>", "<stdin>", lifetime.User},
		{"<module>", "/tmp/ipykernel_7/123.py", lifetime.User},
		{"f", `C:\work\train.py`, lifetime.User},
		{"f", "/home/me/torchvision_fork/models.py", lifetime.User},
		{"forward", "/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", lifetime.Framework},
		{"forward", `C:\Python312\Lib\Site-Packages\torch\nn\modules\linear.py`, lifetime.Framework},
		{"run", "/usr/lib/python3.12/threading.py", lifetime.Framework},
		{"x", "/usr/lib/python3/dist-packages/numpy/core.py", lifetime.Framework},
		{"step", "/src/pytorch/torch/optim/adam.py", lifetime.Framework},
		{"call", "/tmp/torchinductor_me/ab/cab.py", lifetime.Framework},
		{"<built-in method empty>", "", lifetime.Framework},
		{"nn.Module: Linear_0", "", lifetime.Framework},
		{"_call", "<frozen importlib._bootstrap>", lifetime.Framework},
		{"forward", "<eval_with_key>.12", lifetime.Framework},
		{"at::empty", "??", lifetime.Plumbing},
		{"at::empty", "", lifetime.Plumbing},
		{"malloc", "/src/c10/cuda/CUDACachingAllocator.cpp", lifetime.Native},
		{"f", "/usr/lib/libtorch.so", lifetime.Native},
		{"f", "/usr/lib/libc.so.6", lifetime.Native},
		{"??", "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so", lifetime.Plumbing},
		{"??", "/lib/x86_64-linux-gnu/libc.so.6", lifetime.Plumbing},
		{"??", "/usr/lib/libpython3.11.so.1.0", lifetime.Interpreter},
		{"_start", "/usr/bin/python3.11", lifetime.Plumbing},
		{"main", "/usr/bin/python3.11", lifetime.Interpreter},
		{"main", "/home/me/bin/train", lifetime.User},
		{"??", "/venv/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", lifetime.Native},
	} {
		if got := lifetime.KindOfFrame(c.function, c.file); got != c.want {
			t.Errorf("KindOfFrame(%q, %q) = %v, want %v", c.function, c.file, got, c.want)
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
		f := lifetime.Frame{Function: want[2], File: want[3], Kind: lifetime.KindOfFrame(want[2], want[3])}
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
		kind           lifetime.FrameKind
	}{
		{"torch::autograd::PyNode::apply(std::vector<at::Tensor, std::allocator<at::Tensor> >&&)", lifetime.CustomNode, lifetime.Node},
		{"torch::autograd::CppNode<vision::ops::(anonymous namespace)::ROIAlignFunction>::apply(std::vector<at::Tensor>&&)", "ROIAlignFunction", lifetime.Node},
		{"torch::distributed::autograd::RecvRpcBackward::apply(std::vector<at::Tensor>&&)", "RecvRpcBackward", lifetime.Node},
		{"c10d::ProcessGroupNCCL::initWork(at::Device&, int, c10d::OpType)", "NCCL", lifetime.Runtime},
		{"at::cuda::getCurrentCUDABlasHandle()", "cuBLAS workspace", lifetime.Runtime},
		{"at::_ops::add__Tensor::call(at::Tensor&, at::Tensor const&, c10::Scalar const&)", "aten::add_", lifetime.Operator},
		{"at::_ops::split_with_sizes::redispatch(c10::DispatchKeySet, at::Tensor const&)", "aten::split_with_sizes", lifetime.Operator},
		{"vllm::paged_attention_v1(torch::Tensor&, int)", "vllm::paged_attention_v1", lifetime.Native},
		{"MyModel::forward(at::Tensor)", "MyModel::forward", lifetime.Native},
		{"main", "main", lifetime.Native},
		{"operator new(unsigned long)", "operator new", lifetime.Plumbing},
		{strings.Repeat("(", 1<<16), "", lifetime.Native},
	} {
		f := lifetime.Frame{Function: c.function, Kind: lifetime.KindOfFrame(c.function, "??")}
		if f.Kind != c.kind || c.name != "" && f.Name() != c.name {
			t.Errorf("%.100s is %s %q, want %s %q", c.function, f.Kind, f.Name(), c.kind, c.name)
		}
	}
}
