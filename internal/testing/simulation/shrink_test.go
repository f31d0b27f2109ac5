package simulation

import (
	"slices"
	"testing"
)

// Of a list that fails because of two of its operations these are left, with the smallest numbers that fail.
func TestShrinkLeavesWhatFails(t *testing.T) {
	l := Generate(7)
	l.Ops = append(l.Ops, Operation{Do: Jump, Who: "shuffler", Ms: 5000}, Operation{Do: Wait, Ms: 100},
		Operation{Do: PowerLoss, N: 9})
	fails := func(l List) bool {
		jump := slices.IndexFunc(l.Ops, func(o Operation) bool { return o.Do == Jump && o.Ms >= 1000 })
		loss := slices.IndexFunc(l.Ops, func(o Operation) bool { return o.Do == PowerLoss && o.N >= 2 })
		return jump >= 0 && loss > jump
	}
	small := Shrink(l, 1000, fails)
	if len(small.Ops) != 2 || small.Ops[0].Ms >= 2000 || small.Ops[1].N >= 4 || !fails(small) {
		t.Errorf("%s", small)
	}
	if none := Shrink(l, 0, fails); len(none.Ops) != len(l.Ops) {
		t.Errorf("without runs: %s", none)
	}
}
