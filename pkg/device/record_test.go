package device

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// promised is a core, a judged announcement, and a device's state under which it has promised to report a minute after
// start.
func promised(t *testing.T, profile glm.Profile) (*fixture, *Core, *Announced, State) {
	t.Helper()
	f := newFixture(t)
	core := must(New(f.config()))
	a := must(core.Judge(f.announce(f.announcement(profile)), 1, 0))
	if a.Weak() != nil {
		t.Fatal(a.Weak())
	}
	asked := must(core.NewState(3).Ask(a, start))
	reply := &wire.EnrolReply{Enrolled: true, Slot: 7, ReportAfter: time.Minute}
	return f, core, a, must(asked.Promise(a, reply, start))
}

// only is the first decision of a record; null where there is none.
func only(r Record) statistic.Record {
	if h := r.open(); len(h.records) > 0 {
		return *h.records[0]
	}
	return statistic.Record{Null: true}
}

// decided is what a record holds of one decision.
func decided(r statistic.Record) []*statistic.Record { return []*statistic.Record{&r} }

// A record that holds an arm and a reward can be neither printed nor marshalled, by itself or inside something else.
func TestARecordIsNotShown(t *testing.T) {
	t.Parallel()
	_, _, a, state := promised(t, glm.Practical)
	const mark = 0.6172839451
	r := state.Begin(a)
	r.Remember([]float64{mark, -mark}, glm.Decision{Weight: mark})
	must(r.Reward(0, mark, start))
	type outer struct {
		Record Record
		inner  Record
		Next   *Record
	}
	holder := outer{r, r, &r}
	untimed := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{} // its digits are not the record's
		}
		return a
	}}
	for _, v := range []any{r, &r, holder, &holder, []Record{r}, map[string]Record{"x": r}, struct{ x any }{r}} {
		var text bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q", "%f"} {
			fmt.Fprintf(&text, verb, v)
		}
		slog.New(slog.NewTextHandler(&text, untimed)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&text, untimed)).Info("x", "v", v)
		for _, number := range []string{"0.617", ".6172", "6172839", fmt.Sprintf("%x", mark),
			fmt.Sprintf("%x", math.Float64bits(mark))} {
			if strings.Contains(text.String(), number) {
				t.Errorf("%T is printed with its numbers: %s", v, text.String())
			}
		}
	}
	for _, v := range []any{r, &r, holder, []Record{r}} {
		if b, err := json.Marshal(v); err == nil {
			t.Errorf("%T as JSON: %s", v, b)
		}
		if err := gob.NewEncoder(new(bytes.Buffer)).Encode(v); err == nil {
			t.Errorf("%T as gob", v)
		}
		if b, err := xml.Marshal(v); err == nil && bytes.Contains(b, []byte("617")) {
			t.Errorf("%T as XML: %s", v, b)
		}
	}
}

// After the last report, and after Wipe, nothing of the arm is left in the memory that held it.
func TestARecordIsOverwritten(t *testing.T) {
	t.Parallel()
	_, core, a, state := promised(t, glm.Practical)
	for name, end := range map[string]func(Record){
		"wiped": Record.Wipe,
		"reported": func(r Record) {
			_, _, err := core.Report(state, r, a, newFixture(t).shufflerKey.Public(), source(1))
			if err != nil {
				t.Fatal(err)
			}
			r.Made()
		},
	} {
		r := state.Begin(a)
		r.Remember([]float64{0.6, 0.2}, glm.Decision{Weight: 0.5})
		must(r.Reward(0, 1, start))
		kept := r.open().records[0]
		arm := kept.Arm
		end(r)
		if !r.Over() || arm[0] != 0 || arm[1] != 0 || len(r.open().records) != 0 ||
			!reflect.DeepEqual(*kept, statistic.Record{Null: true}) {
			t.Errorf("%s: %v, %+v, %+v", name, arm, *kept, only(r))
		}
		if _, kept := r.Remember([]float64{1, 0}, glm.Decision{Weight: 1}); kept {
			t.Errorf("%s: a record that is over takes a decision", name)
		}
		if _, err := r.Reward(0, 1, start); !errors.Is(err, ErrLate) {
			t.Errorf("%s: a record that is over takes a reward: %v", name, err)
		}
	}
}

