package shuffler

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// inPlace are stored reports, in the order of their places in the stream.
type inPlace []struct {
	sequence uint64
	envelope []byte
}

func (x inPlace) read(_ context.Context, _ uint64, _ uint32, from uint64, fn func(uint64, []byte) error) error {
	for _, one := range x {
		if one.sequence < from {
			continue
		}
		if err := fn(one.sequence, one.envelope); err != nil {
			return err
		}
	}
	return nil
}

// A member's report is the one that was admitted, or the release is impossible: neither another report that is in
// its place, though its device signed it, nor the next one where it is gone.
func TestAMembersReportIsTheAdmittedOne(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(3)
	layout, err := s.shuffler.channels[plan.Shuffle].Layout(s.opened)
	s.must(err)
	r := &channel.Release{Epoch: 1, Layout: layout}
	reports := [][]byte{s.report(0), s.report(1), s.report(2)}
	for i, sequence := range []uint64{5, 7} {
		_, digest, err := s.shuffler.envelopes.Open(reports[i], 1, 0, r.Layout)
		s.must(err)
		r.Members = append(r.Members, channel.Member{Slot: uint32(i), Sequence: sequence, Digest: digest})
	}
	for what, c := range map[string]struct {
		stored inPlace
		why    string
	}{
		"right":                 {inPlace{{3, reports[2]}, {5, reports[0]}, {6, reports[2]}, {7, reports[1]}}, ""},
		"a second report of it": {inPlace{{5, reports[0]}, {7, s.report(1)}}, "another report in its place"},
		"another's report":      {inPlace{{5, reports[0]}, {7, reports[2]}}, "another report in its place"},
		"gone":                  {inPlace{{5, reports[0]}, {8, reports[1]}}, "no longer has"},
		"the last is gone":      {inPlace{{5, reports[0]}}, "no longer has"},
	} {
		var second atomic.Int32
		err := (&work.Run{Envelopes: s.shuffler.envelopes, Stored: c.stored.read}).Reports(s.Context(), r, r.Members,
			func(i int, _ []byte) {
				second.Add(int32(i))
			})
		switch {
		case c.why == "":
			if err != nil || second.Load() != 1 {
				t.Errorf("%s: %v", what, err)
			}
		case !errors.Is(err, channel.ErrImpossible) || !strings.Contains(err.Error(), c.why) || second.Load() != 0:
			t.Errorf("%s: taken %d times, %v", what, second.Load(), err)
		}
	}
}

// Whatever led to a committed release of fewer members than the minimum, it stops the shuffler, and nothing leaves.
func TestACommittedReleaseBelowTheMinimumDoesNotLeave(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(3)
	r := &cohort.Release{Outcome: wire.Released}
	r.Epoch, r.Announcement, r.Minimum = 1, s.digest, 4
	r.Layout = channel.Layout{Messages: s.opened.ReportMessages()}
	r.Members = []channel.Member{{Slot: 0, Sequence: 1}, {Slot: 1, Sequence: 2}, {Slot: 2, Sequence: 3}}
	left, err := s.shuffler.releases.leave(s.Context(), r)
	if left || !errors.Is(err, errFatal) || len(s.left(1, 0)) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A channel that leaves a release fewer reports than the minimum is not believed: nothing of it is written down.
func TestAChannelThatLeavesTooFewEndsTheShuffler(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	sh := s.idle()
	r := &cohort.Release{Outcome: wire.Released}
	r.Epoch, r.Minimum = 1, 3
	r.Members = []channel.Member{{Slot: 0, Sequence: 1}, {Slot: 1, Sequence: 2}, {Slot: 2, Sequence: 3}}
	err := sh.releases.reject(r, []channel.Rejected{{Slot: 1, Reason: wire.RefusalBadProof}})
	if !errors.Is(err, errFatal) || !strings.Contains(err.Error(), "below the minimum of 3") || len(r.Members) != 3 {
		t.Errorf("%d reports are left: %v", len(r.Members), err)
	}
}
