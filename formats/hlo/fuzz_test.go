package hlo_test

import "testing"

// FuzzRead reads anything: no panic, one clear error or a model that passes
// Check, the laws and a trip through native text (readProgram sees to that).
func FuzzRead(f *testing.F) {
	for _, file := range programs(f) {
		if data := contentOf(f, file); len(data) < 12<<10 {
			f.Add(data)
		}
	}
	for _, c := range cases {
		f.Add(c.program.proto())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := readProgram(t, data); err != nil {
			checkMessage(t, err)
		}
	})
}
