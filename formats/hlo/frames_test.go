package hlo

import "testing"

// TestCallsBudget: each step along a chain of frames is charged, so that many instructions in one long chain cost no more than the budget.
func TestCallsBudget(t *testing.T) {
	s := &sites{p: &program{}}
	for i := range int64(100) {
		s.p.frames.frames = append(s.p.frames.frames, frameRecord{parent: i})
	}
	budget := 150
	if s.calls(100, &budget); budget != 50 {
		t.Errorf("%d words are left of 150 after 100 frames", budget)
	}
	if all := s.calls(100, &budget); budget != -1 || len(all) > 51 {
		t.Errorf("%d words are left of 50 after %d calls", budget, len(all))
	}
	if all := s.calls(100, &budget); budget != -1 || len(all) > 0 {
		t.Errorf("%d words are left of none after %d calls", budget, len(all))
	}
}
