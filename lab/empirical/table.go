package empirical

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// WriteJSON writes the result as one JSON object.
func (r *Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteTable writes the result for people.
func (r *Result) WriteTable(w io.Writer) error {
	var b strings.Builder
	verdict := "This does not contradict the claim."
	if r.Exceeds {
		verdict = "THE CLAIM IS FALSE."
	}
	fmt.Fprintf(&b, "At delta %g, epsilon is at least %.3f with confidence %g %%, and claimed is at most %s. %s\n\n",
		r.Delta, r.LowerBound, 100*r.Confidence, privacy.Spell(r.Claimed), verdict)
	if r.Fault != NoFault {
		fmt.Fprintf(&b, "The system was broken on purpose: %s.\n", r.Fault)
	}
	if r.Game.usesChannel() {
		fmt.Fprintf(&b, "Game %s, channel %s; %d reports in view, %d coordinates attacked together; %d runs of each "+
			"world,\nhalf of which chose the thresholds. Sealed runs that gave the same counts: %d.\n",
			r.Game, r.Channel, r.Reports, r.Coordinates, r.Runs, r.Sealed)
	} else {
		fmt.Fprintf(&b, "Game %s; %d rows, %d coordinates attacked together; %d runs of each world, half of which "+
			"chose the\nthresholds.\n", r.Game, r.Reports, r.Coordinates, r.Runs)
	}
	fmt.Fprintf(&b, "The canary's records lie %.1f %% as far apart as the certificate allows for.\n\n", 100*r.Reach)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "canary against\tspeaks for\tthreshold\ttrue positives\tfalse positives\tepsilon at least\t")
	for _, a := range r.Attacks {
		fmt.Fprintf(t, "%s\t%s\t%+.2f\t%d of %d\t%d of %d\t%.3f\t\n", a.Rival, a.For, a.Threshold,
			a.TruePositives, a.Runs, a.FalsePositives, a.Runs, a.LowerBound)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&b, "\nPower: so many runs show at least %.3f where Gaussian noise is exactly as weak as claimed.\n"+
		"A true epsilon of %.3f comes out above the claim with probability %g or more. Smaller excesses may stay\n"+
		"unseen.\nSeed: %s\n",
		r.Power.Expected, r.Power.Found, r.Power.FoundWith, r.Seed)
	_, err := io.WriteString(w, b.String())
	return err
}
