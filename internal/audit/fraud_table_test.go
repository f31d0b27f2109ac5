package audit_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What frauds are planted in: deployments in which planning and learning are quick.
const (
	joint  = "joint"  // records to a curator, three epochs of one round
	sums   = "sums"   // the channel central, two epochs of three rounds
	bits   = "bits"   // the channel shuffle with retained bit messages
	shares = "shares" // the channel shares
	two    = "two"    // the channel shuffle with retained bit messages, two releases in a round
	noise  = "noise"  // the channel shuffle, with noise of the shuffler
	alone  = "alone"  // the same, with as much as gives the promise by itself
	each   = "each"   // the channel local with retained envelopes, of pairs: counts list every report
)

func configuration(name string) ledger.Options {
	o := ledger.Options{Seed: 7}
	switch name {
	case joint:
		o.Configuration = ledger.Small(glm.Joint, plan.Central, 3)
		o.Configuration.Batch = 12
	case panels, twice:
		o.Configuration = ledger.Living(plan.Central, map[string]int{panels: 1, twice: 2}[name])
	case questioned:
		o.Configuration, o.Ask = ledger.Living(plan.Central, 1), asking
	case sums:
		o.Configuration = ledger.Small(glm.Paper, plan.Central, 2)
	case bits:
		o.Configuration, o.Retain = ledger.Small(glm.Paper, plan.Shuffle, 2), true
	case two:
		o.Configuration, o.Retain = ledger.Small(glm.Practical, plan.Shuffle, 2), true
	case each:
		o.Configuration, o.Retain = ledger.Small(glm.OnlineLinUCB, plan.Local, 2), true
		o.Configuration.Learner.MinCohort = 12
	case shares:
		o.Configuration = ledger.Small(glm.Paper, plan.Shares, 2)
	case noise, alone:
		o.Configuration = ledger.Small(glm.Paper, plan.Shuffle, 2)
		o.Configuration.Terms.ServerNoise = map[string]float64{noise: 0.5, alone: 1}[name]
	}
	return o
}

// fraud is what somebody did to a deployment's logs, and how the audit must name it.
type fraud struct {
	name  string
	of    string                                     // deployment
	plant func(*ledger.Options)                      // before statements are signed; may be nil
	after func(*ledger.Ledger, *audit.Options) error // to the finished logs, after which both are sealed; may be nil
	last  func(*ledger.Ledger, *audit.Options) error // after that; may be nil
	want  []audit.What
	entry string // of the first breach of the first kind
}

// frauds are all of them, each by who commits it or where.
func frauds() []fraud {
	return slices.Concat(logFrauds, planFrauds, releaseFrauds, countFrauds, operatorFrauds, panelFrauds,
		questionFrauds, issuedFrauds)
}

// at changes the statement of one round.
func at[T any](epoch uint64, round uint32, of func(*T) (uint64, uint32), f func(*T)) func(*T) {
	return func(s *T) {
		if e, r := of(s); e == epoch && r == round {
			f(s)
		}
	}
}

func manifestAt(epoch uint64, round uint32, f func(*wire.Manifest)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Manifest = at(epoch, round, func(m *wire.Manifest) (uint64, uint32) { return m.Epoch, m.Round }, f)
	}
}

func countsAt(epoch uint64, round uint32, f func(*wire.Counts)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Counts = at(epoch, round, func(m *wire.Counts) (uint64, uint32) { return m.Epoch, m.Round }, f)
	}
}

func learnedAt(epoch uint64, round uint32, f func(*wire.Learned)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Learned = at(epoch, round, func(m *wire.Learned) (uint64, uint32) { return m.Epoch, m.Round }, f)
	}
}

func announcementAt(epoch uint64, round uint32, f func(*plan.Announcement)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Announcement = at(epoch, round,
			func(m *plan.Announcement) (uint64, uint32) { return m.Epoch, m.Round }, f)
	}
}

// messagesAt changes what is retained of the second round.
func messagesAt(f func(messages [][]byte) [][]byte) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Messages = func(epoch uint64, round uint32, messages [][]byte) [][]byte {
			if epoch == 1 && round == 1 {
				return f(messages)
			}
			return messages
		}
	}
}

func both(all ...func(*ledger.Options)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		for _, f := range all {
			f(o)
		}
	}
}

// change signs an entry anew.
func change[T plan.Announcement | wire.Manifest | wire.Counts | wire.Accepted | wire.Summed | wire.Configuration |
	wire.Learned | wire.Pool | wire.Draw](l *ledger.Ledger, role bus.Role, index int, f func(*T)) error {
	s, err := ledger.Open[T](l, role, index)
	if err != nil {
		return err
	}
	f(s)
	kind := l.Logs[role][index].Kind
	drop(l, role, index, 1)
	return ledger.Append(l, role, index, kind, s)
}

