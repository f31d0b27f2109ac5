package progress

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// parts returns what there is to say, the most important first.
func (s State) parts(left time.Duration) []string {
	var parts []string
	if s.Phase != "" {
		parts = append(parts, s.Phase)
	}
	if _, total := s.bounds(); total > 0 {
		parts = append(parts, fmt.Sprintf("%d%%", s.percent()))
	}
	if s.Epoch > 0 {
		epoch := fmt.Sprintf("epoch %d", s.Epoch)
		if s.Epochs > 0 {
			epoch += fmt.Sprintf(" of %d", s.Epochs)
		}
		parts = append(parts, epoch)
	}
	if left > 0 {
		parts = append(parts, left.String()+" left")
	}
	if s.Total > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s people", count(s.Done), count(s.Total)))
	}
	if s.Reports > 0 {
		parts = append(parts, count(s.Reports)+" reports")
	}
	if s.Counted > 0 {
		parts = append(parts, count(s.Counted)+" counted")
	}
	if s.Messages > 0 {
		parts = append(parts, count(s.Messages)+" messages")
	}
	return parts
}

// bounds are how much is done, and of how much: of what the bar is about.
func (s State) bounds() (done, total int) {
	if s.AllWork > 0 {
		return s.Work, s.AllWork
	}
	return s.Done, s.Total
}

// percent rounds down: 100 means done.
func (s State) percent() int {
	done, total := s.bounds()
	return min(100, max(0, int(100*float64(done)/float64(total))))
}

// line returns the plain line.
func (s State) line(left time.Duration) string { return strings.Join(s.parts(left), ", ") }

// Widths of the live line's bar in characters: the bar is left out where there is no room for the smallest.
const (
	smallestBar = 8
	largestBar  = 30
)

// bar returns the live line, cut to a terminal's width: what matters least goes first.
func (s State) bar(left time.Duration, width int) string {
	parts := s.parts(left)
	if len(parts) == 0 {
		return ""
	}
	line, used := parts[0], utf8.RuneCountInString(parts[0])
	if used > width {
		return string([]rune(line)[:max(width, 0)])
	}
	var rest strings.Builder
	for _, part := range parts[1:] {
		n := 2 + utf8.RuneCountInString(part)
		if used+n > width {
			break
		}
		rest.WriteString("  " + part)
		used += n
	}
	if room := min(largestBar, width-used-2); room >= smallestBar && s.Total+s.AllWork > 0 {
		full := room * s.percent() / 100
		line += "  " + strings.Repeat("━", full) + strings.Repeat("─", room-full)
	}
	return line + rest.String()
}

// count writes a number in full with commas up to a million, and with three digits above.
func count(n int) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}} {
		if v := float64(n) / unit.size; v >= 1 {
			return fmt.Sprintf("%.*f%s", max(0, 3-len(fmt.Sprint(int(v)))), v, unit.name)
		}
	}
	if n >= 1000 {
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return fmt.Sprint(n)
}
