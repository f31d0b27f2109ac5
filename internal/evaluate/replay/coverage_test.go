package replay_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/evaluate"
	"github.com/riffle-dp/riffle/internal/evaluate/replay"
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Sizes of TestIntervalsHoldLiveRuns.
const (
	quickLogs = 24
	longLogs  = 200
	longest   = 10   // rounds of the long test
	liveRuns  = 1500 // that measure the truth
	farthest  = 4    // standard errors of a mean estimate from the truth
)

// setting is a world, and what is replayed of its logs.
type setting struct {
	name     string
	world    world
	rows     int
	channels []plan.Channel
	// quick is what live runs with as many people get, from 1500 of them or more: of each channel and without privacy,
	// while learning and by the last policy. Standard errors are below a tenth of an interval's. Nil: only the long
	// test has the setting.
	quick [][2]float64
	// apart is said of a world in which the runs of a log end far apart, where intervals hold less often.
	apart bool
}

func settings(t *testing.T) []setting {
	central := []plan.Channel{plan.Central}
	ball := func(family string, arms int, norm float64, logged func([][]float64) []float64) world {
		return newWorld(t, family, 3, arms, norm).loggedBy(logged)
	}
	return []setting{
		{"uniform", ball("logistic", 2, 3, uniform), 1000, central,
			[][2]float64{{0.5792, 0.6377}, {0.6193, 0.6508}}, false},
		{"greedy", ball("logistic", 2, 3, greedy), 3000, central,
			[][2]float64{{0.5578, 0.6230}, {0.5942, 0.6492}}, false},
		{"one choice for all", fixed(0.5, 0.1), 1000, central, [][2]float64{{0.5103, 0.5196}, {0.5234, 0.5362}}, true},
		{"rare rewards", rare(), 2000, central, [][2]float64{{0.0555, 0.0576}, {0.0659, 0.0717}}, false},
		{"every channel", ball("logistic", 2, 3, uniform), 1000, plan.Channels(), nil, false},
		{"five arms", ball("logistic", 5, 3, uniform), 2000, central, nil, false},
		{"greedy, five arms", ball("logistic", 5, 3, greedy), 3000, central, nil, false},
		{"by context", ball("logistic", 3, 3, ranked), 3000, central, nil, false},
		{"linear", ball("linear", 2, 0.8, uniform), 1000, central, nil, false},
		{"linear, greedy", ball("linear", 3, 0.8, greedy), 3000, central, nil, false},
		{"rare rewards, greedy", rare().loggedBy(greedy), 4000, central, nil, false},
		{"no generalised linear model", bent(), 1500, central, nil, true},
		{"one choice for all, greedy", fixed(0.5, 0.1).loggedBy(greedy), 3000, central, nil, true},
		{"nothing to learn", fixed(0.5, 0), 1000, central, nil, false},
	}
}

// The intervals of 95 % hold what live runs with as many people get on average, and so do those of the gain over the
// log. Of 24 logs of four settings at least 18 intervals do in each of eight figures (at 95 % fewer do with probability
// 1e-4; at 70 %, as if the part of chance or half of the deviation were left out, with 61 %; seeds are fixed). With
// RIFFLE_LONG=1 the truth is measured in all settings, and of 200 logs at least 90 % must hold it: at 95 % fewer do
// with probability 1e-3, at 85 % with 97 %. Where runs of a log end far apart, 92 % were measured, and 84 % must do.
// Of 1000 logs of the first setting, with the 40 rounds that are the default, 947 to 977 of 994 to 997 held it.
// Where the part of learning is small, intervals hold more than they say (see leastFreedom), the more so the fewer the
// rounds and the noisier the channel, since then its contrasts say less: here up to 199 of 200.
//
// The mean estimate of each figure lies within 4 standard errors of the truth.
func TestIntervalsHoldLiveRuns(t *testing.T) {
	full := os.Getenv("RIFFLE_LONG") != ""
	for _, s := range settings(t) {
		if full || s.quick != nil {
			t.Run(s.name, func(t *testing.T) { s.hold(t, full) })
		}
	}
}

