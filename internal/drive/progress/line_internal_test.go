package progress

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// On a narrow terminal the line is cut, never wrapped: a wrapped line could not be redrawn.
func TestBarFitsItsWidth(t *testing.T) {
	s := State{Phase: "learning", Epoch: 3, Epochs: 6, Done: 12345, Total: 39074, Reports: 12000, Messages: 4_950_000}
	for width := range 200 {
		if n := utf8.RuneCountInString(s.bar(time.Minute, width)); n > width {
			t.Errorf("width %d: %d characters", width, n)
		}
	}
	want := "learning  ━━━━━━━━━─────────────────────  31%  epoch 3 of 6  1m0s left  " +
		"12,345 of 39,074 people  12,000 reports  4.95M messages"
	if got := s.bar(time.Minute, 150); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := s.bar(time.Minute, 40); !strings.Contains(got, "31%") || !strings.Contains(got, "1m0s left") {
		t.Errorf("at 40 characters: %q", got)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{
		0: "0", 999: "999", 1000: "1,000", 999999: "999,999", 1_000_000: "1.00M",
		16_118_025: "16.1M", 161_180_250: "161M", 2_345_000_000: "2.35G",
	} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
}
