package shuffler

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// panelled gives the scene's announcement a panel of 12 out of 20 devices or more, twice for each.
func panelled(a *plan.Announcement) *plan.Announcement {
	a.Plan.Panel, a.Plan.Decisions, a.Plan.Records = &plan.Panel{Registered: 20}, 1, 2
	c := panel.Commit(testbed.Contribution(a.Epoch))
	a.Commitment = c[:]
	return a
}

// register has devices first to last-1 of the scene's host register.
func (s *scene) register(first, last int) {
	s.t.Helper()
	for i := first; i < last; i++ {
		r := s.ask(uint32(i), toRegister)
		if !r.Enrolled || r.Slot != 0 || r.ReportAfter != 0 || len(r.Commitment)+len(r.Pool)+len(r.Draw) != 0 {
			s.t.Fatalf("device %d registers: %v", i, r)
		}
	}
}

func toRegister(r *wire.EnrolRequest) { r.Epoch, r.Announcement = 0, nil }

// quick has the shuffler look at what a panel waits for all the time.
func quick(s *scene) {
	s.prepare = func(sh *Shuffler) { sh.panels.drawEvery = 5 * time.Millisecond }
}

// pooled waits for the one pool of the open epoch in the audit log.
func (s *scene) pooled() (p *wire.Pool, digest [32]byte) {
	s.t.Helper()
	s.eventually("pool in the audit log", func() bool {
		p = nil
		for _, signed := range s.words(bus.Shuffler, wire.KindPool) {
			q, of, err := wire.Open[wire.Pool](signed, s.ShufflerParty())
			s.must(err)
			if q.Epoch != s.opened.Epoch {
				continue
			}
			if p != nil {
				s.t.Fatal("two pools of one epoch are in the audit log")
			}
			p, digest = q, of
		}
		return p != nil
	})
	return p, digest
}

// words are what a role said under a kind.
func (s *scene) words(role bus.Role, kind string) (all [][]byte) {
	s.t.Helper()
	filter := bus.AuditFilter{Role: role, Kind: kind}
	s.must(s.analyzer.Audit.ReadAudit(s.Context(), filter, func(st bus.Statement) error {
		all = append(all, st.Payload)
		return nil
	}))
	return all
}

// reveal has the analyzer say its contribution to the draw, changed as the test says.
func (s *scene) reveal(by *seal.Identity, change ...func(*wire.Draw)) (signed []byte) {
	s.t.Helper()
	_, digest := s.pooled()
	d := &wire.Draw{
		Deployment: testbed.Deployment, Epoch: s.opened.Epoch, Announcement: s.digest[:], Pool: digest[:],
		Contribution: testbed.Contribution(s.opened.Epoch),
	}
	for _, f := range change {
		f(d)
	}
	signed, _ = s.Sign(d, by)
	s.must(s.analyzer.Audit.AppendAudit(s.Context(), wire.KindDraw, signed))
	return signed
}

// drawn waits until the panel of the open epoch is drawn.
func (s *scene) drawn() {
	s.t.Helper()
	s.eventually("drawn", func() bool {
		v := s.shuffler.Snapshot()
		return v.Epoch == s.opened.Epoch && v.Panel != nil && v.Panel.Drawn
	})
}

// slots are the slots of the devices that are in the panel, which must be the one that follows from the statements.
func (s *scene) slots(registered int) map[uint32]uint32 {
	s.t.Helper()
	var all []panel.Device
	for i := range registered {
		all = append(all, panel.Device{Host: [32]byte(s.host.Public()), Number: uint32(i)})
	}
	p, digest := s.pooled()
	if root := panel.Root(all); int(p.Registered) != registered || !bytes.Equal(p.Root, root[:]) {
		s.t.Fatalf("a pool of %d devices, not of the %d registered ones", p.Registered, registered)
	}
	want := panel.NewSeed(digest, testbed.Contribution(s.opened.Epoch)).Panel(all, int(s.opened.Cohort.Size))
	out := map[uint32]uint32{}
	for slot, d := range want {
		out[d.Number] = uint32(slot)
	}
	for i := range uint32(registered) {
		slot, drawn := out[i]
		r := s.ask(i)
		if r.Enrolled != drawn || r.Slot != slot || !drawn && r.Refusal != wire.RefusalNotDrawn {
			s.t.Fatalf("device %d, drawn %v as slot %d: %v", i, drawn, slot, r)
		}
		_, shown, err := wire.Open[wire.Pool](r.Pool, s.ShufflerParty())
		s.must(err)
		d, _, err := wire.Open[wire.Draw](r.Draw, s.AnalyzerParty())
		s.must(err)
		if shown != digest || !bytes.Equal(d.Pool, digest[:]) {
			s.t.Fatalf("device %d is shown other statements than those in the audit log", i)
		}
	}
	return out
}

