package load

import (
	"context"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/client"
)

// Shortfall is a cohort that has room when all people have come, and that will not be released by those who are in it.
type Shortfall struct {
	Epoch   uint64 `json:"epoch"`
	Size    int    `json:"size"`
	Minimum int    `json:"minimum"` // reports that its release needs
	Taken   int    `json:"taken"`   // slots that were taken
	Own     bool   `json:"own"`     // Taken counts this run's people only: no shuffler's ops listener was given
	Closes  bool   `json:"closes"`  // timing.enrolment ends it, and it is destroyed; otherwise it stays open
}

// ShortfallReason is the name of the case in messages.
const ShortfallReason = "cohort_short"

// Missing is how many more people fill the cohort.
func (s Shortfall) Missing() int { return s.Size - s.Taken }

// String says what is the matter and what to do.
func (s Shortfall) String() string {
	end := "it stays open until they come"
	if s.Closes {
		end = fmt.Sprintf("it is destroyed when its enrolment ends, unless %d more come", s.Minimum-s.Taken)
	}
	if s.Own {
		end += " (if people of other runs are in it, fewer are missing: --ops of the shuffler would tell)"
	}
	return fmt.Sprintf("epoch %d has %d of %d people, and no more come: %d more would fill its cohort; %s. "+
		"Bring %d more people (--users), or fewer, so that the cohort before it is the last",
		s.Epoch, s.Taken, s.Size, s.Missing(), end, s.Missing())
}

// shortfall reports whether the people who came leave a cohort with room, and whether it will be released nevertheless:
// a nil Shortfall with a note says so. Both are empty where every cohort is full.
func (c *session) shortfall(ctx context.Context, public *reader) (short *Shortfall, note string, err error) {
	epoch, size, free := c.Gate.Room()
	if free <= 0 || size == free {
		return nil, "", nil
	}
	for _, api := range c.o.APIs { // others may have filled it
		s, err := c.Client.Status(ctx, client.At(api))
		if err != nil {
			return nil, fmt.Sprintf("whether the cohort of epoch %d is full is not known: %s: %v", epoch, api, err), nil
		}
		if s.Epoch != epoch || !s.Enrolling {
			return nil, "", nil
		}
	}
	taken := size - free
	all, known := countEnrolled(ctx, c.o.Ops, epoch)
	if known {
		if taken, free = all, size-all; free <= 0 {
			return nil, "", nil
		}
	}
	if public == nil {
		return nil, fmt.Sprintf("epoch %d has %d of %d people, and no more come: %d more would fill its cohort",
			epoch, taken, size, free), nil
	}
	l, err := public.read(ctx)
	if err != nil {
		return nil, "", err
	}
	a := l.announced[roundID{epoch, 0}]
	if a == nil {
		return nil, "", fmt.Errorf("load: epoch %d is open at the randomizers, and was never announced", epoch)
	}
	s := &Shortfall{
		Epoch: epoch, Size: size, Minimum: int(a.Cohort.Minimum), Taken: taken, Own: !known,
		Closes: a.Timing.Enrolment > 0,
	}
	if s.Closes && taken >= s.Minimum {
		return nil, fmt.Sprintf("epoch %d has %d of %d people, enough for its release when its enrolment ends",
			epoch, taken, size), nil
	}
	return s, "", nil
}
