package device

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/strict"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Limits are what the people behind a device agree to, whatever is announced. They belong to the device, never to the
// analyzer.
type Limits struct {
	// Trust lists the channels that reports may take: whom these people agree to trust (plan.Channel.RestsOn). Nil is
	// DefaultTrust.
	Trust []plan.Channel `json:"trust,omitempty"`
	// weakest guarantee for one person, over the whole deployment; over a period where Period allows one
	Epsilon float64 `json:"epsilon"`
	// weakest guarantee if no other device is honest (plan.Alone), over the whole deployment; 0: no limit
	EpsilonAlone float64 `json:"epsilon_alone"`
	Delta        float64 `json:"delta"`      // the delta of both guarantees
	MinCohort    int     `json:"min_cohort"` // smallest cohort among which to hide
	// What may be dishonest of a cohort, as a share and as a number of devices: the larger counts. Their noise is not
	// counted, whatever the plan says. Where the cohort is drawn from registered devices it is a share of these.
	Dishonest    float64 `json:"dishonest"`
	MaxDishonest int     `json:"max_dishonest"`
	MaxReleases  int     `json:"max_releases"` // releases that one record may take part in
	// largest bound on the parameter's norm; a larger one only wastes precision
	MaxNorm float64 `json:"max_norm"`
	// What the device is ready to make and send in one report: bit messages, in the channel shuffle; bytes of the
	// sealed report, in every other. 0 bytes: the default, for limits that were written before there was this one.
	MaxMessages   int `json:"max_messages"`
	MaxReportSize int `json:"max_report_size"`
	// Noise bits that the device is ready to draw for one report, over all its coordinates, in every channel but
	// shuffle, where each is a message. 0: the default, as above.
	MaxNoiseBits int `json:"max_noise_bits"`
	// Records of one person that may be used over the deployment; the ledger adds them up. 0: as many epochs as a plan
	// of panels says, within Epsilon; else a plan with more is refused. Where devices enrol as they arrive 0 is 1.
	Records int `json:"records"`
	// Period is the least number of epochs in a row over which Epsilon, EpsilonAlone and Records may begin anew. 0:
	// they are for the whole deployment, and a plan that counts them per period is refused, since nothing would bound
	// what all periods reveal together.
	Period int `json:"period,omitempty"`
	// MinEpoch is the least length of an epoch of which these people count Period, at most 24 days; 0:
	// plan.DefaultMinEpoch. The analyzer sets how long epochs are, so that without it a number of them means no time.
	// They begin anew no sooner than Period times MinEpoch after the last report that counts, by the device's own clock
	// and whatever is announced.
	MinEpoch Duration `json:"min_epoch,omitempty"`
}

// Duration is a time.Duration that JSON has as text, such as "24h".
type Duration time.Duration

// String writes it as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes it as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what time.ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// DefaultReportSize is how many bytes a sealed report of a channel other than shuffle may have: about as many as the
// default of bit messages.
const DefaultReportSize = 256 << 10

// DefaultNoiseBits is how many noise bits a report of a channel other than shuffle may have: 2 MB of random words at
// bias 1/2. It leaves room for 12,000 bits on each of the 1325 numbers of 50 dimensions; a default plan of the channel
// local has some thousand.
const DefaultNoiseBits = 1 << 24

// DefaultLimits are the limits of a device whose people chose none.
func DefaultLimits() Limits {
	return Limits{
		Trust: DefaultTrust(), Epsilon: 1, Delta: 1e-6, MinCohort: 50, MaxReleases: 64, MaxNorm: 10, MaxMessages: 5000,
		MaxReportSize: DefaultReportSize, MaxNoiseBits: DefaultNoiseBits, MinEpoch: Duration(plan.DefaultMinEpoch),
	}
}

// DefaultTrust lists the channels in which no single server can see what one person reported. In the channel central
// one can, so that people choose it themselves.
func DefaultTrust() []plan.Channel { return []plan.Channel{plan.Shuffle, plan.Shares, plan.Local} }

// trust is the list of channels in force.
func (l Limits) trust() []plan.Channel {
	if l.Trust == nil {
		return DefaultTrust()
	}
	return l.Trust
}

