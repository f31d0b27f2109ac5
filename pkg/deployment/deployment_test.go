package deployment_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const people = 12 // of a cohort

// configuration is a small deployment of three cohorts.
func configuration(profile glm.Profile) wire.Configuration {
	c := wire.Configuration{
		Deployment: "clinic",
		Learner: learner.Config{
			Profile: profile, Dimension: 2, Radius: 2, Horizon: 3 * people, Epsilon: 4, Delta: 1e-3, MinCohort: people,
			Practical: learner.PracticalConfig{FirstCohort: people, Growth: 1}, Paper: learner.PaperConfig{Rounds: 2},
		},
		Terms: plan.Terms{Epsilon: 4, Delta: 1e-3, DropOut: 0.2, MinCohort: 4, MaxShift: 2, VarianceRatio: 64},
	}
	if profile == glm.Joint {
		c.Terms = plan.DefaultTermsFor(plan.Central)
		c.Terms.Epsilon, c.Terms.Delta, c.Terms.MinCohort, c.Batch = 4, 1e-3, people, people
	}
	return c
}

// run is a machine and what was announced last.
type run struct {
	t *testing.T
	*deployment.Machine
	a      *plan.Announcement
	digest [32]byte
}

func begin(t *testing.T, c wire.Configuration) *run {
	t.Helper()
	m, err := deployment.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &run{t: t, Machine: m}
}

var key = bytes.Repeat([]byte{7}, 32)

// announce announces what comes next. The digest stands for that of the signed announcement.
func (r *run) announce() *plan.Announcement {
	r.t.Helper()
	a, err := r.Next(key, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.a = a
	r.digest = sha256.Sum256(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, a.Epoch), a.Round))
	r.Announced(a, r.digest)
	return a
}

// counts are those of so many reports, with a little more than half ones everywhere.
func (r *run) counts(reports uint32) *wire.Counts {
	c := &wire.Counts{
		Deployment: r.a.Deployment, Epoch: r.a.Epoch, Round: r.a.Round, Announcement: r.digest[:],
		Manifest: make([]byte, 32), Reports: reports,
	}
	for i, e := range r.a.Encodings {
		var of wire.ReleaseCounts
		for j := range e.Coordinates {
			of.Ones = append(of.Ones, uint64(float64(int(reports)*e.MessagesAt(j))*(0.5+0.01*float64(i+j))))
		}
		c.Releases = append(c.Releases, of)
	}
	if r.a.Plan.Pairs() {
		e, each := r.a.Encodings[0], make([][]uint32, reports)
		for i := range each {
			for j := range e.Coordinates { // that differ in every coordinate, around the mean
				each[i] = append(each[i], uint32(e.MessagesAt(j)/2+(7*i+3*j)%11-5))
			}
		}
		c.Releases = []wire.ReleaseCounts{{Entries: envelope.Each(each)}}
	}
	if l := r.Curated(); l != nil {
		c.Releases = []wire.ReleaseCounts{{Curated: make([]int64, l.Config().ReleaseDim())}}
	}
	return c
}

var ofCounts = [32]byte{5}

func (r *run) absorb(c *wire.Counts) *wire.Learned {
	r.t.Helper()
	learned, err := r.Absorb(c, ofCounts)
	if err != nil {
		r.t.Fatal(err)
	}
	return learned
}

