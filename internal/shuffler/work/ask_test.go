package work

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// leadSays is a lead that gives one answer to everything.
type leadSays func(ctx context.Context) ([]byte, error)

func (l leadSays) Ask(ctx context.Context, _ string, _ []byte) ([]byte, error) { return l(ctx) }

// fate is what became of a delivered report.
type fate struct{ acknowledged, again int }

func (f *fate) Ack() error                       { f.acknowledged++; return nil }
func (f *fate) NakWithDelay(time.Duration) error { f.again++; return nil }
func (f *fate) InProgress() error                { return nil }

// A worker acknowledges a report exactly if the lead has decided on it. Whatever else the lead says, or does not say,
// the broker delivers the report again: nobody else has it.
func TestAWorkerAcknowledgesWhatTheLeadDecidedOnAndNothingElse(t *testing.T) {
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	says := func(a Answer) leadSays {
		b, err := json.Marshal(a)
		return func(context.Context) ([]byte, error) { return b, err }
	}
	for name, c := range map[string]struct {
		lead         leadSays
		acknowledged bool
	}{
		"decided on":                   {says(Answer{Verdicts: []byte{Settled, Settled}}), true},
		"to come again":                {says(Answer{Verdicts: []byte{Postponed, Postponed}}), false},
		"to be opened, of no round":    {says(Answer{Verdicts: []byte{Open, Open}}), false},
		"a verdict of a later version": {says(Answer{Verdicts: []byte{Open + 1, Open + 1}}), false},
		"a verdict too few":            {says(Answer{Verdicts: []byte{Settled}}), false},
		"a verdict too many":           {says(Answer{Verdicts: []byte{Settled, Settled, Settled}}), false},
		"none":                         {says(Answer{}), false},
		"words of another version": {func(context.Context) ([]byte, error) {
			return []byte("decided"), nil
		}, false},
		"an error, as of a stopped one": {func(context.Context) ([]byte, error) {
			return nil, errors.New("stops")
		}, false},
		"nothing": {func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := New(Config{Deployment: "test", Keys: []*seal.HPKEKey{key}, Bus: watchedReports{},
					Source: func() protocol.Source { return entropy.New() }, Log: testbed.Log()})
				if err != nil {
					t.Fatal(err)
				}
				fates := [2]fate{}
				var all []*arrival
				for i := range fates {
					d := bus.NewDelivery(bus.Delivery{Epoch: 1, Sequence: uint64(i + 1)}, &fates[i])
					all = append(all, &arrival{d, w.claim(d)})
				}
				if err := w.ask(t.Context(), c.lead, all); err != nil && !errors.Is(err, errSilent) {
					t.Fatal(err)
				}
				for i, f := range fates {
					want := fate{again: 1}
					if c.acknowledged {
						want = fate{acknowledged: 1}
					}
					if f != want {
						t.Errorf("report %d: acknowledged %d times, to come again %d times", i, f.acknowledged, f.again)
					}
				}
			})
		})
	}
}

// A report of another size than its round's is refused before it is opened, and one that its worker cannot open is
// claimed as refused, never as a device's.
func TestAClaimOfWhatCannotBeOpenedIsARefusal(t *testing.T) {
	t.Parallel()
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{Deployment: "test", Keys: []*seal.HPKEKey{key}, Bus: watchedReports{}, Log: testbed.Log()})
	if err != nil {
		t.Fatal(err)
	}
	w.rounds.learn([]cohort.Known{{Epoch: 1, Layout: channel.Layout{Messages: 3}}})
	for _, size := range []int{0, 1, 100_000} {
		c := w.claim(&bus.Delivery{Epoch: 1, Payload: make([]byte, size)})
		if c.Refused != wire.RefusalWrongSize || c.Device != (cohort.DeviceID{}) {
			t.Errorf("%d bytes: %+v", size, c)
		}
	}
}
