package bandit

import (
	"math"

	"github.com/riffle-dp/riffle/pkg/learn"
)

// AnytimeOnlineLinUCB is Algorithm 9 of "Improved rate for locally differentially private linear bandits": Algorithm 1
// is started anew at the persons 1, 2, 4, 8, ..., each time with the threshold and the noise Delta^2 = (2^m)^(-k), and
// forgets all before. It does not use the horizon. Within a run of 2^m people everything is as in OnlineLinUCB, the
// privacy, too: each person's report is used once.
//
// Options: those of OnlineLinUCB but lambda_min and threshold; power (k, default 1/4, as alone; the combiner has 1/8).
func AnytimeOnlineLinUCB(s learn.Setting) (*learn.Learner, error) {
	p, err := newOnlineParameters(s, "power")
	if err != nil {
		return nil, err
	}
	base, err := p.anytime(s.Option("power", 0.25))
	if err != nil {
		return nil, err
	}
	return p.start(base)
}

// doubling is a base that starts anew whenever its age has doubled.
type doubling struct {
	*onlineParameters
	power float64
	round int // m
	left  int // people of the round
	run   *onlineLinUCB
}

func (p *onlineParameters) anytime(power float64) (*doubling, error) {
	d := &doubling{onlineParameters: p, power: power, round: -1}
	return d, d.restart()
}

// restart begins the next round.
func (d *doubling) restart() (err error) {
	d.round++
	d.left = 1 << d.round
	d.run, err = d.base(d.left, math.Pow(float64(d.left), -d.power))
	return err
}

func (d *doubling) policy() (learn.Policy, error) { return d.run.policy() }

func (d *doubling) absorb(report, variance []float64) error {
	if err := d.run.absorb(report, variance); err != nil {
		return err
	}
	if d.left--; d.left > 0 {
		return nil
	}
	return d.restart()
}
