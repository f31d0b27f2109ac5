package device

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// enrolled is a device of a channel with slot 7 and a minute until its report.
func (f *fixture) enrolled(c plan.Channel) (*Device, *plan.Announcement) {
	f.Helper()
	a := through(f.announcement(glm.Practical), c)
	d := f.opened(f.everywhere())
	must(d.Follow(f.announce(a), start))
	must(d.Answer(f.reply(must(d.Enrol(start)), f.committed(a)), start))
	return d, a
}

// ones are the encoded entries of a report, as who counts in the channel reads them; only the payload in shares, where
// nobody does.
func (f *fixture) ones(report []byte, a *plan.Announcement) []uint32 {
	f.Helper()
	payload := f.unsealed(report, a).Payload
	if a.Plan.Channel == plan.Shuffle {
		var all []uint32
		ones, _ := f.bits(payload, a)
		for _, n := range slices.Concat(ones...) {
			all = append(all, uint32(n))
		}
		return all
	}
	by := channel.NewVerifier(wire.Party{Deployment: deployment, Key: f.registrar.Public()})
	entries, _, err := must(envelope.NewOpener(a, digestOf(a), f.analyzerKey, by)).Open(nil, payload)
	return must(entries, err)
}

// encoded are the entries that the encodings give for a record with a promise's noise.
func encoded(a *Announced, r statistic.Record, of noise) (all []uint32) {
	var vectors [][]float64
	for _, s := range a.judged().round.Statistics {
		vectors = append(vectors, must(s.Vector(nil, r)))
	}
	src := of(vectors)
	for i, v := range vectors {
		all = append(all, must(a.Encodings[i].Encode(nil, v, src))...)
	}
	return all
}

var played = [][]float64{{0.6, 0.2}}

// In every channel a mailbox gets the report of the null record, and later that of the record, of one length. Both open
// for the servers, share nothing but their headers, and have noise of their own. They are one entry of the ledger,
// spent before the first leaves, and the same bytes come until they are deposited.
func TestADeviceDepositsTheNullRecordAndThenTheRecord(t *testing.T) {
	t.Parallel()
	for _, c := range served() {
		f := newFixture(t)
		d, a := f.enrolled(c)
		first := must(d.Deposit(start))
		if s := d.Status(); len(s.Ledger.Entries) != 1 || s.Ledger.State(1) != privacy.Spent || s.ReportAt != nil {
			t.Errorf("%s: %+v", c, s)
		}
		for _, d := range []*Device{d, f.restart(d)} {
			if again := must(d.Deposit(start)); !bytes.Equal(again, first) {
				t.Errorf("%s: another first deposit", c)
			}
		}
		d.Deposited()
		if _, err := d.Deposit(start); !errors.Is(err, ErrNoReport) {
			t.Errorf("%s: a deposit without a reward: %v", c, err)
		}
		made := must(d.Decide(played, source(3)))
		if _, err := d.Deposit(start); !errors.Is(err, ErrNoReport) {
			t.Errorf("%s: a deposit of a decision without a reward: %v", c, err)
		}
		must(d.Reward(decision(d), 1, start))
		if _, err := d.Report(start.Add(time.Minute)); !errors.Is(err, ErrNoReport) {
			t.Errorf("%s: a report beside the deposit: %v", c, err)
		}
		second := must(d.Deposit(start))
		if !made.Sampled || len(second) != len(first) {
			t.Errorf("%s: %+v, %d bytes after %d", c, made, len(second), len(first))
		}
		if again := must(d.Deposit(start)); !bytes.Equal(again, second) {
			t.Errorf("%s: another second deposit", c)
		}
		d.Deposited()
		if _, err := d.Deposit(start); !errors.Is(err, ErrNoReport) || !d.record.Over() ||
			len(d.Status().Ledger.Entries) != 1 {
			t.Errorf("%s: after the second deposit: %v", c, err)
		}
		f.unlike(c, f.unsealed(first, a).Payload, f.unsealed(second, a).Payload)
		if c == plan.Shares {
			secret := shares.NewSecret(f.shuffler, digestOf(a))
			for _, report := range [][]byte{first, second} {
				if err := f.verifies(f.unsealed(report, a).Payload, a, secret); err != nil {
					t.Error(err)
				}
			}
			continue
		}
		record := statistic.Record{Arm: played[0], Weight: 1, Reward: 1}
		if got := f.ones(first, a); !slices.Equal(got, encoded(d.last, statistic.Record{Null: true}, d.noise(true))) {
			t.Errorf("%s: the first deposit is not of the null record: %d", c, got)
		}
		if got := f.ones(second, a); !slices.Equal(got, encoded(d.last, record, d.noise(false))) {
			t.Errorf("%s: the second deposit is not of the record: %d", c, got)
		}
	}
}