// A WeakPlan is an announced plan that the device's limits rule out. Its text is for an app's developer.
type WeakPlan struct {
	Limit  string // the limit that rules it out, by its name in JSON
	Reason string
}

func (e *WeakPlan) Error() string {
	return fmt.Sprintf("the announced plan is refused (%s): %s", e.Limit, e.Reason)
}

// A Fault is a limit that no device can have.
type Fault struct {
	Limit   string // its name in JSON
	Value   any
	Problem string
}

func (f Fault) Error() string { return fmt.Sprintf("%s: %v %s", f.Limit, f.Value, f.Problem) }

// Faults lists what is wrong with the limits themselves.
func (l Limits) Faults() (all []Fault) {
	need := func(ok bool, limit string, value any, problem string) {
		if !ok {
			all = append(all, Fault{limit, value, problem})
		}
	}
	known := strict.List(plan.Channels(), "and")
	need(len(l.trust()) > 0, "trust", l.Trust, "must be a list of channels: "+known+" are known")
	for _, c := range l.Trust {
		need(slices.Contains(plan.Channels(), c), "trust", l.Trust,
			fmt.Sprintf("must be a list of channels, and %q is none: %s are known", c, known))
	}
	need(l.Epsilon > 0 && !math.IsInf(l.Epsilon, 0), "epsilon", l.Epsilon, "must be a finite number above 0")
	need(l.EpsilonAlone >= 0 && !math.IsInf(l.EpsilonAlone, 0), "epsilon_alone", l.EpsilonAlone,
		"must be a finite number above 0, or 0 for no limit")
	need(privacy.CheckDelta(l.Delta) == nil, "delta", l.Delta, fmt.Sprintf("must be a number from %g to %g",
		privacy.MinDelta, privacy.MaxDelta))
	need(l.MinCohort >= 1, "min_cohort", l.MinCohort, "must be at least 1")
	need(l.Dishonest >= 0 && l.Dishonest < 1, "dishonest", l.Dishonest, "must be a share in [0, 1)")
	need(l.MaxDishonest >= 0, "max_dishonest", l.MaxDishonest, "must be a number of devices, at least 0")
	need(l.MaxReleases >= 1, "max_releases", l.MaxReleases, "must be at least 1")
	need(l.MaxNorm > 0 && !math.IsInf(l.MaxNorm, 0), "max_norm", l.MaxNorm, "must be a finite number above 0")
	need(l.MaxMessages >= 1, "max_messages", l.MaxMessages, "must be at least 1")
	need(l.MaxReportSize >= 0, "max_report_size", l.MaxReportSize, "must be a number of bytes, at least 0")
	need(l.MaxNoiseBits >= 0, "max_noise_bits", l.MaxNoiseBits, "must be a number of bits, at least 0")
	need(l.Records >= 0, "records", l.Records, "must be at least 1, or 0 for as many as the plan says")
	need(l.Period >= 0 && l.Period <= math.MaxUint16, "period", l.Period,
		fmt.Sprintf("must be a number of epochs, at most %d, or 0 for the whole deployment", math.MaxUint16))
	need(l.MinEpoch >= 0 && time.Duration(l.MinEpoch) <= wire.MaxTiming*time.Millisecond, "min_epoch", l.MinEpoch,
		"must be a time of up to 24 days, which is as long as an announced epoch can be, or 0 for "+
			plan.DefaultMinEpoch.String())
	return all
}

// trusted refuses a channel whose guarantee rests on someone whom these people do not agree to trust.
func (l Limits) trusted(c plan.Channel) error {
	if slices.Contains(l.trust(), c) {
		return nil
	}
	return &WeakPlan{"trust",
		fmt.Sprintf("its reports take the channel %s, whose guarantee %s; this device takes part "+
			"in %s only, and its people would have to allow %s", c, c.RestsOn(), strict.List(l.trust(), "and"), c)}
}

// judge holds the plan of an announcement, with a payload of so many bytes, against the limits.
func (l Limits) judge(a *plan.Announcement, payload int) *judgement {
	g, alone, weak := l.check(a)
	var round *plan.Encoder
	if weak == nil {
		round, weak = l.round(a, payload)
	}
	if weak != nil {
		return refused(weak)
	}
	return &judgement{guarantee: g, alone: alone, round: round}
}

