package poison

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel/simulated"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// firstRound is the round of the first cohort of a small deployment.
func firstRound(t *testing.T, c plan.Channel) *plan.Announcement {
	t.Helper()
	l, err := learner.New(learner.Config{Family: family.NameLogistic, Dimension: 2, Radius: 3, Horizon: 2000,
		Epsilon: 4, Delta: plan.DefaultDelta})
	if err != nil {
		t.Fatal(err)
	}
	step, terms := l.Next(), plan.DefaultTermsFor(c)
	terms.Epsilon = 4
	p, err := new(plan.Proposer).Propose(step, terms)
	if err != nil {
		t.Fatal(err)
	}
	return p.Announced(step)
}

// reports are as many as the cohort has, within the ranges.
func reports(a *plan.Announcement) (all []simulated.Report) {
	src := rand.New(rand.NewChaCha8([32]byte{6}))
	for range a.Cohort.Size {
		var report simulated.Report
		for _, e := range a.Encodings {
			var x []float64
			for _, c := range e.Coordinates {
				x = append(x, c.Offset+src.Float64()*float64(c.Levels)/e.Scale)
			}
			report = append(report, x)
		}
		all = append(all, report)
	}
	return all
}

// someLiars are the first k devices of a cohort.
func someLiars(a *plan.Announcement, k int) []bool {
	liars := make([]bool, a.Cohort.Size)
	for i := range k {
		liars[i] = true
	}
	return liars
}

// Without dishonest devices the sums are those of simulated.Integer, number for number.
func TestHonestDevicesGiveTheChannelsSums(t *testing.T) {
	for _, c := range plan.Channels() {
		a := firstRound(t, c)
		all := reports(a)
		exact := simulated.Integer{Encodings: a.Encodings, MinCohort: 1}
		for _, r := range a.Releases() {
			exact.ServerNoise = append(exact.ServerNoise, r.ServerNoise())
		}
		want, err := exact.Aggregate(slices.Values(all), stream(3, 'n'))
		if err != nil {
			t.Fatal(err)
		}
		for _, strategy := range append(Strategies(), "") {
			r := &round{a: a, strategy: strategy, truth: []float64{1, -2}, liars: someLiars(a, 0)}
			got, err := r.Aggregate(slices.Values(all), stream(3, 'n'))
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s, %q: other sums than the channel's, %v", c, strategy, err)
			}
		}
	}
}

// What dishonest devices add to each sum lies within what the plan says they can, and reaches it: on every number at
// once where all ones are sent; and where the worst is promoted, on the gradient's numbers. The gradient moves along
// the truth.
func TestAttacksKeepToTheirInfluenceAndReachIt(t *testing.T) {
	truth := []float64{1.5, -0.5}
	for _, c := range plan.Channels() {
		a := firstRound(t, c)
		for _, k := range []int{1, 4} {
			influence, err := a.Influence(k, a.Cohort.Size)
			if err != nil {
				t.Fatal(err)
			}
			for _, strategy := range []Strategy{AllOnes, Promote} {
				r := &round{a: a, strategy: strategy, truth: truth, liars: someLiars(a, k)}
				bits := 0
				for i, of := range r.entries() {
					e := a.Encodings[i]
					for j, n := range of {
						bits += int(n)
						mean := float64(k) * float64(e.NoiseBits) * e.Bias.Float()
						adds := (float64(n)-mean)/e.Scale + float64(k)*e.Coordinates[j].Offset
						least, most := influence[i].Least[j], influence[i].Most[j]
						if adds < least-1e-9 || adds > most+1e-9 {
							t.Errorf("%s, %s: %d devices add %v, the plan says %v to %v", c, strategy, k, adds, least,
								most)
						}
						reached := most
						switch {
						case strategy == Promote && influence[i].Statistic != statistic.Gradient:
							continue
						case strategy == Promote && j == 1:
							reached = least
						}
						if math.Abs(adds-reached) > 1e-9 {
							t.Errorf("%s, %s, release %d, coordinate %d: %d devices add %v, could %v", c, strategy, i,
								j, k, adds, reached)
						}
					}
				}
				if c == plan.Shuffle && bits > k*a.ReportMessages() {
					t.Errorf("%s: %d ones of %d devices with %d bits each", strategy, bits, k, a.ReportMessages())
				}
			}
		}
	}
}

