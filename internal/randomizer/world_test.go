package randomizer

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// world is a broker, a shuffler and a clock in memory: time passes when the test says so.
type world struct {
	mu       sync.Mutex
	now      time.Time
	waiting  []alarm
	first    []byte // announcement
	keys     []byte
	shuffler *seal.Identity
	opens    *seal.HPKEKey // the shuffler's
	sent     chan []byte   // envelopes
}

// alarm is a channel that receives the time when it has come.
type alarm struct {
	at time.Time
	c  chan time.Time
}

func (w *world) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) After(d time.Duration) <-chan time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan time.Time, 1)
	w.waiting = append(w.waiting, alarm{w.now.Add(d), c})
	return c
}

func (w *world) WithTimeout(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
	slices.SortFunc(w.waiting, func(a, b alarm) int { return cmp.Compare(a.at.Sub(b.at), 0) })
	for len(w.waiting) > 0 && !w.waiting[0].at.After(w.now) {
		w.waiting[0].c <- w.now
		w.waiting = w.waiting[1:]
	}
}

// hasWaiter reports whether something waits for a time.
func (w *world) hasWaiter(at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.waiting, func(a alarm) bool { return a.at.Equal(at) })
}

func (w *world) ReadAnnouncements(context.Context) ([]bus.Announcement, error) {
	return []bus.Announcement{{Epoch: 1, Payload: w.first}}, nil
}

func (w *world) WatchAnnouncements(ctx context.Context, _ func(bus.Announcement) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func (w *world) ReadKeys(context.Context, bus.Role) ([]byte, error) { return w.keys, nil }

func (w *world) WatchKeys(ctx context.Context, handler func(bus.Role, []byte) error) error {
	if err := handler(bus.Shuffler, w.keys); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func (w *world) EnrolOnce(_ context.Context, request []byte) ([]byte, error) {
	return testbed.Answer(request, w.opens, w.shuffler, func([]byte) (*wire.EnrolReply, error) {
		return &wire.EnrolReply{Enrolled: true, Slot: 5, ReportAfter: 24 * time.Hour}, nil
	})
}

func (w *world) PublishReport(_ context.Context, _ uint64, _ uint32, _ string, envelope []byte) error {
	w.sent <- envelope
	return nil
}

// outboxKey names a sealed report.
type outboxKey struct {
	epoch         uint64
	round, number uint32
}

func keyOf(o store.Outgoing) outboxKey { return outboxKey{o.Epoch, o.Round, o.Number} }

// memory is a Store that forgets everything with the process.
type memory struct {
	mu      sync.Mutex
	devices map[string]store.Device
	outbox  map[outboxKey]store.Outgoing
	notes   map[store.Note][]byte
}

func (m *memory) Put(d store.Device) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.devices[d.Name] = d
	return nil
}

func (m *memory) Replace(name string, d store.Device) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.devices, name)
	m.devices[d.Name] = d
	return nil
}

func (m *memory) Seal(d store.Device, o store.Outgoing) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.devices[d.Name], m.outbox[keyOf(o)] = d, o
	return nil
}

func (m *memory) Sent(o store.Outgoing) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.outbox, keyOf(o))
	return nil
}

func (m *memory) PutNote(n store.Note, text []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes[n] = bytes.Clone(text)
	return nil
}

func (m *memory) Note(n store.Note) ([]byte, error)   { return m.notes[n], nil }
func (m *memory) Load(func(store.Device) error) error { return nil }
func (m *memory) Unsent(func(store.Outgoing)) error   { return nil }

// noDevices is a store in which nothing is yet.
func noDevices() *memory {
	return &memory{devices: map[string]store.Device{}, outbox: map[outboxKey]store.Outgoing{},
		notes: map[store.Note][]byte{}}
}

func (m *memory) Key(name string) string      { return name }
func (m *memory) OptOut(string, bool) error   { return nil }
func (m *memory) OptedOut(func(string)) error { return nil }
func (m *memory) Scrub() error                { return nil }

func (m *memory) Follow(uint64, uint32, [32]byte) error { return nil }
func (m *memory) Latest() (store.Round, error)          { return store.Round{}, nil }
func (m *memory) Close() error                          { return nil }

// A host runs on any broker, store and clock: with all three in memory, a report that is due in a day leaves when the
// clock says that the day is over, and not before; a reward counts up to then.
func TestAHostRunsOnAnotherBrokerStoreAndClock(t *testing.T) {
	t.Parallel()
	b := testbed.New(t) // for its keys and statements only
	a := b.Announcement(glm.Practical, 12)
	w := &world{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), shuffler: b.Shuffler, opens: b.ShufflerKey,
		sent: make(chan []byte, 1)}
	w.first, _ = b.Sign(a, b.Analyzer)
	w.keys, _ = b.Sign(&wire.KeySet{
		Deployment: testbed.Deployment, Number: 1, Keys: [][]byte{b.ShufflerKey.Public()},
	}, b.Shuffler)
	kept := noDevices()
	identity, credential := b.Host(1)
	var host *Host
	host, err := New(Config{
		Deployment: testbed.Deployment, Analyzer: b.Analyzer.Public(), Shuffler: b.Shuffler.Public(),
		Identity:   identity,
		Credential: credential, Devices: 1, Bus: w, Clock: w, Store: kept, Source: testbed.Source, Log: zerolog.Nop(),
		Limits: device.Limits{
			Epsilon: 4, Delta: 1e-3, MinCohort: 4, MaxReleases: 8, MaxNorm: 10, MaxMessages: 1000, Records: 1,
		},
		Reports: testbed.Account(t, "report", func() int64 { return host.Pending() }, Reasons()),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- host.Run(ctx) }()
	defer func() { cancel(); <-done }()
	testbed.Eventually(t, "enrolling", func() bool { return host.Status().Enrolling })
	d, err := host.Decide(ctx, "x", func(int) ([][]float64, error) { return [][]float64{{1, 0}}, nil })
	if err != nil || !d.Sampled || !d.RewardBy.Equal(w.Now().Add(24*time.Hour)) {
		t.Fatalf("%+v %v", d, err)
	}
	w.pass(24*time.Hour - 1)
	if _, err := host.Reward(d.Token, 1); err != nil {
		t.Errorf("a reward in time: %v", err)
	}
	select {
	case <-w.sent:
		t.Error("the report left before its time")
	case <-time.After(100 * time.Millisecond):
	}
	testbed.Eventually(t, "sent", func() bool {
		w.pass(1)
		select {
		case envelope := <-w.sent:
			if report := b.Open(envelope, a); report.Slot != 5 {
				t.Errorf("slot %d", report.Slot)
			}
			return true
		default:
			return false
		}
	})
	testbed.Eventually(t, "forgotten", func() bool { return host.Pending() == 0 })
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if e := kept.devices["x"].Enrolment; e == nil || e.Reported != 1 || len(kept.outbox) != 0 {
		t.Errorf("the store has %+v and %d reports", kept.devices["x"], len(kept.outbox))
	}
}
