package formats

import "bytes"

// Recorded returns the format of a capture that a program other than memlane wrote. It
// returns "" for what memlane writes, and for files that are no captures, not regular, or
// cannot be read. Damaged captures are captures.
func Recorded(file string) string {
	if !isFile(file) {
		return ""
	}
	src, err := open(file, Input{})
	if err != nil {
		return ""
	}
	defer src.close()
	_, head, err := peek(src)
	if err != nil {
		return ""
	}
	format, err := choose(file, head, "", all)
	switch {
	case err == nil && !format.Sniff(head): // any text, such as a report of memlane
		return ""
	case err != nil, format.Name == "native":
		return ""
	case format.Name == "jaxprof", bytes.HasPrefix(bytes.TrimSpace(head), []byte("<")): // memlane writes profiles and pages too
		if _, err := OpenOutline(file, Input{}); err != nil {
			return ""
		}
	}
	return format.Name
}
