package lifetime

import "testing"

func TestKindOfFrame(t *testing.T) {
	for _, c := range []struct {
		function, file string
		want           FrameKind
	}{
		{"train", "/home/me/train.py", User},
		{"train", "train.py", User},
		{"<module>", "<stdin>", User},
		{"<module>", "/tmp/ipykernel_7/123.py", User},
		{"f", `C:\work\train.py`, User},
		{"f", "/home/me/torchvision_fork/models.py", User},
		{"forward", "/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", Framework},
		{"forward", `C:\Python312\Lib\Site-Packages\torch\nn\modules\linear.py`, Framework},
		{"run", "/usr/lib/python3.12/threading.py", Framework},
		{"x", "/usr/lib/python3/dist-packages/numpy/core.py", Framework},
		{"step", "/src/pytorch/torch/optim/adam.py", Framework},
		{"call", "/tmp/torchinductor_me/ab/cab.py", Framework},
		{"<built-in method empty>", "", Framework},
		{"nn.Module: Linear_0", "", Framework},
		{"_call", "<frozen importlib._bootstrap>", Framework},
		{"forward", "<eval_with_key>.12", Framework},
		{"at::empty", "??", Native},
		{"at::empty", "", Native},
		{"malloc", "/src/c10/cuda/CUDACachingAllocator.cpp", Native},
		{"f", "/usr/lib/libtorch.so", Native},
		{"f", "/usr/lib/libc.so.6", Native},
	} {
		if got := KindOfFrame(c.function, c.file); got != c.want {
			t.Errorf("KindOfFrame(%q, %q) = %v, want %v", c.function, c.file, got, c.want)
		}
	}
}