func (r *run) estimate() deployment.Estimate {
	r.t.Helper()
	e, err := r.Estimate()
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// Every announcement follows from the learner, and names the one before; what was learned names its announcement, its
// counts, the sums without the noise, and what comes next.
func TestFromTheFirstAnnouncementToTheLast(t *testing.T) {
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper} {
		t.Run(string(profile), func(t *testing.T) {
			c := configuration(profile)
			r := begin(t, c)
			l, err := learner.New(c.Learner)
			if err != nil {
				t.Fatal(err)
			}
			var previous []byte
			var learned *wire.Learned
			for rounds := 0; ; rounds++ {
				step := l.Next()
				a := r.announce()
				if !reflect.DeepEqual(a.Policy, step.Policy) || a.Final != step.Done || int(a.Round) != step.Round {
					t.Fatalf("announced is %+v, the learner's step is %+v", a, step)
				}
				if !bytes.Equal(a.Previous, previous) || a.Deployment != "clinic" {
					t.Fatalf("round %d of epoch %d does not follow the one before", a.Round, a.Epoch)
				}
				if policy, err := wire.PolicyDigest(&a.Policy); learned != nil &&
					(err != nil || !bytes.Equal(learned.Policy, policy[:])) {
					t.Errorf("another policy was learned than is announced (%v)", err)
				}
				if a.Final {
					if a.AnalyzerKey != nil || a.Encodings != nil || !slices.Equal(learned.Iterate, a.Policy.Theta) {
						t.Errorf("the last announcement asks for reports: %+v", a)
					}
					break
				}
				if learned != nil && !slices.Equal(learned.Iterate, a.Reference) {
					t.Errorf("the reference is %v, learned was %v", a.Reference, learned.Iterate)
				}
				counts := r.counts(people - 1)
				learned = r.absorb(counts)
				previous = bytes.Clone(r.digest[:])
				if !bytes.Equal(learned.Announcement, r.digest[:]) || !bytes.Equal(learned.Counts, ofCounts[:]) ||
					learned.Epoch != a.Epoch || learned.Round != a.Round || learned.Version != "" {
					t.Errorf("learned is %+v", learned)
				}
				g, err := plan.GuaranteeWith(a, people-1)
				if err != nil || learned.Epsilon != g.Epsilon(c.Terms.Delta) || learned.Epsilon > c.Terms.Epsilon {
					t.Errorf("epsilon is %v (%v)", learned.Epsilon, err)
				}
				if learned.EpsilonAlone <= learned.Epsilon {
					t.Errorf("alone epsilon is %v, in company %v", learned.EpsilonAlone, learned.Epsilon)
				}
				var sums []learner.Aggregate
				for i, e := range a.Encodings {
					values, err := e.Decode(counts.Releases[i].Ones, people-1, 0)
					if err != nil || !slices.Equal(values, learned.Sums[i].Values) {
						t.Fatalf("the sum of release %d is %v (%v)", i, learned.Sums[i].Values, err)
					}
					sums = append(sums, learner.Aggregate{Kind: step.Statistics[step.Round][i].Kind, Sum: values,
						Variance: learned.Sums[i].Variance, Reports: people - 1})
				}
				if err := l.Absorb(sums); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.Absorb(r.counts(people), ofCounts); !errors.Is(err, deployment.ErrOrder) {
				t.Errorf("counts after the last policy: %v", err)
			}
		})
	}
}

// The rounds of an epoch of the paper have one plan and one cohort, and move the iterate; nothing is known of the epoch
// before its last round.
func TestThePapersRoundsAreOneEpoch(t *testing.T) {
	r := begin(t, configuration(glm.Paper))
	first := *r.announce()
	if len(first.Plan.Rounds) < 2 {
		t.Fatalf("%d rounds", len(first.Plan.Rounds))
	}
	iterate := r.absorb(r.counts(people)).Iterate
	for round := 1; round < len(first.Plan.Rounds); round++ {
		if e := r.estimate(); e.Cohorts != 0 || e.HalfWidth != nil {
			t.Errorf("before round %d: %+v", round, e)
		}
		a := r.announce()
		if a.Epoch != 1 || int(a.Round) != round || !reflect.DeepEqual(a.Plan, first.Plan) ||
			a.Cohort != first.Cohort ||
			len(a.Encodings) != len(first.Plan.Rounds[round].Releases) {
			t.Errorf("round %d is announced as %+v", round, a)
		}
		if slices.Equal(iterate, first.Reference) || !slices.Equal(a.Reference, iterate) {
			t.Errorf("round %d is evaluated at %v, learned was %v", round, a.Reference, iterate)
		}
		iterate = r.absorb(r.counts(people)).Iterate
	}
	if a := r.announce(); a.Epoch != 2 || a.Round != 0 {
		t.Errorf("then comes round %d of epoch %d", a.Round, a.Epoch)
	}
	// A destroyed round takes the whole epoch with it.
	r.absorb(r.counts(people))
	r.announce()
	destroyed := r.counts(3)
	destroyed.Destroyed, destroyed.Releases = true, nil
	r.absorb(destroyed)
	if a := r.announce(); a.Epoch != 3 || a.Round != 0 || a.Policy.Epoch != 1 {
		t.Errorf("after a destroyed round: round %d of epoch %d, learnt from %d cohorts", a.Round, a.Epoch,
			a.Policy.Epoch)
	}
}

// A destroyed cohort leaves the policy, and costs nothing.
func TestADestroyedCohortTeachesNothing(t *testing.T) {
	r := begin(t, configuration(glm.Practical))
	before := r.announce().Policy
	c := r.counts(3)
	c.Destroyed, c.Releases = true, nil
	learned := r.absorb(c)
	if !learned.Destroyed || learned.Sums != nil || learned.Epsilon != 0 || learned.EpsilonAlone != 0 {
		t.Errorf("learned is %+v", learned)
	}
	if a := r.announce(); a.Epoch != 2 || !reflect.DeepEqual(a.Policy, before) || r.estimate().Cohorts != 0 {
		t.Errorf("announced is %+v", a)
	}
}

// What is out of order, of another round, or impossible is refused.
func TestWhatDoesNotFitIsRefused(t *testing.T) {
	r := begin(t, configuration(glm.Practical))
	if _, err := r.Absorb(&wire.Counts{}, ofCounts); !errors.Is(err, deployment.ErrOrder) {
		t.Errorf("counts before an announcement: %v", err)
	}
	r.announce()
	if _, err := r.Next(key, nil); !errors.Is(err, deployment.ErrOrder) {
		t.Errorf("another announcement in an open round: %v", err)
	}
	for name, change := range map[string]func(*wire.Counts){
		"epoch":        func(c *wire.Counts) { c.Epoch++ },
		"round":        func(c *wire.Counts) { c.Round++ },
		"announcement": func(c *wire.Counts) { c.Announcement = make([]byte, 32) },
	} {
		c := r.counts(people)
		change(c)
		if _, err := r.Absorb(c, ofCounts); !errors.Is(err, deployment.ErrOther) {
			t.Errorf("counts of another %s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*wire.Counts){
		"a release too few":    func(c *wire.Counts) { c.Releases = c.Releases[:1] },
		"a coordinate too few": func(c *wire.Counts) { c.Releases[0].Ones = c.Releases[0].Ones[1:] },
		"more ones than bits":  func(c *wire.Counts) { c.Releases[1].Ones[0] = people * plan.MaxReportMessages },
		"more reports than slots": func(c *wire.Counts) {
			c.Reports = people + 1
		},
	} {
		of := begin(t, configuration(glm.Practical))
		of.announce()
		c := of.counts(people)
		change(c)
		if _, err := of.Absorb(c, ofCounts); err == nil || errors.Is(err, deployment.ErrOther) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if learned := r.absorb(r.counts(people)); learned.Epoch != 1 {
		t.Errorf("after what was refused: %+v", learned)
	}
	short := configuration(glm.Practical)
	short.Terms.VarianceRatio, short.Terms.MaxMessages, short.Terms.Epsilon = 1.3, 6, 0.5
	if _, err := deployment.New(short); err == nil {
		t.Error("a configuration without a plan is taken")
	}
}

// With anytime the horizon grows; the paper's profile and the curator's have one horizon.
func TestAnytimeExtendsTheHorizon(t *testing.T) {
	c := configuration(glm.Practical)
	c.Anytime = true
	r := begin(t, c)
	for epoch := 1; epoch <= 4; epoch++ {
		if a := r.announce(); a.Final || int(a.Epoch) != epoch || a.Policy.Epoch != epoch-1 {
			t.Fatalf("epoch %d is announced as %+v", epoch, a)
		}
		r.absorb(r.counts(people))
	}
	if n := len(r.Schedule()); n != 9 {
		t.Errorf("%d cohorts are planned, want 3 and 6", n)
	}
	for _, profile := range []glm.Profile{glm.Paper, glm.Joint} {
		c := configuration(profile)
		c.Anytime = true
		if _, err := deployment.New(c); !errors.Is(err, learner.ErrExtend) {
			t.Errorf("%s: %v", profile, err)
		}
	}
}

// The configuration with its defaults filled in gives the same machine, and stays as it is.
func TestTheResolvedConfigurationIsTheSame(t *testing.T) {
	for _, profile := range []glm.Profile{glm.Practical, glm.Paper, glm.Joint} {
		first := begin(t, configuration(profile))
		again := begin(t, first.Configuration())
		if a, b := first.Configuration(), again.Configuration(); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %+v became %+v", profile, a, b)
		}
		if l := first.Configuration().Learner; l.Family == "" || l.MaxReward == 0 || l.Profile != profile {
			t.Errorf("%s: the defaults are not filled in: %+v", profile, l)
		}
		for range 2 {
			if a, b := first.announce(), again.announce(); !reflect.DeepEqual(a, b) {
				t.Fatalf("%s: announced are\n%+v and\n%+v", profile, a, b)
			}
			a, b := first.absorb(first.counts(people)), again.absorb(again.counts(people))
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("%s: learned are\n%+v and\n%+v", profile, a, b)
			}
		}
	}
}
