package planner

import (
	"fmt"
	"math"
)

// Account is what an account reveals where issuers let people in: the guarantee is of each credential.
type Account struct {
	Credentials int     `json:"credentials"` // of one account, over the time for which epsilon is
	Epsilon     float64 `json:"epsilon"`     // of all of them together
	Delta       float64 `json:"delta"`
}

// account is what so many credentials reveal together, whether or not they are in one cohort; nil of none. Replacing
// their records one by one takes as many steps, and step i costs delta e^(i epsilon): group privacy, which bounds
// basic composition, too (Dwork and Roth, The Algorithmic Foundations of Differential Privacy, Theorem 2.2).
func account(credentials int, epsilon, delta float64) *Account {
	if credentials == 0 {
		return nil
	}
	a := &Account{Credentials: credentials, Epsilon: float64(credentials) * epsilon}
	for i := range credentials {
		if a.Delta += delta * math.Exp(float64(i)*epsilon); a.Delta >= 1 {
			a.Delta = 1
			break
		}
	}
	return a
}

// text is a sentence for people; empty where there are no issuers.
func (a *Account) text() string {
	switch {
	case a == nil:
		return ""
	case a.Credentials == 1:
		return "Issuers let people in, and an account gets 1 credential: what holds for a person holds for " +
			"an account.\n"
	}
	return fmt.Sprintf("Issuers let people in: the guarantee is of each credential. An account that gets %d reveals "+
		"epsilon %g, delta %s.\n", a.Credentials, a.Epsilon, deltaUp(a.Delta))
}

// deltaUp writes a delta with three digits, rounded up.
func deltaUp(delta float64) string {
	if delta >= 1 {
		return "1: nothing is promised"
	}
	unit := math.Pow(10, math.Floor(math.Log10(delta))-2)
	return fmt.Sprintf("%.3g", math.Ceil(delta/unit*(1-1e-12))*unit)
}
