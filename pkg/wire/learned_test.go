package wire_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/symmetric"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// auditedManifest is a release with all that a manifest says to an auditor: noise, a root and refusals.
func auditedManifest() *rifflev1.Manifest {
	m := manifest()
	m.NoiseMessages, m.Messages = 40, m.Messages+40
	m.Refused = []*rifflev1.Refused{
		{Reason: rifflev1.Refusal_REFUSAL_MALFORMED, Reports: 7},
		{Reason: rifflev1.Refusal_REFUSAL_REPEATED_MESSAGE, Reports: 5, TakenOut: 3},
	}
	return m
}

// learnedConfig and learnedTerms are written out: the JSON of both is a wire format.
const (
	learnedConfig = `{"profile":"practical","family":"logistic","max_reward":1,"dimension":2,"radius":3,` +
		`"horizon":1000,"epsilon":1,"delta":0.000001,"min_cohort":50,"practical":`
	learnedTerms = `{"channel":"shuffle","epsilon":1,"delta":0.000001,"drop_out":0.1,"dishonest":0.05,` +
		`"dishonest_reports":1,"min_cohort":50,"max_messages":4000,"variance_ratio":1.25,"max_shift":0.5,` +
		`"noise_bits":3,"biases":[1073741824,2147483648],"server_noise":0.5,"no_device_noise":false}`
)

