// Package testbed runs a broker and holds the keys of a small deployment, for tests of the roles. A test uses it to do
// what the other roles would do: announce, enrol, report, shuffle. Only tests import it.
package testbed

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Deployment is the bed's name for itself.
const Deployment = "testbed"

// Patience bounds everything that a test waits for: so long that no machine is too busy for it, and shorter than go
// test's own limit, so that a test that fails says what it waited for.
const Patience = 5 * time.Minute

// maxStore is more than any disk has: tests must not be kept from running because the free disk is less than the
// streams' limits.
const maxStore = 1 << 40

// ackWait is the time after which the bed's broker delivers again what was on its way to a role that died: so long that
// no busy machine has a report decided on twice, which accounts would tell. A test that waits for it sets less.
const ackWait = time.Minute

// Bed is a running broker with the keys of one deployment.
type Bed struct {
	tb      testing.TB
	options broker.Options
	server  *broker.Server
	seeds   map[bus.Role][]byte
	second  []byte // seed of another host

	Analyzer, Shuffler, Registrar *seal.Identity
	AnalyzerKey, ShufflerKey      *seal.HPKEKey
	AuditorKey                    *seal.HPKEKey
}

// New starts a broker that ends with the test. The changes are made to its options, and to those of its streams, before
// it starts.
func New(tb testing.TB, change ...func(*broker.Options, *bus.ProvisionOptions)) *Bed {
	tb.Helper()
	options := broker.Options{Dir: tb.TempDir(), MaxStore: maxStore, Users: map[bus.Role][]string{}}
	b := &Bed{tb: tb, seeds: map[bus.Role][]byte{}, options: options}
	for _, r := range bus.Roles() {
		seed, public, err := keyfile.NewSeed()
		b.must(err)
		b.seeds[r], b.options.Users[r] = seed, []string{public}
	}
	seed, public, err := keyfile.NewSeed()
	b.must(err)
	b.second, b.options.Users[bus.Randomizer] = seed, append(b.options.Users[bus.Randomizer], public)
	for _, id := range []**seal.Identity{&b.Analyzer, &b.Shuffler, &b.Registrar} {
		*id = NewIdentity(tb)
	}
	b.AnalyzerKey, b.ShufflerKey, b.AuditorKey = NewKey(tb), NewKey(tb), NewKey(tb)
	provisioned := bus.ProvisionOptions{Workers: true, AckWait: ackWait}
	for _, f := range change {
		f(&b.options, &provisioned)
	}
	b.server = StartBroker(tb, b.options)
	tb.Cleanup(func() { b.server.Stop() }) // the last one, after the connections, which else wait for it
	admin := b.Connect(bus.Admin)
	b.must(bus.Provision(b.Context(), admin, provisioned))
	admin.Close()
	return b
}

func (b *Bed) must(err error) {
	b.tb.Helper()
	if err != nil {
		b.tb.Fatal(err)
	}
}

