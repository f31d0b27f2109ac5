package shuffler

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// How an epoch's panel is drawn. The shuffler fixes the pool and its contribution in its journal, says both in the
// audit log, where no role can take it back, and waits for the analyzer's contribution there. It fixes no pool of which
// the audit log has one: a state folder that was lost or set back would make a second, and choose between two panels.

const (
	// panelCondition is the readiness condition that the open epoch's panel is drawn, or can be within panelPatience.
	panelCondition = "panel"
	// panelPatience is how long a panel may wait for registrations or for the analyzer before readiness says so.
	panelPatience = time.Minute
	// drawEvery is how often the shuffler looks whether there are devices enough, and for the analyzer's contribution.
	drawEvery = 250 * time.Millisecond
	// rereadAfter is after how many looks in vain the shuffler reads the analyzer's part of the audit log from its
	// beginning again: after two seconds, and then after twice as many each time, up to rereadMost, which is about a
	// minute. A broker can show what is behind a draw and not the draw. To read all at every look would take too long,
	// as entries are read one by one.
	rereadAfter = 8
	rereadMost  = 256
)

// errPool says that the audit log has a pool of this shuffler's that the state folder cannot have made.
var errPool = errors.New("the devices that this state folder knows are not those that this shuffler drew a panel " +
	"from: the folder was lost, or restored from a backup, or two processes run with copies of it; restore the " +
	"newest folder, or start a new deployment: who registered, and who was in how many panels, is known nowhere else")

// drawer is what the releasing goroutine knows of the panel that is to be drawn.
type drawer struct {
	announcement cohort.Digest // of the epoch that the rest is about
	since        time.Time
	next         time.Time // of the next look
	looked       bool      // for a pool of this shuffler's in the audit log
	said         bool      // the pool is in the audit log, and is the first one there
	from         uint64    // the first entry of the analyzer's that was not read
	looks        int       // in vain since the log was read from its beginning
	reread       int       // after how many of them it is read so again; 0: rereadAfter
	draws        []said    // the analyzer's contributions for the epoch
	refused      outcome.Reason
}

// said is a statement as it is in the audit log.
type said struct {
	signed []byte
	digest cohort.Digest
	pool   *wire.Pool
	draw   *wire.Draw
}

// panels draws the panels.
type panels struct {
	*core
	drawing   drawer          // of the releasing goroutine alone
	pool      *cohort.Pooling // as last looked at; guarded by mu
	drawEvery time.Duration
}

// draw brings the drawing of the open epoch's panel on. known is false while the journal may lack a draw that was made,
// and reports that were admitted since. trouble is as in recall.
func (s *panels) draw(ctx context.Context) (known bool, trouble, err error) {
	s.mu.Lock()
	panel := s.state.Panel()
	s.mu.Unlock()
	if panel == nil || !panel.Awaited {
		s.notice(panelCondition, nil)
		return true, nil, nil
	}
	epoch, digest, fixed := panel.Epoch, panel.Announcement, panel.Pooled != nil
	now := s.c.Clock.Now()
	if s.drawing.announcement != digest {
		s.drawing = drawer{announcement: digest, since: now}
	}
	if now.Before(s.drawing.next) {
		return !fixed && s.drawing.looked, nil, nil
	}
	defer func() { s.drawing.next = s.c.Clock.Now().Add(s.drawEvery) }()
	if !fixed {
		if fixed, trouble, err = s.fix(ctx, epoch); err != nil || trouble != nil {
			return false, trouble, err
		}
		if !fixed {
			return true, nil, nil
		}
	}
	if !s.drawing.said {
		if trouble, err := s.sayPool(ctx, epoch); err != nil || trouble != nil {
			return false, trouble, err
		}
		s.drawing.said = true
	}
	drawn, err := s.drawn(ctx, epoch)
	return drawn, nil, err
}

