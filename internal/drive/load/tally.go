package load

import (
	"cmp"
	"slices"
	"sync"

	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/client"
)

// Refusal is how often something was refused for a reason.
type Refusal struct {
	Item     string `json:"item"`   // what was asked: decision, reward, or how it misbehaved
	Reason   string `json:"reason"` // as the role spells it
	Count    int    `json:"count"`
	Provoked bool   `json:"provoked"` // it was asked for, and this is the right reason
}

// tally counts what people saw.
type tally struct {
	mu sync.Mutex

	decided, sampled, drop, rewards int
	attempts, repeats               int
	unsampled                       map[string]int // by reason
	refusals                        map[Refusal]int
	anomalies                       map[string]int
	kind                            int // of the next malformed request

	regret, uniform float64
}

func newTally() *tally {
	return &tally{unsampled: map[string]int{}, refusals: map[Refusal]int{}, anomalies: map[string]int{}}
}

func (t *tally) calls(c client.Calls) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.attempts += c.Attempts
	t.repeats += max(0, c.Attempts-1)
}

// countPlay scores a decision.
func (t *tally) countPlay(p population.Person, d *client.Decision) error {
	value, err := p.Value(d.Arm)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.decided++
	t.regret += p.Best() - value
	t.uniform += p.Best() - p.Uniform()
	if d.Sampled {
		t.sampled++
	} else {
		t.unsampled[string(d.Reason)]++
	}
	return nil
}

func (t *tally) countReward() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rewards++
}

func (t *tally) countDropOut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop++
}

// refusal counts an error; right says that it was asked for and is what should come.
func (t *tally) refusal(item string, err error, right bool) { t.count(item, reasonOf(err), right) }

// countProvoked counts an answer that was asked for.
func (t *tally) countProvoked(item, reason string) { t.count(item, reason, true) }

func (t *tally) count(item, reason string, right bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusals[Refusal{Item: item, Reason: reason, Provoked: right}]++
}

// anomaly counts what must never happen.
func (t *tally) anomaly(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.anomalies[what]++
}

// next numbers malformed requests.
func (t *tally) next() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kind++
	return t.kind - 1
}

// list sorts the refusals.
func (t *tally) list() []Refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Refusal, 0, len(t.refusals))
	for r, n := range t.refusals {
		r.Count = n
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Item, b.Item), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
