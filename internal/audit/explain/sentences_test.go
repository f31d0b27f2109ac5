package explain_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/explain"
)

// claim is a sentence that says what is not so, why something is so, or what nobody can do: the words of it, the worlds
// in which what it says was checked, and worlds in which it is not so.
type claim struct {
	words       string
	in, notIn   []string
	whyEverTrue string // where it depends on no log: why
}

var claims = []claim{
	{words: "That is no fewer than the announced minimum", in: []string{"counted", "enough", "refused"},
		notIn: []string{"too few", "released below the minimum", "no manifest"}},
	{words: "THE SHUFFLER SIGNED FURTHER MANIFESTS", in: []string{"destroyed, then released"},
		notIn: []string{"too few", "counted"}},
	{words: "No statement of the shuffler says that anything left", in: []string{"refused, no manifest"},
		notIn: []string{"refused", "no manifest"}},
	{
		words: "THAT IS TOO FEW",
		in:    []string{"released below the minimum"},
		notIn: []string{"counted", "refused", "no manifest"},
	},
	{
		words: "THAT IS NOT",
		in:    []string{"copies left"},
		notIn: []string{"counted", "refused", "released below the minimum"},
	},
	{words: "Of so few reports nothing may leave", in: []string{"too few", "a share left"},
		notIn: []string{"enough", "a part left", "counted", "refused"}},
	{words: "ALTHOUGH THE REPORTS WERE ENOUGH", in: []string{"enough", "a part left", "accepts too few"},
		notIn: []string{"too few", "counted", "refused"}},
	{words: "It states that no message of it had left before", in: []string{"too few", "enough"},
		notIn: []string{"a part left", "refused", "counted", "silent", "too few shares"}},
	{words: "It states that no share of the sums left it", in: []string{"too few shares", "accepts too few"},
		notIn: []string{"a share left", "shares", "too few"}},
	{
		words: "No statement says why it accepts no more",
		in:    []string{"accepts too few"},
		notIn: []string{"a share left", "shares"},
	},
	{
		words: "can have left before. So they are spent",
		in:    []string{"a share left"},
		notIn: []string{"too few shares", "accepts too few"},
	},
	{
		words: "had left before, in their random order",
		in:    []string{"a part left"},
		notIn: []string{"enough", "too few"},
	},
	{words: "its refusal saves nobody's privacy", in: []string{"refused"},
		notIn: []string{"counted", "silent", "too few", "no manifest", "refused, no manifest"}},
	{
		words: "The analyzer signed no counts of it so far",
		in:    []string{"silent"},
		notIn: []string{"counted", "refused", "open", "too few"},
	},
	{
		words: "neither server has signed how it ended",
		in:    []string{"open"},
		notIn: []string{"silent", "counted", "no manifest"},
	},
	{
		words: "The shuffler's log does not say how the round ended",
		in:    []string{"no manifest"},
		notIn: []string{"counted", "silent"},
	},
	{
		words: "- No report.",
		in:    []string{"counted", "too few"},
		notIn: []string{"refusals", "taken out", "no manifest"},
	},
	{
		words: "The audit computed what follows from them",
		in:    []string{"counted"},
		notIn: []string{"false sums", "no terms", "silent"},
	},
	{
		words: "The audit did not confirm what",
		in:    []string{"false sums", "no terms"},
		notIn: []string{"counted", "silent"},
	},
	{words: "The audit did not confirm any of this", in: []string{"rules"}, notIn: []string{"panels"}},
	{words: "No terms are logged", in: []string{"no terms"}, notIn: []string{"counted"}},
	{
		words: "The logs do not say yet whether anything left",
		in:    []string{"open"},
		notIn: []string{"silent", "counted", "too few"},
	},
	{
		words: "By the shuffler's word nothing left it",
		in:    []string{"too few", "enough", "too few shares", "accepts too few"},
		notIn: []string{"a part left", "a share left", "refused", "silent", "no manifest", "open",
			"destroyed, then released"},
	},
	{
		words: "With the reports that left, counted or not, all releases",
		in: []string{"counted", "refused", "silent", "a part left",
			"a share left"},
		notIn: []string{"too few", "open", "panels"},
	},
	{words: "THAT IS MORE THAN WAS PROMISED", in: []string{"a weak plan"}, notIn: []string{"counted", "panels"}},
	{words: "nothing bounds all periods together", in: []string{"panels, periods"}, notIn: []string{"panels"}},
	{
		words: "While one of them is honest, the other cannot choose who of the pool is in it. The shuffler says " +
			"who is in the pool:",
		in:    []string{"panels"},
		notIn: []string{"shares"},
	},
	{words: "Nobody else is needed", in: []string{"local"}, notIn: []string{"counted", "shares", "central"}},
	{words: "one by one, each with the noise of its own device", in: []string{"pairs"}, notIn: []string{"local"}},
	{words: "moved the sum of a number over these reports", in: []string{"pairs"}, notIn: []string{"local"}},
	{words: "No noise of devices", in: []string{"servers alone"}, notIn: []string{"counted", "server noise"}},
	{words: "Devices add none", in: []string{"curator"}, notIn: []string{"counted"}},
	{words: "No noise of servers", in: []string{"counted"}, notIn: []string{"server noise", "servers alone", "local"}},
	{
		words: "none of the noise that they count is of other devices",
		in:    []string{"central"},
		notIn: []string{"counted", "shares"},
	},
	{
		words: "The second number does not depend on how many report",
		in:    []string{"counted"},
		notIn: []string{"central"},
	},
	{words: "No breach, here or elsewhere in the logs", in: []string{"counted", "too few", "enough"},
		notIn: []string{"refused", "false sums", "copies left", "no manifest"}},
	{words: "everybody gets the default arm", in: []string{"rules"}, notIn: []string{"panels"}},
	{words: "nothing is known: with so much noise", in: []string{"panels"}, notIn: []string{"counted"}},
	{words: "The plan bounds nothing", whyEverTrue: "no announcement that pkg/wire takes has such a plan"},
	{words: "The second number", in: []string{"counted"}, notIn: []string{"central"}},
	{
		words: "no log shows which reports it did not take",
		in:    []string{"too few"},
		notIn: []string{"enough", "counted"},
	},
	{words: "Nothing may be released of fewer", whyEverTrue: "it is the announced rule, and says what may be"},
	{words: "no log shows. ", whyEverTrue: "no statement has an order or a coin"},
	{words: "If no other device is honest", whyEverTrue: "a condition, with the number that follows"},
	{
		words: "no log shows it. For whoever is in several cohorts",
		in:    []string{"counted"},
		notIn: []string{"panels", "too few"},
	},
	{words: "no log shows: the device's ledger has it", in: []string{"panels"}, notIn: []string{"counted"}},
	{words: "That the noise was added, and that it was random, no log shows", whyEverTrue: "no statement has a coin"},
	{words: "while no more devices of a cohort are dishonest than the plan counts. A malicious", in: []string{"shares"},
		notIn: []string{"counted", "local", "central"}},
}

