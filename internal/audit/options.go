package audit

import (
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Options say whom an audit trusts, and what else it has.
type Options struct {
	// Trust names the deployment and the keys that its statements must be signed with. They should come from elsewhere
	// than the logs.
	Trust keyring.Bundle
	// Auditor opens what was retained; AnalyzerKeys count it again. Either may be empty.
	Auditor, AnalyzerKeys []*seal.HPKEKey
	// Views are what others saw of the same logs.
	Views []View
	// Witnesses are whose cosignatures are looked for, on the checkpoints of the source and of the views.
	Witnesses []Witness
	// Issued are the logs of issuers; several of one issuer are compared with each other. They must be at least as new
	// as the servers' logs.
	Issued []IssuedLog
	// RegistrarDevices is how many devices the registrar let in itself, by hosts' credentials; nil: not known. It is
	// used with Issued.
	RegistrarDevices *uint64
	// Tolerance is by how much, relative to the largest number of a vector, a recomputed number may differ: 0, the
	// default, where this runs on the analyzer's processor architecture; RoundingTolerance elsewhere.
	Tolerance float64
	// Row is called with each round that is over, in order; may be nil. An audit itself keeps no rows, so that its
	// memory does not grow with the deployment.
	Row func(Row)
	// Announced is called with each announcement that is what the analyzer had to announce, in order; may be nil.
	Announced func(Announced)
}

// Announced is an announcement that was recomputed, and what was known of the parameter as it was made.
type Announced struct {
	*plan.Announcement
	Digest   [32]byte // of the signed announcement
	Estimate deployment.Estimate
}

// RoundingTolerance covers what rounding explains between processor architectures: a compiler may fuse a multiplication
// with an addition, and linear algebra adds in another order. Double precision has 1e-16, and the learner's systems of
// equations are conditioned far better than 1e7.
const RoundingTolerance = 1e-9

// View is what somebody saw of the logs: checkpoints, and the logs themselves where there are any.
type View struct {
	Name        string // in breaches: the file or folder
	Checkpoints map[bus.Role][]byte
	Source      Source // may be nil
}

// Witness is whose cosignature is looked for.
type Witness struct {
	Name string
	Key  []byte // Ed25519 public key
}
