package device

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// chain is an announcement and those of the epochs after it, signed.
func (f *fixture) chain(first *plan.Announcement, epochs int) (signed [][]byte) {
	for a := first; len(signed) < epochs; a = next(a) {
		signed = append(signed, f.announce(a))
	}
	return signed
}

// next is the announcement of the next epoch.
func next(a *plan.Announcement) *plan.Announcement {
	out, digest := a.Clone(), digestOf(a)
	out.Epoch, out.Previous = a.Epoch+1, digest[:]
	return out
}

// usual is the first announcement of a deployment as `riffle plan` draws one up: 5 dimensions, cohorts of 1000.
func (f *fixture) usual(c plan.Channel) *plan.Announcement {
	l := must(learner.New(learner.Config{
		Profile: glm.Practical, Dimension: 5, Radius: 1, Horizon: 100_000, Epsilon: 1, Delta: 1e-6, MinCohort: 1000,
		Practical: learner.PracticalConfig{FirstCohort: 1000, Growth: 1},
	}))
	step := l.Next()
	p := must(plan.Propose(step, plan.Terms{Epsilon: 1, Delta: 1e-6, DropOut: 0.05, MinCohort: 950, Channel: c}))
	a := f.announcement(glm.Practical)
	a.Policy, a.Plan, a.Cohort, a.Encodings = step.Policy, p.Plan, p.Cohort, p.Encodings
	a.Evaluate(step)
	return a
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A device that joins in a late epoch follows every link and judges one plan. That no other is judged shows in what is
// allocated: a certificate takes many times as much as a link.
func TestJoiningLateJudgesOnePlan(t *testing.T) {
	f := newFixture(t)
	const epochs = 20
	signed := f.chain(f.announcement(glm.Practical), epochs)
	follow := func(d *Device, each func(*Device)) func() {
		return func() {
			for _, s := range signed {
				if fresh, err := d.Follow(s, start); !fresh || err != nil {
					t.Fatal(fresh, err)
				}
				each(d)
			}
		}
	}
	late, asking := f.opened(f.config()), f.opened(f.config())
	links := allocated(follow(late, func(*Device) {}))
	one := allocated(func() { must(late.Enrol(start)) })
	all := allocated(follow(asking, func(d *Device) { d.Status() }))
	t.Logf("%d kB for %d links, %d kB for the one judgement and the request, %d kB if every plan is judged",
		links>>10, epochs, one>>10, all>>10)
	if judged := all - links; one < judged/epochs/2 || links > judged/4 {
		t.Errorf("links allocate %d bytes, one judgement %d, all %d", links, one, all)
	}
	// The announcement in force is judged once, however often somebody asks.
	if again := allocated(func() { must(late.Enrol(start)) }); again > one/4 {
		t.Errorf("to ask again allocates %d bytes, at first %d", again, one)
	}
}

// A device that judges every plan and one that judges those that it must do and keep the same, whichever plans its
// limits rule out on the way: the request, the promise, the report's size, the ledger and what is refused.
func TestALateDeviceIsNoOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.announcement(glm.Practical)
	weak := next(first) // fewer people than the device hides among
	weak.Cohort.Minimum--
	fine := next(weak)
	fine.Cohort = first.Cohort
	c := f.config()
	c.Limits.MinCohort = int(first.Cohort.Minimum)
	if c.Limits.MinCohort < 2 {
		t.Fatal("the cohort is too small for this test")
	}
	for name, all := range map[string][]*plan.Announcement{
		"in epoch 1":                {first},
		"under a weak plan":         {first, weak},
		"after a weak plan":         {first, weak, fine},
		"after a rewritten history": {first, next(fine)},
	} {
		late, asking := f.opened(c), f.opened(c)
		for _, a := range all {
			_, err := late.Follow(f.announce(a), start)
			if _, same := asking.Follow(f.announce(a), start); (err == nil) != (same == nil) {
				t.Fatalf("%s: %v, and %v", name, err, same)
			}
			asking.Status()
		}
		_, err := late.Enrol(start)
		_, same := asking.Enrol(start)
		if (err == nil) != (same == nil) || err != nil && err.Error() != same.Error() {
			t.Errorf("%s: %v, and %v", name, err, same)
		}
		kept := func(d *Device) []byte {
			d.state.Request.Nonce, d.kept.Secret = 0, nil // drawn at random
			return must(d.Save())
		}
		if a, b := kept(late), kept(asking); !bytes.Equal(a, b) {
			t.Errorf("%s: the late device keeps\n%s\nthe other\n%s", name, a, b)
		}
	}
}

// The plan of the announcement in force is judged before a record is used, by who enrols and by who reports after a
// restart, whatever was asked before. Each step refuses by itself.
func TestEveryUseOfARecordJudgesItsPlan(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, _ := f.device(glm.Practical)
	f.enrol(d)
	saved := must(d.Save())
	strict := f.config()
	strict.Limits.Epsilon = 0.01
	restarted := must(Open(strict, 3, saved))
	if _, err := restarted.Report(start.Add(time.Hour)); !errors.Is(err, ErrNoReport) {
		t.Errorf("a report under a plan that was never judged: %v", err)
	}
	core := must(New(strict))
	a := must(core.Judge(f.announce(f.announcement(glm.Practical)), 1, 0))
	state := restarted.state
	if _, _, err := core.Report(state, state.Begin(a), a, f.shufflerKey.Public(), source(1)); err == nil {
		t.Error("the core reports under a plan that was never judged")
	}
	if _, err := core.NewState(3).Ask(a, start); !errors.Is(err, privacy.ErrBudget) {
		t.Errorf("a slot is asked for under a plan that was never judged: %v", err)
	}
}

// What a device that joins in epoch 100 spends before it can enrol, and what it would if it judged every plan.
func BenchmarkJoiningInEpoch100(b *testing.B) {
	f := newFixture(b)
	for _, c := range []plan.Channel{plan.Shares, plan.Shuffle} {
		signed := f.chain(f.usual(c), 100)
		config := f.config()
		config.Limits = DefaultLimits()
		for name, each := range map[string]func(*Device){
			"one": func(*Device) {}, "all": func(d *Device) { d.Status() },
		} {
			b.Run(string(c)+"/judging="+name, func(b *testing.B) {
				for b.Loop() {
					d := f.opened(config)
					for _, s := range signed {
						if fresh, err := d.Follow(s, start); !fresh || err != nil {
							b.Fatal(fresh, err)
						}
						each(d)
					}
					must(d.Enrol(start))
				}
			})
		}
	}
}
