package certificate

import (
	"encoding/hex"
	"reflect"
	"slices"
	"strings"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Hex is bytes in hexadecimal in text.
type Hex []byte

// MarshalText is lower-case hexadecimal.
func (h Hex) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(h)), nil }

// UnmarshalText reads hexadecimal.
func (h *Hex) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

// Summary is what the statements of a certificate say, in plain numbers.
type Summary struct {
	Deployment string       `json:"deployment"`
	Epoch      uint64       `json:"epoch"`
	Channel    plan.Channel `json:"channel"`
	RestsOn    string       `json:"rests_on"` // continues "The guarantee": whom one must trust
	Cohort     Cohort       `json:"cohort"`
	// What the analyzer's terms promise to each person.
	PromisedEpsilon float64 `json:"promised_epsilon"`
	Delta           float64 `json:"delta"` // of every epsilon here
	// Epsilon is what the plan gives with the fewest reports that are released, EpsilonAlone what is left if no other
	// device is honest. Both are recomputed from the plan.
	Epsilon      privacy.Epsilon `json:"epsilon"`
	EpsilonAlone privacy.Epsilon `json:"epsilon_alone"`
	// Guarantee is the bound that Epsilon is taken from, for every delta: a Gaussian that the record shifts by mu
	// standard deviations, after an event of probability tail_delta.
	Guarantee Guarantee `json:"guarantee"`
	// Panel is of cohorts that were drawn from registered devices. Epsilon, EpsilonAlone and Guarantee are then over
	// all epochs that one person may report in, and those of Rounds of the epoch.
	Panel    *Panel   `json:"panel,omitempty"`
	Rounds   []Round  `json:"rounds"`
	Policy   Hex      `json:"policy"`      // digest of the policy that the cohort decided with
	Next     Hex      `json:"next_policy"` // digest of the policy that was learned
	Analyzer Root     `json:"analyzer"`
	Shuffler Root     `json:"shuffler"`
	Versions []string `json:"versions"` // of the analyzer's program, in order, each once
}

// Cohort is the announced bounds on a cohort, in reports.
type Cohort struct {
	Size      uint32 `json:"size"`
	Minimum   uint32 `json:"minimum"`
	Dishonest uint32 `json:"dishonest"` // whose noise is not counted
}

// Guarantee is a privacy.Guarantee.
type Guarantee struct {
	Mu        privacy.Epsilon `json:"mu"`
	TailDelta float64         `json:"tail_delta"`
	Pure      privacy.Epsilon `json:"pure"`
	Rho       privacy.Epsilon `json:"rho"` // zCDP
}

// Root is a checkpoint.
type Root struct {
	Size uint64 `json:"size"`
	Root Hex    `json:"root"`
}

// Round is one round of reports.
type Round struct {
	Round uint32 `json:"round"`
	// Outcome is "released", or "destroyed" by the shuffler, or "refused" by the analyzer after the shuffler released
	// it.
	Outcome string `json:"outcome"`
	// Left tells that something left the shuffler, or may have: then it is spent, whatever the outcome.
	Left     bool      `json:"left"`
	Enrolled uint32    `json:"enrolled"`
	Reports  uint32    `json:"reports"`
	Refused  []Refused `json:"refused"`
	// Messages left; of a destroyed cohort the most that can have left.
	Messages uint64 `json:"messages"`
	// Epsilon and EpsilonAlone are those of the whole plan with the reports of which something left, counted or not; 0
	// if nothing did.
	Epsilon      privacy.Epsilon `json:"epsilon"`
	EpsilonAlone privacy.Epsilon `json:"epsilon_alone"`
	// Digests of the statements, and the root over the messages that were forwarded.
	Announcement Hex `json:"announcement"`
	Manifest     Hex `json:"manifest"`
	MessagesRoot Hex `json:"messages_root"`
	Counts       Hex `json:"counts"`
	Learned      Hex `json:"learned"`
}

// Refusal is the outcome of a round that the shuffler released and the analyzer did not count.
const Refusal = "refused"

