package device

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const deployment = "fixture"

// fixture is the other side of a device: the analyzer, the shuffler and the registrar, with keys that are the same in
// every run.
type fixture struct {
	testing.TB
	analyzer, shuffler, registrar, identity *seal.Identity
	analyzerKey, shufflerKey                *seal.HPKEKey
	ofPanels                                *plan.Announcement // once it was drawn up
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	f := &fixture{TB: tb}
	for i, id := range []**seal.Identity{&f.analyzer, &f.shuffler, &f.registrar, &f.identity} {
		*id = must(seal.NewIdentity(bytes.Repeat([]byte{byte(i + 1)}, 32)))
	}
	f.analyzerKey = must(seal.NewHPKEKey(bytes.Repeat([]byte{5}, 32)))
	f.shufflerKey = must(seal.NewHPKEKey(bytes.Repeat([]byte{6}, 32)))
	return f
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// config is that of a device whose limits the fixture's plans keep. Nobody should ask for so little privacy.
func (f *fixture) config() Config {
	credential := sign(&wire.Credential{Deployment: deployment, HostKey: f.identity.Public(), Devices: 4}, f.registrar)
	return Config{
		Deployment: deployment, Analyzer: f.analyzer.Public(), Shuffler: f.shuffler.Public(), Identity: f.identity,
		Credential: credential,
		Limits: Limits{
			Epsilon: 4, Delta: 1e-3, MinCohort: 4, MaxReleases: 8, MaxNorm: 10, MaxMessages: 1000, Records: 1,
		},
	}
}

func sign[T wire.Statement](s *T, by *seal.Identity) []byte {
	signed, _, err := wire.Sign(s, by)
	return must(signed, err)
}

// opened is a new device that knows the shuffler's key.
func (f *fixture) opened(c Config) *Device {
	f.Helper()
	d := must(Open(c, 3, nil))
	if err := d.Keys(f.keys(1, f.shufflerKey)); err != nil {
		f.Fatal(err)
	}
	return d
}

// announcement is the first one of a learner in dimension 2 whose cohort has twelve people.
func (f *fixture) announcement(profile glm.Profile) *plan.Announcement {
	learner := must(learner.New(learner.Config{
		Profile: profile, Dimension: 2, Radius: 2, Horizon: 36, Epsilon: 4, Delta: 1e-3, MinCohort: 12,
		Practical: learner.PracticalConfig{FirstCohort: 12, Growth: 1}, Paper: learner.PaperConfig{Rounds: 2},
	}))
	step := learner.Next()
	step.Cohort = 12
	p := must(plan.Propose(step, plan.Terms{
		Epsilon: 4, Delta: 1e-3, DropOut: 0.2, MinCohort: 4, MaxShift: 2, VarianceRatio: 64,
	}))
	return &plan.Announcement{
		Deployment: deployment, Epoch: 1, Policy: step.Policy, Reference: make([]float64,
			2), Plan: p.Plan, Cohort: p.Cohort,
		Encodings: p.Encodings, AnalyzerKey: f.analyzerKey.Public(),
		Timing: plan.Timing{
			RewardWindow: time.Minute, Jitter: 10 * time.Second, Grace: 10 * time.Second, RoundWindow: 20 * time.Second,
		},
	}
}

// second is the second round after the first of the paper's profile.
func (f *fixture) second(first *plan.Announcement) *plan.Announcement {
	learner := must(learner.New(learner.Config{
		Profile: glm.Paper, Dimension: 2, Radius: 2, Horizon: 36, Epsilon: 4, Delta: 1e-3, MinCohort: 12,
		Paper: learner.PaperConfig{Rounds: 2},
	}))
	step := learner.Next()
	step.Round = 1
	next := first.Clone()
	digest := digestOf(first)
	next.Round, next.Previous = 1, digest[:]
	next.Encodings = must(plan.Encode(first.Plan, step))
	return next
}

func (f *fixture) announce(a *plan.Announcement) []byte { return sign(a, f.analyzer) }

func (f *fixture) keys(number uint64, keys ...*seal.HPKEKey) []byte {
	set := &wire.KeySet{Deployment: deployment, Number: number}
	for _, k := range keys {
		set.Keys = append(set.Keys, k.Public())
	}
	return sign(set, f.shuffler)
}

// reply is the shuffler's answer to a request, sealed as the request is; its digest is filled in.
func (f *fixture) reply(request []byte, r wire.EnrolReply) []byte {
	return f.replyBy(f.shuffler, request, r)
}

// replyBy is reply, signed by another than the shuffler.
func (f *fixture) replyBy(by *seal.Identity, request []byte, r wire.EnrolReply) []byte {
	o := f.asked(request)
	digest := wire.RequestDigest(o.Signed)
	r.Request = digest[:]
	return must(o.SealReply(sign(&r, by)))
}

// asked is a request as the shuffler opens it.
func (f *fixture) asked(request []byte) *wire.OpenedRequest {
	return must(wire.OpenSealedRequest(request, must(seal.NewRequestOpener(deployment, f.shufflerKey))))
}

// open is what a report holds, for the shuffler that opens its envelope.
func (f *fixture) open(envelope []byte, a *plan.Announcement) *wire.Report {
	f.Helper()
	context := seal.ReportContext{Deployment: deployment, Epoch: a.Epoch, Round: a.Round}
	plain, err := wire.OpenEnvelope(envelope, must(seal.NewReportOpener(f.shufflerKey)), context)
	if err != nil {
		f.Fatal(err)
	}
	report, _, err := wire.ParseReport(plain, a.ReportMessages()*seal.BitSize)
	if err != nil {
		f.Fatal(err)
	}
	return report
}

// bits counts the bit messages of a report, ones and all, by release and coordinate.
func (f *fixture) bits(bits []byte, a *plan.Announcement) (ones, seen [][]uint64) {
	f.Helper()
	for _, e := range a.Encodings {
		ones = append(ones, make([]uint64, len(e.Coordinates)))
		seen = append(seen, make([]uint64, len(e.Coordinates)))
	}
	opener := seal.NewBitOpener(f.analyzerKey, digestOf(a))
	for at := 0; at < len(bits); at += seal.BitSize {
		release, coordinate, one, err := opener.Open(bits[at : at+seal.BitSize])
		if err != nil {
			f.Fatal(err)
		}
		seen[release][coordinate]++
		if one {
			ones[release][coordinate]++
		}
	}
	return ones, seen
}

// judgedAs is the judgement of a plan with these guarantees.
func judgedAs(g, alone privacy.Guarantee) func() *judgement {
	return func() *judgement { return &judgement{guarantee: g, alone: alone} }
}

func source(seed byte) protocol.Source { return rand.NewChaCha8([32]byte{seed}) }

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// digestOf is the digest of an announcement, which does not depend on who signs it.
func digestOf(a *plan.Announcement) [32]byte {
	_, digest, err := wire.Sign(a, must(seal.NewIdentity(make([]byte, 32))))
	if err != nil {
		panic(err)
	}
	return digest
}

// decision is the handle of the first decision that a device reports on; 0 where there is none.
func decision(d *Device) uint64 {
	if len(d.handles) == 0 {
		return 0
	}
	return d.handles[0]
}
