package audit_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// doubled shows the first retained chunk of each round twice.
type doubled struct{ *ledger.Ledger }

func (d doubled) Retained(ctx context.Context, epoch uint64, round uint32, f func(uint32, []byte) error) error {
	return d.Ledger.Retained(ctx, epoch, round, func(index uint32, sealed []byte) error {
		if index == 0 {
			if err := f(index, sealed); err != nil {
				return err
			}
		}
		return f(index, sealed)
	})
}

// What is retained in a chunk's place and is no chunk, one of another place, one with half a message, or the same one
// twice is told as forged, whoever sealed it. Chunks whose window is over are none of these.
func TestWhatIsRetainedInAChunksPlace(t *testing.T) {
	l := made(t, configuration(bits))
	o := audit.Options{Auditor: []*seal.HPKEKey{l.Auditor}, AnalyzerKeys: l.HPKE}
	first, whole := ledger.Place{Epoch: 1}, make([]byte, seal.BitSize)
	_, digest, err := wire.Open[plan.Announcement](l.Logs[bus.Analyzer][1].Signed, l.Bundle.AnalyzerParty())
	if err != nil {
		t.Fatal(err)
	}
	place := seal.RetainedContext{Deployment: l.Bundle.Deployment, Epoch: 1, Announcement: digest}
	chunk := func(c wire.Chunk) []byte {
		b, err := wire.BuildChunk(c)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, b := range map[string][]byte{
		"no chunk":                []byte("x"),
		"one of another epoch":    chunk(wire.Chunk{Epoch: 2, Payload: whole}),
		"one of another round":    chunk(wire.Chunk{Epoch: 1, Round: 1, Payload: whole}),
		"one of another index":    chunk(wire.Chunk{Epoch: 1, Index: 1, Payload: whole}),
		"one with half a message": chunk(wire.Chunk{Epoch: 1, Payload: append(whole, 0)}),
	} {
		sealed, err := seal.SealRetained(l.Auditor.Public(), place, b)
		if err != nil {
			t.Fatal(err)
		}
		forged := *l
		forged.Chunks = maps.Clone(l.Chunks)
		forged.Chunks[first] = slices.Clone(l.Chunks[first])
		forged.Chunks[first][0] = sealed
		if r := check(t, &forged, o); !slices.Equal(whats(r), []audit.What{audit.RetainedForged}) {
			t.Errorf("%s:%s", name, list(r))
		}
	}
	o.Trust = l.Bundle
	r, err := audit.Check(context.Background(), doubled{l}, o)
	if err != nil || !slices.Equal(whats(r), []audit.What{audit.RetainedForged}) {
		t.Errorf("one twice: %v%s", err, list(r))
	}
	over := *l
	over.Dropped = map[ledger.Place]uint32{first: 0}
	if r := check(t, &over, o); !r.OK || !strings.Contains(strings.Join(r.Notes, " "), "retained chunks are gone") {
		t.Errorf("one that is gone: %q%s", r.Notes, list(r))
	}
}
