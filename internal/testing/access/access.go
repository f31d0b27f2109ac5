// Package access tries at a broker everything that a role or a thief of its credentials could want to do there, as
// every role, and writes down what came of it. docs/access.md and testdata/attempts.txt are its output: they say what
// was tried, not what is intended.
package access

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
)

// Outcomes is what came of Attempts by role, in their order.
type Outcomes map[bus.Role][]Outcome

// Try makes every attempt as every role, with the options that connect gives for it. The roles try at the same time:
// no attempt that succeeds changes what another one finds.
func Try(ctx context.Context, connect func(bus.Role) bus.Options) (Outcomes, error) {
	attempts, roles := Attempts(), bus.Roles()
	found := make([][]Outcome, len(roles))
	g, ctx := errgroup.WithContext(ctx)
	for i, role := range roles {
		g.Go(func() error {
			c, err := Connect(connect(role))
			if err != nil {
				return fmt.Errorf("%s: %w", role, err)
			}
			defer c.Close()
			for _, a := range attempts {
				o, err := c.Try(ctx, a)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", role, a.What, err)
				}
				found[i] = append(found[i], o)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := Outcomes{}
	for i, role := range roles {
		out[role] = found[i]
	}
	return out, nil
}

// Faults lists where an outcome is not what it must be: something forbidden was reached, something allowed was not,
// or a refusal came from something else than the rights, which would prove nothing.
func (o Outcomes) Faults() []error {
	var faults []error
	for i, a := range Attempts() {
		for _, role := range bus.Roles() {
			got, subject := o[role][i], a.Subjects[0]
			switch {
			case got.Reached && !a.Allows(role):
				faults = append(faults, fmt.Errorf("the %s could %s (%s): %s", role, a.What, subject, got.Reason))
			case !got.Reached && a.Allows(role):
				faults = append(faults, fmt.Errorf("the %s could not %s (%s): %s", role, a.What, subject, got.Reason))
			case !got.Reached && strings.Trim(strings.ReplaceAll(got.Reason, noRight, ""), "; ") != "":
				faults = append(faults, fmt.Errorf("the %s was kept from this by something else than its rights: %s "+
					"(%s): %s",
					role, a.What, subject, got.Reason))
			}
		}
	}
	return faults
}

// Counts says how many attempts were refused and how many reached what they wanted.
func (o Outcomes) Counts() (refused, reached int) {
	for _, role := range o {
		for _, got := range role {
			if got.Reached {
				reached++
			} else {
				refused++
			}
		}
	}
	return refused, reached
}