func (s setting) hold(t *testing.T, full bool) {
	w, logs := s.world, quickLogs
	dimension := len(w.draw(rand.NewChaCha8([32]byte{}))[0])
	o := options(dimension)
	o.Learner.Family, o.Channels = w.family, s.channels
	if full {
		logs, o.Rounds = longLogs, longest
	}
	o, err := o.PlannedOnce(w.log(s.rows, rand.NewChaCha8([32]byte{})))
	if err != nil {
		t.Fatal(err)
	}
	results := make([]*replay.Result, logs)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range logs {
		group.Go(func() (err error) {
			log := w.log(s.rows, rand.NewChaCha8(s.luck(1, i)))
			results[i], err = replay.Run(context.Background(), log, o.Seeded(uint64(i)))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	logged, loggedError := w.played()
	for k := range len(s.channels) + 1 {
		trust, name := play.Trust(play.Exact), "without privacy"
		of := func(r *replay.Result) *replay.Outcome { return &r.Clear }
		if k < len(s.channels) {
			trust, name = o.Trust(s.channels[k]), string(s.channels[k])
			of = func(r *replay.Result) *replay.Outcome { return &r.Channels[k] }
		}
		var truth, off [2]float64
		if full {
			truth, off = s.truth(t, o, trust, results[0].People)
		} else {
			truth = s.quick[k]
		}
		var gains, errs [2]float64
		for f := range gains {
			gains[f], errs[f] = truth[f]-logged, math.Hypot(off[f], loggedError)
		}
		for figure, says := range map[string]struct {
			truth, off float64 // and its standard error
			estimate   func(o *replay.Outcome) evaluate.Estimate
		}{
			"while learning": {truth[0], off[0], func(o *replay.Outcome) evaluate.Estimate { return o.Learning }},
			"last":           {truth[1], off[1], func(o *replay.Outcome) evaluate.Estimate { return o.Last }},
			"gain learning":  {gains[0], errs[0], func(o *replay.Outcome) evaluate.Estimate { return o.LearningOver }},
			"gain, last":     {gains[1], errs[1], func(o *replay.Outcome) evaluate.Estimate { return o.LastOver }},
		} {
			held, given, half, values := 0, 0, 0.0, make([]float64, logs)
			for i, r := range results {
				e := says.estimate(of(r))
				values[i] = e.Value
				if v := e.Interval; v != nil {
					given++
					half += (v.High - v.Low) / 2
					if v.Low <= says.truth && says.truth <= v.High {
						held++
					}
				}
			}
			mean, se := play.MeanAndError(values)
			t.Logf("%s, %s: %d of %d intervals of %d logs hold %.4f; the mean estimate is %.4f, deviation %.4f, "+
				"half a width %.4f", name, figure, held, given, logs, says.truth, mean, se*math.Sqrt(float64(logs)),
				half/float64(given))
			least := 0.75
			if full && s.apart {
				least = 0.84
			} else if full {
				least = 0.9
			}
			if given < logs*9/10 || float64(held) < least*float64(given) {
				t.Errorf("%s, %s: %d of %d intervals hold the truth", name, figure, held, given)
			}
			if far := math.Abs(mean-says.truth) / math.Hypot(se, says.off); far > farthest {
				t.Errorf("%s, %s: the mean estimate, %.4f, lies %.2g standard errors from the truth, %.4f", name,
					figure, mean, far, says.truth)
			}
		}
	}
}

// luck is that of a log or a live run. No two settings share it: with the same random words, live runs that happened to
// earn less than on average, in all settings alike, made estimates look too high.
func (s setting) luck(purpose byte, number int) [32]byte {
	key := [32]byte{purpose, byte(number), byte(number >> 8)}
	copy(key[3:], s.name)
	return key
}

// truth is what live runs get on average, while learning and by the last policy, with its standard errors.
func (s setting) truth(t *testing.T, o replay.Options, trust play.Trust, people int) (means, errors [2]float64) {
	c := o.Learner
	c.Horizon, c.Epsilon, c.Delta, c.MinCohort = people, o.Epsilon, o.Delta, plan.DefaultMinCohort
	all := [2][]float64{make([]float64, liveRuns), make([]float64, liveRuns)}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range liveRuns {
		group.Go(func() error {
			all[0][i], all[1][i] = s.world.live(t, c, trust, s.luck(9, i))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	said := fmt.Sprintf("live runs of %d people:", people)
	for f := range all {
		means[f], errors[f] = play.MeanAndError(all[f])
		said += fmt.Sprintf(" %.4f, standard error %.4f;", means[f], errors[f])
	}
	t.Log(said)
	return means, errors
}
