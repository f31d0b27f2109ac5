package glm

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/convex"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Decision is the arm that a device plays and what the device must remember of it. It stays on the device.
type Decision struct {
	Arm        int     // index into the arms given
	Weight     float64 // s(x)^2 of the arm played, equation (10); 1 while the policy has no scaling
	Propensity float64 // probability with which the policy plays this arm in this arm set
	Survivors  int     // arms left after elimination
	Shortened  int     // arms that had norm above 1 and were scaled down to the unit ball
	Control    bool    // a coin put the decision into the control group, which gets the default arm
	Explored   bool    // Criterion I of Algorithm 2 picked the arm; only with PlayOptimistic
}

// Decide is DecideFor without exclusions, with the first arm as the default.
func (p *Policy) Decide(arms [][]float64, src protocol.Source) (Decision, error) {
	return p.DecideFor(arms, Choice{}, src)
}

// DecideFor plays one round of Algorithm 1 (lines 3 and 11-21 of Riffle's seed paper): eliminate with every stage in
// order, scale the survivors, draw from their G-optimal design or take the greedy arm (with Explore, one of the two by
// chance). Before that, a coin gives the share Control of decisions the default arm. It is a pure function of the
// policy, the arms, the choice and the random words. Arms longer than 1 are scaled down to the unit ball; arms of the
// wrong dimension or with coordinates that are not finite are refused (ErrBadArm), and so are a choice that names an
// arm that is not there (ErrBadArm), an empty arm set and one of which all are excluded (ErrNoArms), and a malformed
// policy (ErrPolicy). A device that gets an error reports the null record.
func (p *Policy) DecideFor(arms [][]float64, choice Choice, src protocol.Source) (Decision, error) {
	draft, err := p.Draft(arms, choice)
	if err != nil {
		return Decision{}, err
	}
	return draft.Decide(src), nil
}

// Draft is a decision before chance: all that DecideFor computes without random words. It is for whoever decides for
// many people at once, in any order, and must draw for them in theirs. It keeps the arms and must not outlive a change
// of them or of the policy.
type Draft struct {
	policy  *Policy
	family  Family // nil: records have weight 1
	offer   offer
	lottery lottery
	choice  Choice
}

// Draft does what DecideFor does before it draws. Its errors are those of DecideFor.
func (p *Policy) Draft(arms [][]float64, choice Choice) (Draft, error) {
	d := Draft{policy: p, choice: choice}
	var err error
	if d.offer, err = p.offer(arms, choice); err != nil {
		return Draft{}, err
	}
	// Those in the control group need it too, for their propensity.
	if d.lottery, err = p.lottery(d.offer, choice.Unrecorded); err != nil {
		return Draft{}, err
	}
	if p.Scaling != nil && p.Play != PlayOptimistic {
		if d.family, err = NewFamily(p.Family, p.MaxReward); err != nil {
			return Draft{}, fmt.Errorf("%w: %w", ErrPolicy, err)
		}
	}
	return d, nil
}

// Decide draws: whether the person is in the control group, if there is one, and then the arm.
func (d Draft) Decide(src protocol.Source) Decision {
	p, o, l := d.policy, d.offer, d.lottery
	coin := p.Control > 0 && !d.choice.Unrecorded && protocol.Uniform(src) < p.Control
	pick := o.fallback
	if !coin {
		pick = l.draw(src)
	}
	decision := Decision{Arm: o.index(pick), Weight: 1, Propensity: p.total(l, o, pick, d.choice),
		Survivors: l.survivors, Shortened: o.shortened, Control: coin, Explored: l.explored && !coin}
	if d.family != nil {
		decision.Weight = p.Scaling.Weight(d.family, o.arms[pick])
	}
	return decision
}

// greedy is the position of the survivor with the largest estimated reward, the first of equals.
func (p *Policy) greedy(arms [][]float64, survivors []int) int {
	pick, best := 0, math.Inf(-1)
	for i, a := range survivors {
		if z := convex.Dot(arms[a], p.Theta); z > best {
			best, pick = z, i
		}
	}
	return pick
}

// design is the G-optimal design of the scaled survivors.
func (p *Policy) design(arms [][]float64, survivors []int) ([]float64, error) {
	if len(survivors) == 1 {
		return []float64{1}, nil
	}
	var family Family
	if p.Scaling != nil {
		f, err := NewFamily(p.Family, p.MaxReward)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPolicy, err)
		}
		family = f
	}
	scaled := make([][]float64, len(survivors))
	backing := make([]float64, len(survivors)*p.Dimension)
	for i, a := range survivors {
		row := backing[i*p.Dimension : (i+1)*p.Dimension]
		s := 1.0
		if p.Scaling != nil {
			s = math.Sqrt(p.Scaling.Weight(family, arms[a]))
		}
		for j, v := range arms[a] {
			row[j] = s * v
		}
		scaled[i] = row
	}
	weights, _, err := Design(scaled, DesignOptions{Tolerance: p.DesignTolerance})
	return weights, err
}