// reportAs has these devices report, but for as many as stay away.
func (s *scene) reportAs(slots map[uint32]uint32, away int) {
	s.t.Helper()
	for device, slot := range slots {
		if away--; away < 0 {
			s.send(s.report(device, at(slot)))
		}
	}
}

// saysOfAPerson holds what is shown as promised to everything that one person does in all epochs.
func (s *scene) saysOfAPerson(a *plan.Announcement) {
	s.t.Helper()
	together, _, err := plan.Lifetime(a)
	b := s.shuffler.Snapshot().Budget
	if err != nil || b == nil || float64(b.Epsilon) != together.Epsilon(a.Plan.Delta) || b.Records != 2 ||
		b.Decisions != 1 {
		s.t.Errorf("promised is %+v, the plan gives %v (%v)", b, together.Epsilon(a.Plan.Delta), err)
	}
}

// Two epochs of panels on a real broker: registered, pooled, drawn, told, reported, released, with a device more in the
// second pool, and nothing from whoever is not drawn.
func TestPanelsAreDrawnAndReleased(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	quick(s)
	s.start()
	s.opened = s.announcement()
	s.register(0, 15)
	if r := s.ask(3, toRegister); !r.Enrolled || !r.Held {
		t.Errorf("registered twice: %v", r)
	}
	s.open(panelled(s.announcement()))
	s.eventually("waiting", func() bool {
		p := s.shuffler.Snapshot().Panel
		return p != nil && p.Registered == 15 && p.Needed == 20 && p.Pool == nil &&
			strings.Contains(p.Waits, "at least 20 devices, and 15")
	})
	if r := s.ask(0); r.Refusal != wire.RefusalWrongEpoch {
		t.Errorf("before the draw: %v", r)
	}
	s.saysOfAPerson(panelled(s.announcement()))
	s.register(15, 20)
	s.pooled()
	s.register(20, 21) // too late
	if r := s.ask(0); r.Refusal != wire.RefusalWrongEpoch {
		t.Errorf("before the draw: %v", r)
	}
	if p := s.shuffler.Snapshot().Panel; p.Pool == nil || *p.Pool != 20 || p.Drawn || p.Waits == "" {
		t.Errorf("what is shown of a pool: %+v", p)
	}
	s.reveal(testbed.NewIdentity(t)) // of somebody else: it says nothing
	s.reveal(s.Analyzer)
	s.drawn()
	slots := s.slots(20)
	if r := s.ask(20); r.Refusal != wire.RefusalNotRegistered {
		t.Errorf("registered after the pool: %v", r)
	}
	for i := range uint32(20) {
		if _, drawn := slots[i]; !drawn {
			s.send(s.report(i, at(0)))
		}
	}
	s.reportAs(slots, 1)
	s.account(0, 0, map[wire.Refusal]int{wire.RefusalNotEnrolled: 8})
	s.admitted(11)
	for device := range slots {
		if r := s.ask(device); r.Held != s.shuffler.state.Reported(r.Slot) {
			t.Errorf("whether device %d has reported: %v", device, r)
		}
	}
	s.pass(11)
	m := s.manifest(1, 0)
	s.finished()
	if m.Outcome != wire.Released || m.Reports != 11 || m.Enrolled != 12 {
		t.Errorf("manifest %v", m)
	}
	s.account(11, 0, map[wire.Refusal]int{wire.RefusalNotEnrolled: 8})
	s.forgotten()
	s.open(panelled(s.next()))
	s.reveal(s.Analyzer)
	s.drawn()
	s.reportAs(s.slots(21), 0)
	if m := s.manifest(2, 0); m.Reports != 12 || m.Enrolled != 12 {
		t.Errorf("manifest %v", m)
	}
	s.finished()
}

