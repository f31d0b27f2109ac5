package api

import (
	"errors"
	"time"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
)

// Errors of decisions and rewards.
var (
	// ErrNoPolicy says that the analyzer has announced nothing yet that this host accepts. Nothing happened; ask again.
	ErrNoPolicy = errors.New("no policy has been announced yet")
	// ErrArms says that no decision could be made from the arms. The device is enrolled all the same, if it would have
	// been with other arms, and will report the null record: who takes part must not depend on what is decided about.
	ErrArms = errors.New("no decision can be made from these arms")
	// ErrNotDryRun refuses to say whether a body can be decided about.
	ErrNotDryRun = errors.New("only a host in dry run (api.dry_run) answers this: an app that could ask so about a " +
		"person's arms, and then choose whether to ask for a decision, would make who takes part depend on the arms; " +
		"start a second host with api.dry_run and a state folder of its own")
	// ErrFull says that the host can keep no more devices that opted out.
	ErrFull = errors.New("this host keeps as many devices that opted out as it can; opt others in again")
	// ErrToken says that a token is unknown, or that its reward window is over and its report has left.
	ErrToken = errors.New("the token is unknown or its reward window is over")
)

// Decision is the answer to an app.
type Decision struct {
	Arm   int    `json:"arm"`          // index into the arms given
	ID    string `json:"id,omitempty"` // of the arm; empty where arms are vectors
	Token string `json:"token"`        // to report the reward with
	Epoch uint64 `json:"epoch"`        // whose policy decided
	// with which the policy plays this arm here; for the app's own evaluation
	Propensity float64        `json:"propensity"`
	Sampled    bool           `json:"sampled"` // whether the device will report
	Reason     outcome.Reason `json:"reason"`  // sampled, or why not
	Detail     string         `json:"detail,omitempty"`
	RewardBy   *time.Time     `json:"reward_by,omitempty"` // end of the reward window
	DryRun     bool           `json:"dry_run,omitempty"`   // the host enrols nobody
	// Scaled counts the arms that had norm above 1 and were scaled down to norm 1.
	Scaled int `json:"scaled_arms,omitempty"`
}

// Acceptance is the answer to a reward that came in time.
type Acceptance struct {
	device.Acceptance
	DryRun bool `json:"dry_run,omitempty"` // the host does nothing with it
}

// Check is the answer to whether a body can be decided about.
type Check struct {
	OK     bool           `json:"ok"`
	Reason outcome.Reason `json:"reason,omitempty"` // with which a decision about this body is refused; empty where OK
	Detail string         `json:"detail,omitempty"` // what is wrong
	Would  string         `json:"would"`            // what a host does with it that is not in dry run
	// Decision is one by the announced policy; nil unless OK.
	Decision *Decision `json:"decision,omitempty"`
	DryRun   bool      `json:"dry_run"` // always true
}

// Status is what an app may want to know of the host. Nothing in it but Malformed depends on what an app sent.
type Status struct {
	Deployment string  `json:"deployment"`
	Epoch      uint64  `json:"epoch"` // 0: nothing was announced yet
	Round      uint32  `json:"round"`
	Cohort     uint32  `json:"cohort"`          // slots of the epoch
	Enrolling  bool    `json:"enrolling"`       // whether a decision made now may be sampled
	Final      bool    `json:"final"`           // the last policy: learning is over
	Delta      float64 `json:"delta,omitempty"` // of the guarantee
	device.Promise
	// why this host takes no part in the epoch, or does not follow the latest announcement
	Refused  string `json:"refused,omitempty"`
	Devices  int    `json:"devices"`  // that have a place: they were sampled, may have been, or take part in panels
	Capacity int    `json:"capacity"` // places, by the credential
	Pending  int    `json:"pending"`  // promised reports that have not left
	// messages of one report in the current round: bit messages in the channel shuffle, 1 in others
	Messages int `json:"messages,omitempty"`
	// Panel is there where cohorts are drawn from registered devices.
	Panel *PanelStatus `json:"panel,omitempty"`
	// Evidence is what the shuffler signed to this host that cannot be true, the first time.
	Evidence *device.Evidence `json:"evidence,omitempty"`
	// Malformed is for the app alone: no metric, log or page has it.
	Malformed Malformed `json:"malformed"`
	DryRun    bool      `json:"dry_run,omitempty"` // the host decides, enrols nobody and sends nothing
}

// PanelStatus is how the host's devices take part in panels.
type PanelStatus struct {
	Registered int    `json:"registered"`       // devices of this host
	Drawn      bool   `json:"drawn"`            // whether it is known who is in the epoch's panel
	Members    int    `json:"members"`          // devices of this host in it
	Decisions  uint32 `json:"decisions"`        // of one report, at most
	Records    uint32 `json:"records"`          // epochs that one device may report in
	Period     uint32 `json:"period,omitempty"` // of so many in a row; absent: of all
}

// Malformed counts requests whose body could not be used, since the process began. It is for the app alone: whether a
// body was any good shows nowhere else.
type Malformed struct {
	Decisions int `json:"decisions"` // their devices took part as others do, with the null record
	Rewards   int `json:"rewards"`
}
