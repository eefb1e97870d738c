// Package replay simulates PyTorch's caching allocator over the recorded requests of a
// program, and tells what the program would have needed under other settings.
//
// [Of] takes the requests of a space, [History.Verify] replays them under the settings of the recording and compares
// every address and segment: if they are equal, the rules here are those of the program's allocator. [History.Run]
// replays them under other settings, [Search] looks for the best ones.
//
// The rules are those of c10/cuda/CUDACachingAllocator.cpp in PyTorch 2.0 to 2.15
// (https://github.com/pytorch/pytorch). Comments name its functions.
package replay
