// Package access makes every attempt of bus.Attempts at a broker as every role, and writes down what the broker
// allowed. docs/access.md is its output: it says what was tried, and not what is intended. Only tests use this package.
package access

import (
	"context"
	_ "embed" // for the preamble
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
)

// Outcomes holds the outcome of each of bus.Attempts, in their order, by role.
type Outcomes map[bus.Role][]bus.Outcome

// Try makes every attempt as every role, over connections that connect makes. The roles try at the same time: no
// attempt that succeeds changes what another one finds.
func Try(ctx context.Context, connect func(context.Context, bus.Role) (*bus.Conn, error)) (Outcomes, error) {
	attempts, roles := bus.Attempts(), bus.Roles()
	found := make([][]bus.Outcome, len(roles))
	g, ctx := errgroup.WithContext(ctx)
	for i, role := range roles {
		g.Go(func() error {
			c, err := connect(ctx, role)
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

// Faults lists the outcomes that are not as they must be: a forbidden attempt that succeeded, an allowed one that
// failed, or a refusal that has another reason than the rights and so proves nothing.
func (o Outcomes) Faults() []error {
	var faults []error
	for i, a := range bus.Attempts() {
		for _, role := range bus.Roles() {
			switch got := o[role][i]; {
			case got.Reached && !a.Allows(role):
				faults = append(faults, fmt.Errorf("the %s could %s (%s): %s", role, a.What, a.Subjects[0], got.Reason))
			case !got.Reached && a.Allows(role):
				faults = append(faults,
					fmt.Errorf("the %s could not %s (%s): %s", role, a.What, a.Subjects[0], got.Reason))
			case !got.Reached && strings.Trim(strings.ReplaceAll(got.Reason, "no permission", ""), "; ") != "":
				faults = append(faults,
					fmt.Errorf("the %s was kept from this by something else than its rights: %s (%s): %s",
						role, a.What, a.Subjects[0], got.Reason))
			}
		}
	}
	return faults
}

// Counts returns the number of attempts that were refused and of those that succeeded.
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

//go:embed preamble.md
var preamble string

// Document is the page for operators.
func (o Outcomes) Document() string {
	refused, reached := o.Counts()
	return fmt.Sprintf(preamble, refused, reached) + bus.AccessTable(bus.Attempts(), o)
}
