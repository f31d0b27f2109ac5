package panel_test

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// follows compares how often more than k colluders were in a panel with the accountant's tails: within 6.2 standard
// deviations wherever 100 draws or more are expected, so that a false alarm has a probability below 1e-8 at each k.
func follows(t *testing.T, counts []int, draws, registered, colluders, size int) {
	t.Helper()
	above := draws
	for k, n := range counts {
		above -= n
		p := privacy.PanelTail(registered, colluders, size, k)
		want := p * float64(draws)
		if want < 100 {
			break
		}
		if z := (float64(above) - want) / math.Sqrt(want*(1-p)); math.Abs(z) > 6.2 {
			t.Errorf("more than %d colluders in %d of %d panels, the accountant says %.1f", k, above, draws, want)
		}
	}
}

// Colluders who own 1 % of the registered devices get at most the stated number of any panel in a million draws. With a
// tail of 1e-9 that fails by chance with a probability of at most 1e-3, and did not for these seeds. If they had 4 % it
// would fail surely: more than a hundred of the draws would have more.
func TestColludersGetNoMoreThanIsStated(t *testing.T) {
	const draws, registered, colluders, size = 1_000_000, 3000, 30, 200
	most := privacy.PanelDishonest(float64(colluders)/registered, size, 1e-9)
	if more := draws * privacy.PanelTail(registered, 4*colluders, size, most); more < 100 {
		t.Fatalf("4 %% of colluders would be noticed in %v draws only", more)
	}
	r := rand.New(rand.NewPCG(2026, 11))
	counts, largest := make([]int, size+1), 0
	for range draws {
		in := 0
		for i := range colluders { // a colluder is in one of the places that are left, whichever devices the others are
			if r.IntN(registered-i) < size-in {
				in++
			}
		}
		counts[in]++
		largest = max(largest, in)
	}
	if largest > most {
		t.Errorf("%d colluders in one panel, at most %d are stated", largest, most)
	}
	follows(t, counts, draws, registered, colluders, size)
	t.Logf("at most %d of %d, stated are %d", largest, size, most)
}

// The draws that devices and auditors compute follow the same law, wherever in the list the colluders are and
// whatever they are called.
func TestDrawnPanelsFollowTheTail(t *testing.T) {
	const draws, registered, colluders, size = 3000, 500, 40, 60
	all := devices(registered)
	for i := range colluders { // one host's devices, with the first numbers
		all[i] = panel.Device{Number: uint32(i)}
	}
	counts := make([]int, size+1)
	for i := range draws {
		pool := sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(i)))
		in := 0
		for _, d := range panel.NewSeed(pool, make([]byte, panel.ContributionSize)).Panel(all, size) {
			if d.Host == [32]byte{} && d.Number < colluders {
				in++
			}
		}
		counts[in]++
	}
	follows(t, counts, draws, registered, colluders, size)
}

// Who comes first has no part in a draw: a host that registers a thousand devices before anybody else gets its share of
// the panel. Where devices enrol as they arrive the same host would have all of it.
func TestWhoComesFirstDoesNotFillAPanel(t *testing.T) {
	const size, first, others = 200, 1000, 3000
	pool := make([]panel.Device, 0, first+others)
	for i := range first {
		pool = append(pool, panel.Device{Host: [32]byte{1}, Number: uint32(i)})
	}
	for i := range others {
		pool = append(pool, panel.Device{Host: [32]byte{2, byte(i), byte(i >> 8)}, Number: 0})
	}
	most := privacy.PanelDishonest(first/float64(first+others), size, 1e-9)
	for i := range 50 {
		in := 0
		for _, d := range (panel.Seed{byte(i), 7}).Panel(pool, size) {
			if d.Host == [32]byte{1} {
				in++
			}
		}
		if in > most {
			t.Errorf("the first host has %d of %d places, at most %d are stated", in, size, most)
		}
	}
	if most >= size/2 {
		t.Errorf("%d of %d may be the first host's", most, size)
	}
}