// A reward counts up to the report's time and not from it on, must be a finite number, may be repeated and not changed,
// and is clipped to what the policy's family allows. Without a decision the record stays null.
func TestRewardsOfARecord(t *testing.T) {
	t.Parallel()
	_, _, a, state := promised(t, glm.Practical)
	due := state.Enrolment.ReportAt
	r := state.Begin(a)
	if got, err := r.Reward(0, 1, start); err != nil || !got.Accepted || !only(r).Null {
		t.Errorf("before the decision: %+v %v", got, err)
	}
	arm := []float64{0.6, 0.2}
	r.Remember(arm, glm.Decision{Weight: 0.5})
	arm[0] = 9 // it is the app's
	if _, kept := r.Remember([]float64{1, 1}, glm.Decision{Weight: 1}); kept || only(r).Arm[0] != 0.6 {
		t.Error("a second decision is remembered, or the app's memory is used")
	}
	if _, err := r.Reward(0, 1, due); !errors.Is(err, ErrLate) || !only(r).Null {
		t.Errorf("at the deadline: %v", err)
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := r.Reward(0, v, start); !errors.Is(err, ErrReward) {
			t.Errorf("reward %v: %v", v, err)
		}
	}
	got, err := r.Reward(0, 1.5, due.Add(-1))
	if err != nil || !got.Clipped || *got.Used != 1 || *got.Range != [2]float64{0, 1} || only(r).Null {
		t.Errorf("out of range: %+v %v", got, err)
	}
	if low, err := Accept(-3, -1, 1); err != nil || !low.Clipped || *low.Used != -1 ||
		*low.Range != [2]float64{-1, 1} {
		t.Errorf("below a range that begins at -1: %+v %v", low, err)
	}
	if _, err := r.Reward(0, 1.5, start); err != nil {
		t.Errorf("the same reward again: %v", err)
	}
	if _, err := r.Reward(0, 1, start); !errors.Is(err, ErrReward) {
		t.Errorf("another reward: %v", err)
	}
}

// records is one record in every shape that it can take.
var records = map[string]statistic.Record{
	"null":            {Null: true},
	"usual":           {Arm: []float64{0.6, 0.2}, Reward: 1, Weight: 1},
	"extreme":         {Arm: []float64{1, 0}, Reward: 1, Weight: 1},
	"opposite":        {Arm: []float64{-1, 0}, Weight: 1},
	"NaN":             {Arm: []float64{math.NaN(), 0}, Reward: 1},
	"infinite":        {Arm: []float64{math.Inf(1), 0}, Reward: 1},
	"reward NaN":      {Arm: []float64{1, 0}, Reward: math.NaN()},
	"weight NaN":      {Arm: []float64{1, 0}, Weight: math.NaN()},
	"reward far out":  {Arm: []float64{1, 0}, Reward: -1e300},
	"huge arm":        {Arm: []float64{1e300, -1e300}, Reward: 1},
	"no arm":          {Reward: 1},
	"wrong dimension": {Arm: []float64{1, 0, 0}},
}

// Whatever is wrong with a record inside the device, the report has the same length and the same messages, and every
// coordinate has exactly its number of them (condition 3).
func TestEveryRecordHasTheSameMessages(t *testing.T) {
	t.Parallel()
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		f, core, a, state := promised(t, profile)
		for name, record := range records {
			r := state.Begin(a)
			r.open().records = decided(record)
			envelope, _, err := core.Report(state, r, a, f.shufflerKey.Public(), source(2))
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if len(envelope) != wire.EnvelopeSize(a.ReportMessages()*seal.BitSize) {
				t.Errorf("%s: a report of %d bytes", name, len(envelope))
			}
			report := f.open(envelope, a.Announcement)
			if report.Slot != 7 || report.Device != 3 || report.Announcement != a.Digest || report.Epoch != 1 ||
				report.Round != 0 {
				t.Errorf("%s: report %d of device %d in slot %d", name, report.Round, report.Device, report.Slot)
			}
			_, seen := f.bits(report.Payload, a.Announcement)
			for k, e := range a.Encodings {
				for j := range seen[k] {
					if seen[k][j] != uint64(e.MessagesAt(j)) {
						t.Errorf("%s: release %d, coordinate %d has %d messages, not %d", name, k, j, seen[k][j],
							e.MessagesAt(j))
					}
				}
			}
		}
	}
}