// Refused is how many reports were refused for one reason.
type Refused struct {
	Reason  string `json:"reason"`
	Reports uint64 `json:"reports"`
}

// summarise makes the summary.
func (x *examined) summarise() error {
	terms, first := x.configuration.Terms, x.rounds[0].announcement
	g, alone, err := plan.Lifetime(first)
	if err != nil {
		return refuse("%w", err)
	}
	policy, err := wire.PolicyDigest(&first.Policy)
	if err != nil {
		return refuse("%w", err)
	}
	x.summary = Summary{
		Deployment: first.Deployment, Epoch: first.Epoch, Channel: first.Plan.Channel,
		RestsOn:         first.Plan.Channel.RestsOn(),
		Cohort:          Cohort{first.Cohort.Size, first.Cohort.Minimum, first.Cohort.MaxDishonest},
		PromisedEpsilon: terms.Epsilon, Delta: terms.Delta,
		Epsilon: privacy.Epsilon(x.epsilon(g, nil)), EpsilonAlone: privacy.Epsilon(x.epsilon(alone, nil)),
		Guarantee: guaranteeOf(g), Panel: panelOf(x.rounds[0]), Policy: policy[:],
		Next:     x.rounds[len(x.rounds)-1].learned.Policy,
		Analyzer: x.roots[bus.Analyzer], Shuffler: x.roots[bus.Shuffler], Versions: []string{},
	}
	for i, r := range x.rounds {
		m, l := r.manifest, r.learned
		together, alone := x.guaranteesOfOutput(r)
		said := Round{
			Round: uint32(i), Outcome: m.Outcome.String(), Enrolled: m.Enrolled, Reports: m.Reports,
			Messages: m.Messages,
			Left:     r.signedOutput().Left(), Epsilon: privacy.Epsilon(together), EpsilonAlone: privacy.Epsilon(alone),
			Refused:      []Refused{},
			Announcement: r.digests.announcement[:], Manifest: r.digests.manifest[:], MessagesRoot: m.MessagesRoot,
			Counts: r.digests.counts[:], Learned: r.digests.learned[:],
		}
		if said.MessagesRoot == nil {
			said.MessagesRoot = Hex{}
		}
		if r.signedOutput().Refused() {
			said.Outcome = Refusal
		}
		for _, f := range m.Refused {
			said.Refused = append(said.Refused, Refused{f.Reason.String(), f.Reports})
		}
		x.summary.Rounds = append(x.summary.Rounds, said)
		if !slices.Contains(x.summary.Versions, l.Version) {
			x.summary.Versions = append(x.summary.Versions, l.Version)
		}
	}
	return nil
}

func guaranteeOf(g privacy.Guarantee) Guarantee {
	return Guarantee{privacy.Epsilon(g.Mu), g.TailDelta, privacy.Epsilon(g.Pure), privacy.Epsilon(g.Rho)}
}

// compare refuses a summary that does not say what the statements say, and names the first field that lies. Numbers may
// differ by what rounding explains.
func compare(said, is Summary) error {
	if field, ok := same("", reflect.ValueOf(said), reflect.ValueOf(is)); !ok {
		return refuse("its summary lies: %s is not what the signed statements say", field)
	}
	return nil
}

// same compares two values of one type, field by field, and names the first that differ by their keys in JSON.
func same(at string, a, b reflect.Value) (field string, ok bool) {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return at, a.IsNil() == b.IsNil()
		}
		return same(at, a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			key, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
			name := at + "." + key
			if at == "" {
				name = name[1:]
			}
			if field, ok := same(name, a.Field(i), b.Field(i)); !ok {
				return field, false
			}
		}
		return "", true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return at, false
		}
		for i := range a.Len() {
			if field, ok := same(at, a.Index(i), b.Index(i)); !ok {
				return field, false
			}
		}
		return "", true
	case reflect.Float64:
		return at, near(a.Float(), b.Float())
	}
	return at, reflect.DeepEqual(a.Interface(), b.Interface())
}