// check computes the guarantees of an epoch's plan from first principles and compares them, and all that they rest on,
// with the limits: g counts the honest devices' noise, alone is what is left if no other device is honest. Both are of
// one epoch, as the ledger takes them; compared is what they come to in all the epochs that a plan of panels lets one
// device report in, so that a device that registers can serve all of them. The announcement is in range and signed;
// nothing in it is believed.
func (l Limits) check(a *plan.Announcement) (g, alone privacy.Guarantee, err error) {
	weak := func(limit, format string, v ...any) (g, alone privacy.Guarantee, err error) {
		return privacy.NoGuarantee(), privacy.NoGuarantee(), &WeakPlan{limit, fmt.Sprintf(format, v...)}
	}
	releases := 0
	for _, r := range a.Plan.Rounds {
		releases += len(r.Releases)
	}
	if n := int(a.Cohort.Minimum); n < l.MinCohort {
		return weak("min_cohort", "it releases a cohort of %d people, this device hides among no fewer than %d", n,
			l.MinCohort)
	}
	if releases > l.MaxReleases {
		return weak("max_releases", "it would use one record in %d releases, this device allows %d", releases,
			l.MaxReleases)
	}
	if s := a.Policy.Radius; !(s <= l.MaxNorm) {
		return weak("max_norm", "it bounds the parameter's norm by %g, this device by %g", s, l.MaxNorm)
	}
	if err := l.repeated(a); err != nil {
		return privacy.NoGuarantee(), privacy.NoGuarantee(), err
	}
	g, err = plan.Guarantee(a, max(l.MaxDishonest, a.Dishonest(l.Dishonest)))
	if err != nil {
		return weak("epsilon", "it bounds nothing of what it reveals about one person: %v", err)
	}
	times := a.Plan.PerPerson()
	switch eps := privacy.Repeat(g, times).Epsilon(l.Delta); {
	case math.IsInf(eps, 1):
		return weak("epsilon", "nothing bounds what it reveals about one person%s at delta %g, "+
			"this device's limit is epsilon %g (the plan claims %g at delta %g)",
			over(a), l.Delta, l.Epsilon, a.Plan.Epsilon, a.Plan.Delta)
	case !(eps <= l.Epsilon):
		return weak("epsilon", "what it reveals about one person%s is bounded only by epsilon %s at delta %g, "+
			"this device's limit is %g (the plan claims %g at delta %g)",
			over(a), privacy.Spell(eps), l.Delta, l.Epsilon, a.Plan.Epsilon, a.Plan.Delta)
	}
	if alone, err = plan.Alone(a); err != nil {
		alone = privacy.NoGuarantee() // many plans have none: it is an error only for who asks for one
	}
	if eps := privacy.Repeat(alone, times).Epsilon(l.Delta); l.EpsilonAlone > 0 && !(eps <= l.EpsilonAlone) {
		return weak("epsilon_alone",
			"if no other device of the cohort is honest, what it reveals about one person%s is %s at delta %g, this "+
				"device's limit is %g: such a limit needs noise that servers add (privacy.server_noise of the "+
				"analyzer), or the channel %s", over(a), bounded(eps), l.Delta, l.EpsilonAlone, plan.Local)
	}
	return g, alone, nil
}

// repeated refuses a plan of panels that uses a person's records in more epochs than these people agree to, or counts
// its budget anew where they do not.
func (l Limits) repeated(a *plan.Announcement) error {
	if a.Plan.Panel == nil {
		return nil
	}
	if n := a.Plan.PerPerson(); l.Records > 0 && n > l.Records {
		return &WeakPlan{"records", fmt.Sprintf("it uses what one person does in up to %d epochs, this device allows "+
			"%d", n,
			l.Records)}
	}
	return l.begun(a)
}