// In the channel shares the commitment comes with the slot.
func TestPanelsOfSharesAreDrawn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	quick(s)
	s.start()
	s.opened = s.announcement()
	s.register(0, 20)
	s.open(panelled(s.sharesRound(12)))
	s.reveal(s.Analyzer)
	s.drawn()
	for device := range s.slots(20) {
		if r := s.ask(device); len(r.Commitment) != 32 {
			t.Fatalf("a slot in the channel shares: %v", r)
		}
	}
}

// panelBroker fails before or after a step of a draw.
type panelBroker struct {
	Broker
	step string
	s    *scene
}

const (
	stepPool       = "the pool is in the journal"
	stepPooled     = "the pool is in the audit log"
	stepCheckpoint = "a checkpoint is over it"
	stepRevealed   = "the draw was read"
)

func (b panelBroker) AppendAuditAfter(ctx context.Context, kind string, payload []byte, last uint64) (uint64, error) {
	if kind == wire.KindPool && b.step == stepPool {
		return 0, b.die()
	}
	sequence, err := b.Broker.AppendAuditAfter(ctx, kind, payload, last)
	if err == nil && (kind == wire.KindPool && b.step == stepPooled ||
		kind == wire.KindCheckpoint && b.step == stepCheckpoint) {
		err = b.die()
	}
	return sequence, err
}

func (b panelBroker) SaidSince(
	ctx context.Context, role bus.Role, from uint64, handler func(bus.Statement) error,
) error {
	revealed := false
	err := b.Broker.SaidSince(ctx, role, from, func(st bus.Statement) error {
		revealed = revealed || role == bus.Analyzer && st.Kind == wire.KindDraw
		return handler(st)
	})
	if err == nil && revealed && b.step == stepRevealed {
		err = b.die()
	}
	return err
}

func (b panelBroker) die() error {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.s.dead = true
	return fatal(errCrash)
}

// A crash at any step of a draw: the next process says the same pool, byte for byte, draws the same panel, and there is
// one pool in the audit log.
func TestCrashAtEveryStepOfADraw(t *testing.T) {
	t.Parallel()
	for _, step := range []string{stepPool, stepPooled, stepCheckpoint, stepRevealed} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.wrap = func(c Broker) Broker { return panelBroker{c, step, s} }
			quick(s)
			s.start()
			s.opened = s.announcement()
			s.register(0, 20)
			s.open(panelled(s.announcement()))
			if step == stepRevealed {
				s.reveal(s.Analyzer)
			}
			s.eventually("crashed", s.crashed)
			if err := s.stop(); !errors.Is(err, errCrash) {
				t.Fatalf("stopped by %v", err)
			}
			before := s.words(bus.Shuffler, wire.KindPool)
			s.wrap = nil
			s.config.Source = testbed.Source() // another contribution, if it were drawn again
			s.start()
			s.reopen()
			if step != stepRevealed {
				s.register(20, 23)
				s.reveal(s.Analyzer)
			}
			s.drawn()
			slots := s.slots(20)
			after := s.words(bus.Shuffler, wire.KindPool)
			if len(after) != 1 || len(before) == 1 && !bytes.Equal(before[0], after[0]) {
				t.Errorf("%d pools before, %d after, or another one", len(before), len(after))
			}
			s.must(s.stop())
			s.start()
			s.reopen()
			again := s.slots(20)
			for device, slot := range slots {
				if again[device] != slot {
					t.Fatal("another panel after a restart")
				}
			}
			s.reportAs(slots, 0)
			if m := s.manifest(1, 0); m.Reports != 12 {
				t.Errorf("manifest %v", m)
			}
			s.finished()
		})
	}
}
