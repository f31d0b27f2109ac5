package randomizer

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

var errDisk = errors.New("the disk is full")

// failing is a store in memory whose writes of one kind fail from the first one of the given number on, for so many.
type failing struct {
	*memory
	counting sync.Mutex
	kind     string
	from, to int // of the writes of that kind, from 1; the first that does not fail any more
	writes   int
}

func (f *failing) fails(kind string) error {
	f.counting.Lock()
	defer f.counting.Unlock()
	if kind != f.kind {
		return nil
	}
	if f.writes++; f.writes >= f.from && f.writes < f.to {
		return errDisk
	}
	return nil
}

func (f *failing) Load(each func(store.Device) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.devices {
		if err := each(d); err != nil {
			return err
		}
	}
	return nil
}

func (f *failing) Put(d store.Device) error {
	if err := f.fails("put"); err != nil {
		return err
	}
	return f.memory.Put(d)
}

func (f *failing) Seal(d store.Device, o store.Outgoing) error {
	if err := f.fails("seal"); err != nil {
		return err
	}
	return f.memory.Seal(d, o)
}

func (f *failing) PutNote(n store.Note, text []byte) error {
	if err := f.fails("note " + string(n)); err != nil {
		return err
	}
	return f.memory.PutNote(n, text)
}

func (f *failing) Follow(uint64, uint32, [32]byte) error { return f.fails("follow") }

// of is what the store has of a number.
func (f *failing) of(number uint32) (d store.Device) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, kept := range f.devices {
		if kept.Number == number {
			d = kept
		}
	}
	return d
}

// watched is a world whose broker holds what leaves a host against what its store has at that moment.
type watched struct {
	*world
	t         *testing.T
	bed       *testbed.Bed
	kept      *failing
	mu        sync.Mutex
	asked     int
	published int
}

func (w *watched) EnrolOnce(_ context.Context, request []byte) ([]byte, error) {
	return w.bed.Answer(request, func(signed []byte) (*wire.EnrolReply, error) {
		e, err := wire.OpenEnrolRequest(signed, wire.Party{Deployment: testbed.Deployment,
			Key: w.bed.Registrar.Public()})
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		w.asked++
		w.mu.Unlock()
		for _, number := range e.Request.Devices() {
			d := w.kept.of(number)
			switch {
			case e.Request.Epoch == 0 && d.Registration == nil:
				w.t.Errorf("device %d asks to be registered, and its disk does not know it", number)
			case e.Request.Epoch > 0 && d.Ledger.State(e.Request.Epoch) != privacy.Asked:
				w.t.Errorf("device %d asks, and its disk does not know it", number)
			}
		}
		if e.Request.Epoch == 0 {
			return &wire.EnrolReply{Enrolled: true}, nil
		}
		if w.kept.of(e.Request.Devices()[0]).Registration != nil {
			return &wire.EnrolReply{Refusal: wire.RefusalNotRegistered}, nil
		}
		return &wire.EnrolReply{Enrolled: true, Slot: 5, ReportAfter: 24 * time.Hour}, nil
	})
}

func (w *watched) PublishReport(_ context.Context, epoch uint64, round uint32, _ string, envelope []byte) error {
	w.mu.Lock()
	w.published++
	w.mu.Unlock()
	w.kept.memory.mu.Lock()
	defer w.kept.memory.mu.Unlock()
	for of, o := range w.kept.outbox {
		if of.epoch != epoch || of.round != round || !bytes.Equal(o.Envelope, envelope) {
			continue
		}
		for _, d := range w.kept.devices {
			if d.Number == of.number && d.Ledger.State(epoch) == privacy.Spent && d.Enrolment.Reported == int(round)+1 {
				return nil
			}
		}
	}
	w.t.Error("a report leaves, and the disk does not have it with what it spends")
	return nil
}

func (w *watched) count() (asked, published int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked, w.published
}

// watch is a broker, and the configuration of a host for two devices behind it, under an announcement.
func watch(t *testing.T, bed *testbed.Bed, a *plan.Announcement, kept *failing) (*watched, Config) {
	t.Helper()
	w := &watched{t: t, bed: bed, kept: kept, world: &world{
		now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), shuffler: bed.Shuffler, opens: bed.ShufflerKey,
	}}
	w.first, _ = bed.Sign(a, bed.Analyzer)
	w.keys = bed.KeySet()
	identity, credential := bed.Host(2)
	return w, Config{
		Deployment: testbed.Deployment, Analyzer: bed.Analyzer.Public(), Shuffler: bed.Shuffler.Public(),
		Identity: identity, Credential: credential, Devices: 2, Bus: w, Clock: w, Store: kept, Source: testbed.Source,
		Limits: device.Limits{Epsilon: 100, Delta: 1e-3, MinCohort: 4, MaxReleases: 8, MaxNorm: 10, MaxMessages: 1000,
			Records: 2},
		Log: zerolog.Nop(),
	}
}