// begun refuses a plan whose budget begins anew where these people do not agree to that, or sooner. The announced times
// are those of an analyzer that keeps to them; privacy.Ledger holds whatever it does to the same span.
func (l Limits) begun(a *plan.Announcement) error {
	p, t := a.Plan.Period, a.Timing
	reports := t.RewardWindow + t.Jitter + t.Grace
	apart := int64(p)*t.Every.Milliseconds() - reports.Milliseconds() // below 2^63: see wire.MaxTiming
	switch {
	case p == 0:
		return nil
	case l.Period == 0:
		return &WeakPlan{"period", fmt.Sprintf("its budget begins anew every %d epochs, so that nothing bounds what "+
			"the deployment reveals about one person; this device's limit is for the whole deployment", p)}
	case int64(p) < int64(l.Period):
		return &WeakPlan{"period", fmt.Sprintf("its budget begins anew every %d epochs, this device's no sooner than "+
			"after %d", p, l.Period)}
	case t.Every < l.minEpoch():
		return &WeakPlan{"min_epoch", fmt.Sprintf("its budget begins anew every %d epochs, and they may follow each "+
			"other after %v (timing.every of the analyzer); this device counts on %v for "+
			"each", p, t.Every, l.minEpoch())}
	case apart < l.span().Milliseconds():
		return &WeakPlan{"min_epoch", fmt.Sprintf("its budget begins anew every %d epochs of %v, and reports leave "+
			"up to %v after an epoch begins, so that less than %v may lie between a report and the budget that "+
			"begins anew; this device's begins no sooner than so long after: plan a longer timing.every, or one "+
			"epoch more", p,
			t.Every,
			reports,
			l.span())}
	}
	return nil
}

// minEpoch is the least length of an epoch in force.
func (l Limits) minEpoch() time.Duration {
	return cmp.Or(time.Duration(l.MinEpoch), plan.DefaultMinEpoch)
}

// span is how long a budget per period is in force at least: Period epochs of the least length, 0 for the whole
// deployment. It has fewer than 2^47 milliseconds; what a time.Duration cannot hold is 292 years.
func (l Limits) span() time.Duration {
	if l.Period > 0 && l.minEpoch() > math.MaxInt64/time.Duration(l.Period) {
		return math.MaxInt64
	}
	return time.Duration(l.Period) * l.minEpoch()
}

// over continues "about one person", where a person is in several epochs.
func over(a *plan.Announcement) string {
	switch n := a.Plan.PerPerson(); {
	case n == 1 && a.Plan.Period == 0:
		return ""
	case a.Plan.Period > 0:
		return fmt.Sprintf(" in %d of any %d epochs", n, a.Plan.Period)
	default:
		return fmt.Sprintf(" in %d epochs", n)
	}
}

// bounded says how an epsilon bounds what is revealed.
func bounded(epsilon float64) string {
	if math.IsInf(epsilon, 0) || math.IsNaN(epsilon) {
		return "not bounded by anything"
	}
	return "bounded only by epsilon " + privacy.Spell(epsilon)
}

// round prepares one round's statistics and encodings and refuses what the plan did not announce, and reports that are
// larger than the device is ready to make. payload is the length of one report's payload in bytes.
func (l Limits) round(a *plan.Announcement, payload int) (*plan.Encoder, error) {
	r, err := plan.CheckRound(a)
	if err != nil {
		return nil, &WeakPlan{"epsilon", err.Error()}
	}
	if a.Plan.Channel == plan.Shuffle {
		if n := a.ReportMessages(); n > l.MaxMessages {
			return nil, &WeakPlan{"max_messages",
				fmt.Sprintf("a report has %d bit messages, this device sends at most %d", n, l.MaxMessages)}
		}
		return r, nil
	}
	most := cmp.Or(l.MaxReportSize, DefaultReportSize)
	if n := wire.EnvelopeSize(payload); n > most {
		return nil, &WeakPlan{"max_report_size",
			fmt.Sprintf("a report has %d bytes, this device sends at most %d", n, most)}
	}
	if err := l.work(r); err != nil {
		return nil, err
	}
	return r, nil
}

// work refuses a report with more noise bits than the device is ready to draw.
func (l Limits) work(r *plan.Encoder) error {
	var noise uint64 // an encoding has fewer than 2^32 noise bits on fewer than 2^32 coordinates
	for _, e := range r.Encodings {
		noise += uint64(e.NoiseBits) * uint64(len(e.Coordinates))
	}
	if most := cmp.Or(l.MaxNoiseBits, DefaultNoiseBits); noise > uint64(most) {
		return &WeakPlan{"max_noise_bits",
			fmt.Sprintf("a report has %d noise bits, this device draws at most %d", noise, most)}
	}
	return nil
}