// again signs an entry anew, and keeps the old one before it.
func again[T plan.Announcement | wire.Manifest | wire.Counts | wire.Accepted | wire.Summed | wire.Configuration |
	wire.Learned | wire.Pool | wire.Draw](l *ledger.Ledger, role bus.Role, index int, f func(*T)) error {
	l.Logs[role] = slices.Insert(l.Logs[role], index, l.Logs[role][index])
	return change(l, role, index+1, f)
}

func drop(l *ledger.Ledger, role bus.Role, index, n int) {
	l.Logs[role] = slices.Delete(l.Logs[role], index, index+n)
}

func end(l *ledger.Ledger, role bus.Role) int { return len(l.Logs[role]) }

func flip(b []byte) []byte {
	b = slices.Clone(b)
	b[len(b)-1] ^= 1
	return b
}

// refuse has the analyzer sign that it does not count what the shuffler released.
func refuse(c *wire.Counts) { c.Destroyed, c.Releases = true, nil }

// one makes a plant of a change that cannot fail.
func one(f func(*ledger.Ledger)) func(*ledger.Ledger, *audit.Options) error {
	return func(l *ledger.Ledger, _ *audit.Options) error {
		f(l)
		return nil
	}
}

// Every fraud is caught under its own name, and nothing else is reported. The entry is the proof.
func TestEveryFraudIsCaughtAndNamed(t *testing.T) {
	honest := map[string]*ledger.Ledger{}
	for _, f := range frauds() {
		t.Run(f.name, func(t *testing.T) {
			options := configuration(f.of)
			if f.plant != nil {
				f.plant(&options)
			} else if honest[f.of] == nil {
				honest[f.of] = made(t, options)
			}
			l, err := copied(honest[f.of]), error(nil)
			if f.plant != nil {
				l, err = ledger.Make(options)
			}
			var o audit.Options
			if err == nil && f.after != nil {
				if err = f.after(l, &o); err == nil {
					err = l.Seal()
				}
			}
			if err == nil && f.last != nil {
				err = f.last(l, &o)
			}
			if err != nil {
				t.Fatal(err)
			}
			o.Auditor, o.AnalyzerKeys = []*seal.HPKEKey{l.Auditor}, l.HPKE
			r := check(t, l, o)
			if got := whats(r); !slices.Equal(got, slices.Sorted(slices.Values(f.want))) || r.OK {
				t.Fatalf("named %v, want %v%s", got, f.want, list(r))
			}
			if r.Breaches[0].Entry != f.entry {
				t.Errorf("the first proof is %s, want %s%s", r.Breaches[0].Entry, f.entry, list(r))
			}
		})
	}
}

// copied is a ledger whose logs can be changed; nil of none.
func copied(l *ledger.Ledger) *ledger.Ledger {
	if l == nil {
		return nil
	}
	out := *l
	out.Logs, out.Chunks, out.Checkpoints = maps.Clone(l.Logs), maps.Clone(l.Chunks), maps.Clone(l.Checkpoints)
	for role, log := range l.Logs {
		out.Logs[role] = slices.Clone(log)
	}
	for place, chunks := range l.Chunks {
		out.Chunks[place] = slices.Clone(chunks)
	}
	return &out
}

// Every kind of breach is found by a fraud of the table, and explained.
func TestEveryBreachHasAFraud(t *testing.T) {
	var caught, explained []audit.What
	for _, f := range frauds() {
		caught = append(caught, f.want...)
	}
	for _, e := range audit.Explanations() {
		if !slices.Contains(caught, e.What) && !slices.Contains(ofFolders, e.What) {
			t.Errorf("no fraud is named %s", e.What)
		}
		if slices.Contains(explained, e.What) || e.Means == "" || e.By == "" || e.Do == "" {
			t.Errorf("%s is explained twice, or by nothing", e.What)
		}
		explained = append(explained, e.What)
	}
	for _, what := range caught {
		if !slices.Contains(explained, what) {
			t.Errorf("%s is not explained", what)
		}
	}
}

// ofFolders are breaches of exports, which other tests find.
var ofFolders = []audit.What{audit.CertificateWrong}

func list(r *audit.Report) (text string) {
	for _, b := range r.Breaches {
		text += fmt.Sprintf("\n\t%s in %s (%s): %s", b.What, b.Entry, b.Release, b.Detail)
	}
	return text
}
