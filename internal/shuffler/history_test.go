package shuffler

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// backup stops the shuffler, copies its state folder and starts it again.
func (s *scene) backup() (folder string) {
	s.t.Helper()
	s.must(s.stop())
	folder = s.t.TempDir()
	s.must(os.CopyFS(folder, os.DirFS(s.config.StateDir)))
	s.start()
	return folder
}

// restore stops the shuffler and starts it with an older copy of its state folder.
func (s *scene) restore(folder string) {
	s.t.Helper()
	if err := s.stop(); err != nil && !errors.Is(err, errCrash) {
		s.t.Fatal(err)
	}
	s.crash = nil
	s.config.StateDir = s.t.TempDir()
	s.must(os.CopyFS(s.config.StateDir, os.DirFS(folder)))
	s.start()
}

// why is why a condition of readiness is not met.
func (s *scene) why(condition string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unmet[condition]; err != nil {
		return err.Error()
	}
	return ""
}

// at gives a report the slot.
func at(slot uint32) func(*wire.Report) { return func(r *wire.Report) { r.Slot = slot } }

// next is an announcement of the epoch after the one in force.
func (s *scene) next() *plan.Announcement {
	a := s.announcement()
	a.Epoch, a.Previous = s.opened.Epoch+1, s.digest[:]
	return a
}

// cohort enrols devices from a number on and has the first of them report.
func (s *scene) cohort(first, enrolled, reports int) {
	s.t.Helper()
	slots := map[int]uint32{}
	for i := range enrolled {
		r := s.ask(uint32(first + i))
		if !r.Enrolled {
			s.t.Fatalf("device %d: %v", first+i, r)
		}
		slots[i] = r.Slot
	}
	for i := range reports {
		s.send(s.report(uint32(first+i), at(slots[i])))
	}
}

// A state folder that was restored from a copy of any earlier moment: the shuffler takes the outcome of what it forgot
// from its own manifests, says so, shows it as it was, and opens what was announced since. Nothing is stuck.
func TestARestoredStateFolderLearnsFromItsManifests(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(*scene){
		"before the first announcement": func(*scene) {},
		"while the cohort was filling": func(s *scene) {
			s.open(s.announcement())
			s.enrol(7)
			s.sendAll(5)
			s.admitted(5)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.start()
			before(s)
			folder := s.backup()
			if s.opened == nil {
				s.open(s.announcement())
			}
			for i := range uint32(12) {
				if r := s.ask(i); !r.Enrolled {
					t.Fatal(r)
				}
				s.send(s.report(i))
			}
			s.manifest(1, 0)
			s.finished()
			s.open(s.next())
			s.restore(folder)
			s.reopen()
			view := s.shuffler.Snapshot()
			if len(view.Releases) != 1 || view.Releases[0].Outcome != status.Released ||
				view.Releases[0].Reports != 12 || *view.Releases[0].Enrolled != 12 {
				t.Errorf("what is shown of the forgotten round: %+v", view.Releases)
			}
			if n := restored(view); n != 1 {
				t.Errorf("%d warnings of a restored folder: %q", n, view.Warnings)
			}
			s.cohort(20, 12, 12)
			if m := s.manifest(2, 0); m.Outcome != wire.Released || m.Reports != 12 {
				t.Errorf("manifest %v", m)
			}
			s.finished()
			if why := s.why(historyCondition) + s.why(announcementsCondition); why != "" {
				t.Errorf("not ready: %s", why)
			}
			// What the copy held was part of the forgotten release.
			s.account(12+int(s.shuffler.c.Reports.Balance().Resumed), 0, nil)
			s.must(s.stop())
			s.start() // the journal says the same
			view = s.shuffler.Snapshot()
			if len(view.Releases) != 2 || view.Releases[0].Reports != 12 || restored(view) != 0 {
				t.Errorf("after another restart: %+v", view)
			}
		})
	}
}