// Where a report goes is told with the answer, and over restarts, as long as the epoch lasts.
func TestAPlaceIsTold(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, a := f.device(glm.Practical)
	ticket := bytes.Repeat([]byte{9}, wire.TicketSize)
	yes := wire.EnrolReply{Enrolled: true, Slot: 0, ReportAfter: time.Minute, Ticket: ticket}
	want := Place{Epoch: 1, Slot: 0, Ticket: ticket, ReportAt: start.Add(time.Minute)}
	answer := must(d.Answer(f.reply(must(d.Enrol(start)), yes), start))
	must(d.Deposit(start))
	d.Deposited()
	for name, got := range map[string]*Place{
		"answer": answer.Place, "status": d.Status().Place, "restarted": f.restart(d).Status().Place,
	} {
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	const text = `{"enrolled":true,"epoch":1,"slot":0,"ticket":"CQkJCQkJCQkJCQkJCQkJCQ==",` +
		`"report_at":"2026-01-01T12:01:00Z"}`
	if got := string(must(json.Marshal(answer))); got != text {
		t.Errorf("%s, want %s", got, text)
	}
	const refused = `{"enrolled":false,"refusal":"cohort_full"}`
	if got := string(must(json.Marshal(Answer{Refusal: "cohort_full"}))); got != refused {
		t.Errorf("a refusal: %s", got)
	}
	next, digest := a.Clone(), digestOf(a)
	next.Epoch, next.Previous = 2, digest[:]
	must(d.Follow(f.announce(next), start))
	if got := d.Status().Place; got != nil {
		t.Errorf("in the next epoch: %+v", got)
	}
}

// unlike fails if two payloads share 16 bytes at any places: a nonce, a share, an encapsulated key, a ciphertext.
func (f *fixture) unlike(c plan.Channel, one, other []byte) {
	f.Helper()
	const run = 16
	seen := map[string]bool{}
	for i := 0; i+run <= len(one); i++ {
		seen[string(one[i:i+run])] = true
	}
	for i := 0; i+run <= len(other); i++ {
		if seen[string(other[i:i+run])] {
			f.Errorf("%s: both reports hold %x", c, other[i:i+run])
			return
		}
	}
}

// Whether a report arrives is settled before the arms are known: a decision that comes before the mailbox has the null
// record's report leaves the device without any, over a restart too. A decision before the first deposit makes the
// promise one of Report.
func TestADecisionBeforeTheDepositIsPlacedEndsThePromise(t *testing.T) {
	t.Parallel()
	for name, decide := range map[string]func(*Device){
		"decided": func(d *Device) { must(d.Decide(played, source(1))) },
		"decided, not to sample": func(d *Device) {
			must(d.DecideFor(played, glm.Choice{Unrecorded: true}, source(1)))
		},
		"features": func(d *Device) {
			if _, err := d.Encode(nil, nil); err == nil {
				t.Error("features without a schema")
			}
		},
		"bad arms": func(d *Device) {
			if _, err := d.Decide(nil, source(1)); err == nil {
				t.Error("a decision about nothing")
			}
		},
	} {
		f := newFixture(t)
		d, _ := f.enrolled(plan.Shuffle)
		must(d.Deposit(start))
		decide(d)
		if made := must(d.Decide(played, source(1))); made.Sampled {
			t.Errorf("%s: sampled, and the mailbox may have nothing", name)
		}
		for again, d := range map[string]*Device{"at once": d, "restarted": f.restart(d)} {
			d.Deposited() // an answer that comes too late
			if _, err := d.Reward(decision(d), 1, start); !errors.Is(err, ErrLate) {
				t.Errorf("%s, %s: a reward: %v", name, again, err)
			}
			f.silent(name+", "+again, d)
		}

		d, _ = f.enrolled(plan.Shuffle)
		decide(d)
		for again, d := range map[string]*Device{"at once": d, "restarted": f.restart(d)} {
			if _, err := d.Deposit(start); !errors.Is(err, ErrNoReport) {
				t.Errorf("%s, %s: a first deposit after the arms: %v", name, again, err)
			}
		}
		must(d.Report(start.Add(time.Minute)))
		f.silent(name+" and reported", d)
	}
}

// silent fails unless the device has no report to make.
func (f *fixture) silent(what string, d *Device) {
	f.Helper()
	for _, now := range []time.Time{start, start.Add(time.Minute), start.Add(time.Hour)} {
		if _, err := d.Deposit(now); !errors.Is(err, ErrNoReport) {
			f.Errorf("%s: a deposit: %v", what, err)
		}
		if _, err := d.Report(now); !errors.Is(err, ErrNoReport) {
			f.Errorf("%s: a report: %v", what, err)
		}
	}
}

// A second deposit is made until the report is due, and a first also later. Neither is made for another epoch, by a
// device that takes no part, in a plan of several rounds, or where panels are drawn.
func TestWhenNothingIsDeposited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, a := f.enrolled(plan.Shuffle)
	due := start.Add(time.Minute)
	must(d.Deposit(due.Add(time.Hour)))
	d.Deposited()
	must(d.Decide(played, source(1)))
	must(d.Reward(decision(d), 1, due.Add(-1)))
	if _, err := d.Deposit(due); !errors.Is(err, ErrNoReport) {
		t.Errorf("a second deposit when the first is sent: %v", err)
	}
	d, _ = f.enrolled(plan.Shuffle)
	must(d.Deposit(start))
	d.Deposited()
	must(d.Decide(played, source(1)))
	must(d.Reward(decision(d), 1, due.Add(-1)))
	must(d.Deposit(due.Add(-1)))

	next, digest := a.Clone(), digestOf(a)
	next.Epoch, next.Previous = 2, digest[:]
	for name, placed := range map[string]bool{"unplaced": false, "placed": true} {
		d, _ = f.enrolled(plan.Shuffle)
		must(d.Deposit(start))
		if placed {
			d.Deposited()
		}
		restarted := f.restart(d)
		for _, d := range []*Device{d, restarted} {
			must(d.Follow(f.announce(next), start))
			f.silent(name+", in the next epoch", d)
		}
	}

	d, _ = f.enrolled(plan.Shuffle)
	must(d.Deposit(start))
	stricter := f.config()
	stricter.Limits.MinCohort = 1000
	f.silent("under stricter limits", must(Open(stricter, 3, must(d.Save()))))

	d, _ = f.device(glm.Paper)
	f.enrol(d)
	if _, err := d.Deposit(start); !errors.Is(err, ErrNoReport) {
		t.Errorf("a plan of several rounds: %v", err)
	}
	must(d.Report(due))

	d, panel := f.member()
	must(d.Answer(f.reply(must(d.Enrol(start)), f.drawn(panel)), start))
	if _, err := d.Deposit(start); !errors.Is(err, ErrNoReport) {
		t.Errorf("where panels are drawn: %v", err)
	}
	must(d.Report(due))
}

