package oomtext

import (
	"cmp"
	"strings"

	"github.com/memlane/memlane/internal/units"
	"github.com/memlane/memlane/lifetime/failure"
)

// Texts of PyTorch, by version: docs/manual/formats.md. Sources: c10/cuda/CUDACachingAllocator.cpp, c10/xpu/XPUCachingAllocator.cpp,
// c10/cuda/CUDAMallocAsyncAllocator.cpp, aten/src/ATen/mps/MPSAllocator.mm, c10/core/impl/alloc_cpu.cpp of github.com/pytorch/pytorch;
// github.com/Ascend/pytorch; src/include/alloc.h of github.com/NVIDIA/nccl.
var (
	torchFree = lazily(`of which ` + torchSize + ` is free\.`)

	torchNewUse = lazily(`Of the allocated memory ` + torchSize + ` is allocated by PyTorch(?:,? with ` + torchSize + ` allocated in private pools[^)]*\)[,.]?)?(?:,? and ` +
		torchSize + ` is reserved by PyTorch but unallocated)?`)
	torchProcess = lazily(`(?:(this) process|Process ` + number + `) has ` + torchSize + ` memory in use`)
	torchAllowed = lazily(torchSize + ` allowed;`)
)

// torchSentences are texts of PyTorch of one form. Those of libraries below it have no figures of its allocator; the words before tell
// errors from advice and source code.
var torchSentences = []form{
	// 2.1 and later, perhaps without its beginning. The first versions wrote "capacty".
	{laterInTorch, failure.FromTorch, "cuda", "", lazily(`(?:(?:(?P<backend>[A-Z]{3,5}) out of memory\. )?(?:Tried to )?allocate (?P<requested>` + torchSize +
		`)\. )?GPU ?(?P<index>[0-9]*) has a total capaci?ty of (?P<capacity>` + torchSize + `)(?: of which (?P<free>` + torchSize + `) is free)?(?P<usage>.*)`)},
	// To 2.0, and NPU. "cached" was reserved less allocated.
	{totalCapacity, failure.FromTorch, "cuda", "", lazily(`(?:(?P<backend>[A-Z]{3,5}) out of memory\. |block with size larger than (?P<block>` + xlaSize +
		`)! )?Tried to allocate (?P<requested>` + torchSize + `) \((?:GPU|(?P<device>NPU)) *(?P<index>[0-9]*); (?P<capacity>` + torchSize +
		`) total capacity(?:; (?P<live>` + torchSize + `) already allocated(?:; ` + torchSize + ` current active)?(?:; (?P<free>` + torchSize +
		`) free)?(?:; (?P<allowed>` + torchSize + `) allowed)?(?:; (?:(?P<cached>` + torchSize + `) cached|(?P<in_total>` + torchSize + `) reserved in total))?)?`)},
	{"MPS backend", failure.FromTorch, "mps", "", lazily(`MPS backend out of memory \(MPS allocated: (?P<live>` + torchSize + `), other allocations: (?P<beside>` + torchSize +
		`)(?:, max allowed: (?P<allowed>` + torchSize + `))?\)\.(?: Tried to allocate (?P<requested>` + torchSize + `) on (?:shared|private) pool)?`)},
	{"exceed allowed memory", failure.FromTorch, "cuda", "", lazily(`Allocation on device (?P<index>[0-9]+) would exceed allowed memory\. \(out of memory\) ` +
		`Currently allocated ?: (?P<live>` + torchSize + `) Requested ?: (?P<requested>` + torchSize + `) Device limit ?: (?P<capacity>` + torchSize +
		`) Free \(according to CUDA\) ?: (?P<free>` + torchSize + `)(?: PyTorch limit \(set by user-supplied memory fraction\) ?: (?P<allowed>` + torchSize + `))?`)},
	{"DefaultCPUAllocator: ", failure.FromHost, "cpu", "", lazily(
		`DefaultCPUAllocator: (?:can't allocate memory|not enough memory): you tried to allocate (?P<requested>[0-9]+) bytes`)},
	{" out of memory. Tried", failure.FromTorch, "", "", lazily(`(?P<backend>[A-Z]{3,5}) out of memory\. Tried to (?:allocate (?P<absurd>more than 1EB memory)|(?P<cut>allocate )(?P<requested>` + torchSize + `))`)},
	{"Failed to CUDA ", failure.FromLibrary, "cuda", "", lazily(
		`(?:\[(?P<index>[0-9]+)\] \S+ NCCL WARN )?(?P<nccl>Failed to CUDA) (?:calloc(?: async)?|malloc) (?P<requested>[0-9]+) bytes`)},
	{"Cuda failure ", failure.FromLibrary, "cuda", "", lazily(`(?P<nccl>Cuda failure) (?:[0-9]+ )?'out of memory'`)},
	{"_ALLOC_FAILED", failure.FromLibrary, "cuda", "", lazily(`(?:error|handle|failed|CuDNN): ` +
		`(?P<op>CUBLAS|CUDNN|CUSPARSE|CUSOLVER|CUFFT|HIPBLAS|ROCBLAS|MIOPEN)(?:_STATUS)?_ALLOC_FAILED(?: when calling .?(?P<call>\w+))?`)},
	{"error: out of memory", failure.FromLibrary, "", "", lazily(`(?:Error: |^)(?P<backend>CUDA|HIP|XPU|NPU)(?: driver)? error: out of memory`)},
	{"out of memory", failure.FromTorch, "", "", lazily(`Error: (?P<backend>CUDA|HIP|XPU|NPU) out of memory`)}, // perhaps the allocator's state follows
}