// restored counts the warnings that the state folder was restored.
func restored(s status.Snapshot) (n int) {
	for _, w := range s.Warnings {
		if strings.Contains(w, "restored from a backup?") {
			n++
		}
	}
	return n
}

// reopen waits until the round in force is open.
func (s *scene) reopen() {
	s.t.Helper()
	s.eventually("open", func() bool {
		f, ok := s.shuffler.Filling()
		return ok && f.Epoch == s.opened.Epoch && f.Round == int(s.opened.Round)
	})
}

// Reports of the open round that were acknowledged after the copy was taken are still at the broker: they are taken in
// again, and the cohort is kept.
func TestReportsLostWithAStateFolderAreTakenInAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(5)
	s.admitted(5)
	folder := s.backup()
	for i := range uint32(4) {
		s.send(s.report(5 + i))
	}
	s.eventually("acknowledged", func() bool {
		b, err := s.broker.Reports.Backlog(s.Context())
		return err == nil && b.Waiting == 0 && s.shuffler.Held() == 9
	})
	s.restore(folder)
	s.eventually("taken in again", func() bool { return s.shuffler.Held() == 9 })
	for i := range uint32(3) {
		s.send(s.report(9 + i))
	}
	if m := s.manifest(1, 0); m.Outcome != wire.Released || m.Reports != 12 {
		t.Errorf("manifest %v", m)
	}
	s.finished()
	s.account(12, 0, nil)
	if b := s.shuffler.c.Reports.Balance(); b.Resumed != 5 || b.Received != 7 {
		t.Errorf("account %+v", b)
	}
}

// A process that is killed leaves reports that the broker handed to it, and that it neither admitted nor acknowledged.
// They are taken in, and nothing says that the state folder is old.
func TestReportsThatAKilledProcessHadInHandSayNothingOfTheFolder(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.must(s.stop())
	s.sendAll(12)
	ctx, kill := context.WithCancel(s.Context())
	handed := 0
	err := s.broker.Reports.ReceiveReports(ctx, func(*bus.Delivery) {
		if handed++; handed == 12 {
			kill()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	s.config.Log = zerolog.New(zerolog.SyncWriter(log))
	s.start()
	if m := s.manifest(1, 0); m.Outcome != wire.Released || m.Reports != 12 {
		t.Errorf("manifest %v", m)
	}
	s.must(s.stop())
	if strings.Contains(log.String(), "acknowledged before") {
		t.Errorf("logged: %s", log)
	}
}

// Part of a release left, and the folder was restored to before it was committed: a release has one membership and one
// order, so this one is destroyed, and the next epoch opens. It is not tried for ever.
func TestARestoredReleaseIsDestroyed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	s.sendAll(11)
	s.admitted(11)
	folder := s.backup()
	s.must(s.stop())
	s.crashAt(stepChunk)
	s.start()
	s.send(s.report(11))
	s.eventually("crashed", s.crashed)
	before := len(s.left(1, 0))
	s.restore(folder)
	if m := s.manifest(1, 0); m.Outcome != wire.Destroyed {
		t.Errorf("manifest %v", m)
	}
	s.finished()
	if after := len(s.left(1, 0)); after != before {
		t.Errorf("%d chunks followed %d of another order", after-before, before)
	}
	s.open(s.next())
}

// In an epoch of several rounds the members of a forgotten round are known only where they are those of the copy. Then
// the epoch goes on; otherwise its next round is destroyed at once, because it is not known who dropped out, and the
// next epoch opens. Its manifest says how many devices are in the epoch as the one before did: an auditor holds the two
// against each other.
func TestARestoredEpochGoesOnIfItsMembersAreKnown(t *testing.T) {
	t.Parallel()
	const everything = "everything lost"
	for name, known := range map[string]bool{"members known": true, "members lost": false, everything: false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.start()
			a := s.Announcement(glm.Paper, 12)
			a.Timing.Grace = 10 * time.Minute
			s.open(a)
			var folder string
			if name == everything {
				folder = s.backup()
			}
			s.enrol(12)
			s.sendAll(10)
			s.admitted(10)
			if name != everything {
				folder = s.backup()
			}
			reports := 10
			if !known {
				s.send(s.report(10))
				reports = 11
			}
			s.pass(reports)
			s.manifest(1, 0)
			s.finished()
			firstDigest := s.digest
			next := s.Announcement(glm.Paper, 12)
			next.Round, next.Previous, next.Encodings, next.Timing = 1, firstDigest[:], next.Encodings[1:], a.Timing
			s.open(next)
			for i := range uint32(6) { // acknowledged by the process whose journal is lost
				s.send(s.report(i))
			}
			s.eventually("acknowledged", func() bool {
				b, err := s.broker.Reports.Backlog(s.Context())
				return err == nil && b.Waiting == 0 && s.shuffler.Held() == 6
			})
			s.restore(folder)
			want := wire.Destroyed
			if known {
				want = wire.Released
				for i := range uint32(4) {
					s.send(s.report(6 + i))
				}
			}
			if m := s.manifest(1, 1); m.Outcome != want || m.Enrolled != 12 {
				t.Errorf("manifest %v", m)
			}
			s.finished()
		})
	}
}