// The bits of a report are those that its encodings give for the record's vectors, release after release from one
// source; what no statistic takes is reported as the null record. So the same seed gives the same report on every host.
func TestAReportHoldsWhatTheEncodingsGive(t *testing.T) {
	t.Parallel()
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		f, core, a, state := promised(t, profile)
		for name, record := range records {
			r := state.Begin(a)
			r.open().records = decided(record)
			envelope, _, err := core.Report(state, r, a, f.shufflerKey.Public(), source(3))
			if err != nil {
				t.Fatal(err)
			}
			ones, _ := f.bits(f.open(envelope, a.Announcement).Payload, a.Announcement)
			src := source(3)
			for i, s := range a.judged().round.Statistics {
				vector, err := s.Vector(nil, record)
				if err != nil {
					vector = make([]float64, s.Dim())
				}
				for j, n := range must(a.Encodings[i].Encode(nil, vector, src)) {
					if ones[i][j] != uint64(n) {
						t.Errorf("%s: release %d, coordinate %d has %d ones, not %d", name, i, j, ones[i][j], n)
					}
				}
			}
		}
	}
}

// counting counts the words that are drawn.
type counting struct {
	protocol.Source
	words int
}

func (c *counting) Uint64() uint64 {
	c.words++
	return c.Source.Uint64()
}

// Every coordinate of every release has rounding and noise of its own (condition 20): a report draws exactly the words
// that its encodings draw one by one, whatever the record, so that none is kept for a second use; and a second report
// of the same record draws as many again. Their independence over coordinates is tested in pkg/protocol.
func TestNoRandomWordIsUsedTwice(t *testing.T) {
	t.Parallel()
	_, _, a, _ := promised(t, glm.Practical)
	alone := &counting{Source: source(4)}
	for i, e := range a.Encodings {
		must(e.Encode(nil, make([]float64, a.judged().round.Statistics[i].Dim()), alone))
	}
	if alone.words == 0 {
		t.Fatal("encoding draws nothing")
	}
	src := &counting{Source: source(5)}
	for name, r := range records {
		for range 2 {
			before := src.words
			must(a.payload(decided(r), channel.Sender{}, from(src)))
			if drawn := src.words - before; drawn != alone.words {
				t.Errorf("%s draws %d words, its encodings %d", name, drawn, alone.words)
			}
		}
	}
}

// A report is made once per round, under its own announcement, and costs what the ledger has set aside.
func TestAReportIsMadeOnce(t *testing.T) {
	t.Parallel()
	f, core, a, state := promised(t, glm.Practical)
	r := state.Begin(a)
	key := f.shufflerKey.Public()
	_, next, err := core.Report(state, r, a, key, source(6))
	if err != nil || next.Enrolment.Reported != 1 || next.Ledger.Entries[0].State != "spent" {
		t.Fatalf("%+v %v", next, err)
	}
	if state.Enrolment.Reported != 0 || state.Ledger.Entries[0].State != "reserved" {
		t.Error("the earlier state changed before the new one is durable")
	}
	r.Made()
	if _, _, err := core.Report(next, r, a, key, source(6)); err == nil {
		t.Error("a second report of the same round")
	}
	other := f.announcement(glm.Practical)
	digest := digestOf(other)
	other.Epoch, other.Previous = 2, slices.Clone(digest[:])
	if _, _, err := core.Report(state, state.Begin(a), must(core.Judge(f.announce(other), 2, 0)), key,
		source(6)); err == nil {
		t.Error("a report under another epoch")
	}
	if _, _, err := core.Report(must(core.NewState(0).Ask(a, start)), state.Begin(a), a, key, source(6)); err == nil {
		t.Error("a report without a promise in the ledger")
	}
}
