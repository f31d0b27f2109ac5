package certificate

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// examined is what the statements of a certificate say.
type examined struct {
	keys          keyring.Bundle
	configuration *wire.Configuration
	rounds        []*round
	roots         map[bus.Role]Root
	summary       Summary
}

// round is what was said of one round; nil what was not.
type round struct {
	announcement *plan.Announcement
	pool         *wire.Pool // of plans of panels
	draw         *wire.Draw // the same
	accepted     *wire.Accepted
	counts       *wire.Counts
	learned      *wire.Learned
	summed       *wire.Summed
	manifest     *wire.Manifest
	digests      digests
}

// digests are those of a round's statements.
type digests struct{ announcement, pool, draw, accepted, counts, learned, summed, manifest [32]byte }

// Verified is what a certificate shows.
type Verified struct {
	Summary
	// Observers is whom the guarantee protects from, and on whom it rests.
	Observers []plan.Observer
}

// Verify checks all that a certificate can show to one who trusts these keys: that both servers signed every statement
// for the deployment and put it in their logs, that the statements belong together and name each other, that the plan
// keeps the terms, that no release was below the minimum, and that the summary is what the statements say. It
// recomputes both guarantees and the sums. The error wraps ErrRefused, or ErrUnfinished.
func Verify(f *File, trusted keyring.Bundle) (*Verified, error) {
	x, err := examine(f, trusted)
	if err != nil {
		return nil, err
	}
	if err := compare(f.Summary, x.summary); err != nil {
		return nil, err
	}
	v := &Verified{Summary: x.summary}
	if v.Observers, err = plan.Observers(x.rounds[0].announcement, 0); err != nil {
		return nil, refuse("the plan: %w", err)
	}
	return v, nil
}

// examine checks everything but the summary, and makes that.
func examine(f *File, trusted keyring.Bundle) (*examined, error) {
	if err := sameKeys(f.Keys, trusted); err != nil {
		return nil, err
	}
	x := &examined{keys: trusted, roots: map[bus.Role]Root{}}
	for _, role := range []bus.Role{bus.Analyzer, bus.Shuffler} {
		if err := x.read(role, f.log(role)); err != nil {
			return nil, err
		}
	}
	if err := x.whole(); err != nil {
		return nil, err
	}
	for role, until := range trusted.Until {
		if epoch := x.rounds[0].announcement.Epoch; epoch > until {
			return nil, refuse("the %s's key was good until epoch %d, this is epoch %d", role, until, epoch)
		}
	}
	if err := x.checkPromise(); err != nil {
		return nil, err
	}
	for i, r := range x.rounds {
		if err := x.check(i, r); err != nil {
			return nil, refuse("round %d: %w", i, err)
		}
	}
	return x, x.summarise()
}

// sameKeys compares the keys that the certificate names with those that are trusted.
func sameKeys(named, trusted keyring.Bundle) error {
	if err := trusted.Validate(); err != nil {
		return refuse("the keys to trust: %w", err)
	}
	switch {
	case named.Deployment != trusted.Deployment:
		return refuse("it is of the deployment %q, trusted are the keys of %q", named.Deployment, trusted.Deployment)
	case !bytes.Equal(named.Analyzer, trusted.Analyzer) || !bytes.Equal(named.Shuffler, trusted.Shuffler):
		return refuse("it names other keys than those that are trusted")
	}
	return nil
}

// read checks the checkpoint and the statements of one server, and sorts the statements by round.
func (x *examined) read(role bus.Role, l Log) error {
	party := x.keys.AnalyzerParty()
	if role == bus.Shuffler {
		party = x.keys.ShufflerParty()
	}
	c, err := transparency.Open([]byte(l.Checkpoint), transparency.Origin(party.Deployment, string(role)), party.Key)
	if err != nil {
		return refuse("the checkpoint of the %s: %w", role, err)
	}
	x.roots[role] = Root{Size: c.Size, Root: c.Root[:]}
	next := uint64(0)
	for i, s := range l.Statements {
		at := fmt.Sprintf("%s/%d %s", role, s.Index, s.Kind)
		proof := make([]transparency.Hash, len(s.Proof))
		for j, h := range s.Proof {
			if len(h) != transparency.HashSize {
				return refuse("%s: a hash of its proof has %d bytes", at, len(h))
			}
			proof[j] = transparency.Hash(h)
		}
		if err := transparency.CheckInclusion(s.Signed, s.Index, proof, c); err != nil {
			return refuse("%s: %w", at, err)
		}
		switch {
		case role == bus.Analyzer && i == 0:
			if s.Index != 0 {
				return refuse("%s: the log's first entry must be its configuration", at)
			}
		// the first of the epoch, and all after it
		case next == 0 && (role != bus.Analyzer || s.Index != 0), s.Index == next:
			next = s.Index + 1
		default:
			return refuse("%s: it must follow entry %d at once: something was left out or repeated", at, next-1)
		}
		if err := x.open(role, s, party, i == 0); err != nil {
			return refuse("%s: %w", at, err)
		}
	}
	return nil
}

