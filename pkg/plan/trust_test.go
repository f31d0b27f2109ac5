package plan

import (
	"math"
	"strings"
	"testing"
)

// Each channel says on whom it rests, in words of its own, and a channel that is not known promises nothing.
func TestChannelsSayWhatTheyRestOn(t *testing.T) {
	seen := map[string]Channel{}
	for _, c := range append(Channels(), "smoke") {
		text := c.RestsOn()
		if other, twice := seen[text]; twice {
			t.Errorf("%s and %s: %s", c, other, text)
		}
		seen[text] = c
		if !strings.HasPrefix(text, "rests on ") {
			t.Errorf("%s: %s", c, text)
		}
	}
	for _, c := range []struct {
		epsilon, alone float64
		want           string
	}{
		{1, 2, "The channel is shares. At most epsilon 1.0000 at delta 1e-06 is revealed about one person while no " +
			"more devices of a cohort are dishonest than the plan counts; if no other device is honest, at most " +
			"epsilon 2.0000. The guarantee rests on the shuffler and the analyzer not both being dishonest."},
		{1, math.Inf(1),
			"At most epsilon 1.0000 at delta 1e-06 is revealed about one person while no more devices of a " +
				"cohort are dishonest than the plan counts; if no other device is honest, nothing bounds it."},
		{math.NaN(), math.NaN(),
			"Nothing bounds what is revealed about one person at delta 1e-06; if no other device " +
				"is honest, nothing bounds it."},
	} {
		if got := Shares.Promise(c.epsilon, c.alone, 1e-6); !strings.Contains(got, c.want) {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	for want, p := range map[string]Plan{
		"": {}, " It counts everything that the person does in the whole deployment; their device reports in 4 of " +
			"its epochs at most.": {Panel: &Panel{}, Records: 4},
		" It counts everything that the person does in any 30 epochs in a row; their device reports in 4 of them at " +
			"most. Nothing bounds what all such periods reveal together.": {Panel: &Panel{}, Records: 4, Period: 30},
	} {
		if got := p.Together(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
