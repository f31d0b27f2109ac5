package audit

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Certify makes a certificate of each epoch that is over and hands it to f, or why there is none. It keeps the
// statements of one epoch, and 32 bytes of each entry.
//
// Errors: f's own, the source's.
func Certify(ctx context.Context, src Source, keys keyring.Bundle, f func(epoch uint64, b []byte,
	why error) error) error {
	c := &certifier{src: src, keys: keys}
	if err := c.begin(ctx); err != nil {
		return err
	}
	next, stop := iter.Pull2(entries(ctx, src, bus.Shuffler))
	defer stop()
	mixed := &ahead{next: next, from: keys.ShufflerParty()}
	var epoch uint64
	var statements []numbered
	whole := func() error {
		if epoch == 0 {
			return nil
		}
		others, err := mixed.until(epoch)
		if err != nil {
			return err
		}
		b, err := c.make(statements, others)
		if statements = nil; errors.Is(err, certificate.ErrUnfinished) {
			return nil
		}
		return f(epoch, b, err)
	}
	index := uint64(0)
	err := src.Log(ctx, bus.Analyzer, func(e Entry) error {
		one := numbered{Entry: e, index: index}
		index++
		of, ok := epochOf(e, keys.AnalyzerParty())
		if !ok {
			return nil
		}
		if of != epoch {
			if err := whole(); err != nil {
				return err
			}
			epoch = of
		}
		statements = append(statements, one)
		return nil
	})
	if err != nil {
		return err
	}
	return whole()
}

// numbered is an entry and its place in the log.
type numbered struct {
	Entry
	index uint64
}

// epochOf is the epoch that a statement is about; false: none, or it is none of the party's.
func epochOf(e Entry, from wire.Party) (epoch uint64, ok bool) {
	if a, _, err := wire.Open[plan.Announcement](e.Signed, from); err == nil {
		return a.Epoch, !a.Final
	}
	if c, _, err := wire.Open[wire.Counts](e.Signed, from); err == nil {
		return c.Epoch, true
	}
	if l, _, err := wire.Open[wire.Learned](e.Signed, from); err == nil {
		return l.Epoch, true
	}
	if m, _, err := wire.Open[wire.Manifest](e.Signed, from); err == nil {
		return m.Epoch, true
	}
	if a, _, err := wire.Open[wire.Accepted](e.Signed, from); err == nil {
		return a.Epoch, true
	}
	if p, _, err := wire.Open[wire.Pool](e.Signed, from); err == nil {
		return p.Epoch, true
	}
	if d, _, err := wire.Open[wire.Draw](e.Signed, from); err == nil {
		return d.Epoch, true
	}
	s, _, err := wire.Open[wire.Summed](e.Signed, from)
	if err != nil {
		return 0, false
	}
	return s.Epoch, true
}

// entries is a log as a sequence.
func entries(ctx context.Context, src Source, role bus.Role) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		err := src.Log(ctx, role, func(e Entry) error {
			if !yield(e, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(Entry{}, err)
		}
	}
}

// ahead reads the shuffler's log beside the analyzer's, epoch by epoch.
type ahead struct {
	next  func() (Entry, error, bool)
	from  wire.Party
	index uint64
	held  *numbered // read, and of a later epoch
	of    uint64
}

// until is the statements of an epoch; those of earlier ones are passed over.
func (a *ahead) until(epoch uint64) (all []numbered, err error) {
	for {
		if a.held == nil {
			e, err, ok := a.next()
			if err != nil || !ok {
				return all, err
			}
			a.held = &numbered{Entry: e, index: a.index}
			a.index++
			if a.of, ok = epochOf(e, a.from); !ok {
				a.held = nil
				continue
			}
		}
		if a.of > epoch {
			return all, nil
		}
		if a.of == epoch {
			all = append(all, *a.held)
		}
		a.held = nil
	}
}

// certifier knows what the certificates of all epochs share.
type certifier struct {
	src           Source
	keys          keyring.Bundle
	configuration *numbered
	logs          map[bus.Role]*proven
}

// proven is what it takes to show that a statement is in a log.
type proven struct {
	checkpoint []byte
	size       uint64
	leaves     []transparency.Hash
}

// begin reads the checkpoints, the hashes of all leaves, and the configuration.
func (c *certifier) begin(ctx context.Context) error {
	c.logs = map[bus.Role]*proven{}
	for _, role := range logRoles() {
		p := &proven{}
		c.logs[role] = p
		var err error
		if p.checkpoint, err = c.src.Checkpoint(ctx, role); err != nil {
			return err
		}
		origin := transparency.Origin(c.keys.Deployment, string(role))
		if o, err := transparency.Open(p.checkpoint, origin, Party(c.keys, role).Key); err == nil {
			p.size = o.Size
		}
		err = c.src.Log(ctx, role, func(e Entry) error {
			if role == bus.Analyzer && e.Kind == wire.KindConfiguration && c.configuration == nil {
				c.configuration = &numbered{Entry: e, index: uint64(len(p.leaves))}
			}
			p.leaves = append(p.leaves, transparency.LeafHash(e.Signed))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// make is the certificate of an epoch.
func (c *certifier) make(analyzer, shuffler []numbered) ([]byte, error) {
	if c.configuration == nil || c.configuration.index != 0 {
		return nil, errors.New("the analyzer's log does not begin with its configuration")
	}
	a, err := c.prove(bus.Analyzer, append([]numbered{*c.configuration}, analyzer...))
	if err != nil {
		return nil, err
	}
	s, err := c.prove(bus.Shuffler, shuffler)
	if err != nil {
		return nil, err
	}
	return certificate.Make(c.keys, a, s)
}

// prove gives statements with their proofs.
func (c *certifier) prove(role bus.Role, all []numbered) (certificate.Log, error) {
	p := c.logs[role]
	l := certificate.Log{Checkpoint: string(p.checkpoint), Statements: []certificate.Statement{}}
	for _, one := range all {
		proof, err := transparency.Prove(p.leaves, one.index, p.size)
		if err != nil {
			return l, fmt.Errorf("%s/%d %s: no checkpoint shows it: %w", role, one.index, one.Kind, err)
		}
		shown := certificate.Statement{Index: one.index, Kind: one.Kind, Signed: one.Signed, Proof: [][]byte{}}
		for _, h := range proof {
			shown.Proof = append(shown.Proof, h[:])
		}
		l.Statements = append(l.Statements, shown)
	}
	return l, nil
}
