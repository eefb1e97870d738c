package torchsnap_test

import (
	"bytes"
	"math/big"
	"slices"
	"testing"

	ogorek "github.com/kisielk/og-rek"

	"github.com/memlane/memlane/internal/nativetest"
	"github.com/memlane/memlane/internal/pickletest"
)

// reduced returns a snapshot with only the first and last items of its long lists.
func reduced(t testing.TB, data []byte) []byte {
	v, err := ogorek.NewDecoderWithConfig(bytes.NewReader(data), &ogorek.DecoderConfig{StrictUnicode: true, PyDict: true}).Decode()
	if err != nil {
		t.Fatal(err)
	}
	return pickletest.Pickle(shortened(v))
}

func shortened(v any) any {
	const most = 3 // at each end
	switch v := v.(type) {
	case ogorek.None:
		return nil
	case int64:
		return big.NewInt(v)
	case ogorek.Bytes:
		return string(v)
	case []any:
		short := list{}
		for i, item := range v {
			if i < most || i >= len(v)-most {
				short = append(short, shortened(item))
			}
		}
		return short
	case ogorek.Tuple:
		return tuple(shortened([]any(v)).(list))
	case ogorek.Dict:
		var keys []string
		for key := range v.Iter() {
			keys = append(keys, key.(string))
		}
		slices.Sort(keys)
		slices.Reverse(keys) // segments before traces, as PyTorch has them
		short := dict{}
		for _, key := range keys {
			short = append(short, key, shortened(v.Get(key)))
		}
		return short
	}
	return v
}

// FuzzRead reads arbitrary input with bounded memory. It must return one clear error or a
// capture that passes the checks of readBytes. FuzzDecode of package pickle compares
// decoded values with og-rek.
func FuzzRead(f *testing.F) {
	for i, data := range nativetest.Contents(f, captures+"/*.pickle", "../../testdata/labelled/*.pickle.zst") {
		if len(data) < 7<<10 {
			f.Add(data)
			continue
		}
		f.Add(reduced(f, data))
		if i%8 == 0 {
			f.Add(data[:5<<10]) // as a job leaves it that is killed
		}
	}
	const base int64 = 0x7f0000000000
	f.Add(pickletest.Pickle(snapshot(list{segment(0, base, 4096, block(base, 512, 500, "active_allocated"), block(base+512, 512, 9, "active_pending_free"))}, list{
		event("segment_alloc", base, 4096, 0), event("alloc", base, 500, 1, "frames", stackOf("f", "g")), event("free_requested", base, 500, 2),
		event("free_completed", base, 500, 3), event("oom", 0, 5, 4, "device_free", 7), event("snapshot", 0, 5, 5), event("annotate", base, 5, 6, "user_metadata", "m"),
		event("segment_unmap", base, 512, 7)})))
	f.Fuzz(func(t *testing.T, data []byte) {
		nativetest.Bounded(t, len(data), 16<<20, 5000, func() {
			if _, err := readBytes(t, data); err != nil {
				nativetest.Message(t, err, 400)
			}
		})
	})
}