// totalCapacity is in texts of versions to 2.0. They have what is reserved, unless it was cut off.
const totalCapacity = " total capacity"

// nccl is the operation of NCCL's own requests.
const nccl = "NCCL"

// backend returns the device of a text: "cuda:0". name is "" if the beginning of the text was cut off.
func backend(name, index string) string {
	return strings.TrimSuffix(strings.ToLower(cmp.Or(name, "cuda"))+":"+index, ":")
}

// parseTorchLast reads a text whose beginning was cut off, up to the capacity.
func parseTorchLast(text string) *printed {
	if !strings.Contains(text, lastInTorch) {
		return nil
	}
	f := newFailure(failure.FromTorch)
	f.device = backend("", "")
	if free := torchFree().FindStringSubmatch(text); free != nil {
		f.free = f.figure(free[1])
	}
	if f.usage(text); f.Cut {
		return nil
	}
	return f
}

// usage reads what follows the capacity and the free bytes.
func (f *printed) usage(rest string) {
	if len(rest) > maxTail {
		rest = rest[:maxTail]
	}
	if next := strings.Index(rest, " out of memory. Tried"); next >= 0 { // of another failure
		rest = rest[:next]
	}
	if allowed := torchAllowed().FindStringSubmatch(rest); allowed != nil {
		f.Allowed = f.figure(allowed[1])
	}
	if use := torchNewUse().FindStringSubmatch(rest); use != nil {
		allocated := f.figure(use[1])
		f.Idle, f.Unallocated = f.figure(use[2]), f.figure(use[3])
		f.Live = max(allocated-max(f.Idle, 0), 0)
		if f.Unallocated >= 0 {
			f.Reserved = units.AddSat(allocated, f.Unallocated)
		}
	}
	f.Cut = f.Unallocated < 0
	f.processes(rest)
}

// maxTail is the length of the figures after the first ones, with room for many processes.
const maxTail = 8 << 10

// processes reads the processes on the device. A process that uses less than the allocator reserved was not found.
func (f *printed) processes(text string) {
	all := torchProcess().FindAllStringSubmatch(text, -1)
	if len(all) == 0 {
		return
	}
	sum, least, most, others := int64(0), int64(0), int64(0), 0
	for _, p := range all {
		used := max(f.figure(p[3]), 0)
		sum = units.AddSat(sum, used)
		if p[1] != "" {
			f.InProcess = used
		} else {
			least, most, others = min(cmp.Or(least, used), used), max(most, used), others+1
		}
	}
	if f.InProcess >= 0 && f.InProcess < f.Reserved-4*f.Rounding {
		sum -= f.InProcess
		f.InProcess = unknown
	}
	among := f.InProcess < 0 && f.Reserved < 0
	if f.InProcess < 0 && f.Reserved >= 0 {
		f.InProcess, among = f.own(all, sum)
	}
	if f.Others = sum - max(f.InProcess, 0); among || f.Others == 0 && f.InProcess < 0 {
		f.Others = unknown // which of them is the process is not known, or none was listed
	}
	if others > 1 && most < contextAtMost && most-least <= most/50 && float64(f.Others) > 0.1*float64(f.Capacity) {
		f.Help = "Call torch.cuda.set_device(LOCAL_RANK) first: each rank has a context on this GPU."
	}
}

// contextAtMost is the most that a process uses that only opened a context: others that use as much, all the same, are ranks of the job.
const contextAtMost = 1 << 30

// own returns the bytes that the own process uses, -1 if it is not known. In a container it has a number that it does not know: it is the
// one that uses what the allocator reserved and least more, up to 1.6 GiB for the context and for libraries. It is the only one that uses
// as much if the device has no room for the allocator beside all that are listed; among is true if several do.
func (f *printed) own(all [][]string, sum int64) (used int64, among bool) {
	const context = 1600 << 20
	tolerance := 4 * f.Rounding
	closest, fitting := int64(unknown), 0
	for _, p := range all {
		if used, _ := size(p[3]); used >= f.Reserved-tolerance {
			if fitting++; closest < 0 || used < closest {
				closest = used
			}
		}
	}
	noRoom := f.Capacity-max(f.free, 0)-sum+tolerance < f.Reserved
	if fitting > 0 && closest-f.Reserved < context || fitting == 1 && noRoom {
		return closest, false
	}
	return unknown, fitting > 1 && noRoom
}
