package planner_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/planner"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Where issuers let people in, the plan says what an account's credentials reveal together: as many times epsilon, and
// the delta of as many steps. Without issuers it says nothing of accounts.
func TestAnAccountsCredentialsArePromisedTogether(t *testing.T) {
	for credentials, want := range map[int]struct {
		epsilon, delta float64
		said           string
	}{
		0: {},
		1: {1, 1e-6, "an account gets 1 credential: what holds for a person"},
		3: {3, 1e-6 * (1 + math.E + math.E*math.E), "An account that gets 3 reveals epsilon 3, delta 1.12e-05"},
		// as many that delta is no promise any more
		40: {40, 1, "delta 1: nothing is promised"},
	} {
		o := planner.Options{Cohorts: []int{2000}, Dimension: 2, Releases: 1, Terms: plan.DefaultTerms()}
		o.Epsilon, o.Delta, o.VarianceRatio, o.Credentials = 1, 1e-6, 2, credentials
		r, err := planner.Run(o)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := r.WriteTable(&text); err != nil {
			t.Fatal(err)
		}
		if credentials == 0 {
			if r.Account != nil || strings.Contains(text.String(), "account") {
				t.Errorf("without issuers: %+v\n%s", r.Account, text.String())
			}
			continue
		}
		if a := r.Account; a == nil || a.Credentials != credentials || a.Epsilon != want.epsilon ||
			math.Abs(a.Delta/want.delta-1) > 1e-9 || !strings.Contains(text.String(), want.said) {
			t.Errorf("%d credentials: %+v, want %+v\n%s", credentials, a, want, text.String())
		}
	}
	o := planner.Options{Cohorts: []int{2000}, Dimension: 2, Releases: 1, Terms: plan.DefaultTerms(), Credentials: -1}
	_, err := planner.Run(o)
	if !errors.Is(err, planner.ErrOptions) || !strings.Contains(err.Error(), "--credentials") {
		t.Errorf("%v", err)
	}
}