// negative are the words of claims.
var negative = regexp.MustCompile(
	`(?i)\b(no|not|none|nothing|nobody|never|cannot|neither|only|because|although|so that|therefore)\b`,
)

// Every sentence that the package can say is said of a world of the list; a new one needs a world in which it is true.
// What a sentence denies or gives as a cause is checked before it is said: there is a world in which it is so and one
// in which it is not, and only the first one says it.
func TestEverySentenceFollowsFromWhatWasChecked(t *testing.T) {
	says, all := map[string]string{}, ""
	for name, w := range worlds {
		says[name] = told(t, w)
		all += says[name]
	}
	all += text(t, explain.OfBreach(audit.BelowMinimum, nil))
	for _, c := range claims {
		if c.whyEverTrue == "" && (len(c.in) == 0 || len(c.notIn) == 0) {
			t.Errorf("%q has no world in which it is not so", c.words)
		}
		for _, name := range c.in {
			if !strings.Contains(says[name], c.words) {
				t.Errorf("%s: it is not said that %q:\n%s", name, c.words, says[name])
			}
		}
		for _, name := range c.notIn {
			if strings.Contains(says[name], c.words) {
				t.Errorf("%s: it is said that %q:\n%s", name, c.words, says[name])
			}
		}
	}
	for _, s := range sentences(t) {
		// No announcement that pkg/wire takes has a plan that bounds nothing.
		if !s.said(all) && s.format != "The plan bounds nothing." {
			t.Errorf("%s: no world has the sentence %q", s.where, s.format)
		}
		if negative.MatchString(verbs.ReplaceAllString(s.format, "")) && !claimed(s.format) {
			t.Errorf("%s: say in claims where %q is so and where it is not", s.where, s.format)
		}
	}
}

// claimed reports whether a sentence is one of the claims.
func claimed(format string) bool {
	for _, part := range verbs.Split(format, -1) {
		part = strings.TrimSpace(part)
		for _, c := range claims {
			if len(part) > 8 && (strings.Contains(part, c.words) || strings.Contains(c.words, part)) {
				return true
			}
		}
	}
	return false
}