// take opens a statement into its place.
func take[T plan.Announcement | wire.Manifest | wire.Counts | wire.Accepted | wire.Summed | wire.Learned | wire.Pool |
	wire.Draw](b []byte, from wire.Party, place **T, digest *[32]byte) error {
	s, d, err := wire.Open[T](b, from)
	if err != nil {
		return err
	}
	if *place != nil {
		return fmt.Errorf("the round has two statements of this kind")
	}
	*place, *digest = s, d
	return nil
}

// open puts a statement in its place in its round. An announcement begins a round of the analyzer's; the manifest ends
// one of the shuffler's.
func (x *examined) open(role bus.Role, s Statement, from wire.Party, first bool) (err error) {
	if role == bus.Analyzer && first {
		if s.Kind != wire.KindConfiguration {
			return fmt.Errorf("the analyzer's first statement must be its configuration")
		}
		x.configuration, _, err = wire.Open[wire.Configuration](s.Signed, from)
		return err
	}
	if role == bus.Analyzer && s.Kind == wire.KindAnnouncement {
		x.rounds = append(x.rounds, new(round))
	}
	r := x.current(role)
	if r == nil {
		return fmt.Errorf("it belongs to no announced round")
	}
	switch {
	case role == bus.Analyzer && s.Kind == wire.KindAnnouncement:
		return take(s.Signed, from, &r.announcement, &r.digests.announcement)
	case role == bus.Analyzer && s.Kind == wire.KindCounts:
		return take(s.Signed, from, &r.counts, &r.digests.counts)
	case role == bus.Analyzer && s.Kind == wire.KindLearned:
		return take(s.Signed, from, &r.learned, &r.digests.learned)
	case role == bus.Analyzer && s.Kind == wire.KindDraw && r.counts == nil:
		return take(s.Signed, from, &r.draw, &r.digests.draw)
	case role == bus.Shuffler && s.Kind == wire.KindPool:
		return take(s.Signed, from, &r.pool, &r.digests.pool)
	case role == bus.Shuffler && s.Kind == wire.KindManifest:
		return take(s.Signed, from, &r.manifest, &r.digests.manifest)
	case role == bus.Analyzer && s.Kind == wire.AcceptedKind(r.place()):
		return take(s.Signed, from, &r.accepted, &r.digests.accepted)
	case role == bus.Shuffler && s.Kind == wire.SummedKind(r.place()):
		return take(s.Signed, from, &r.summed, &r.digests.summed)
	}
	return fmt.Errorf("a statement of this kind does not belong here")
}

// current is the round that a role's next statement belongs to; nil: none.
func (x *examined) current(role bus.Role) *round {
	if role == bus.Analyzer {
		if len(x.rounds) == 0 {
			return nil
		}
		return x.rounds[len(x.rounds)-1]
	}
	i := slices.IndexFunc(x.rounds, func(r *round) bool { return r.manifest == nil })
	if i < 0 {
		return nil
	}
	return x.rounds[i]
}

// place names the round as its announcement does.
func (r *round) place() (epoch uint64, number uint32) {
	if r.announcement == nil {
		return 0, 0
	}
	return r.announcement.Epoch, r.announcement.Round
}

// whole checks that there is one whole epoch: all planned rounds, or those up to one whose cohort was destroyed.
func (x *examined) whole() error {
	if x.configuration == nil || len(x.rounds) == 0 {
		return refuse("it lacks the configuration or an announcement")
	}
	var before *round
	for i, r := range x.rounds {
		a := r.announcement
		if a.Final {
			return refuse("the final announcement has no epoch")
		}
		switch {
		case r.counts == nil || r.learned == nil || r.manifest == nil:
			return fmt.Errorf("round %d lacks a manifest, counts or what was learned: %w", i, ErrUnfinished)
		case int(a.Round) != i || before != nil && a.Epoch != before.announcement.Epoch:
			return refuse("round %d of epoch %d is in the place of round %d of epoch %d", a.Round, a.Epoch, i,
				x.rounds[0].announcement.Epoch)
		case before != nil && !bytes.Equal(a.Previous, before.digests.announcement[:]):
			return refuse("the announcement of round %d does not name the one before it", i)
		case before != nil && (!reflect.DeepEqual(a.Plan, before.announcement.Plan) ||
			a.Cohort != before.announcement.Cohort):
			return refuse("round %d has another plan or cohort than the epoch began with", i)
		}
		before = r
	}
	last := x.rounds[len(x.rounds)-1]
	switch planned := len(before.announcement.Plan.Rounds); {
	case len(x.rounds) > planned:
		return refuse("%d rounds, planned are %d", len(x.rounds), planned)
	case len(x.rounds) < planned && !last.learned.Destroyed:
		return fmt.Errorf("%d of %d rounds are over: %w", len(x.rounds), planned, ErrUnfinished)
	}
	return nil
}
