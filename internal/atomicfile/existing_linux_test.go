package atomicfile

import (
	"encoding/binary"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAccessList checks that an existing file keeps its access list. The mode of such a
// file does not say who may use it: its group bits are only a mask.
func TestAccessList(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("out", []byte("old content"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := binary.LittleEndian.AppendUint32(nil, 2) // version
	for _, e := range []struct {
		kind, permissions uint16
		id                uint32
	}{{0x01, 6, ^uint32(0)}, {0x02, 6, 65534}, {0x04, 0, ^uint32(0)}, {0x10, 6, ^uint32(0)}, {0x20, 0, ^uint32(0)}} { // owner, a user, group, mask, others
		list = binary.LittleEndian.AppendUint16(list, e.kind)
		list = binary.LittleEndian.AppendUint16(list, e.permissions)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	const name = "system.posix_acl_access"
	if err := unix.Setxattr("out", name, list, 0); err != nil {
		t.Skip(err)
	}
	if err := writeText("out", "new"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2*len(list))
	n, err := unix.Getxattr("out", name, got)
	if err != nil || string(got[:n]) != string(list) {
		t.Errorf("the list was %x and is %x (%v)", list, got[:max(n, 0)], err)
	}
	if text, err := os.ReadFile("out"); err != nil || string(text) != "new" {
		t.Errorf("the file has %q (%v)", text, err)
	}
}
