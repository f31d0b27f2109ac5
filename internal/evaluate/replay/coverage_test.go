package replay_test

import (
	"context"
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
	longLogs  = 1000
	liveRuns  = 4000 // that measure the truth
)

// quickTruth is what live runs of 280 people of the test's world get, from 4000 of them: in central and without
// privacy, while learning and by the last policy. Standard errors are below .0006.
var quickTruth = [2][2]float64{{0.5792, 0.6386}, {0.6191, 0.6506}}

// The intervals of 95 % hold what live runs with as many people get on average. Of 24 logs at least 19 do in each of
// four figures (at 95 % fewer do with probability 1e-3, at 70 %, as if the part of chance or half of the deviation were
// left out, with 80 %; seeds are fixed). With RIFFLE_LONG=1 the truth is measured, and of 1000 logs, those that
// get an interval, 93 to 97 % must hold it.
func TestIntervalsHoldLiveRuns(t *testing.T) {
	const dimension, rows = 3, 1000
	w, o, logs := newWorld(t, dimension, 2, 3, 0), options(dimension), quickLogs
	full := os.Getenv("RIFFLE_LONG") != ""
	if full {
		logs, o.Rounds = longLogs, 10
	}
	o, err := o.PlannedOnce(w.log(rows, rand.NewChaCha8([32]byte{})))
	if err != nil {
		t.Fatal(err)
	}
	results := make([]*replay.Result, logs)
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range logs {
		group.Go(func() (err error) {
			log := w.log(rows, rand.NewChaCha8([32]byte{1, byte(i), byte(i >> 8)}))
			results[i], err = replay.Run(context.Background(), log, o.Seeded(uint64(i)))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	truth := quickTruth
	if full {
		truth = w.truth(t, o, results[0].People)
	}
	for k, name := range []string{"central", "without privacy"} {
		for f, figure := range []string{"while learning", "the last policy"} {
			held, given, mean := 0, 0, 0.0
			for _, r := range results {
				e := [2][2]evaluate.Estimate{{r.Channels[0].Learning, r.Channels[0].Last},
					{r.Clear.Learning, r.Clear.Last}}[k][f]
				mean += e.Value / float64(logs)
				if i := e.Interval; i != nil {
					given++
					if i.Low <= truth[k][f] && truth[k][f] <= i.High {
						held++
					}
				}
			}
			t.Logf("%s, %s: %d of %d intervals of %d logs hold %.4f; the mean estimate is %.4f", name, figure, held,
				given, logs, truth[k][f], mean)
			per := float64(held) / float64(given)
			if full && (per < 0.93 || per > 0.97) || !full && (given < 22 || held < given-5) {
				t.Errorf("%s, %s: %d of %d intervals hold the truth", name, figure, held, given)
			}
		}
	}
}

// truth is what live runs get on average: in central and without privacy, while learning and by the last policy.
func (w world) truth(t *testing.T, o replay.Options, people int) (means [2][2]float64) {
	c := o.Learner
	c.Horizon, c.Epsilon, c.Delta, c.MinCohort = people, o.Epsilon, o.Delta, plan.DefaultMinCohort
	for k, trust := range []play.Trust{o.Trust(plan.Central), play.Exact} {
		all := [2][]float64{make([]float64, liveRuns), make([]float64, liveRuns)}
		var group errgroup.Group
		group.SetLimit(runtime.GOMAXPROCS(0))
		for i := range liveRuns {
			group.Go(func() error {
				all[0][i], all[1][i] = w.live(t, c, trust, i)
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		for f := range all {
			var se float64
			means[k][f], se = play.MeanAndError(all[f])
			t.Logf("live runs of %d people: %.4f, standard error %.4f", people, means[k][f], se)
		}
	}
	return means
}