// Whatever an app calls, in whatever order, with restarts from any state that was durable, however old, one payload of
// a record leaves a device for a slot: two draws of noise for a record would tell more than one. Beside it there are
// the first deposit's, and that of a report of the null record. Each time the app gives the reward that the decision
// has.
func TestNoOrderOfCallsGivesTwoDrawsForARecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := through(f.announcement(glm.Practical), plan.Central)
	signed, keys := f.announce(a), f.keys(1, f.shufflerKey)
	full, old, orders := 0, 0, uint64(150)
	if testing.Short() { // on another platform
		orders = 40
	}
	for seed := range orders {
		r := rand.New(rand.NewPCG(seed, 1))
		d := must(Open(f.everywhere(), 3, nil))
		must(d.Follow(signed, start))
		if err := d.Keys(keys); err != nil {
			t.Fatal(err)
		}
		must(d.Answer(f.reply(must(d.Enrol(start)), f.committed(a)), start))
		null := statistic.Record{Null: true}
		first, none := encoded(d.last, null, d.noise(true)), encoded(d.last, null, d.noise(false))
		now, saved, left, trace := start, [][]byte{must(d.Save())}, map[string]int{}, []string{}
		next := []int{0, 1, 2, 3, 0, 1} // as an app should
		for range 14 {
			var report []byte
			call := r.IntN(8)
			if r.IntN(4) > 0 && len(next) > 0 {
				call, next = next[0], next[1:]
			}
			trace = append(trace, [...]string{"deposit", "deposited", "decide", "reward", "report", "restart", "wait",
				"save"}[call])
			switch call {
			case 0:
				report, _ = d.Deposit(now)
			case 1:
				d.Deposited()
			case 2:
				_, _ = d.Decide(played, source(1))
			case 3:
				_, _ = d.Reward(decision(d), float64(seed%2), now)
			case 4:
				report, _ = d.Report(now)
			case 5:
				d = must(Open(f.everywhere(), 3, saved[r.IntN(len(saved))]))
			case 6:
				now = now.Add(time.Minute)
			}
			if report != nil || call == 7 || call == 3 {
				saved = append(saved, must(d.Save())) // before the report leaves
			}
			if report != nil {
				left[fmt.Sprint(f.ones(report, a))]++
			}
		}
		delete(left, fmt.Sprint(first))
		delete(left, fmt.Sprint(none))
		if len(left) > 1 {
			t.Fatalf("%d payloads of a record left, after %v", len(left), trace)
		}
		for _, times := range left {
			full++
			if times > 1 {
				old++
			}
		}
	}
	if full < 5 || old < 1 {
		t.Fatalf("only %d of the orders got as far as a report of the record, %d of them more than once", full, old)
	}
}