// running is a host that runs until it is stopped; ended has what Run returned.
func running(t *testing.T, c Config) (h *Host, stop func(), ended chan error) {
	t.Helper()
	c.Reports = testbed.Account(t, "report", func() int64 { return h.Pending() }, Reasons())
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	var done sync.WaitGroup
	done.Go(func() { ended <- h.Run(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return h, stop, ended
}

// Whichever write fails, nothing leaves the host that is not durable before: no question for a slot without what it
// sets aside, no report without its bytes and what they spend. What failed is not taken for kept: it is written again
// before it is acted on. A slot that was given is used all the same: the report leaves, if need be as the null record
// of the next process.
func TestNothingLeavesBeforeItIsDurable(t *testing.T) {
	t.Parallel()
	bed := testbed.New(t) // for its keys and statements only
	a := bed.Announcement(glm.Practical, 12)
	for name, kept := range map[string]*failing{
		"nothing fails":                        {},
		"the question":                         {kind: "put", from: 1, to: 2},
		"the question, again":                  {kind: "put", from: 1, to: 4},
		"the promise":                          {kind: "put", from: 2, to: 3},
		"the report":                           {kind: "seal", from: 1, to: 2},
		"the shuffler's keys":                  {kind: "note " + string(store.Keys), from: 1, to: 2},
		"the announcement":                     {kind: "follow", from: 1, to: 2},
		"how many devices a credential covers": {kind: "note " + string(store.Covered), from: 1, to: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kept.memory = noDevices()
			w, config := watch(t, bed, a, kept)
			if kept.kind == "note "+string(store.Covered) {
				if _, err := New(config); !errors.Is(err, errDisk) {
					t.Errorf("%v", err)
				}
			}
			h, stop, ended := running(t, config)
			restarts := 0
			again := func() bool { // the host ends with a write that fails; the next process goes on
				select {
				case err := <-ended:
					if !errors.Is(err, errDisk) {
						t.Fatal(err)
					}
					stop()
					if asked, published := w.count(); published != 0 || asked > 0 && kept.kind != "seal" {
						t.Errorf("it asked %d times and sent %d reports before", asked, published)
					}
					if kept.kind == "follow" && h.Announced() != nil || strings.HasPrefix(kept.kind, "note") &&
						h.shufflerKey() != nil {
						t.Error("what could not be kept is in force")
					}
					restarts++
					h, stop, ended = running(t, config)
					return true
				default:
					return false
				}
			}
			testbed.Eventually(t, "enrolling", func() bool {
				return !again() && h.Status().Enrolling
			})
			for tries := 1; ; tries++ {
				d, err := h.Decide(t.Context(), "x", func(int) ([][]float64, error) { return [][]float64{{1, 0}}, nil })
				if err == nil && d.Sampled {
					break
				}
				if asked, _ := w.count(); kept.kind != "put" || tries >= kept.to || kept.from == 1 && asked > 0 {
					t.Fatalf("at try %d: %+v %v, after %d requests", tries, d, err, asked)
				}
			}
			testbed.Eventually(t, "sent", func() bool {
				again()
				w.pass(24 * time.Hour)
				_, published := w.count()
				return published > 0 && h.Pending() == 0
			})
			if _, published := w.count(); published != 1 {
				t.Errorf("%d reports", published)
			}
			ends := map[string]int{"seal": 1, "follow": 1, "note " + string(store.Keys): 1}[kept.kind]
			if restarts != ends {
				t.Errorf("the host ended %d times, expected %d", restarts, ends)
			}
		})
	}
}

// The same where panels are drawn: a device registers and asks for its place only once its disk knows that it does.
func TestNoDeviceRegistersBeforeItIsDurable(t *testing.T) {
	t.Parallel()
	bed := testbed.New(t)
	a := bed.Announcement(glm.Practical, 12)
	a.Plan.Panel = &plan.Panel{Registered: 30, Tail: 1e-9}
	a.Plan.Decisions, a.Plan.Records = 3, 2
	c := panel.Commit(make([]byte, panel.ContributionSize))
	a.Commitment = c[:]
	a.Timing.Jitter = 0
	w, config := watch(t, bed, a, &failing{memory: noDevices()})
	h, _, _ := running(t, config)
	testbed.Eventually(t, "followed", func() bool { return h.Announced() != nil })
	if _, why, err := h.Register("x"); why != nil || err != nil {
		t.Fatal(why, err)
	}
	testbed.Eventually(t, "registered, and told of its place", func() bool {
		w.pass(time.Minute)
		asked, _ := w.count()
		return asked >= 2 && h.State("x").Registered() && !h.State("x").Asked(1)
	})
	if d := w.kept.of(h.State("x").Number); !d.Registered() {
		t.Errorf("the disk has %+v", d)
	}
}
