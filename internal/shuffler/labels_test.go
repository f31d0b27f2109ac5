package shuffler

import (
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// stuffed is the report of a device that spends all bits of its report on one coordinate, as ones.
func (s *scene) stuffed(device uint32) []byte {
	s.t.Helper()
	return s.report(device, func(r *wire.Report) {
		sealer, err := seal.NewBitSealer(s.opened.AnalyzerKey, s.digest)
		s.must(err)
		n := s.opened.ReportMessages()
		r.Payload, err = sealer.AppendSealRun(nil, 0, 0, n, n)
		s.must(err)
	})
}

// rearranged is a report with the right number of messages for each coordinate, in another order.
func (s *scene) rearranged(device uint32) []byte {
	return s.report(device, func(r *wire.Report) {
		messages := slices.Collect(slices.Chunk(slices.Clone(r.Payload), seal.BitSize))
		slices.Reverse(messages)
		r.Payload = slices.Concat(messages...)
	})
}

// A device that puts all bits of its report on one coordinate is refused, as is one whose messages are in another
// order than the plan's, in the lead and in a worker. The others are released, and what left has each coordinate's
// share.
func TestADeviceThatPutsAllOnOneCoordinateIsRefused(t *testing.T) {
	t.Parallel()
	for _, worked := range []bool{false, true} {
		t.Run(map[bool]string{false: "alone", true: "by a worker"}[worked], func(t *testing.T) {
			t.Parallel()
			var s *scene
			if worked {
				c := newCrew(t)
				c.start()
				c.work(nil)
				s = c.scene
			} else {
				s = newScene(t)
				s.start()
			}
			s.open(s.announcement())
			s.enrol(12)
			s.send(s.stuffed(3))
			s.send(s.rearranged(7))
			for i := range uint32(12) {
				if i != 3 && i != 7 {
					s.send(s.report(i))
				}
			}
			refused := map[wire.Refusal]int{wire.RefusalWrongLabels: 2}
			s.account(0, 0, refused)
			s.pass(10)
			m := s.manifest(1, 0)
			s.finished()
			if m.Outcome != wire.Released || m.Reports != 10 {
				t.Errorf("manifest %v", m)
			}
			testbed.RefusedIn(t, m, refused, nil)
			seen := map[[2]int]int{}
			for _, message := range split(bits(t, s.left(1, 0))) {
				label := seal.Label(message)
				seen[[2]int{int(label[0]), int(label[1])<<8 + int(label[2])}]++
			}
			for i, e := range s.opened.Encodings {
				for j := range e.Coordinates {
					if n := seen[[2]int{i, j}]; n != 10*e.MessagesAt(j) {
						t.Errorf("%d messages of coordinate %d of release %d left, want %d", n, j, i,
							10*e.MessagesAt(j))
					}
				}
			}
			s.account(10, 0, refused)
		})
	}
}
