package randomizer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// announcer is the part of a broker that has one announcement, ever, and no keys.
type announcer struct{ signed, keys []byte }

func (a *announcer) ReadAnnouncements(context.Context) ([]bus.Announcement, error) {
	return []bus.Announcement{{Epoch: 1, Payload: a.signed}}, nil
}

func (a *announcer) WatchAnnouncements(ctx context.Context, _ func(bus.Announcement) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (a *announcer) ReadKeys(context.Context, bus.Role) ([]byte, error) { return a.keys, nil }

func (a *announcer) WatchKeys(ctx context.Context, handler func(bus.Role, []byte) error) error {
	if err := handler(bus.Shuffler, a.keys); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// away is a broker that has one announcement, and a shuffler behind it that answers a few requests and then none, until
// it is back.
type away struct {
	announcer
	bed     *testbed.Bed
	answers atomic.Int64 // requests that are answered before none is
	asked   atomic.Int64
	silence func() (*wire.EnrolReply, error) // what comes where it does not answer
}

func (u *away) EnrolOnce(_ context.Context, request []byte) ([]byte, error) {
	u.asked.Add(1)
	return u.bed.Answer(request, func(signed []byte) (*wire.EnrolReply, error) {
		e, err := wire.OpenEnrolRequest(signed, wire.Party{Deployment: testbed.Deployment, Key: u.bed.Registrar.Public()})
		switch {
		case err != nil:
			return nil, err
		case u.answers.Add(-1) < 0:
			return u.silence()
		case e.Request.Epoch == 0:
			return &wire.EnrolReply{Enrolled: true}, nil
		}
		return &wire.EnrolReply{Refusal: wire.RefusalNotRegistered}, nil
	})
}

func (u *away) PublishReport(context.Context, uint64, uint32, string, []byte) error { return nil }

// counted is a store in memory that counts what is kept.
type counted struct {
	memory
	kept atomic.Int64
}

func (c *counted) Put(d store.Device) error {
	c.kept.Add(1)
	return c.memory.Put(d)
}

// looked is a clock that counts how often it is looked at.
type looked struct {
	role.Clock
	looks atomic.Int64
}

func (l *looked) Now() time.Time {
	l.looks.Add(1)
	return l.Clock.Now()
}

// While a shuffler answers nobody, one device of a host asks for all of them, however many there are, the state is not
// written again and again, and nobody looks at the clock all the time. As soon as there is an answer all of them ask.
func TestAShufflerThatIsAwayIsAskedByOneDevice(t *testing.T) {
	t.Parallel()
	none := func() (*wire.EnrolReply, error) { return nil, bus.ErrNoShuffler }
	unknown := func() (*wire.EnrolReply, error) { return nil, bus.ErrUnknown }
	notReady := func() (*wire.EnrolReply, error) { return &wire.EnrolReply{Refusal: wire.RefusalWrongEpoch}, nil }
	for name, test := range map[string]struct {
		answers    int64 // before it is away
		registered bool
		silence    func() (*wire.EnrolReply, error)
	}{
		"nobody is registered":            {silence: none},
		"nobody is registered, no answer": {silence: unknown},
		"it registers nobody yet":         {silence: notReady},
		"the panel is drawn":              {answers: 1, registered: true, silence: none},
		"the panel is drawn, no answer":   {answers: 1, registered: true, silence: unknown},
		"it is in another epoch":          {answers: 1, registered: true, silence: notReady},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const devices = 300
			u, h, store, clock := awayFrom(t, devices, test.registered)
			u.silence = test.silence
			u.answers.Store(test.answers)
			ctx, cancel := context.WithCancel(context.Background())
			var running sync.WaitGroup
			started := time.Now()
			running.Go(func() { _ = h.Run(ctx) })
			defer running.Wait()
			defer cancel()
			testbed.Eventually(t, "asked", func() bool { return u.asked.Load() > test.answers })
			time.Sleep(time.Second)
			// As many as are asked for at the same time may not have heard of the silence. A busy machine may take longer.
			if n, took := u.asked.Load(), time.Since(started); n > int64(3*maxPatient*max(1, took.Seconds())) {
				t.Errorf("asked %d times in the first %v", n, took)
			}
			before, kept, looks := u.asked.Load(), store.kept.Load(), clock.looks.Load()
			begun := time.Now()
			time.Sleep(2 * time.Second)
			asked, wrote, looked := u.asked.Load()-before, store.kept.Load()-kept, clock.looks.Load()-looks
			took := time.Since(begun) // a busy machine may take longer than two seconds
			most := func(n int64) int64 { return n * int64(took) / int64(2*time.Second) }
			if asked > most(20) {
				t.Errorf("asked %d times in %v more", asked, took)
			}
			if wrote > most(3*devices) {
				t.Errorf("wrote %d times in %v more", wrote, took)
			}
			if looked > most(3*devices) {
				t.Errorf("looked at the clock %d times in %v more", looked, took)
			}
			u.answers.Store(1 << 40) // it is back
			testbed.Eventually(t, "all answered", func() bool {
				h.attendance.mu.Lock()
				defer h.attendance.mu.Unlock()
				return len(h.attendance.waiting)+len(h.attendance.visits) == 0 && u.asked.Load() >= devices
			})
		})
	}
}

// awayFrom is a host with so many devices, and what it is connected to.
func awayFrom(t *testing.T, devices int, registered bool) (*away, *Host, *counted, *looked) {
	t.Helper()
	bed := testbed.New(t)
	a := bed.Announcement(glm.Practical, 12)
	a.Plan.Panel = &plan.Panel{Registered: 30, Tail: 1e-9}
	a.Plan.Decisions, a.Plan.Records = 3, 2
	c := panel.Commit(make([]byte, panel.ContributionSize))
	a.Commitment = c[:]
	a.Timing.RewardWindow, a.Timing.Jitter = 10*time.Second, 0
	u := &away{bed: bed, announcer: announcer{keys: bed.KeySet()}}
	u.signed, _ = bed.Sign(a, bed.Analyzer)
	identity, credential := bed.Host(uint32(devices))
	store := &counted{memory: memory{
		devices: map[string]store.Device{}, outbox: map[outboxKey]store.Outgoing{}, notes: map[store.Note][]byte{},
	}}
	clock := &looked{Clock: role.SystemClock()}
	h, err := New(Config{
		Deployment: testbed.Deployment, Analyzer: bed.Analyzer.Public(), Shuffler: bed.Shuffler.Public(),
		Identity: identity, Credential: credential, Devices: devices, Store: store,
		Limits: device.Limits{Epsilon: 100, Delta: 1e-3, MinCohort: 4, MaxReleases: 8, MaxNorm: 10, MaxMessages: 1000,
			Records: 2},
		Source: func() protocol.Source { return entropy.New() }, Bus: u, Clock: clock, Log: zerolog.Nop(),
		Reports: testbed.Account(t, "report", nil, Reasons()),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range devices {
		s, _, _, err := h.seat(fmt.Sprint("d", i))
		if err != nil {
			t.Fatal(err)
		}
		if registered {
			s.state.Registration = &device.Registration{Reply: []byte{1}}
		}
	}
	return u, h, store, clock
}
