// Package ledger makes the two transparency logs of a whole deployment in memory, with real keys, signatures, counts
// and checkpoints: what an audit reads, without a broker or a role. Fraud is planted by changing a statement before it
// is signed (Tamper), or the finished logs (Ledger's fields, then Seal). Everything but the encryption of retained
// messages follows from a seed.
//
// The analyzer's statements come from the code that it runs (pkg/deployment), and counts from records that people of a
// made-up population encode with the announced noise. People play random arms: what is learnt is of no interest here.
package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn/bandit"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Deployment is the name of every deployment that is made here.
const Deployment = "ledger"

// Version is what the analyzer's statements say of its program.
const Version = "v0.0.0-ledger"

// Options say which deployment is made.
type Options struct {
	Configuration wire.Configuration // such as Small's
	Seed          uint64
	Rounds        int // after which the deployment is still running; 0: it goes on to the final announcement
	// Ask says what the panel of an epoch is asked; nil: nothing.
	Ask func(epoch uint64) (statistic.Kind, *statistic.Question)
	// Destroyed says which cohorts are destroyed; nil: none.
	Destroyed func(epoch uint64, round uint32) bool
	// Retain has people seal their messages, so that the shuffler can retain them and anybody with both keys can count
	// them again. It takes a cohort of a few dozen people, in the channels shuffle and local.
	Retain bool
	// Rotate gives every epoch an HPKE key of its own.
	Rotate bool
	Tamper Tamper
}

// Tamper changes statements before they are signed; a nil function changes nothing. Statements after a changed one name
// it as it was signed, and people report as it was announced. The analyzer learns from the counts that it signed, where
// anything can be learned from them; otherwise from those that it should have signed.
type Tamper struct {
	Configuration func(*wire.Configuration) // what is logged; what runs stays
	Announcement  func(*plan.Announcement)
	Accepted      func(*wire.Accepted)
	Pool          func(*wire.Pool)
	Draw          func(*wire.Draw)
	Summed        func(*wire.Summed)
	Manifest      func(*wire.Manifest)
	Counts        func(*wire.Counts)
	Learned       func(*wire.Learned)
	// Sent changes what leaves of a round, after it was counted and before the manifest is made.
	Sent func(epoch uint64, round uint32, messages [][]byte) [][]byte
	// Messages changes what is retained of a round, after the manifest was made.
	Messages func(epoch uint64, round uint32, messages [][]byte) [][]byte
}

// Ledger is a deployment's logs, and its keys. It is an audit.Source. Its fields may be changed; then Seal signs what
// is there.
type Ledger struct {
	Bundle             keyring.Bundle
	Analyzer, Shuffler *seal.Identity
	Auditor            *seal.HPKEKey
	HPKE               []*seal.HPKEKey // the analyzer's
	Logs               map[bus.Role][]audit.Entry
	Checkpoints        map[bus.Role][]byte
	Chunks             map[Place][][]byte // retained, sealed to Auditor, by index
	Dropped            map[Place]uint32   // index of a retained chunk that is gone; a round that is not in it has all
}

// Place names a round.
type Place struct {
	Epoch uint64
	Round uint32
}

// Small is the configuration of a deployment in which planning is quick: cohorts of 12 people in 2 dimensions, as many
// as rounds says of the practical profile, or two epochs of the others.
func Small(profile glm.Profile, channel plan.Channel, cohorts int) wire.Configuration {
	const cohort = 12
	terms := plan.DefaultTermsFor(channel)
	terms.Epsilon, terms.Delta, terms.DropOut, terms.MinCohort = 4, 1e-3, 0.2, 4
	if channel == plan.Shuffle {
		terms.MaxMessages, terms.MaxShift, terms.VarianceRatio = 0, 2, 64
	}
	var program *learner.ProgramConfig
	if profile == glm.LinUCB {
		program = &learner.ProgramConfig{Options: map[string]float64{bandit.First: cohort, bandit.Growth: 1}}
	}
	return wire.Configuration{
		Deployment: Deployment, Terms: terms, Batch: 0,
		Learner: learner.Config{
			Profile: profile, Dimension: 2, Radius: 2, Horizon: cohorts * cohort, Epsilon: terms.Epsilon,
			Delta: terms.Delta, MinCohort: cohort,
			Practical: learner.PracticalConfig{FirstCohort: cohort, Growth: 1, MaxEpochs: max(64, cohorts)},
			Paper:     learner.PaperConfig{Rounds: 2},
			Program:   program,
		},
		Timing: plan.Timing{
			RewardWindow: 300 * time.Millisecond, Jitter: 50 * time.Millisecond, Grace: 700 * time.Millisecond,
			RoundWindow: 600 * time.Millisecond,
		},
	}
}

