// Package audit checks a deployment's transparency logs: what was mixed, what was learnt from it, and what it cost. It
// trusts the keys that it is given and nothing else, and recomputes every sum, iterate and policy with the code that
// the analyzer runs (pkg/deployment).
//
// # An export
//
// What is audited is a deployment's streams, or a folder that was exported from them:
//
//	bundle.json                          the deployment's public keys; those to trust should come from elsewhere
//	analyzer.log, shuffler.log           the leaves of a role's log, one JSON object a line (Entry), in order
//	analyzer.checkpoint, ...             the role's newest checkpoint, a signed note, with witnesses' cosignatures
//	retained/<epoch>/<round>/<index>     chunks that the shuffler retained, sealed to the auditor (package retained)
//	certificates/epoch-<epoch>.json      what one epoch did, for one who has nothing else (package certificate)
//
// Leaves are covered by the checkpoints, checkpoints and certificates by signatures, retained chunks by the manifests.
// A file of another name is covered by nothing, and is a breach.
package audit

import (
	"context"

	"github.com/riffle-dp/riffle/internal/bus"
)

// Entry is one leaf of a role's log: a signed statement. Kind is what its author appended it under, and is not trusted.
type Entry struct {
	Kind   string `json:"kind"`
	Signed []byte `json:"signed"` // Signed of the schema; base64 in a file
}

// Source is where a deployment's logs are read. The methods read each log from its first leaf, and may be called again.
type Source interface {
	// Log hands the leaves of a role's log to f, in order, and stops at its first error.
	Log(ctx context.Context, role bus.Role, f func(Entry) error) error
	// Checkpoint is the role's newest checkpoint, a signed note; nil if there is none.
	Checkpoint(ctx context.Context, role bus.Role) ([]byte, error)
	// Retained hands the sealed chunks of a round that were retained to f, in the order of their index, and stops at
	// its first error. There are none where nothing was retained, or not any more.
	Retained(ctx context.Context, epoch uint64, round uint32, f func(index uint32, sealed []byte) error) error
}
