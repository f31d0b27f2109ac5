package uniform

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/mathext"
)

// needed is the power for which Power says how many releases it takes, and confident the confidence of its bounds.
const (
	needed    = 0.99
	confident = 0.99
)

// PowerOptions say what is simulated.
type PowerOptions struct {
	FalseAlarm float64 // of the verdict; 0: FalseAlarm
	Shapes     []Shape // of the releases that are judged, in turn
	Releases   int     // that are judged
	Most       int     // releases of a simulated run, at most; at least Releases is taken
	Runs       int     // of each fault, at most
	Items      int     // of a run, at most
	Total      int     // of the runs of a fault, behind which no further one begins; 0: four times Items
	Seed       [32]byte
	Faults     []Fault             // nil: all
	Progress   func(done, all int) // may be nil; called from several goroutines
}

// Power is how a fault would be found.
type Power struct {
	// Power is the share of simulated runs in which the releases that were judged would have been enough, and AtLeast
	// what the power is above with confidence 99 % (Clopper and Pearson).
	Power   float64 `json:"power"`
	AtLeast float64 `json:"at_least"`
	Runs    int     `json:"runs"` // that were simulated
	// Needed is how many releases give power 0.99: the largest number that a run took, or the mean and 2.33 deviations
	// if that is more. 0: more than Simulated.
	Needed    int `json:"releases_for_0.99,omitempty"`
	Simulated int `json:"releases_simulated"` // of a run, at most
	// Releases that were judged, of the sample of that name.
	Releases int    `json:"releases"`
	Sample   string `json:"sample,omitempty"`
}

// Simulate finds how likely each fault is to be found, by planting it. It stops a run when it has rejected. The error
// is the context's.
func Simulate(ctx context.Context, o PowerOptions) (map[Fault]Power, error) {
	if len(o.Shapes) == 0 || o.Releases < 1 || o.Runs < 1 {
		return map[Fault]Power{}, nil
	}
	faults := o.Faults
	if faults == nil {
		faults = Faults()
	}
	all := make([]Power, len(faults))
	done := make(chan struct{}, len(faults))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range faults {
		g.Go(func() (err error) {
			all[i], err = o.simulate(ctx, f)
			done <- struct{}{}
			if o.Progress != nil {
				o.Progress(len(done), len(faults))
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := map[Fault]Power{}
	for i, f := range faults {
		out[f] = all[i]
	}
	return out, nil
}

// simulate is Simulate for one fault.
func (o *PowerOptions) simulate(ctx context.Context, f Fault) (Power, error) {
	p := Power{Simulated: max(o.Most, o.Releases), Releases: o.Releases}
	within, items, longest, found := 0, 0, 0, 0
	sum, squares := 0.0, 0.0
	for run := range o.Runs {
		if items > cmp.Or(o.Total, runsOfItems*o.Items) {
			break
		}
		took, used, rejects, err := o.run(ctx, f, run, p.Simulated)
		if err != nil {
			return p, err
		}
		items += used
		p.Runs++
		if !rejects {
			p.Simulated = took
			continue
		}
		found++
		longest = max(longest, took)
		sum, squares = sum+float64(took), squares+float64(took)*float64(took)
		if took <= o.Releases {
			within++
		}
	}
	n := float64(p.Runs)
	p.Power, p.AtLeast = float64(within)/n, atLeast(within, p.Runs)
	if found == p.Runs {
		mean := sum / n
		deviation := math.Sqrt(max(0, squares/n-mean*mean))
		p.Needed = max(longest, int(math.Ceil(mean+quantile*deviation)))
	}
	return p, nil
}

// runsOfItems is how many of the longest runs are simulated of a fault that is not found, unless the options say more.
const runsOfItems = 4

// run judges a shuffler with the fault until it is rejected, or enough was simulated.
func (o *PowerOptions) run(ctx context.Context, f Fault, number, most int) (took, items int, rejects bool, err error) {
	seed := o.Seed
	binary.LittleEndian.PutUint64(seed[:], binary.LittleEndian.Uint64(seed[:])+uint64(number)+1)
	planted, err := Plant(f, rand.NewChaCha8(seed))
	if err != nil {
		return 0, 0, false, err
	}
	j := New(o.FalseAlarm)
	for j.Releases() < most && (j.Items() < o.Items || j.Releases() == 0) && !j.Rejects() {
		if err := j.Add(planted.Shuffle(o.Shapes[j.Releases()%len(o.Shapes)])); err != nil {
			return 0, 0, false, fmt.Errorf("the fault %s: %w", f, err)
		}
		if ctx.Err() != nil {
			return 0, 0, false, context.Cause(ctx)
		}
	}
	j.look()
	return j.Releases(), j.Items(), j.Rejects(), nil
}

// quantile is that of the normal law at the power needed.
const quantile = 2.33

// atLeast is the Clopper-Pearson bound below the probability of what happened k times in n.
func atLeast(k, n int) float64 {
	if k == 0 {
		return 0
	}
	lo, hi := 0.0, 1.0
	for hi-lo > 1e-9 {
		if mid := (lo + hi) / 2; mathext.RegIncBeta(float64(k), float64(n-k)+1, mid) < 1-confident {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}