// Every device is dishonest at the share that is asked for, those of a smaller share in every larger one; of 20 000 the
// number is within five standard deviations (false alarm 6e-7 each). Half the share lies 12 deviations or more away.
func TestTheShareOfDishonestDevicesIsAsAsked(t *testing.T) {
	var before []bool
	for _, share := range []float64{0.01, 0.05} {
		const people = 20_000
		w, err := Setting{People: people, Dimension: 2, Arms: 2, Norm: 1}.world(5, share)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for i, is := range w.liars {
			if is {
				n++
			} else if before != nil && before[i] {
				t.Fatalf("device %d is dishonest in a smaller share alone", i)
			}
		}
		if z := (float64(n) - people*share) / math.Sqrt(people*share*(1-share)); math.Abs(z) > 5 {
			t.Errorf("%d dishonest devices of %d, asked for %v", n, people, share)
		}
		before = w.liars
	}
}

// Dishonest devices turn their rewards around and nobody else's, and what arms are worth stays.
func TestFlippedRewardsAreThoseOfDishonestDevices(t *testing.T) {
	w, err := Setting{People: 300, Dimension: 2, Arms: 3, Norm: 1}.world(5, 0.3)
	if err != nil {
		t.Fatal(err)
	}
	var flipped []float64
	for p, err := range w.flipRewards() {
		if err != nil {
			t.Fatal(err)
		}
		flipped = append(append(flipped, p.Rewards...), p.Means...)
	}
	i, at := 0, 0
	for p := range w.People() {
		for k, r := range p.Rewards {
			if want := map[bool]float64{false: r, true: 1 - r}[w.liars[i]]; flipped[at+k] != want {
				t.Fatalf("device %d, dishonest: %v: reward %v of arm %d, want %v", i, w.liars[i], flipped[at+k], k,
					want)
			}
		}
		if at += len(p.Rewards); !slices.Equal(flipped[at:at+len(p.Means)], p.Means) {
			t.Fatalf("device %d: other means", i)
		}
		at += len(p.Means)
		i++
	}
}

// If half of the devices promote the worst arms, regret is more than three times as much; a comparison begins with
// honest devices, and its rows do not depend on how many run at a time.
func TestDishonestDevicesAddRegret(t *testing.T) {
	s := Setting{People: 1200, Dimension: 2, Epsilon: 8, Channels: []plan.Channel{plan.Central},
		Strategies: []Strategy{Promote, Flip}, Shares: []float64{0.5}}
	workers := []int{1, 2}
	if testing.Short() { // with one, nothing of it runs at the same time as anything else
		workers = workers[1:]
	}
	var before *Result
	for _, workers := range workers {
		r, err := Compare(context.Background(), s, Options{Seeds: 2, FirstSeed: 1, Workers: workers})
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !reflect.DeepEqual(r, before) {
			t.Error("the rows are others when two run at a time")
		}
		before = r
	}
	honest, promoted, flipped := before.Rows[0], before.Rows[1], before.Rows[2]
	if honest.Strategy != "" || honest.Added != nil || honest.Bound != 0 {
		t.Errorf("honest devices: %+v", honest)
	}
	if !(promoted.Regret > 3*honest.Regret && *promoted.Added > 0 && promoted.Bound > 1 &&
		flipped.Regret > honest.Regret) {
		t.Errorf("regret %v, promoted %v, flipped %v", honest.Regret, promoted.Regret, flipped.Regret)
	}
}

// Dishonest devices report in place of their honest reports and not beside them: the sums are those of the others
// alone, drawn from the same random words, and what the dishonest entries add. Devices that flip their reward report as
// they are.
func TestDishonestEntriesReplaceReports(t *testing.T) {
	const k = 3
	for _, c := range plan.Channels() {
		a := firstRound(t, c)
		all := reports(a)
		for _, strategy := range []Strategy{AllOnes, Promote, Flip} {
			r := &round{a: a, strategy: strategy, truth: []float64{1.5, -0.5}, liars: someLiars(a, k)}
			left, lies := k, r.entries()
			if strategy == Flip {
				left = 0
			}
			got, err := r.Aggregate(slices.Values(all), stream(3, 'n'))
			if err != nil {
				t.Fatal(err)
			}
			others := &round{a: a, liars: someLiars(a, 0)}
			without, err := others.Aggregate(slices.Values(all[left:]), stream(3, 'n'))
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range a.Encodings {
				for j := range e.Coordinates {
					want := without[i].Sum[j]
					if lies != nil {
						mean := k * float64(e.NoiseBits) * e.Bias.Float()
						want += (float64(lies[i][j])-mean)/e.Scale + k*e.Coordinates[j].Offset
					}
					if math.Abs(got[i].Sum[j]-want) > 1e-6*(1+math.Abs(want)) || got[i].Reports != len(all) {
						t.Errorf("%s, %s: sum %v of %d reports, want %v", c, strategy, got[i].Sum[j], got[i].Reports,
							want)
					}
				}
			}
		}
	}
}
