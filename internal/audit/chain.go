package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// chain follows one role's log: it opens each entry once, in order, and holds the log against every checkpoint of it.
type chain struct {
	*findings
	role      bus.Role
	party     wire.Party
	until     uint64 // last epoch for which the role's key is good; 0: it has no end
	witnesses []Witness
	tree      transparency.Tree
	seen      []seen // checkpoints of this log

	altered   bool   // the log is not what the source's own checkpoints were signed over
	splits    []seen // other people's checkpoints that this log does not fit
	unchecked error  // why a view could not be compared; nil: all were

	next func() (Entry, error, bool)
	stop func()
	held *statement // that was read and not consumed
}

// seen is a checkpoint that this audit or somebody else holds.
type seen struct {
	transparency.Checkpoint
	name string
	view *View // nil: the source's own
	met  bool  // the log reached its size
}

// follow begins at the first entry. Both logs are read side by side.
func follow(ctx context.Context, f *findings, source Source, role bus.Role, o Options) *chain {
	l := &chain{findings: f, role: role, party: Party(o.Trust, role), until: o.Trust.Until[string(role)],
		witnesses: o.Witnesses}
	l.next, l.stop = iter.Pull2(entries(ctx, source, role))
	return l
}

// peek is the log's next statement, without consuming it; nil at the end. Entries that are none are breaches, and
// skipped.
func (l *chain) peek() (*statement, error) {
	for l.held == nil {
		e, err, ok := l.next()
		if !ok {
			return nil, nil
		}
		if errors.Is(err, ErrFolder) {
			l.breach(Malformed, logFile(l.role), "", "nothing after entry %d can be read: %v", l.tree.Size(), err)
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("%s/%d %s", l.role, l.tree.Size(), e.Kind)
		l.tree.Append(e.Signed)
		l.compare()
		l.held = l.open(e, name)
	}
	return l.held, nil
}

// take consumes the next statement.
func (l *chain) take() (*statement, error) {
	s, err := l.peek()
	l.skip()
	return s, err
}

// skip consumes the statement that peek returned.
func (l *chain) skip() { l.held = nil }

// open verifies an entry: the signature first, under the kind that the entry claims and then under any other.
func (l *chain) open(e Entry, name string) *statement {
	var first error
	for _, k := range kinds[l.role] {
		value, digest, err := k.open(e.Signed, l.party)
		switch {
		case err == nil:
			s := &statement{value, digest, name}
			if want := k.kind(value); want != e.Kind {
				l.breach(Malformed, name, s.release(), "its kind is said to be %s, and it is of the kind %s", e.Kind,
					want)
				return nil
			}
			l.checkExpiry(s)
			return s
		case errors.Is(err, wire.ErrDeployment) || !errors.Is(err, wire.ErrForeign):
			first = err
		}
	}
	if first != nil {
		l.breach(Malformed, name, "", "it is signed by the %s and is no statement of this deployment: %v", l.role,
			first)
		return nil
	}
	l.breach(ForgedSignature, name, "", "the key of the %s did not sign it as a statement of that role", l.role)
	return nil
}

// checkExpiry holds a statement against the last epoch for which the role's key is good.
func (l *chain) checkExpiry(s *statement) {
	if epoch, _, ok := s.at(); ok && l.until > 0 && epoch > l.until {
		l.breach(ExpiredKey, s.name, s.release(), "the %s's signing key is good until epoch %d, and this is about "+
			"epoch %d",
			l.role, l.until, epoch)
	}
}

// checkpoint takes a checkpoint of this log into account. view is nil for the source's own.
func (l *chain) checkpoint(note []byte, name string, view *View) {
	origin := transparency.Origin(l.party.Deployment, string(l.role))
	c, err := transparency.Open(note, origin, l.party.Key)
	if err != nil {
		l.breach(CheckpointForged, name, "", "it is not a checkpoint of the %s's log, signed with its key: %v",
			l.role, err)
		return
	}
	l.seen = append(l.seen, seen{c, name, view, false})
	l.compare() // the empty tree
	for _, w := range l.witnesses {
		if c, at, err := transparency.OpenCosigned(note, origin, l.party.Key, w.Name, w.Key); err == nil {
			l.report.addWitness(Witnessed{w.Name, l.role, c.Size, at})
		}
	}
}

// checkView refuses a view with a log of the role that no checkpoint covers: it shows nothing of what the role signed,
// and whoever gave it would take this audit for a comparison.
func (l *chain) checkView(ctx context.Context, v *View) error {
	switch {
	case v.Source == nil && len(v.Checkpoints) > 0: // of the other role
		return nil
	case v.Source != nil && l.role == bus.Shuffler: // whose log is empty before the first round is over
		if err := v.Source.Log(ctx, l.role, func(Entry) error { return errEnough }); !errors.Is(err, errEnough) {
			return err
		}
	}
	return fmt.Errorf("%s: there is no checkpoint of the %s's log in it, so that nothing can be compared with it: "+
		"have it exported again, or leave it out", v.Name, l.role)
}

// compare holds the log, as long as it is now, against the checkpoints of that size.
func (l *chain) compare() {
	for i := range l.seen {
		s := &l.seen[i]
		if s.met || s.Size != l.tree.Size() {
			continue
		}
		s.met = true
		if s.Root == l.tree.Root() {
			continue
		}
		if s.view == nil {
			l.altered = true
			l.breach(LogAltered, s.name, "", "the first %d entries of the %s's log give another root than the %s "+
				"signed: an entry was changed, exchanged or moved after it was signed for", s.Size, l.role, l.role)
		} else {
			l.splits = append(l.splits, *s)
		}
	}
}

// split says of whom the role shows another log to others. A log that does not fit its own checkpoint was altered by
// whoever keeps it, and proves nothing against the role.
func (l *chain) split() {
	if l.altered && len(l.splits) > 0 {
		l.report.note("The %s's log does not fit its own checkpoint, so that it cannot show whether the %s signed "+
			"other logs for others.", l.role, l.role)
		return
	}
	told := map[transparency.Checkpoint]bool{}
	for _, s := range l.splits {
		if told[s.Checkpoint] {
			continue
		}
		told[s.Checkpoint] = true
		l.breach(SplitView, s.name, "", "the %s signed another list of the first %d entries of its log than this "+
			"one: it shows different people different logs", l.role, min(s.Size, l.tree.Size()))
	}
}

// end compares the whole log with the checkpoints that it did not reach, and says how far it is covered.
func (l *chain) end(ctx context.Context) error {
	covered, own := uint64(0), false
	rewound := map[transparency.Checkpoint]bool{} // several certificates can hold one checkpoint
	for i := range l.seen {
		s := &l.seen[i]
		if s.view == nil {
			own, covered = true, max(covered, s.Size)
		}
		if s.met {
			continue
		}
		if s.view != nil && s.view.Source != nil {
			if err := l.prefix(ctx, s); err != nil {
				return err
			}
			continue
		}
		if rewound[s.Checkpoint] {
			continue
		}
		rewound[s.Checkpoint] = true
		l.breach(LogRewound, s.name, "", "the %s signed that its log has %d entries, and there are %d: entries were "+
			"taken away, or the log is older than the checkpoint", l.role, s.Size, l.tree.Size())
	}
	l.split()
	switch size := l.tree.Size(); {
	case !own && (size > 0 || l.role == bus.Analyzer): // a shuffler says nothing before the first round is over
		l.breach(CheckpointMissing, string(l.role)+".checkpoint", "",
			"the %s's log has %d entries and no checkpoint that the %s signed", l.role, size, l.role)
	case size > covered && own:
		l.breach(Uncovered, fmt.Sprintf("%s/%d", l.role, covered), "",
			"the log has %d entries, and the newest checkpoint covers %d", size, covered)
	}
	return nil
}

// prefix compares the log with the beginning of a longer one that somebody else has.
func (l *chain) prefix(ctx context.Context, s *seen) error {
	var tree transparency.Tree
	same, whole := l.tree.Size() == 0, false
	err := s.view.Source.Log(ctx, l.role, func(e Entry) error {
		tree.Append(e.Signed)
		if tree.Size() == l.tree.Size() {
			same = tree.Root() == l.tree.Root()
		}
		if tree.Size() == s.Size {
			whole = tree.Root() == s.Root
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, ErrFolder):
		return fmt.Errorf("%s: %w", s.view.Name, err)
	case !whole:
		l.unchecked = fmt.Errorf("%s: its log of the %s is not the one that its checkpoint is of, so that nothing "+
			"can be compared with it: have it exported again, or leave it out", s.view.Name, l.role)
		l.report.note("The %s's log of %s is not the one that its checkpoint is of, so that it shows nothing.",
			l.role,
			s.view.Name)
	case same:
		l.report.note("%s has a longer log of the %s, of which the one audited here is a beginning.", s.view.Name,
			l.role)
	default:
		l.splits = append(l.splits, *s)
	}
	return nil
}