// NewIdentity makes a signing key.
func NewIdentity(tb testing.TB) *seal.Identity {
	tb.Helper()
	id, err := seal.GenerateIdentity()
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// NewKey makes an HPKE key.
func NewKey(tb testing.TB) *seal.HPKEKey {
	tb.Helper()
	k, err := seal.GenerateHPKE()
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// Context ends with the test, or when a test's patience does.
func (b *Bed) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	b.tb.Cleanup(cancel)
	return ctx
}

// Connect connects as a role.
func (b *Bed) Connect(r bus.Role) *bus.Conn {
	b.tb.Helper()
	return b.connect(r, b.seeds[r])
}

// ConnectHost connects as another randomizer host than Connect does.
func (b *Bed) ConnectHost() *bus.Conn {
	b.tb.Helper()
	return b.connect(bus.Randomizer, b.second)
}

func (b *Bed) connect(r bus.Role, seed []byte) *bus.Conn {
	b.tb.Helper()
	c, err := bus.Connect(b.Context(), bus.Options{URL: b.server.URL(), Role: r, Seed: seed, Name: "test " + string(r)})
	b.must(err)
	b.tb.Cleanup(c.Close)
	return c
}

// Host makes a randomizer host's key and the registrar's credential for it.
func (b *Bed) Host(devices uint32) (*seal.Identity, []byte) {
	b.tb.Helper()
	id := NewIdentity(b.tb)
	signed, _ := b.Sign(&wire.Credential{Deployment: Deployment, HostKey: id.Public(), Devices: devices}, b.Registrar)
	return id, signed
}

// AnalyzerParty is the signer of announcements.
func (b *Bed) AnalyzerParty() wire.Party {
	return wire.Party{Deployment: Deployment, Key: b.Analyzer.Public()}
}

// ShufflerParty is the signer of manifests and key sets.
func (b *Bed) ShufflerParty() wire.Party {
	return wire.Party{Deployment: Deployment, Key: b.Shuffler.Public()}
}

// Source is a seeded source of its own.
func Source() protocol.Source {
	var seed [32]byte
	n := sources.Add(1)
	seed[0], seed[1] = byte(n), byte(n>>8)
	return rand.NewChaCha8(seed)
}

var sources atomic.Uint32

// Log writes to standard error where RIFFLE_LOG is set, else nowhere.
func Log() zerolog.Logger {
	if os.Getenv("RIFFLE_LOG") == "" {
		return zerolog.Nop()
	}
	return zerolog.New(os.Stderr).With().Timestamp().Logger()
}

// Account makes an account of items with those reasons.
func Account(tb testing.TB, item string, held func() int64, reasons []outcome.Reason) *outcome.Outcomes {
	tb.Helper()
	o, err := outcome.New(prometheus.NewRegistry(), "test", item, held, reasons...)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

// Refused is the number of items of an account that had the reason.
func Refused(o *outcome.Outcomes, r outcome.Reason) int {
	for _, c := range o.Balance().Refused {
		if c.Reason == r {
			return int(c.Items)
		}
	}
	return -1
}

// Eventually waits until a condition holds.
func Eventually(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	deadline := time.Now().Add(Patience)
	for !condition() {
		if time.Now().After(deadline) {
			tb.Fatalf("after %v: not yet %s", Patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Terms are terms under which cohorts of 20 people can be planned with few messages. They give too little privacy for a
// real deployment.
func Terms() plan.Terms {
	return plan.Terms{Epsilon: 4, Delta: 1e-3, DropOut: 0.2, MinCohort: 4, MaxShift: 2, VarianceRatio: 64}
}

// Learner is the configuration of a learner in dimension 2 whose first cohort has the given number of people.
func Learner(profile glm.Profile, cohort int) learner.Config {
	return learner.Config{
		Profile: profile, Dimension: 2, Radius: 2, Horizon: 3 * cohort, Epsilon: 4, Delta: 1e-3, MinCohort: cohort,
		Practical: learner.PracticalConfig{FirstCohort: cohort, Growth: 1}, Paper: learner.PaperConfig{Rounds: 2},
	}
}

// Timing is quick: reports leave 300 ms after their decision, cohorts that fill are released as soon as all reports are
// there, and those that lack some are waited for no more than a second.
func Timing() plan.Timing {
	return plan.Timing{
		RewardWindow: 300 * time.Millisecond, Jitter: 50 * time.Millisecond, Grace: 700 * time.Millisecond,
		RoundWindow: 600 * time.Millisecond,
	}
}

// Announcement is a valid first announcement for a cohort of that size.
func (b *Bed) Announcement(profile glm.Profile, cohort int) *plan.Announcement {
	b.tb.Helper()
	learner, err := learner.New(Learner(profile, cohort))
	b.must(err)
	step := learner.Next()
	step.Cohort = cohort
	return b.Draw(step, Terms(), 1, nil)
}

// Draw draws up the announcement that begins an epoch.
func (b *Bed) Draw(step learner.Step, terms plan.Terms, epoch uint64, previous []byte) *plan.Announcement {
	b.tb.Helper()
	p, err := plan.Propose(step, terms)
	if err != nil {
		b.tb.Fatal(fmt.Errorf("no plan: %w", err))
	}
	reference := make([]float64, step.Policy.Dimension)
	for _, s := range step.Statistics[step.Round] {
		if s.Kind != statistic.Covariance {
			reference = s.Theta
		}
	}
	return &plan.Announcement{
		Deployment: Deployment, Epoch: epoch, Round: uint32(step.Round), Previous: previous, Policy: step.Policy,
		Reference: reference, Plan: p.Plan, Cohort: p.Cohort, Encodings: p.Encodings, Timing: Timing(),
		AnalyzerKey: b.AnalyzerKey.Public(),
	}
}
