package atomicfile

import "os"

// openDescriptor returns nil: no name stands for a descriptor.
func openDescriptor(string) (*os.File, error) { return nil, nil }

// takeIdentity does nothing: a new file has the access rights of its folder.
func takeIdentity(*os.File, string, os.FileInfo) bool { return true }
