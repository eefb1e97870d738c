package build

import (
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
		{"at::empty", "??", lifetime.Native},
		{"at::empty", "", lifetime.Native},
		{"malloc", "/src/c10/cuda/CUDACachingAllocator.cpp", lifetime.Native},
		{"f", "/usr/lib/libtorch.so", lifetime.Native},
		{"f", "/usr/lib/libc.so.6", lifetime.Native},
	} {
		if got := KindOfFrame(c.function, c.file); got != c.want {
			t.Errorf("KindOfFrame(%q, %q) = %v, want %v", c.function, c.file, got, c.want)
		}
	}
}
