package shuffler

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/journal"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A running shuffler that knows as many devices as it may says so once in its log and to people, counts who is refused,
// and releases the cohort of those that it let in.
func TestAFullShufflerGoesOnWithThoseItKnows(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	log := new(bytes.Buffer)
	s.config.Devices, s.config.Log = 11, zerolog.New(zerolog.SyncWriter(log))
	s.start()
	s.open(s.announcement())
	s.enrol(11)
	for n := range uint32(3) {
		if r := s.ask(11 + n); r.Refusal != wire.RefusalCapacity {
			t.Errorf("beyond the capacity: %v", r)
		}
	}
	if r := s.ask(3); !r.Enrolled || r.Slot != 3 {
		t.Errorf("a device that is known: %v", r)
	}
	s.sendAll(11)
	most := 3 + int(s.devices.Traffic().Repeats) // by a busy machine
	if n := testbed.Refused(s.shuffler.c.Enrolments, cohort.Reason(wire.RefusalCapacity)); n < 3 || n > most {
		t.Errorf("%d refused of 3", n)
	}
	if w := strings.Join(s.shuffler.Snapshot().Warnings, "\n"); strings.Count(w, "admission.devices") != 1 {
		t.Errorf("people are told %q", w)
	}
	// The cohort does not wait for somebody who cannot come: it is complete.
	if m := s.manifest(1, 0); m.Reports != 11 || m.Outcome != wire.Released {
		t.Errorf("manifest %v", m)
	}
	s.must(s.stop())
	if n := strings.Count(log.String(), "as many devices are known as may be"); n != 1 {
		t.Errorf("said %d times in the log", n)
	}
}

// A running shuffler's journal begins anew with an epoch. The next process knows whom the epochs before had, shows how
// they ended, holds the broker against them, and goes on in the middle of the open one.
func TestAShufflerGoesOnFromASnapshot(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Compact = 1
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(12)
	s.released(12)
	s.open(s.next())
	if r := s.ask(0); r.Refusal != wire.RefusalAlreadyEnrolled {
		t.Errorf("a device of epoch 1: %v", r)
	}
	if r := s.ask(12); !r.Enrolled || r.Slot != 0 {
		t.Errorf("a device of epoch 2: %v", r)
	}
	s.must(s.stop())
	all := s.kept()
	if len(all) < 3 || all[0].Snapshot == nil || all[1].Opened == nil || all[1].Opened.Epoch != 2 {
		t.Fatalf("the journal has %d events, the first is %s", len(all), all[0].Encode())
	}
	s.start()
	if r := s.ask(0); r.Refusal != wire.RefusalAlreadyEnrolled {
		t.Errorf("after a restart, a device of epoch 1: %v", r)
	}
	if r := s.ask(12); !r.Enrolled || r.Slot != 0 {
		t.Errorf("after a restart, a device of epoch 2: %v", r)
	}
	view := s.shuffler.Snapshot()
	if len(view.Releases) != 1 || view.Releases[0].Reports != 12 || view.Releases[0].Epoch != 1 {
		t.Errorf("after a restart, the rounds that are over: %+v", view.Releases)
	}
	s.must(s.stop())
}

// kept are the events that a stopped shuffler's journal has.
func (s *scene) kept() (all []*cohort.Event) {
	s.t.Helper()
	j, err := journal.Open(filepath.Join(s.config.StateDir, "journal"))
	s.must(err)
	s.must(j.Replay(func(b []byte) error {
		ev, err := cohort.DecodeEvent(b)
		all = append(all, ev)
		return err
	}))
	s.must(j.Close())
	return all
}
