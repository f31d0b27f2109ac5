package wire

import (
	"strings"
	"time"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Statement is what Sign signs and Open opens. The numbers that every field may have are in the checks of this package.
type Statement interface {
	plan.Announcement | KeySet | Manifest | Counts | Credential | EnrolRequest | EnrolReply
}

// KeySet is a role's statement of its current HPKE public keys, newest first. Older keys stay valid for what is in
// flight.
type KeySet struct {
	Deployment string
	Keys       [][]byte // 32 bytes each
	Number     uint64   // from 1; a later set has a larger number, and a role that saw it refuses an earlier one
}

// Credential lets the holder of a host key enrol devices 0 to Devices-1, each once per deployment. The registrar signs
// it.
type Credential struct {
	Deployment string
	HostKey    []byte // Ed25519 public key
	Devices    uint32
}

// EnrolRequest asks the shuffler for a slot in the current cohort. The host signs it.
type EnrolRequest struct {
	Deployment   string
	Epoch        uint64
	Announcement []byte // digest of the epoch's first announcement, as the device sees it
	Device       uint32
	Credential   []byte // signed, as Sign returned it to the registrar
}

// EnrolReply is the shuffler's answer to an EnrolRequest.
type EnrolReply struct {
	Request     []byte // digest of the request (RequestDigest)
	Enrolled    bool
	Refusal     Refusal // where not enrolled
	Slot        uint32
	ReportAfter time.Duration // from now, in whole milliseconds
	Held        bool          // where enrolled: the device held the slot before this request was decided on
}

// Outcome of a round at the shuffler.
type Outcome int32

// The outcomes. Their numbers stand in messages and journals.
const (
	Undecided Outcome = 0 // never in a manifest
	Released  Outcome = 1
	Destroyed Outcome = 2 // fewer reports than the minimum: nothing left the shuffler and the reports are gone
)

// String is "released" or "destroyed".
func (o Outcome) String() string {
	return strings.ToLower(strings.TrimPrefix(rifflev1.Outcome(o).String(), "OUTCOME_"))
}

// Manifest is the shuffler's statement of how a round ended.
type Manifest struct {
	Deployment    string
	Epoch         uint64
	Round         uint32
	Announcement  []byte // digest: the one that was admitted
	Outcome       Outcome
	Enrolled      uint32
	Reports       uint32
	Messages      uint64
	Chunks        uint32
	ChunksDigest  []byte // of ChunksDigest
	ReportsDigest []byte // of ReportsDigest
}

// ReleaseCounts is all that the analyzer keeps of a release.
type ReleaseCounts struct{ Ones []uint64 } // per coordinate

// Counts is the analyzer's statement of what it counted in a round. Every policy is a function of these.
type Counts struct {
	Deployment   string
	Epoch        uint64
	Round        uint32
	Announcement []byte // digest
	Manifest     []byte // digest
	Reports      uint32
	Releases     []ReleaseCounts
	Destroyed    bool
}
