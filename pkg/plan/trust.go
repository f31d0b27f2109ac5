package plan

import (
	"fmt"
	"math"
	"strings"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// RestsOn says on whom the guarantees of the channel rest. It continues the sentence "The guarantee ...". Every text
// that people read of a guarantee takes these words from here.
func (c Channel) RestsOn() string {
	switch c {
	case Shuffle:
		return "rests on the shuffler being honest and not working together with the analyzer"
	case Shares:
		return "rests on the shuffler and the analyzer not both being dishonest"
	case Local:
		return "rests on nobody but the person's own device"
	case Central:
		return "rests on the analyzer being honest"
	}
	return "rests on nothing that is known: the channel is not"
}

// Promise says in sentences what a plan of the channel reveals about one person at most: epsilon while the honest
// devices' noise is there, alone if no other device is honest, both at delta, and on whom they rest. An epsilon that
// does not bound anything, +Inf or NaN, is told as such.
func (c Channel) Promise(epsilon, alone, delta float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The channel is %s. ", c)
	bound := func(eps float64) bool { return !math.IsInf(eps, 0) && !math.IsNaN(eps) }
	if bound(epsilon) {
		fmt.Fprintf(&b, "At most epsilon %s at delta %g is revealed about one person%s; ", privacy.Spell(epsilon),
			delta, c.counts())
	} else {
		fmt.Fprintf(&b, "Nothing bounds what is revealed about one person at delta %g; ", delta)
	}
	if bound(alone) {
		fmt.Fprintf(&b, "if no other device is honest, at most epsilon %s. ", privacy.Spell(alone))
	} else {
		b.WriteString("if no other device is honest, nothing bounds it. ")
	}
	fmt.Fprintf(&b, "The guarantee %s.", c.RestsOn())
	return b.String()
}

// counts is what the epsilon of honest devices' noise assumes of the others, where it counts such noise.
func (c Channel) counts() string {
	if c == Shuffle || c == Shares {
		return " while no more devices of a cohort are dishonest than the plan counts"
	}
	return ""
}

// Together says in a sentence what of one person a promise about panels counts, with a space before it; empty where
// cohorts are no panels, and each person reports once.
func (p Plan) Together() string {
	switch {
	case p.Panel == nil:
		return ""
	case p.Period == 0:
		return fmt.Sprintf(" It counts everything that the person does in the whole deployment; their device reports "+
			"in %d of its epochs at most.", p.PerPerson())
	}
	return fmt.Sprintf(" It counts everything that the person does in any %d epochs in a row; their device reports "+
		"in %d of them at most. Nothing bounds what all such periods reveal together.", p.Period, p.PerPerson())
}
