package device

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// rewarded is the record of played with a reward.
func rewarded(reward float64) statistic.Record {
	return statistic.Record{Arm: played[0], Weight: 1, Reward: reward}
}

// A reward that comes after a restart is in the report: by the mailbox, and by the device itself. So is one that came
// before it. The report is then the same as without the restart.
func TestARewardComesAfterARestart(t *testing.T) {
	t.Parallel()
	for _, mailbox := range []bool{false, true} {
		for _, before := range []bool{false, true} {
			f := newFixture(t)
			d, a := f.enrolled(plan.Shuffle)
			if mailbox {
				d = f.restart(d)
				must(d.Deposit(start))
				d = f.restart(d)
				must(d.Deposit(start))
				d.Deposited()
				d = f.restart(d)
			}
			made := must(d.Decide(played, source(1)))
			if !made.Sampled || made.Handle == 0 {
				t.Fatalf("%+v", made)
			}
			if !before {
				d = f.restart(d)
			}
			must(d.Reward(made.Handle, 1, start.Add(time.Second)))
			d = f.restart(d)
			if _, err := d.Reward(made.Handle, 0, start); !errors.Is(err, ErrReward) {
				t.Errorf("another reward after the restart: %v", err)
			}
			want := encoded(d.last, rewarded(1), d.noise(false))
			var report []byte
			if mailbox {
				report = must(d.Deposit(start.Add(time.Second)))
			} else {
				report = must(d.Report(start.Add(time.Minute)))
			}
			if got := f.ones(report, a); !slices.Equal(got, want) {
				t.Errorf("mailbox %v, before %v: the report is not of the record", mailbox, before)
			}
			f.silent("afterwards", f.restart(d))
		}
	}
}

// In a plan of several rounds the later reports are of the record too, though the device was restarted between.
func TestLaterRoundsAreOfTheKeptRecord(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, a := f.device(glm.Paper)
	f.enrol(d)
	made := must(d.Decide(played, source(1)))
	d = f.restart(d)
	must(d.Reward(made.Handle, 1, start))
	must(d.Report(start.Add(time.Minute)))
	d = f.restart(d)
	next := f.second(a)
	must(d.Follow(f.announce(next), start.Add(time.Minute)))
	d = f.restart(d)
	want := encoded(d.last, rewarded(1), d.noise(false))
	report := f.open(must(d.Report(start.Add(time.Hour))), next)
	ones, _ := f.bits(report.Payload, next)
	var got []uint32
	for _, n := range slices.Concat(ones...) {
		got = append(got, uint32(n))
	}
	if !slices.Equal(got, want) {
		t.Errorf("round 1 is not of the record: %d, want %d", got, want)
	}
	f.silent("afterwards", f.restart(d))
}

// What is saved has one length from the promise to the report, whatever was decided and rewarded. Once the report is
// made for good, or the record is given up, nothing of it is left, nor what its noise came from.
func TestWhatIsKeptOfARecordIsErased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	due := start.Add(time.Minute)
	next := func(a *plan.Announcement) []byte {
		b, digest := a.Clone(), digestOf(a)
		b.Epoch, b.Previous = 2, digest[:]
		return f.announce(b)
	}
	for name, ends := range map[string]func(*Device, *plan.Announcement){
		"deposited":   func(d *Device, _ *plan.Announcement) { must(d.Deposit(start)) },
		"due":         func(d *Device, _ *plan.Announcement) { _, _ = d.Deposit(due) },
		"rewarded":    func(d *Device, _ *plan.Announcement) { _, _ = d.Reward(decision(d), 1, due) },
		"looked":      func(d *Device, a *plan.Announcement) { must(d.Follow(f.announce(a), due)) },
		"next epoch":  func(d *Device, a *plan.Announcement) { must(d.Follow(next(a), start)) },
		"closed":      func(d *Device, _ *plan.Announcement) { d.Close() },
		"opted out":   func(d *Device, _ *plan.Announcement) { d.Forget() },
		"then opened": func(d *Device, _ *plan.Announcement) { d.Forget(); *d = *f.restart(d) },
	} {
		d, a := f.enrolled(plan.Shuffle)
		must(d.Deposit(start))
		d.Deposited()
		size := len(must(d.Save()))
		must(d.Decide(played, source(1)))
		unrewarded := must(d.Save())
		must(d.Reward(decision(d), 1, start))
		kept := must(d.Save())
		if len(unrewarded) != size || len(kept) != size {
			t.Errorf("%s: %d bytes, with a decision %d, with a reward %d", name, size, len(unrewarded), len(kept))
		}
		if !holds(kept, played[0][0]) {
			t.Fatal("the test does not see a record")
		}
		ends(d, a)
		after := must(d.Save())
		forgot := strings.Contains(name, "ope") || strings.Contains(name, "opt")
		left := bytes.Contains(after, []byte(`"secret"`))
		if holds(after, played[0][0]) || left != forgot || left != bytes.Contains(after, []byte(`"record"`)) {
			t.Errorf("%s: something is left: %s", name, after)
		}
		d = f.restart(d)
		if _, err := d.Reward(1, 1, start); !errors.Is(err, ErrLate) {
			t.Errorf("%s: a reward: %v", name, err)
		}
		if made := must(d.Decide(played, source(2))); made.Sampled {
			t.Errorf("%s: another decision", name)
		}
		f.silent(name, d)
	}
}