// A broker whose data was set back: the shuffler says what is missing and is not ready, decides nothing, and goes on by
// itself when the newer data is back.
func TestNothingIsDecidedOnABrokerThatWasSetBack(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]bool{"an announcement is gone": true, "a manifest is gone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.start()
			s.open(s.announcement())
			s.enrol(12)
			s.sendAll(11)
			older := s.Backup()
			s.admitted(11)
			s.send(s.report(11))
			s.manifest(1, 0)
			s.finished()
			missing := "the manifest of round 0 of epoch 1 is gone"
			if early {
				missing = "it was at round 0 of epoch 2"
				s.open(s.next())
				s.cohort(20, 12, 11)
				s.admitted(11)
			}
			newer := s.Restore(older)
			s.eventually("noticed", func() bool {
				why := s.why(historyCondition)
				return strings.Contains(why, "the broker shows less than this shuffler has seen") &&
					strings.Contains(why, missing)
			})
			if early {
				s.eventually("asked what waits", func() bool {
					o := &s.shuffler.times.outages
					o.mu.Lock()
					defer o.mu.Unlock()
					return o.count == s.broker.Traffic().Reconnects && o.held != nil && *o.held == 0
				})
				s.shuffler.clock.skip(time.Hour)
				time.Sleep(quiet)
				if f, _ := s.shuffler.Filling(); f.Epoch != 2 || f.Destroyed {
					t.Fatalf("decided on a broker that was set back: %+v", f)
				}
			}
			s.Restore(newer)
			s.eventually("ready again", func() bool { return s.why(historyCondition) == "" })
			if early {
				s.send(s.report(31, at(11)))
				if m := s.manifest(2, 0); m.Outcome != wire.Released {
					t.Errorf("manifest %v", m)
				}
			} else {
				s.open(s.next())
			}
		})
	}
}

// An announcement that comes before the round ahead of it is over is refused, is looked at again, and is opened when
// its turn comes. Until then readiness names it.
func TestAnAnnouncementOutOfTurnIsOpenedLater(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	s.enrol(12)
	opened, digest := s.opened, s.digest
	next := s.next()
	nextDigest := s.Announce(s.analyzer, next)
	s.eventually("refused", func() bool {
		return strings.Contains(s.why(announcementsCondition), "epoch 2 was announced while epoch 1 is running")
	})
	s.opened, s.digest = opened, digest
	s.sendAll(12)
	s.manifest(1, 0)
	s.opened, s.digest = next, nextDigest
	s.reopen()
	s.eventually("ready", func() bool { return s.why(announcementsCondition) == "" })
}
