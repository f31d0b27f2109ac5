package shuffler

import (
	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Party is the deployment that a shuffler belongs to, and the keys by which its words and others' are known.
type Party struct {
	Deployment string
	Analyzer   []byte          // Ed25519 public key that announcements must be signed with
	Registrar  []byte          // Ed25519 public key that credentials must be signed with
	Hosts      *wire.Hosts     // whose keys were replaced or withdrawn; nil: none
	Identity   *seal.Identity  // signs manifests and replies
	Keys       []*seal.HPKEKey // that reports may be sealed to, newest first
	Ticket     [32]byte        // what tickets are made with, which an ingress checks
}

// Policy is what a shuffler goes by, whatever is announced.
type Policy struct {
	MinCohort    int            // fewest reports of a release
	SponsorShare float64        // largest share of a cohort's slots that one sponsor may hold; 1: all of them
	Devices      int            // the most devices that are remembered
	Channels     []plan.Channel // whose cohorts are served
	Compact      int            // bytes of its events that a snapshot replaces in the journal
}

// DefaultPolicy is that of a shuffler that is not configured.
func DefaultPolicy() Policy {
	return Policy{
		MinCohort: DefaultMinCohort, SponsorShare: 1, Devices: cohort.DefaultDevices, Channels: plan.Channels(),
		Compact: cohort.CompactAfter,
	}
}

// Accounts hear of what becomes of everything that a shuffler takes in. Each may be nil.
type Accounts struct {
	Reports       *outcome.Outcomes // made with Reasons, as the next three
	Enrolments    *outcome.Outcomes // of enrolment requests
	Messages      *outcome.Outcomes // the channel's messages in admitted reports
	Announcements *outcome.Outcomes
	Steps         *role.Steps // made with Steps
	// Notice hears of a condition of readiness, by name, that is met (nil) or not.
	Notice func(condition string, err error)
}

// notice tells readiness of a condition.
func (a *Accounts) notice(condition string, err error) {
	if a.Notice != nil {
		a.Notice(condition, err)
	}
}

// setup is all that a shuffler was made of, but for what it closes.
type setup struct {
	Party
	Policy
	Accounts
	Bus    Broker
	Clock  role.Clock
	Source protocol.Source // for its contribution to the draw of a panel: a CSPRNG
	Log    zerolog.Logger
}

// DefaultMinCohort is the shuffler's own minimum cohort unless it is configured: far below useful cohorts.
const DefaultMinCohort = 50