// holds reports whether what was saved holds a number, by its bits.
func holds(save []byte, x float64) bool {
	var s saved
	if err := json.Unmarshal(save, &s); err != nil {
		panic(err)
	}
	return bytes.Contains(s.Record, binary.BigEndian.AppendUint64(nil, math.Float64bits(x)))
}

// A record is restored beside the promise and the announcement with which it was saved, and nowhere else: with another
// one's slot, announcement, device or secret, changed by a bit, or cut, it is the null record that is reported. No
// error says what is in it.
func TestARecordIsOfItsPromise(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	kept := func() saved {
		d, _ := f.device(glm.Practical)
		f.enrol(d)
		made := must(d.Decide(played, source(1)))
		must(d.Reward(made.Handle, 1, start))
		var s saved
		if err := json.Unmarshal(must(d.Save()), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	other := f.announcement(glm.Practical)
	other.Timing.RewardWindow += time.Second
	for name, change := range map[string]func(*saved){
		"none":         func(*saved) {},
		"slot":         func(s *saved) { s.State.Enrolment.Slot++ },
		"device":       func(s *saved) { s.State.Number++ },
		"announcement": func(s *saved) { s.Announcement = f.announce(other) },
		"promise":      func(s *saved) { s.Record = kept().Record },
		"secret":       func(s *saved) { s.Secret = nil },
		"bit":          func(s *saved) { s.Record[keptHead+3] ^= 1 },
		"cut":          func(s *saved) { s.Record = s.Record[1:] },
		"gone":         func(s *saved) { s.Record = nil },
	} {
		s := kept()
		change(&s)
		d := must(Open(f.config(), 3, must(json.Marshal(s))))
		if got := !only(*d.record).Null; got != (name == "none") {
			t.Errorf("%s: a record is restored: %v", name, got)
		}
		if name == "none" {
			continue
		}
		if _, err := d.Deposit(start); !errors.Is(err, ErrNoReport) {
			t.Errorf("%s: a first deposit, and the arms may be known: %v", name, err)
		}
		want := encoded(d.last, statistic.Record{Null: true}, d.noise(false))
		a := d.last.Announcement
		if got := f.ones(must(d.Report(start.Add(time.Minute))), a); !slices.Equal(got, want) {
			t.Errorf("%s: the report is not of the null record", name)
		}
	}
	s := kept()
	s.State.Enrolment.Reported = 1 // of another copy
	if d := must(Open(f.config(), 3, must(json.Marshal(s)))); d.record != nil {
		t.Error("a record is restored of which the report was made")
	}
	text := strings.Replace(string(must(json.Marshal(s))), base64.StdEncoding.EncodeToString(s.Record), "61728!", 1)
	_, err := Open(f.config(), 3, []byte(text))
	if !errors.Is(err, ErrSaved) || strings.Contains(err.Error(), "61728") {
		t.Errorf("no base64: %v", err)
	}
}

// An older copy of what was saved gives no second draw of noise: the report of the same reward is the same, bit for
// bit, from a copy of each step since the device first asked for its slot, and that of another reward is independent.
func TestAnOlderCopyHasTheSameNoise(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := through(f.announcement(glm.Practical), plan.Local)
	d := f.opened(f.everywhere())
	must(d.Follow(f.announce(a), start))
	request := must(d.Enrol(start))
	copies := [][]byte{must(d.Save())}
	must(d.Answer(f.reply(request, f.committed(a)), start))
	copies = append(copies, must(d.Save()))
	made := must(d.Decide(played, source(1)))
	copies = append(copies, must(d.Save()))
	must(d.Reward(made.Handle, 1, start))
	copies = append(copies, must(d.Save()))
	want := f.ones(must(d.Report(start.Add(time.Minute))), a)
	for i, old := range copies {
		for _, reward := range []float64{1, 0} {
			d := must(Open(f.everywhere(), 3, old))
			if i == 0 {
				must(d.Answer(f.reply(must(d.Enrol(start)), f.committed(a)), start))
			}
			if i < 2 {
				must(d.Decide(played, source(2)))
			}
			if _, err := d.Reward(decision(d), reward, start); err != nil && i < 3 {
				t.Fatal(err)
			}
			got := f.ones(must(d.Report(start.Add(time.Minute))), a)
			if same := slices.Equal(got, want); same != (reward == 1 || i == 3) {
				t.Errorf("copy %d, reward %g: the same report: %v", i, reward, same)
			}
		}
	}
}

// FuzzKeptRecord restores any bytes as a kept record, past its tag. What is good is written as the same bytes, and is
// sound; what is not leaves the record null.
func FuzzKeptRecord(f *testing.F) {
	fix := newFixture(f)
	d, _ := fix.device(glm.Practical)
	fix.enrol(d)
	body := func() []byte { return bytes.Clone(d.keep()[:keptSize(d.last)]) }
	f.Add(body())
	made := must(d.Decide(played, source(1)))
	f.Add(body())
	must(d.Reward(made.Handle, 1, start))
	f.Add(body())
	a, state := d.last, d.state
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(b, make([]byte, keptSize(a))...)[:keptSize(a)]
		r := state.Begin(a)
		handles, good := r.restore(b, a)
		h := r.open()
		if !good {
			if len(handles)+len(h.records) > 0 || h.deposit != noDeposit {
				t.Fatal("something is restored of what is not good")
			}
			return
		}
		if again := r.append(nil, handles, a); !bytes.Equal(again, b) {
			t.Fatalf("%x is written as %x", b, again)
		}
		if len(handles) != len(h.records) || len(handles) > a.Plan.PerReport() || len(handles) > 0 && !h.known {
			t.Fatalf("%d handles of %d decisions", len(handles), len(h.records))
		}
		if _, err := a.contribution(h.records); err != nil {
			t.Logf("reported as null: %v", err)
		}
	})
}

