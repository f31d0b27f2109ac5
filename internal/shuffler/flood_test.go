package shuffler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// people is a cohort that a flood must not keep from being released.
const people = 101

// crowded opens a round for people, who are all enrolled and wait for the time of their reports.
func (s *scene) crowded() {
	s.t.Helper()
	a := s.Announcement(glm.Practical, people)
	a.Timing.Grace = 10 * time.Minute
	s.open(a)
	s.enrol(people)
}

// costly is junk that costs the shuffler as much as junk can: it has the right size, opens, and is signed, by a host
// that has no place.
func (s *scene) costly() []byte {
	s.t.Helper()
	stranger, _ := s.Host(capacity)
	bits := make([]byte, s.opened.ReportMessages()*seal.BitSize)
	r := wire.Report{Announcement: s.digest, Epoch: s.opened.Epoch, Round: s.opened.Round, Payload: bits}
	return s.Seal(r, stranger)
}

// flood stores one payload n times under the name of another host than the scene's.
func (s *scene) flood(n int, payload []byte) error {
	s.t.Helper()
	const senders = 64
	conn := s.ConnectHost()
	defer conn.Close()
	g, ctx := errgroup.WithContext(context.Background())
	for w := range senders {
		g.Go(func() error {
			for i := w; i < n; i += senders {
				id := fmt.Sprintf("junk-%d", i)
				if err := conn.Reports.PublishReport(ctx, s.opened.Epoch, s.opened.Round, id, payload); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// One host has as much junk waiting as it may, and the broker takes no more of it, when the reports of another host
// come. All of those are stored, admitted and released.
func TestAnotherHostsFloodKeepsNoReportOut(t *testing.T) {
	t.Parallel()
	const share = 2_000
	for name, payload := range map[string]func(*scene) []byte{
		"200 bytes":  func(*scene) []byte { return make([]byte, 200) },
		"right size": (*scene).costly,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// On a slow machine what was fetched ahead waits for longer than half a minute, and would come twice.
			s := newScene(t, func(_ *broker.Options, p *bus.ProvisionOptions) {
				p.HostReports, p.AckWait = share, time.Hour
			})
			s.forgetEvery = never
			s.start()
			s.crowded()
			reports := make([][]byte, people)
			for i := range reports {
				reports[i] = s.report(uint32(i))
			}
			s.must(s.stop()) // the worst that can be: all the junk is there before the shuffler sees any of it
			junk := payload(s)
			if err := s.flood(share, junk); err != nil {
				t.Fatal(err)
			}
			if err := s.flood(1, append(junk, 0)); !errors.Is(err, bus.ErrFull) {
				t.Errorf("above the host's share: %v", err)
			}
			for _, r := range reports {
				s.send(r)
			}
			before := s.broker.Traffic()
			s.start()
			if m := s.manifest(1, 0); m.Reports != people || m.Outcome != wire.Released {
				t.Errorf("manifest %v", m)
			}
			refused := 0
			for _, c := range s.shuffler.c.Reports.Balance().Refused {
				refused += int(c.Items)
			}
			if refused != share {
				t.Errorf("%d refused, of %d", refused, share)
			}
			// A refusal waits for no answer: what came from the broker is the reports, and answers about the honest
			// ones.
			if in := s.broker.Traffic().MessagesIn - before.MessagesIn; in > share+10*people {
				t.Errorf("%d messages from the broker for %d refused reports and %d admitted ones", in, share, people)
			}
		})
	}
}

// BenchmarkFlood measures how fast 50 000 reports that will be refused are stored, and how fast the shuffler goes
// through them to the honest ones behind, at a broker that syncs every write.
func BenchmarkFlood(b *testing.B) {
	const junk = 50_000
	for name, payload := range map[string]func(*scene) []byte{
		"200 bytes":  func(*scene) []byte { return make([]byte, 200) },
		"right size": (*scene).costly,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := newScene(b, func(o *broker.Options, p *bus.ProvisionOptions) {
					o.SyncAlways, p.HostReports, p.ReportSize = true, 2*junk, 4<<10
				})
				s.forgetEvery = forgetEvery
				s.start()
				s.crowded()
				s.must(s.stop())
				begin := time.Now()
				s.must(s.flood(junk, payload(s)))
				b.ReportMetric(junk/time.Since(begin).Seconds(), "stored/s")
				for i := range uint32(people) {
					s.send(s.report(i))
				}
				b.StartTimer()
				begin = time.Now()
				s.start()
				testbed.Eventually(b, "admitted", func() bool { return s.shuffler.Held() == people })
				b.ReportMetric(junk/time.Since(begin).Seconds(), "junk/s")
				b.StopTimer()
				b.ReportMetric(float64(len(s.report(0))), "bytes/report")
				s.must(s.stop())
				b.StartTimer()
			}
		})
	}
}
