package world

import (
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/panel"
)

// Panels last: with real draws there are always as many people to draw from as a panel has, in 40 seeds of each plan,
// and the size is at least four fifths of what it could be if nobody were left over.
func TestPanelsLast(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	for _, of := range [][2]int{{1, 8}, {4, 8}, {4, 59}, {12, 59}, {1, 2}, {7, 8}} {
		const people = 3000
		records, epochs := of[0], of[1]
		size, _ := panelSize(people, records, epochs)
		if most := people * records / epochs; size > most || size < most*4/5 {
			t.Errorf("%v: panels of %d, and %d would use everybody up", of, size, most)
		}
		for seed := range byte(5) {
			served := make([]int, people)
			for e := range epochs {
				var pool []panel.Device
				for i, n := range served {
					if n < records {
						pool = append(pool, panel.Device{Number: uint32(i)})
					}
				}
				if len(pool) < size {
					t.Fatalf("%v: %d people to draw %d from in epoch %d", of, len(pool), size, e)
				}
				for _, d := range (panel.Seed{seed, byte(e)}).Panel(pool, size) {
					served[d.Number]++
				}
			}
		}
	}
	if size, pool := panelSize(3000, 8, 8); size != 3000 || pool != 3000 {
		t.Errorf("everybody can be in every panel: %d of %d", size, pool)
	}
}

func TestPeoplePersistAndDiffer(t *testing.T) {
	w, err := World{People: 500, Days: 22, Arms: 5, Dimension: 3, Change: &Change{Kind: Arms}}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPeople(w, 5)
	if err != nil {
		t.Fatal(err)
	}
	count, first := 0, map[int][]float64{}
	var own, others, pairs float64
	for day := range w.Days {
		for _, o := range p.Day(day) {
			count++
			if want := 4; len(o.Arms) != want || len(o.Means) != want {
				t.Fatalf("day %d: %d arms, want %d", day, len(o.Arms), want)
			}
			for _, x := range o.Arms {
				if n := math.Sqrt(x[0]*x[0] + x[1]*x[1] + x[2]*x[2]); n > 1+1e-12 {
					t.Fatalf("an arm of norm %v", n)
				}
			}
			x := o.Arms[0] // the default arm stays
			if before, ok := first[o.Person]; ok {
				own += distance(x, before)
				if other, ok := first[(o.Person+1)%w.People]; ok {
					others, pairs = others+distance(x, other), pairs+1
				}
			} else {
				first[o.Person] = x
			}
		}
	}
	if mean := float64(count) / float64(w.People*w.Days); math.Abs(mean-1) > 0.1 {
		t.Errorf("%v decisions a person and day", mean)
	}
	if own/float64(count-len(first)) > 0.8*others/pairs {
		t.Errorf("a person's arm is %v from their own and %v from another's", own/float64(count-len(first)),
			others/pairs)
	}
}

func distance(x, y []float64) (sum float64) {
	for j := range x {
		sum += (x[j] - y[j]) * (x[j] - y[j])
	}
	return sum
}
