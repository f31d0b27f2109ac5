package device

import (
	"slices"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Noise is of one report: other vectors, another announcement, another promise, and a first deposit have other words,
// and the same report has the same.
func TestNoiseIsOfOneReport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, _ := f.device(glm.Practical)
	f.enrol(d)
	v := [][]float64{{0.5, 0}, {1}}
	word := d.noise(false)(v).Uint64()
	if again := f.restart(d).noise(false)(v).Uint64(); again != word {
		t.Error("the same report has other noise after a restart")
	}
	seen := map[uint64]string{word: "the report"}
	other, promise := *d, f.opened(f.config())
	last := *d.last
	last.Digest[0]++
	other.last = &last
	must(promise.Follow(f.announce(d.last.Announcement), start))
	f.enrol(promise)
	for name, of := range map[string]protocol.Source{
		"other numbers":        d.noise(false)([][]float64{{0.5, 1e-300}, {1}}),
		"divided otherwise":    d.noise(false)([][]float64{{0.5}, {0, 1}}),
		"a first deposit":      d.noise(true)(v),
		"another announcement": other.noise(false)(v),
		"another promise":      promise.noise(false)(v),
	} {
		w := of.Uint64()
		if was := seen[w]; was != "" {
			t.Errorf("%s has the noise of %s", name, was)
		}
		seen[w] = name
	}
	const n = 1 << 12 // words do not repeat in a stream: a false alarm has a probability below 1e-12
	stream, all := d.noise(false)(v), map[uint64]bool{}
	for range n {
		all[stream.Uint64()] = true
	}
	if len(all) != n {
		t.Errorf("%d words repeat", n-len(all))
	}
}

// What else is reported of the null record has not the noise of the first deposit: who sees both must not see that they
// are of one record. Neither has a report that an older copy makes by itself, nor a second deposit of an arm that does
// not fit.
func TestTheFirstDepositHasNoiseOfItsOwn(t *testing.T) {
	t.Parallel()
	f, same := newFixture(t), map[string]int{}
	for range 2 {
		d, a := f.enrolled(plan.Local)
		alone := f.restart(d)
		first := f.ones(must(d.Deposit(start)), a)
		d.Deposited()
		must(d.Reward(must(d.Decide(played, source(1))).Handle, 1, start))
		d.record.open().records[0].Arm = []float64{1}
		for name, report := range map[string][]byte{
			"a report":         must(alone.Report(start.Add(time.Minute))),
			"a second deposit": must(d.Deposit(start)),
		} {
			if slices.Equal(f.ones(report, a), first) {
				same[name]++
			}
		}
	}
	for name, n := range same {
		if n == 2 { // by chance with a probability below 1e-6: five entries with a deviation of some 3 each
			t.Errorf("%s of the null record is the first deposit again", name)
		}
	}
}
