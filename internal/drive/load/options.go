package load

import (
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/crowd"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/population"
)

// Options say who comes, how fast, and to which randomizers.
type Options struct {
	APIs []string // base URLs of the randomizers; people are dealt out to them in turn
	// Inside are the randomizers of all people in this process, instead of APIs; nil: there are none.
	Inside     crowd.Inside
	Population *population.Population
	Seed       uint64 // of the shares below; never of any noise

	Rate        float64       // people a second; 0: as fast as Concurrency allows
	Ramp        time.Duration // over which Rate, or Concurrency, is reached from nothing
	Concurrency int           // people served at the same time; 0: DefaultConcurrency
	// Steady has people come whether or not a cohort takes people in; those who find none are decided for and not
	// sampled. Otherwise people wait for a cohort, as long as the deployment learns.
	Steady bool
	Device string // beginning of the devices' names; empty: one that was never used before

	Shares Shares
	Settle time.Duration // longest wait at the end for what was promised; 0: as long as the announced times say

	// Keys is the deployment's folder of keys, of which the bundle and auditor/ are read; empty: nothing that was
	// released is looked at.
	Keys   string
	Broker bus.Options // URL and TLS; role and seed are filled in
	// Ops are base URLs of roles' ops listeners, whose accounts are checked at the end.
	Ops     []string
	Hostile Hostile

	Goals    []Goal
	Progress *progress.Progress
}

// Shares of people who do not behave. A person is in at most one of them.
type Shares struct {
	DropOut   float64 // never tell their reward: their devices report null records
	Duplicate float64 // ask for the same decision twice and tell the same reward twice, then another one
	Late      float64 // tell their reward after the window
	Malformed float64 // bring along a request that makes no sense, from a device of its own
}

// Hostile says what a hostile host does at the broker, past every randomizer. It needs a host's keys in Options.Keys.
type Hostile struct {
	Host    string // whose keys are used; no randomizer may run with them at the same time. Empty: no host is hostile
	Devices int    // that it enrols in each cohort; each reports once as it should and then misbehaves
	Late    bool   // one device of the first cohort reports after the release: that cohort cannot be compared
}

// Defaults.
const (
	DefaultConcurrency = 64
	DefaultDevices     = 2 // of a hostile host
)

// Faults lists what is wrong, the population aside.
func (o Options) Faults() (faults []error) {
	wrong := func(ok bool, format string, v ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, v...))
		}
	}
	wrong(len(o.APIs) > 0 || o.Inside != nil, "no randomizer's API is given: at least one --api")
	wrong(o.Shares.Malformed == 0 || o.Inside == nil, "malformed requests are for randomizers' APIs: there is none")
	wrong(o.Rate >= 0, "rate %v: must not be negative", o.Rate)
	wrong(o.Ramp >= 0, "ramp %v: must not be negative", o.Ramp)
	wrong(o.Concurrency >= 0, "concurrency %d: must not be negative", o.Concurrency)
	sum := 0.0
	for _, s := range []struct {
		name  string
		value float64
	}{
		{"drop-out", o.Shares.DropOut}, {"duplicate", o.Shares.Duplicate},
		{"late", o.Shares.Late}, {"malformed", o.Shares.Malformed},
	} {
		wrong(s.value >= 0 && s.value <= 1, "%s share %v: must be between 0 and 1", s.name, s.value)
		sum += s.value
	}
	wrong(sum <= 1, "the shares add up to %v: must be at most 1", sum)
	wrong(o.Hostile.Host == "" || o.Keys != "", "a hostile host needs the folder of its keys: --keys")
	wrong(o.Keys == "" || o.Broker.URL != "", "reading what was released needs the broker's address: --broker-url")
	for _, g := range o.Goals {
		wrong(g.check() == nil, "%v", g.check())
	}
	return faults
}