// Make makes a deployment.
func Make(o Options) (*Ledger, error) {
	src := source(o.Seed, "people")
	l := &Ledger{Logs: map[bus.Role][]audit.Entry{}, Checkpoints: map[bus.Role][]byte{}, Chunks: map[Place][][]byte{}}
	l.Bundle.Deployment = o.Configuration.Deployment
	for _, of := range []struct {
		name  string
		id    **seal.Identity
		named *keyring.Key
	}{{"analyzer", &l.Analyzer, &l.Bundle.Analyzer}, {"shuffler", &l.Shuffler, &l.Bundle.Shuffler}} {
		var err error
		if *of.id, err = Identity(o.Seed, of.name); err != nil {
			return nil, err
		}
		*of.named = (*of.id).Public()
	}
	registrar, err := Identity(o.Seed, "registrar")
	if err != nil {
		return nil, err
	}
	l.Bundle.Registrar = registrar.Public()
	if l.Auditor, err = hpke(o.Seed, "auditor"); err != nil {
		return nil, err
	}
	l.Bundle.Auditor = l.Auditor.Public()
	m := &maker{o: o, l: l, src: src, registrar: registrar}
	if err := m.run(); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return l, l.Seal()
}

// Once makes a deployment when it is first asked for, and then gives the same one: for tests that change nothing in it,
// one after the other.
func Once(o Options) func() (*Ledger, error) {
	var l *Ledger
	return func() (made *Ledger, err error) {
		if l == nil {
			l, err = Make(o)
		}
		return l, err
	}
}

// Identity is the signing key of a name.
func Identity(seed uint64, name string) (*seal.Identity, error) {
	b := words(source(seed, "identity "+name))
	return seal.NewIdentity(b[:])
}

func hpke(seed uint64, name string) (*seal.HPKEKey, error) {
	b := words(source(seed, "hpke "+name))
	return seal.NewHPKEKey(b[:])
}

// source is a seeded stream of random words for a purpose.
func source(seed uint64, purpose string) *rand.ChaCha8 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], seed)
	return rand.NewChaCha8(seal.Derive(b[:], []byte(purpose)))
}

// words are 32 random bytes.
func words(src *rand.ChaCha8) (b [32]byte) {
	for i := range 4 {
		binary.BigEndian.PutUint64(b[8*i:], src.Uint64())
	}
	return b
}

// Seal signs a checkpoint over each log as it is.
func (l *Ledger) Seal() error {
	for _, role := range []bus.Role{bus.Analyzer, bus.Shuffler} {
		c, err := l.CheckpointAt(role, len(l.Logs[role]))
		if err != nil {
			return err
		}
		l.Checkpoints[role] = c
	}
	return nil
}

// CheckpointAt is a role's checkpoint over the first entries of its log.
func (l *Ledger) CheckpointAt(role bus.Role, entries int) ([]byte, error) {
	var tree transparency.Tree
	for _, e := range l.Logs[role][:entries] {
		tree.Append(e.Signed)
	}
	return transparency.Sign(transparency.Checkpoint{
		Origin: transparency.Origin(l.Bundle.Deployment, string(role)), Size: tree.Size(), Root: tree.Root(),
	}, l.Identity(role))
}

// Identity is the signing key of a role.
func (l *Ledger) Identity(role bus.Role) *seal.Identity {
	if role == bus.Shuffler {
		return l.Shuffler
	}
	return l.Analyzer
}

// Find is the index of the first entry of a kind in a role's log from an index on; -1 if there is none.
func (l *Ledger) Find(role bus.Role, kind string, from int) int {
	for i := from; i < len(l.Logs[role]); i++ {
		if l.Logs[role][i].Kind == kind {
			return i
		}
	}
	return -1
}

// Log implements audit.Source.
func (l *Ledger) Log(_ context.Context, role bus.Role, f func(audit.Entry) error) error {
	for _, e := range l.Logs[role] {
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// Checkpoint implements audit.Source.
func (l *Ledger) Checkpoint(_ context.Context, role bus.Role) ([]byte, error) {
	return l.Checkpoints[role], nil
}

// Retained implements audit.Source.
func (l *Ledger) Retained(
	_ context.Context, epoch uint64, round uint32, f func(index uint32, sealed []byte) error,
) error {
	gone, dropped := l.Dropped[Place{epoch, round}]
	for i, sealed := range l.Chunks[Place{epoch, round}] {
		if dropped && uint32(i) == gone {
			continue
		}
		if err := f(uint32(i), sealed); err != nil {
			return err
		}
	}
	return nil
}

// Append signs a statement as the role does and puts it into its log, before the entry with the index.
func Append[T wire.Statement](l *Ledger, role bus.Role, index int, kind string, s *T) error {
	signed, _, err := wire.Sign(s, l.Identity(role))
	if err == nil {
		l.Logs[role] = slices.Insert(l.Logs[role], index, audit.Entry{Kind: kind, Signed: signed})
	}
	return err
}

// Open reads an entry.
func Open[T plan.Announcement | wire.Manifest | wire.Counts | wire.Accepted | wire.Summed | wire.Configuration |
	wire.Learned | wire.Pool | wire.Draw](l *Ledger, role bus.Role, index int) (*T, error) {
	s, _, err := wire.Open[T](l.Logs[role][index].Signed, wire.Party{
		Deployment: l.Bundle.Deployment, Key: l.Identity(role).Public()})
	return s, err
}
