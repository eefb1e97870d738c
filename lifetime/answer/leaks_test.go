package answer_test

import (
	"testing"

	"github.com/memlane/memlane/lifetime/answer"
)

// TestNoRanks checks that a program without ranks need not make any.
func TestNoRanks(t *testing.T) {
	if leaks := answer.NewLeaks(nil, nil, nil); leaks.Ranks != nil || leaks.Summary != nil {
		t.Errorf("ranks %v, %v", leaks.Ranks, leaks.Summary)
	}
	if report := answer.NewReport("", nil, nil, nil); len(report.Findings) > 0 {
		t.Errorf("findings %v", report.Findings)
	}
}
