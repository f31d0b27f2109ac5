package explain

import "github.com/riffle-dp/riffle/pkg/plan"

// View is what reaches a party in a channel, and what it can learn from that about one person.
type View struct {
	Who       string `json:"who"`
	Sees      string `json:"sees"`
	Curious   string `json:"curious"`   // it follows the protocol and looks
	Malicious string `json:"malicious"` // it does anything
}

// Words of the table, which is that of docs/trust.md; Condition has what it assumes.
const (
	bounded    = "no more than the plan's epsilon"
	everything = "everything: it reads the records"
	unbounded  = "nothing bounds it"
	ownNoise   = "what the noise of the person's own device does not hide"
	noBits     = "who took part and when; and of what people reported no more than is published"
)

// Views are those of all parties in a channel. A party that is honest forgets what it saw, and learns what is
// published. That several parties work together is a line of its own.
func Views(c plan.Channel) []View {
	outside := View{"broker and network", "sealed reports, who sends them, and when", noBits, noBits}
	public := View{"the public", "announcements, counts and policies", bounded, bounded}
	shuffler := func(curious, malicious string) View {
		return View{"the shuffler", "who enrolled and when each report came; the reports' contents stay sealed",
			curious,
			malicious}
	}
	switch c {
	case plan.Shuffle:
		return []View{
			shuffler("no more than the epsilon of the devices' noise alone, because it knows its own",
				unbounded+": it can send copies of one person's messages"),
			{"the analyzer", "single bits in a random order, which it counts; not who took part", bounded, bounded},
			{"shuffler and analyzer together", "each person's bits, with the noise of that device only", ownNoise,
				unbounded},
			outside, public,
		}
	case plan.Shares:
		return []View{
			shuffler(bounded, bounded+", while the analyzer is honest and the devices that the shuffler lets into the "+
				"cohort are no more dishonest than the plan counts: it can leave honest ones out"),
			{"the analyzer", "who took part, one share of each report, which says nothing, and the sums", bounded,
				bounded + ", while the shuffler is honest"},
			{"shuffler and analyzer together", "both shares of each report, which give what was reported", ownNoise,
				ownNoise},
			outside, public,
		}
	case plan.Local:
		return []View{
			shuffler(bounded, bounded),
			{"the analyzer", "who took part, and each report with the noise of its own device", bounded, bounded},
			{"shuffler and analyzer together", "the same as the analyzer, and when each report came", bounded, bounded},
			outside, public,
		}
	case plan.Central:
		return []View{
			shuffler(bounded, bounded),
			{"the analyzer", "who took part, and each record", everything, everything},
			{"shuffler and analyzer together", "the same as the analyzer, and when each report came", everything,
				everything},
			outside, public,
		}
	}
	return nil
}

// Condition is what the plan's epsilon of the table assumes beside it, in sentences; empty where it assumes nothing.
func Condition(c plan.Channel) string {
	const devices = "no more devices of a cohort are dishonest than the plan counts"
	switch c {
	case plan.Shuffle:
		return "The plan's epsilon holds while the shuffler is honest and " + devices + "."
	case plan.Shares:
		return "The plan's epsilon holds while " + devices + ". A malicious shuffler chooses who is in a cohort: it " +
			"can leave honest devices out of it, or out of the pool of a panel, and nobody sees that. Noise of " +
			"servers does not depend on it."
	case plan.Central:
		return "The plan's epsilon holds while the analyzer is honest."
	}
	return ""
}