// fix fixes the pool of the open epoch: the one that the audit log has, or a new one if there are devices enough.
func (s *panels) fix(ctx context.Context, epoch uint64) (fixed bool, trouble, err error) {
	if !s.drawing.looked {
		if fixed, trouble, err = s.adoptPool(ctx, epoch); fixed || trouble != nil || err != nil {
			return fixed, trouble, err
		}
		s.drawing.looked = true
	}
	p := s.pooling()
	if p == nil {
		return false, nil, nil
	}
	if p.Devices < p.Needed {
		s.late("%s", p.Waits())
		return false, nil, nil
	}
	// Of two processes with copies of one state folder, the later one must see the pool of the earlier.
	if fixed, trouble, err = s.adoptPool(ctx, epoch); fixed || trouble != nil || err != nil {
		return fixed, trouble, err
	}
	if p = s.holdPool(true); p == nil || p.Devices < p.Needed {
		s.holdPool(false)
		return false, nil, nil
	}
	defer s.holdPool(false)
	// Nothing of this needs the state, and nothing else waits for it but who registers.
	p.Prepare()
	signed, of, err := wire.Sign(&wire.Pool{
		Deployment: s.c.Deployment, Epoch: p.Epoch, Announcement: p.Announcement[:], Registered: uint32(p.Devices),
		Root: p.Root[:], Contribution: random32(s.c.Source),
	}, s.c.Identity)
	if err != nil {
		return false, nil, fatal(err)
	}
	err = s.decide(func(state *cohort.State) (*cohort.Event, error) {
		if fixed = p.Still(state); !fixed {
			return nil, nil
		}
		now, _ := s.clock.now()
		return p.Fix(now, signed, of), nil
	})
	if err == nil && fixed {
		s.c.Log.Info().Uint64("epoch", epoch).Int("devices", p.Devices).Msg("pool fixed: the panel is drawn from it")
	}
	return fixed, nil, err
}

// holdPool begins or ends that nobody registers, and describes the pool by then: whoever asks to be registered
// meanwhile is told to ask again.
func (s *panels) holdPool(hold bool) *cohort.Pooling {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fixing = hold
	if !hold {
		return nil
	}
	return s.state.Pooling()
}

// random32 is a contribution to a seed.
func random32(source protocol.Source) (b []byte) {
	for range panel.ContributionSize / 8 {
		b = binary.BigEndian.AppendUint64(b, source.Uint64())
	}
	return b
}

// pooling describes the pool that could be fixed now. It is computed again only when more devices registered.
func (s *panels) pooling() *cohort.Pooling {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, _ := s.state.Last(); s.pool == nil || s.pool.Epoch != last.Epoch ||
		s.pool.Registered != s.state.Registered() || s.pool.Devices >= s.pool.Needed {
		s.pool = s.state.Pooling()
	}
	return s.pool
}

// late tells readiness what the panel has waited for, once it has for long.
func (s *panels) late(format string, a ...any) {
	if s.c.Clock.Now().Sub(s.drawing.since) >= panelPatience {
		s.notice(panelCondition, fmt.Errorf(format, a...))
	}
}

// pools reads this shuffler's own pools of an epoch, in the order of the audit log.
func (s *panels) pools(ctx context.Context, epoch uint64) (all []said, err error) {
	err = s.c.Bus.Said(ctx, bus.Shuffler, wire.KindPool, func(signed []byte) error {
		p, digest, err := wire.Open[wire.Pool](signed, s.own())
		if err == nil && p.Epoch == epoch { // another's words are no pool: the audit says so
			all = append(all, said{signed: signed, digest: digest, pool: p})
		}
		return nil
	})
	return all, err
}

// adoptPool takes the pool of the open epoch from the audit log, where the journal has none and the log has one. The
// state folder is an older copy then; it serves if its devices are those of the pool. trouble says that they are not,
// or that the journal has another pool than the log.
func (s *panels) adoptPool(ctx context.Context, epoch uint64) (adopted bool, trouble, err error) {
	all, err := s.pools(ctx, epoch)
	if err != nil || len(all) == 0 {
		return false, nil, err
	}
	first := all[0]
	err = s.decide(func(state *cohort.State) (*cohort.Event, error) {
		panel := state.Panel()
		if panel == nil || panel.Epoch != epoch {
			return nil, nil
		}
		if own := panel.Pooled; own != nil {
			if adopted = bytes.Equal(own.Digest, first.digest[:]); !adopted {
				trouble = fmt.Errorf("the pool of epoch %d in the audit log is not the journal's: %w", epoch, errPool)
			}
			return nil, nil
		}
		p := state.Pool()
		if p == nil {
			return nil, nil
		}
		if p.Announcement != cohort.Digest(first.pool.Announcement) || p.Devices != int(first.pool.Registered) ||
			p.Root != [32]byte(first.pool.Root) {
			trouble = fmt.Errorf("the audit log has a pool of epoch %d of %d devices, and %d are known here: %w",
				epoch, first.pool.Registered, p.Devices, errPool)
			return nil, nil
		}
		adopted, s.lost = true, true
		s.c.Log.Warn().Err(errState).Uint64("epoch", epoch).
			Msg("the pool that the journal lacks is taken from the audit log: its devices are those known here")
		now, _ := s.clock.now()
		return p.Fix(now, first.signed, first.digest), nil
	})
	return adopted, trouble, err
}

