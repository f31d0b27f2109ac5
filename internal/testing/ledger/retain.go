package ledger

import (
	"slices"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// retain keeps what left of a release, sealed to the auditor.
func (m *maker) retain(a *plan.Announcement, digest [32]byte, manifest *wire.Manifest, messages [][]byte) error {
	if !m.o.Retain {
		return nil
	}
	if m.o.Tamper.Messages != nil {
		messages = m.o.Tamper.Messages(a.Epoch, a.Round, slices.Clone(messages))
	}
	chunks, err := chunksOf(manifest, messages)
	if err != nil {
		return err
	}
	at := Place{a.Epoch, a.Round}
	for i, c := range chunks {
		sealed, err := seal.SealRetained(m.l.Auditor.Public(), seal.RetainedContext{
			Deployment: a.Deployment, Epoch: a.Epoch, Round: a.Round, Index: uint32(i), Announcement: digest,
		}, c)
		if err != nil {
			return err
		}
		m.l.Chunks[at] = append(m.l.Chunks[at], sealed)
	}
	return nil
}
