package life

import "github.com/riffle-dp/riffle/pkg/glm"

// Family is the reward family of every world.
const Family = glm.FamilyLogistic

// Schedule is how panels of a mode go on in a world.
type Schedule struct {
	Window  int // days of an epoch
	Epochs  int // that are over before the last day begins
	Records int // reports of a person, at most one in an epoch
	Panel   int // people of a cohort
	Pool    int // fewest people to draw from
}

// Schedule is that of a mode of panels. The world is resolved. Errors wrap ErrLife.
func (m Mode) Schedule(w World) (Schedule, error) {
	s, err := m.schedule(w)
	return Schedule{Window: s.window, Epochs: s.epochs, Records: s.records, Panel: s.panel, Pool: s.pool}, err
}

// People are the people of a world, for those who bring them to a real deployment.
type People struct{ all *people }

// NewPeople makes the people of a resolved world from a seed.
func NewPeople(w World, seed uint64) (*People, error) {
	all, err := newPeople(w, seed)
	return &People{all}, err
}

// Occasion is one decision to make. Arm 0 is the default arm.
type Occasion struct {
	Person int
	Arms   [][]float64
	Means  []float64 // expected reward of each arm
	once   occasion
}

// Reward is what the person gets from an arm: 0 or 1.
func (o Occasion) Reward(arm int) float64 { return o.once.reward(arm) }

// Day are the occasions of a day from 0, in a random order.
func (p *People) Day(day int) []Occasion {
	occasions := p.all.day(day)
	out := make([]Occasion, len(occasions))
	for i, o := range occasions {
		out[i] = Occasion{Person: o.person, Arms: o.arms, Means: o.means, once: o}
	}
	return out
}