// sayPool puts the pool of the journal into the audit log, and makes sure that it is the first one there.
func (s *panels) sayPool(ctx context.Context, epoch uint64) (trouble, err error) {
	s.mu.Lock()
	signed := s.state.Panel().Pooled.Statement
	s.mu.Unlock()
	if err := (logged{s.c.Bus, s.log}).AppendAudit(ctx, wire.KindPool, signed); err != nil {
		return nil, err
	}
	_, trouble, err = s.adoptPool(ctx, epoch)
	return trouble, err
}

// drawn draws the panel if the analyzer's contribution is in the audit log. Its error is the broker's or fatal.
func (s *panels) drawn(ctx context.Context, epoch uint64) (drawn bool, err error) {
	s.drawing.again()
	err = s.c.Bus.SaidSince(ctx, bus.Analyzer, s.drawing.from, func(st bus.Statement) error {
		s.drawing.from = st.Sequence + 1
		if st.Kind != wire.KindDraw {
			return nil
		}
		d, digest, err := wire.Open[wire.Draw](st.Payload, wire.Party{Deployment: s.c.Deployment, Key: s.c.Analyzer})
		if err == nil && d.Epoch == epoch {
			s.drawing.draws = append(s.drawing.draws, said{signed: st.Payload, digest: digest, draw: d})
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	if len(s.drawing.draws) == 0 {
		s.drawing.looks++
		s.late("epoch %d waits for the analyzer's contribution to the draw of its panel", epoch)
		return false, nil
	}
	of := func(state *cohort.State) (*cohort.Event, error) {
		now, _ := s.clock.now()
		for _, d := range s.drawing.draws[1:] {
			if d.digest != s.drawing.draws[0].digest {
				return nil, cohort.SecondDraw
			}
		}
		return state.Draw(s.drawing.draws[0].draw, s.drawing.draws[0].signed, now)
	}
	s.mu.Lock()
	ahead, err := of(s.state)
	s.mu.Unlock()
	if err == nil && ahead != nil {
		ahead.Drawn.Prepare() // while the state is free for others
	}
	err = s.decide(func(state *cohort.State) (*cohort.Event, error) {
		ev, err := of(state)
		if drawn = ev != nil; drawn && ahead != nil {
			ev.Drawn.Take(ahead.Drawn)
		}
		return ev, err
	})
	var refused outcome.Reason
	switch {
	case errors.As(err, &refused):
		err := fmt.Errorf("the panel of epoch %d is not drawn: the analyzer's contribution is refused (%s); the "+
			"analyzer broke the protocol, or somebody else has its key: keep the audit log, and start a new "+
			"deployment with another analyzer", epoch, refused)
		if s.drawing.refused != refused {
			s.drawing.refused = refused
			s.c.Log.Error().Err(err).Str(outcome.Field, string(refused)).Uint64("epoch", epoch).Msg("nothing is drawn")
		}
		s.notice(panelCondition, err)
		return false, nil
	case err != nil:
		return false, err
	}
	if drawn {
		s.c.Log.Info().Uint64("epoch", epoch).Msg("panel drawn")
		s.notice(panelCondition, nil)
		s.dominated()
	}
	return drawn, nil
}

// again goes back to the beginning of the log after enough looks in vain: what was behind the last entry that was read
// is not all that a broker can show later.
func (d *drawer) again() {
	if d.reread == 0 {
		d.reread = rereadAfter
	}
	if d.looks >= d.reread {
		d.from, d.looks, d.reread = 0, 0, min(2*d.reread, rereadMost)
	}
}

// recallPanel takes in what the journal lacks of the panel of an epoch that is over: its pool and its draw. trouble is
// as in recall.
func (s *panels) recallPanel(ctx context.Context, o *opening) (trouble, err error) {
	s.mu.Lock()
	panel := s.state.Panel()
	s.mu.Unlock()
	awaiting := panel != nil && panel.Epoch == o.Epoch && !panel.Drawn
	if !awaiting {
		return nil, nil
	}
	s.drawing = drawer{announcement: o.digest, since: s.c.Clock.Now()}
	adopted, trouble, err := s.adoptPool(ctx, o.Epoch)
	if err != nil || trouble != nil {
		return trouble, err
	}
	if adopted {
		if drawn, err := s.drawn(ctx, o.Epoch); drawn || err != nil {
			return nil, err
		}
	}
	return fmt.Errorf("the manifest of epoch %d is there, and the draw of its panel is not: %w", o.Epoch, errBroker),
		nil
}
