package randomizer

import (
	"math"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
)

func host(t *testing.T, seed ...byte) *seal.Identity {
	t.Helper()
	id, err := seal.NewIdentity(append(seed, make([]byte, 32-len(seed))...))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Every number that the credential covers is given once, whatever devices are known, those of versions that numbered
// them in order of arrival among them.
func TestEveryNumberIsGivenOnce(t *testing.T) {
	t.Parallel()
	for covered := range uint32(40) {
		n, seen := newNumbers(host(t, 1), covered), map[uint32]bool{}
		for _, before := range []uint32{3, 3, 0, 17, covered, math.MaxUint32} {
			n.take(before)
			if before < covered {
				seen[before] = true
			}
		}
		for {
			number, ok := n.next(true)
			if !ok {
				break
			}
			if seen[number] || number >= covered {
				t.Fatalf("number %d of %d is given, %d were given before", number, covered, len(seen))
			}
			seen[number] = true
		}
		if len(seen) != int(covered) {
			t.Errorf("%d of %d numbers were given", len(seen), covered)
		}
	}
}

// A host whose state was set back gives a number again that it gave before, so that the shuffler notices.
func TestAStateThatWasSetBackGivesTheSameNumbers(t *testing.T) {
	t.Parallel()
	first, given := newNumbers(host(t, 1), 1<<20), []uint32(nil)
	for range 20 {
		number, _ := first.next(true)
		given = append(given, number)
	}
	restored := newNumbers(host(t, 1), 1<<20)
	for _, number := range given[:12] {
		restored.take(number)
	}
	for _, want := range given[12:] {
		if number, _ := restored.next(true); number != want {
			t.Fatalf("after a restore a device gets the number %d, before it was %d", number, want)
		}
	}
	if slices.IsSorted(given) {
		t.Error("the numbers tell the order of arrival")
	}
}

// So does one whose state was set back after its number was raised: what it gave before stays before what the later
// credential covers besides, which is given once, and in no order of arrival either.
func TestARaisedNumberKeepsTheOrder(t *testing.T) {
	t.Parallel()
	all := func(covered ...uint32) (given []uint32) {
		n := newNumbers(host(t, 1), covered...)
		for number, ok := n.next(true); ok; number, ok = n.next(true) {
			given = append(given, number)
		}
		return given
	}
	before, after := all(50), all(50, 51, 90)
	if !slices.Equal(after[:50], before) {
		t.Errorf("the first numbers are %v, before they were %v", after[:50], before)
	}
	if slices.IsSorted(after[51:]) {
		t.Error("the further numbers tell the order of arrival")
	}
	slices.Sort(after)
	for i, number := range after {
		if number != uint32(i) {
			t.Fatalf("%v are given", after)
		}
	}
	if len(after) != 90 {
		t.Errorf("%d numbers are given", len(after))
	}
}

// The order differs from host to host, and every order is as frequent as any other: with 2000 hosts of 5 numbers the
// chi-square over the 120 orders, 119 degrees of freedom, passes 200 with probability below 1e-5; numbers in order of
// arrival give 238 000.
func TestTheOrderOfNumbersIsTheHosts(t *testing.T) {
	t.Parallel()
	const hosts, orders = 2000, 120
	counts := map[[5]uint32]float64{}
	for i := range hosts {
		n, order := newNumbers(host(t, 1, byte(i), byte(i>>8)), 5), [5]uint32{}
		for i := range order {
			order[i], _ = n.next(true)
		}
		counts[order]++
	}
	chi := float64(orders-len(counts)) * hosts / orders
	for _, c := range counts {
		d := c - float64(hosts)/orders
		chi += d * d * orders / hosts
	}
	if chi > 200 {
		t.Errorf("chi-square %.0f over the orders", chi)
	}
}