func configuration(t testing.TB) *rifflev1.Configuration {
	t.Helper()
	rest, err := json.Marshal(learner.PracticalConfig{FirstCohort: 120, Growth: 1.5, Sampling: 1})
	if err != nil {
		t.Fatal(err)
	}
	paper, err := json.Marshal(learner.PaperConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return &rifflev1.Configuration{
		Deployment: deployment, Learner: []byte(learnedConfig + string(rest) + `,"paper":` + string(paper) + `}`),
		Anytime: true, Batch: 25, Terms: []byte(learnedTerms), Timing: announcement(t).Timing,
	}
}

func learned() *rifflev1.Learned {
	return &rifflev1.Learned{
		Deployment: deployment, Epoch: 2, Round: 1, Announcement: digestOf(2), Counts: digestOf(7),
		Sums: []*rifflev1.Sum{
			{Values: []float64{1.5, math.Copysign(0, -1), -3e9}, Variance: []float64{0.25, 0, 1e-300}},
			{Values: []float64{-0.5}, Variance: []float64{2}},
		},
		Iterate: []float64{0.5, -0.25}, Policy: digestOf(8), Epsilon: 0.75, EpsilonAlone: math.Inf(1), Version: "1.2.3",
	}
}

// lastingConfiguration is that of panels, with a control group, rules and a schema of features.
func lastingConfiguration(t testing.TB) *rifflev1.Configuration {
	t.Helper()
	c := configuration(t)
	practical, err := json.Marshal(learner.PracticalConfig{Panel: 180, Decisions: 7, HalfLife: 20, Alarm: 0.001,
		PriorTheta: []float64{0.5, 0}, PriorPrecision: symmetric.Packed{2, 0.5, 1}, Control: 0.05, ControlShare: 0.2,
		Caution: 1.5})
	if err != nil {
		t.Fatal(err)
	}
	paper, err := json.Marshal(learner.PaperConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c.Learner = []byte(learnedConfig + string(practical) + `,"paper":` + string(paper) + `}`)
	c.Terms = append(bytes.TrimSuffix(c.Terms, []byte("}")),
		`,"registered":5000,"tail":1e-9,"decisions":7,"records":4,"period":30}`...)
	c.Timing.EveryMs = 86_400_000
	c.Schema, c.Rules = []byte(`{"numbers":[]}`), []byte(`{"rollback":-0.01,"stop":-0.05,"window":3}`)
	return c
}

// comparedLearned is of a deployment with a control group, after an epoch whose policy was taken back.
func comparedLearned() *rifflev1.Learned {
	l := learned()
	l.Lift = &rifflev1.Lift{Reports: 170, Decisions: 3.5, Treated: 0.25, Control: 0.5, Lift: -0.25, Low: -0.375,
		High: -0.125}
	l.Total = &rifflev1.Lift{Reports: 340, Decisions: 3.25, Treated: 0.5, Control: 0.5, Low: -0.125, High: 0.125}
	l.Unchanged, l.Action = 0.0625, wire.ActionRollback
	return l
}

func destroyedLearned() *rifflev1.Learned {
	return &rifflev1.Learned{
		Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Counts: digestOf(7), Destroyed: true,
		Iterate: []float64{0, 0}, Policy: digestOf(8),
	}
}

func TestWhatIsLearnedRoundTrips(t *testing.T) {
	roundTrip(t, seal.Configuration, configuration(t))
	roundTrip(t, seal.Learned, learned())
	roundTrip(t, seal.Learned, destroyedLearned())
	roundTrip(t, seal.Manifest, auditedManifest())
	roundTrip(t, seal.Configuration, lastingConfiguration(t))
	roundTrip(t, seal.Learned, comparedLearned())
}

func TestEveryFieldOfWhatIsLearnedIsCarried(t *testing.T) {
	everyFieldIsCarried(t, func() *wire.Configuration {
		return &wire.Configuration{
			Deployment: deployment, Batch: 25,
			Learner: learner.Config{Profile: glm.Practical, Family: "logistic", MaxReward: 1, Dimension: 2, Horizon: 9,
				Practical: learner.PracticalConfig{Growth: 1.5}, Paper: learner.PaperConfig{Kappa: 2}},
			Terms:  plan.Terms{Channel: plan.Shuffle, Epsilon: 1, Delta: 1e-6, Biases: []protocol.Bias{1 << 30}},
			Timing: plan.Timing{RewardWindow: time.Minute},
		}
	})
	everyFieldIsCarried(t, func() *wire.Configuration {
		floor := -0.01
		return &wire.Configuration{
			Deployment: deployment, Schema: []byte("{}"), Rules: plan.Rules{Rollback: &floor, Window: 3},
			Learner: learner.Config{Practical: learner.PracticalConfig{Panel: 9, Control: 0.05,
				PriorTheta: []float64{1}}},
			Terms: plan.Terms{Registered: 50, Decisions: 7, Records: 4, Period: 30},
		}
	})
	everyFieldIsCarried(t, func() *wire.Learned {
		lift := wire.Lift{Reports: 17, Decisions: 3.5, Treated: 0.5, Control: 0.25, Lift: 0.25, Low: 0.125, High: 0.5}
		total := lift
		return &wire.Learned{
			Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Counts: digestOf(7), Iterate: []float64{1},
			Policy: digestOf(8), Lift: &lift, Total: &total, Unchanged: 0.5, Action: wire.ActionStop,
		}
	})
	everyFieldIsCarried(t, func() *wire.Learned {
		return &wire.Learned{
			Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Counts: digestOf(7),
			Sums:    []wire.Sum{{Values: []float64{1.5, 2}, Variance: []float64{0.25, 1}}},
			Iterate: []float64{0.5, 1}, Policy: digestOf(8), Epsilon: 0.75, EpsilonAlone: 3, Version: "1.2.3",
		}
	})
	everyFieldIsCarried(t, func() *wire.Manifest {
		return &wire.Manifest{
			Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Outcome: wire.Released, Enrolled: 120,
			Reports: 110, Messages: 110*47 + 40, NoiseMessages: 40, Chunks: 3, ChunksDigest: digestOf(3),
			ReportsDigest: digestOf(4), MessagesRoot: digestOf(6),
			Refused: []wire.Refused{{wire.RefusalMalformed, 7, 0}, {wire.RefusalRepeatedMessage, 5, 3}},
		}
	})
}

func TestConfigurationOutOfRangeIsRefused(t *testing.T) {
	type c = rifflev1.Configuration
	id := signer(t, 1)
	refuses(t, seal.Configuration, func() *c { return configuration(t) }, []bad[c]{
		{"deployment", func(m *c) { m.Deployment = "" }},
		{"batch", func(m *c) { m.Batch = math.MaxUint32 }},
	})
	// What is not the one form of a learner's configuration or of terms, though it means the same.
	for name, change := range map[string]func(*c){
		"no learner":       func(m *c) { m.Learner = nil },
		"a space":          func(m *c) { m.Learner = append([]byte(" "), m.Learner...) },
		"a second value":   func(m *c) { m.Learner = append(m.Learner, "{}"...) },
		"an unknown field": func(m *c) { m.Terms = append([]byte(`{"x":1,`), m.Terms[1:]...) },
		"another number":   func(m *c) { m.Terms = bytes.Replace(m.Terms, []byte("0.000001"), []byte("1e-6"), 1) },
		"another order": func(m *c) {
			m.Terms = append([]byte(`{"epsilon":1,"channel":"shuffle",`),
				bytes.TrimPrefix(m.Terms, []byte(`{"channel":"shuffle","epsilon":1,`))...)
		},
		"no text":   func(m *c) { m.Terms = bytes.Replace(m.Terms, []byte("shuffle"), []byte("shuff\xff"), 1) },
		"no timing": func(m *c) { m.Timing = nil },
	} {
		m := configuration(t)
		change(m)
		got, _, err := wire.OpenMessage(seal.Configuration, forge(t, seal.Configuration, m, id), party(id))
		if wire.Reason(err) != wire.RefusalMalformed || got != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*wire.Configuration){
		"learner": func(x *wire.Configuration) { x.Learner.Radius = math.NaN() },
		"terms":   func(x *wire.Configuration) { x.Terms.Channel = "shuff\xff" },
	} {
		x := new(wire.Configuration)
		x.Deployment = deployment
		change(x)
		if _, _, err := wire.Sign(x, id); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s that JSON does not carry: %v", name, err)
		}
	}
}

func TestLearnedOutOfRangeIsRefused(t *testing.T) {
	type l = rifflev1.Learned
	cases := []bad[l]{
		{"deployment", func(m *l) { m.Deployment = "a b" }},
		{"epoch", func(m *l) { m.Epoch = 0 }},
		{"round", func(m *l) { m.Round = wire.MaxRounds }},
		{"announcement", func(m *l) { m.Announcement = nil }},
		{"counts", func(m *l) { m.Counts = m.Counts[1:] }},
		{"policy", func(m *l) { m.Policy = make([]byte, 33) }},
		{"sums", func(m *l) { m.Sums = make([]*rifflev1.Sum, wire.MaxReleases+1) }},
		{"sums", func(m *l) { m.Destroyed = true }},
		{"sums[1]", func(m *l) { m.Sums[1].Values = nil }},
		{"sums[0]", func(m *l) { m.Sums[0].Variance = m.Sums[0].Variance[:2] }},
		{"sums[0].variance[1]", func(m *l) { m.Sums[0].Variance[1] = -1 }},
		{"iterate", func(m *l) { m.Iterate = nil }},
		{"iterate", func(m *l) { m.Iterate = make([]float64, glm.MaxDimension+1) }},
		{"epsilon", func(m *l) { m.Epsilon = -1 }},
		{"epsilon", func(m *l) { m.Epsilon = math.Copysign(0, -1) }},
		{"epsilon_alone", func(m *l) { m.EpsilonAlone = math.NaN() }},
		{"version", func(m *l) { m.Version = strings.Repeat("v", 257) }},
	}
	for _, x := range notFinite {
		cases = append(cases,
			bad[l]{"sums[0].values[2]", func(m *l) { m.Sums[0].Values[2] = x }},
			bad[l]{"sums[1].variance[0]", func(m *l) { m.Sums[1].Variance[0] = x }},
			bad[l]{"iterate[1]", func(m *l) { m.Iterate[1] = x }})
	}
	refuses(t, seal.Learned, learned, cases)
}

func TestRefusalsOfAManifestOutOfRangeAreRefused(t *testing.T) {
	type m = rifflev1.Manifest
	refuses(t, seal.Manifest, auditedManifest, []bad[m]{
		{"messages_root", func(x *m) { x.MessagesRoot = x.MessagesRoot[:31] }},
		{"messages_root", func(x *m) { x.MessagesRoot = nil }},
		{"refused[0].reason", func(x *m) { x.Refused[0].Reason = 0 }},
		{"refused[1].reason", func(x *m) { x.Refused[1].Reason = rifflev1.Refusal(len(wire.Refusals()) + 1) }},
		{"refused[0].reason", func(x *m) { x.Refused[0].Reason = -1 }},
		{"refused[1].reason", func(x *m) { x.Refused[1].Reason = x.Refused[0].Reason }},
		{"refused[1].reason", func(x *m) { x.Refused[0], x.Refused[1] = x.Refused[1], x.Refused[0] }},
		{"refused[0].reports", func(x *m) { x.Refused[0].Reports = 0 }},
		{"refused[1].taken_out", func(x *m) { x.Refused[1].TakenOut = 6 }},                            // of 5
		{"refused[1].taken_out", func(x *m) { x.Refused[1].Reports, x.Refused[1].TakenOut = 11, 11 }}, // of 120 slots
		{"refused[1].taken_out", func(x *m) { x.Refused[1].Reports, x.Refused[1].TakenOut = 1<<40, math.MaxUint32 }},
	})
	refuses(t, seal.Manifest, destroyedManifest, []bad[m]{
		{"outcome", func(x *m) { x.MessagesRoot = digestOf(6) }},
		{"refused[0].reports", func(x *m) { x.Refused = []*rifflev1.Refused{{Reason: 1}} }},
	})
	last := auditedManifest()
	last.Refused[1].Reason = rifflev1.Refusal(len(wire.Refusals()))
	last.Refused[1].Reports, last.Refused[1].TakenOut = math.MaxUint64, 10 // all that did not report
	if _, _, err := wire.SignMessage(last, signer(t, 1)); err != nil {
		t.Errorf("the largest refusals that there can be: %v", err)
	}
}

// The digest of a policy is the same for the same policy, and another one for another.
func TestPolicyDigestTellsPoliciesApart(t *testing.T) {
	a := opened(t)
	first, err := wire.PolicyDigest(&a.Policy)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := wire.PolicyDigest(a.Policy.Clone()); err != nil || again != first {
		t.Errorf("of the same policy: %x and %x, %v", first, again, err)
	}
	a.Policy.Theta[1] = 0 // was a negative zero
	if other, err := wire.PolicyDigest(&a.Policy); err != nil || other == first {
		t.Errorf("of another policy: %x, %v", other, err)
	}
}