// Weight is s(x)^2 of equation (10): at most mu'(x.theta) and at most MaxWeight, for every x in the unit ball, never
// negative. x must have the scaling's dimension.
func (s *Scaling) Weight(family Family, x []float64) float64 {
	exponent := s.SelfConcordance * math.Min(s.Diameter, s.HalfWidth(x))
	return math.Min(s.MaxWeight, family.Variance(convex.Dot(x, s.Theta))*math.Exp(-exponent))
}

// Eliminate returns the indices of the arms that survive all stages, in the order given. A stage keeps the arms whose
// upper confidence bound reaches the largest lower bound among the remaining arms (Algorithm 1, lines 12-17) or, with
// Pairwise, the arms that the greedy one does not beat with confidence. The result is never empty. The arms must
// already lie in the unit ball.
func (p *Policy) Eliminate(arms [][]float64) ([]int, error) {
	survivors := make([]int, len(arms))
	for i := range survivors {
		survivors[i] = i
	}
	var upper, widths []float64
	var vectors [][]float64
	if len(p.Stages) > 0 && !p.Pairwise {
		scratch := make([]float64, 2*len(arms))
		upper, widths, vectors = scratch[:len(arms)], scratch[len(arms):], make([][]float64, 0, len(arms))
	}
	for j, stage := range p.Stages {
		if len(stage.Theta) != p.Dimension || len(stage.Covariance) != TriangleDim(p.Dimension) {
			return nil, fmt.Errorf("%w: stage %d has the wrong size", ErrPolicy, j)
		}
		if len(survivors) == 1 {
			break
		}
		if p.Pairwise {
			survivors = stage.undominated(arms, survivors)
			continue
		}
		vectors = vectors[:0]
		for _, a := range survivors {
			vectors = append(vectors, arms[a])
		}
		stage.halfWidths(widths, vectors)
		best := math.Inf(-1)
		for i, a := range survivors {
			middle, half := convex.Dot(arms[a], stage.Theta), widths[i]
			upper[i] = middle + half
			best = math.Max(best, middle-half)
		}
		if math.IsNaN(best) {
			return nil, fmt.Errorf("%w: stage %d has bounds that are not numbers", ErrPolicy, j)
		}
		kept := survivors[:0]
		for i, a := range survivors {
			if upper[i] >= best {
				kept = append(kept, a)
			}
		}
		survivors = kept
	}
	return survivors, nil
}

// undominated keeps the arms that the stage's greedy arm does not beat with confidence: those with
// (best - x).Theta <= HalfWidth(best - x). While the confidence set holds theta*, the best arm is kept.
func (s Stage) undominated(arms [][]float64, survivors []int) []int {
	const atOnce = 4
	d, n := len(s.Theta), len(survivors)
	scratch := make([]float64, n+atOnce*(d+1))
	values, widths := scratch[:n], scratch[n:n+atOnce]
	var differences [atOnce][]float64
	for i := range differences {
		differences[i] = scratch[n+atOnce+i*d : n+atOnce+(i+1)*d]
	}
	best, value := survivors[0], math.Inf(-1)
	for i, a := range survivors {
		values[i] = convex.Dot(arms[a], s.Theta)
		if values[i] > value {
			best, value = a, values[i]
		}
	}
	kept := survivors[:0]
	for start := 0; start < n; start += atOnce {
		now := survivors[start:min(start+atOnce, n)]
		for i, a := range now {
			for j, v := range arms[best] {
				differences[i][j] = v - arms[a][j]
			}
		}
		s.halfWidths(widths, differences[:len(now)])
		for i, a := range now {
			if a == best || value-values[start+i] <= widths[i] {
				kept = append(kept, a)
			}
		}
	}
	return kept
}

// admit checks the arms and returns them inside the unit ball, with the number of those that it scaled down. Only these
// are copied.
func (p *Policy) admit(arms [][]float64) ([][]float64, int, error) {
	if err := checkArms(arms); err != nil {
		return nil, 0, err
	}
	if len(arms[0]) != p.Dimension || len(p.Theta) != p.Dimension {
		return nil, 0, fmt.Errorf("%w: the arms have dimension %d, the policy %d and its theta %d",
			ErrBadArm, len(arms[0]), p.Dimension, len(p.Theta))
	}
	if s := p.Scaling; s != nil && (len(s.Theta) != p.Dimension || len(s.Covariance) != TriangleDim(p.Dimension)) {
		return nil, 0, fmt.Errorf("%w: the scaling has the wrong size", ErrPolicy)
	}
	shortened := 0
	admitted := arms
	for i, x := range arms {
		unit, short := convex.ToUnitBall(x)
		if !short {
			continue
		}
		if shortened == 0 {
			admitted = append([][]float64(nil), arms...)
		}
		admitted[i] = unit
		shortened++
	}
	return admitted, shortened, nil
}
