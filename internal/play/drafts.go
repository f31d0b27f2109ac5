package play

import (
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/pkg/glm"
)

// Preparer is an algorithm that can do the costly part of several people's decisions at once. Play calls Prepare with
// the arm sets of the people who come next, whenever none of them is prepared any more; then Choose gets the same arm
// sets one by one, with Learn between them. How much was prepared, and on how many processors, changes no decision.
type Preparer interface {
	Algorithm
	// Prepare may do less than it is asked, or nothing. An error of a person's is for Choose to return.
	Prepare(sets [][][]float64)
	// Prepared is for how many people Choose needs no preparation.
	Prepared() int
}

// drafts are those of people who come next, in their order. Chance is left to Choose, which takes the random words of
// one person after the other from one source, so that results do not depend on the processors.
type drafts struct {
	next []draft
}

type draft struct {
	glm.Draft
	err error
}

// perProcessor is the fewest people that are worth another goroutine.
const perProcessor = 4

// prepare drafts the decisions of people with these arm sets, on all processors.
func (d *drafts) prepare(policy *glm.Policy, sets [][][]float64) {
	d.next = make([]draft, len(sets))
	parts := max(1, min(runtime.GOMAXPROCS(0), len(sets)/perProcessor))
	var group errgroup.Group
	for part := range parts {
		low, high := part*len(sets)/parts, (part+1)*len(sets)/parts
		group.Go(func() error {
			for i := low; i < high; i++ {
				d.next[i].Draft, d.next[i].err = policy.Draft(sets[i], glm.Choice{})
			}
			return nil
		})
	}
	group.Wait() // no part fails: an error belongs to its person
}

// take is the next draft, or a new one if none was prepared.
func (d *drafts) take(policy *glm.Policy, arms [][]float64) (glm.Draft, error) {
	if len(d.next) == 0 {
		return policy.Draft(arms, glm.Choice{})
	}
	first := d.next[0]
	d.next[0] = draft{}
	d.next = d.next[1:]
	return first.Draft, first.err
}

// prepared is how many people have a draft.
func (d *drafts) prepared() int { return len(d.next) }

// clear forgets the drafts of a policy that is no longer in force.
func (d *drafts) clear() { d.next = nil }
