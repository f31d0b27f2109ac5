package shuffler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/internal/translog"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const (
	// tick is how often the open round's deadline is looked at.
	tick = 100 * time.Millisecond
	// retryPause is the wait before a release that failed for outside reasons is tried again.
	retryPause = time.Second
)

// core is what every part of the shuffler works with: the state under its one lock, the journal that has what is
// decided before anyone hears of it, and who is told. A part embeds it. It asks another part only where one of its
// fields is that part, and the fields make no circle.
type core struct {
	c         setup
	envelopes *work.Envelopes
	channels  map[plan.Channel]channel.Mixing
	journal   Journal
	log       *translog.Log
	clock     *clock
	begun     chan struct{} // closed when reports may be decided on: the journal was held against the broker
	waits     wait          // a report for a worker

	mu         sync.Mutex
	state      *cohort.State
	compacting cohort.Compaction
	latest     func() error // waits until the last decision is durable; nil before the first
	doubt      bool         // something came since the broker was last held against the journal
	trouble    error        // the broker shows less than the journal knows
	lost       bool         // the state folder is known to be older than what was signed
	recalled   bool         // the journal was held against the broker
	fixing     bool         // a pool is fixed, and nobody registers
	warned     uint64       // epoch of the last warning that one host holds most of its cohort
	filled     bool         // somebody was refused because as many devices are known as may be
	warnings   []string     // for people
}

// mixing is the channel of a round's layout.
func (s *core) mixing(l channel.Layout) channel.Mixing { return s.channels[l.Of()] }

// decide makes one decision on the state and returns once it is durable, and with it every decision that it was made
// upon. A refusal, or the repetition of an answer, must not be heard of before what it rests on can no longer be
// forgotten.
func (s *core) decide(f func(*cohort.State) (*cohort.Event, error)) error {
	_, durable, err := s.begin(f)
	if durable != nil {
		if err := durable(); err != nil {
			return fatal(err)
		}
	}
	return err
}

// begin makes one decision on the state; made reports whether it gave an event. Nothing may be said of it, not even a
// refusal, before durable has returned; nil where nothing was ever decided, and with an error that is fatal. The error
// of durable is fatal.
func (s *core) begin(f func(*cohort.State) (*cohort.Event, error)) (made bool, durable func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ev, refused, err := s.state.Make(f)
	if err != nil {
		return false, nil, fatal(err)
	}
	if ev != nil {
		s.keepEvent(ev)
	}
	return ev != nil, s.latest, refused
}

// record makes a decision that does not depend on the state.
func (s *core) record(ev *cohort.Event) error {
	return s.decide(func(*cohort.State) (*cohort.Event, error) { return ev, nil })
}

// about names a round in a log line.
func about(epoch uint64, round uint32) func(*zerolog.Event) {
	return func(e *zerolog.Event) { e.Uint64("epoch", epoch).Uint32("round", round) }
}

// notice tells readiness of a condition.
func (s *core) notice(condition string, err error) { s.c.notice(condition, err) }

// keepEvent appends an event that became part of the state to the journal. Where it opens an epoch and there are events
// enough before it, a snapshot takes their place. The lock is held.
func (s *core) keepEvent(ev *cohort.Event) {
	entry := ev.Encode()
	if o := ev.Opened; o != nil && o.Round == 0 && s.compacting.Due() {
		snapshot := s.state.Snapshot()
		before := snapshot.Encode()
		s.compacting.Read(snapshot, len(before))
		s.latest = s.journal.Replace(before, entry)
	} else {
		s.latest = s.journal.Append(entry)
	}
	s.compacting.Read(ev, len(entry))
}

// own is this shuffler as the signer of a statement.
func (s *core) own() wire.Party {
	return wire.Party{Deployment: s.c.Deployment, Key: s.c.Identity.Public()}
}

// gone accounts for the reports of a round that is over.
func (s *core) gone(o wire.Outcome, reports, messages int) {
	if o == wire.Released {
		s.c.Reports.Released(reports)
		s.c.Messages.Released(messages)
	} else {
		s.c.Reports.Refused(Destroyed, reports)
		s.c.Messages.Refused(Destroyed, messages)
	}
}

// roundID names one round of one epoch.
type roundID struct {
	epoch uint64
	round int
}

// stored hands over the round's stored reports between two sequences.
func (s *core) stored(
	ctx context.Context, r cohort.Round, from, upTo uint64, fn func(sequence uint64, payload []byte) error,
) error {
	if from > upTo {
		return nil
	}
	err := s.c.Bus.StoredReports(ctx, r.Epoch, r.Round, from, func(sequence uint64, payload []byte) error {
		if sequence > upTo {
			return errEnough
		}
		return fn(sequence, payload)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough ends a scan.
var errEnough = errors.New("enough")