// Past the tag, what append would not have written is not restored. A record that is too large is not kept.
func TestAKeptRecordIsSound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, _ := f.device(glm.Practical)
	f.enrol(d)
	must(d.Reward(must(d.Decide(played, source(1))).Handle, 1, start))
	good := d.keep()[:keptSize(d.last)]
	number := func(at int, x float64) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint64(b[keptHead+at:], math.Float64bits(x)) }
	}
	for name, change := range map[string]func([]byte){
		"as it was":              func([]byte) {},
		"a later deposit":        func(b []byte) { b[0] = 3 },
		"arms unknown":           func(b []byte) { b[1] = 0 },
		"arms half known":        func(b []byte) { b[1] = 2 },
		"half forgotten":         func(b []byte) { b[2] = 2 },
		"forgotten, and there":   func(b []byte) { b[2] = 1 },
		"a first that is behind": func(b []byte) { b[0] = byte(unplaced) },
		"other flags":            func(b []byte) { b[keptHead] |= 0x80 },
		"not there":              func(b []byte) { b[keptHead] = 0 },
		"no reward, and there":   func(b []byte) { b[keptHead] &^= keptRewarded },
		"no handle":              func(b []byte) { clear(b[keptHead+1 : keptHead+9]) },
		"a large handle":         func(b []byte) { b[keptHead+1] = 1 },
		"a negative weight":      number(9, -1),
		"no number":              number(17, math.NaN()),
		"without end":            number(25, math.Inf(1)),
	} {
		b := bytes.Clone(good)
		change(b)
		r := d.state.Begin(d.last)
		if _, ok := r.restore(b, d.last); ok != (name == "as it was") || ok == only(r).Null {
			t.Errorf("%s: restored %v, %+v", name, ok, only(r))
		}
	}
	large := *d.last
	large.Announcement = d.last.Clone()
	large.Plan.Decisions, large.Policy.Dimension = 1<<12, 512
	d.last = &large
	if kept := d.keep(); kept != nil {
		t.Errorf("%d bytes are kept", len(kept))
	}
}
