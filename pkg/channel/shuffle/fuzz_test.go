package shuffle

import (
	"bytes"
	"testing"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// FuzzTally feeds any bytes as what a worker counted in so many messages. What is read is written as the same bytes,
// counts every message once, and has no more ones at a coordinate than the reports can hold.
func FuzzTally(f *testing.F) {
	encodings := []protocol.Encoding{
		{Coordinates: []protocol.Coordinate{{Levels: 1}, {Levels: 2}}, NoiseBits: 1},
		{Coordinates: []protocol.Coordinate{{Levels: 3}}},
	}
	full := NewTally(encodings)
	full.Messages, full.OutOfPlan, full.seen[0][1], full.ones[0][1] = 6, 1, 5, 4
	broken := NewTally(encodings) // with a message that does not open
	broken.Messages, broken.Undecryptable, broken.seen[1][0], broken.ones[1][0] = 4, 1, 4, 3
	for _, tally := range []*Tally{full, NewTally(encodings), broken} {
		b, _ := tally.AppendBinary(nil) // it returns no error
		f.Add(b, uint32(tally.Messages))
	}
	f.Fuzz(func(t *testing.T, b []byte, messages uint32) {
		tally, err := ParseTally(encodings, int(messages), b)
		if err != nil {
			if tally != nil {
				t.Fatal("a tally with an error")
			}
			return
		}
		if again, _ := tally.AppendBinary(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x is written as %x", b, again)
		}
		all, zeros := tally.OutOfPlan, 0
		for i := range tally.seen {
			for j, seen := range tally.seen[i] {
				all += int(seen)
				zeros += int(seen - tally.ones[i][j])
				if tally.ones[i][j] > seen {
					t.Fatalf("%d ones of %d messages", tally.ones[i][j], seen)
				}
			}
		}
		if tally.Undecryptable > zeros {
			t.Fatalf("%d messages do not open, %d are no ones", tally.Undecryptable, zeros)
		}
		const reports, noise = 2, 1
		ones, odd := tally.Counts(reports, []uint64{noise, noise})
		for i, e := range encodings {
			for j, n := range ones[i] {
				if n > reports*uint64(e.MessagesAt(j))+noise {
					t.Fatalf("%d ones of coordinate %d of release %d", n, j, i)
				}
			}
		}
		if tally.Messages != int(messages) || all != int(messages) || odd < 0 || odd > 2*int(messages) {
			t.Fatalf("%d messages, %d are counted, %d are odd", messages, all, odd)
		}
	})
}
