package plan

import (
	"encoding/binary"

	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Observer is one party that sees something of a release, whom a person must trust for the bound on it to hold, and
// that bound. An observer's own noise never counts against that observer.
type Observer struct {
	Sees   string // who observes, alone or together with any number of dishonest devices
	Honest string // who must follow the protocol, forget what it says to forget, and not be together with the observer
	// Together holds while the honest devices that the plan counts on add their noise, Alone if no device but the
	// person's own does. Either is privacy.NoGuarantee where nothing bounds what the observer can learn.
	Together, Alone privacy.Guarantee
}

// row is one line of a channel's table: which noise bits of a release the observer does not know.
type row struct {
	sees, honest string
	unknown      func(r Release, honest int) uint64
	promised     bool // the channel protects from this observer: Guarantee and Alone bound what they learn
}

func devices(r Release, honest int) uint64 { return uint64(honest) * uint64(r.NoiseBits) }

func nothing(Release, int) uint64 { return 0 }

// rows is the table of a channel.
func rows(c Channel) []row {
	switch c {
	case Shuffle:
		return []row{
			{"analyzer and the public", "shuffler",
				func(r Release, n int) uint64 { return devices(r, n) + r.ShufflerNoise }, true},
			{"shuffler that follows the protocol and remembers its noise", "analyzer", devices, false},
			{"shuffler that breaks the protocol", "nobody can help: it can send copies of one person's messages",
				nothing, false},
			{"analyzer and shuffler together", "nobody else",
				func(r Release, _ int) uint64 { return devices(r, 1) }, false},
		}
	case Shares:
		return []row{
			{"analyzer", "shuffler", func(r Release, n int) uint64 { return devices(r, n) + r.ShufflerNoise }, true},
			{"shuffler", "analyzer", func(r Release, n int) uint64 { return devices(r, n) + r.AnalyzerNoise }, true},
			{"the public", "shuffler and analyzer",
				func(r Release, n int) uint64 { return devices(r, n) + r.ServerNoise() }, false},
			{"analyzer and shuffler together", "nobody else",
				func(r Release, _ int) uint64 { return devices(r, 1) }, false},
		}
	case Local:
		return []row{{"everybody", "nobody", func(r Release, _ int) uint64 { return uint64(r.NoiseBits) }, true}}
	case Central:
		return []row{
			{"shuffler and the public", "analyzer", func(r Release, _ int) uint64 { return r.AnalyzerNoise }, true},
			{"analyzer", "nobody can help: it is trusted with everything", nothing, false},
		}
	}
	return nil
}

// Observers is who can learn what from an announced plan: every observer of its channel, with the bound while the noise
// of the others is there, for the caller's bound on dishonest reports or the announced one, whichever is larger, and
// with the bound if no other device is honest. Errors wrap ErrPlan.
func Observers(a *Announcement, dishonest int) ([]Observer, error) {
	if err := a.checkPanel(); err != nil {
		return nil, err
	}
	honest := max(1, int(a.Cohort.Minimum)-a.borne(dishonest))
	var out []Observer
	done := map[string]privacy.Guarantee{}
	bound := func(of row, honest int) (privacy.Guarantee, error) {
		if a.Plan.Curator != nil {
			g, err := a.curated()
			if !of.promised && err == nil {
				g = privacy.NoGuarantee()
			}
			return g, err
		}
		var key []byte // two rows with the same unknown noise have the same bound
		for _, round := range a.Plan.Rounds {
			for _, r := range round.Releases {
				key = binary.BigEndian.AppendUint64(key, of.unknown(r, honest))
			}
		}
		if g, ok := done[string(key)]; ok {
			return g, nil
		}
		g, err := guaranteeOrNone(a, func(r Release) uint64 { return of.unknown(r, honest) })
		if err == nil {
			done[string(key)] = g
		}
		return g, err
	}
	for _, of := range rows(a.Plan.Channel) {
		together, err := bound(of, honest)
		if err != nil {
			return nil, err
		}
		alone, err := bound(of, 1)
		if err != nil {
			return nil, err
		}
		out = append(out, Observer{Sees: of.sees, Honest: of.honest, Together: a.drawn(together), Alone: alone})
	}
	return out, nil
}
