package client

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Decision is the answer to a request for a decision.
type Decision struct {
	Arm        int        `json:"arm"`                   // index into the arms of the request
	ID         string     `json:"id,omitempty"`          // of the arm; empty where arms are vectors
	Token      string     `json:"token"`                 // names this decision when its reward is told
	Epoch      uint64     `json:"epoch"`                 // whose policy decided; from 1
	Propensity float64    `json:"propensity"`            // probability with which the policy plays this arm, in (0, 1]
	Sampled    bool       `json:"sampled"`               // whether the device will report
	Reason     Reason     `json:"reason"`                // Sampled, or why the device will not report
	Detail     string     `json:"detail,omitempty"`      // the reason as a sentence; empty if sampled
	RewardBy   *time.Time `json:"reward_by,omitempty"`   // end of the reward window; nil if not sampled
	DryRun     bool       `json:"dry_run,omitempty"`     // the randomizer is in dry run: it enrols nobody
	Scaled     int        `json:"scaled_arms,omitempty"` // arms that had norm above 1 and were scaled down to norm 1
}

// Acceptance is the answer to a reward that was accepted.
type Acceptance struct {
	Accepted bool `json:"accepted"` // always true: a reward that is not accepted is a Refusal
	// Clipped says that the reward lies outside Range and that Used, the nearest value in Range, counts instead.
	Clipped bool        `json:"clipped,omitempty"`
	Used    *float64    `json:"used,omitempty"`  // nil unless clipped
	Range   *[2]float64 `json:"range,omitempty"` // smallest and largest reward of the deployment; nil unless clipped
	DryRun  bool        `json:"dry_run,omitempty"`
}

// Status describes a randomizer.
type Status struct {
	Deployment string  `json:"deployment"`
	Epoch      uint64  `json:"epoch"`             // 0: no policy was announced yet
	Round      uint32  `json:"round"`             // of the epoch, from 0
	Cohort     uint32  `json:"cohort"`            // slots in the epoch's cohort
	Enrolling  bool    `json:"enrolling"`         // whether a device that asks now may be sampled
	Final      bool    `json:"final"`             // the last policy is in force: learning is over
	Delta      float64 `json:"delta,omitempty"`   // probability
	Epsilon    float64 `json:"epsilon,omitempty"` // guarantee of the epoch, at Delta, as this randomizer computes it
	// EpsilonAlone is the guarantee if no other device of a cohort is honest; nil if nothing is left of it.
	EpsilonAlone *float64 `json:"epsilon_alone"`
	Channel      string   `json:"channel,omitempty"`   // shuffle, shares, local or central
	RestsOn      string   `json:"rests_on,omitempty"`  // on whom the guarantee rests; continues "the guarantee"
	Guarantee    string   `json:"guarantee,omitempty"` // all of it in sentences
	// why this randomizer takes no part in the epoch; empty if it does
	Refused  string `json:"refused,omitempty"`
	Devices  int    `json:"devices"`  // devices that have one of the randomizer's places
	Capacity int    `json:"capacity"` // places, by the randomizer's credential
	Pending  int    `json:"pending"`  // promised reports that were not sent yet
	// Messages is how many messages one report of the current round has: bit messages in the channel shuffle, and one
	// in every other.
	Messages int `json:"messages,omitempty"`
	// Panel says how devices take part where cohorts are drawn from registered devices; nil where they enrol when they
	// decide.
	Panel *Panel `json:"panel,omitempty"`
	// Evidence is what the shuffler signed that cannot be true, the first time; nil: nothing.
	Evidence *Evidence `json:"evidence,omitempty"`
	// Malformed counts the requests whose body could not be used, since the randomizer started.
	Malformed Malformed `json:"malformed"`
	DryRun    bool      `json:"dry_run,omitempty"` // the randomizer decides, enrols nobody and sends nothing
}

// Malformed counts requests whose body could not be used.
type Malformed struct {
	Decisions int `json:"decisions"` // their devices took part as others do, with the null record
	Rewards   int `json:"rewards"`
}

// Check reports whether a request for a decision is one that the API can decide about.
type Check struct {
	OK     bool   `json:"ok"`
	Reason Reason `json:"reason,omitempty"` // with which the request is refused; empty where OK
	Detail string `json:"detail,omitempty"` // what is wrong
	Would  string `json:"would"`            // what a randomizer does with it that is not in dry run
	// Decision is one by the announced policy; nil unless OK.
	Decision *Decision `json:"decision,omitempty"`
	DryRun   bool      `json:"dry_run"` // always true
}

// Panel is how a randomizer's devices take part in cohorts that are drawn from registered devices.
type Panel struct {
	Registered int    `json:"registered"`       // devices of this randomizer that can be drawn
	Drawn      bool   `json:"drawn"`            // whether it is known who is in the epoch's panel
	Members    int    `json:"members"`          // devices of this randomizer in the epoch's panel
	Decisions  uint32 `json:"decisions"`        // of one device that its report holds, at most
	Records    uint32 `json:"records"`          // epochs that one device may report in
	Period     uint32 `json:"period,omitempty"` // of so many in a row; 0: of all
}

// Evidence is a signed reply of the shuffler that cannot be true.
type Evidence struct {
	Epoch        uint64 `json:"epoch"`
	Device       uint32 `json:"device"`                 // number under the randomizer's credential
	What         string `json:"what"`                   // a sentence
	Request      []byte `json:"request"`                // signed by the randomizer
	Reply        []byte `json:"reply"`                  // signed by the shuffler
	Registration []byte `json:"registration,omitempty"` // signed reply that Reply denies
	Since        uint64 `json:"since,omitempty"`        // epoch of an answer after Registration
	Other        []byte `json:"other,omitempty"`        // signed reply that shows another draw
}

// Device is what a randomizer says of a device that was named to it.
type Device struct {
	Device     string `json:"device"`
	Registered bool   `json:"registered"` // whether the shuffler has confirmed that panels can be drawn of it
	// Why the device cannot be registered now, and that as a sentence; empty where it is, or soon will be.
	Reason Reason `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Statement is a device's ledger with its explanation.
type Statement struct {
	Device      string   `json:"device"`
	Ledger      Ledger   `json:"ledger"`
	Explanation []string `json:"explanation"` // the ledger in sentences
	// Where cohorts are drawn from registered devices: whether this one is registered, and in how many it has reported.
	Registered bool `json:"registered,omitempty"`
	Panels     int  `json:"panels,omitempty"`
	OptedOut   bool `json:"opted_out,omitempty"` // it is never sampled
	DryRun     bool `json:"dry_run,omitempty"`
}

// Ledger is what one device has promised and spent over a deployment.
type Ledger struct {
	Epsilon float64 `json:"epsilon"`           // limit of all entries together, at Delta
	Delta   float64 `json:"delta"`             // probability
	Records int     `json:"records,omitempty"` // how many entries are allowed; 0 means 1
	Entries []Entry `json:"entries,omitempty"`
	// EpsilonAlone is the limit at Delta if no other device is honest; 0: none.
	EpsilonAlone float64 `json:"epsilon_alone,omitempty"`
	// Period is the number of epochs in a row whose entries the limits hold for together; 0: all entries.
	Period int `json:"period,omitempty"`
	// Span is the time within which entries count together too, by Entry.At; 0: epochs alone decide.
	Span time.Duration `json:"span,omitempty"`
}

// Entry is the use of one record in all releases of one epoch.
type Entry struct {
	Epoch     uint64     `json:"epoch"`
	Releases  int        `json:"releases"` // releases that use the record
	Guarantee Guarantee  `json:"guarantee"`
	State     EntryState `json:"state"`
	Alone     *Guarantee `json:"alone,omitempty"` // what is left if no other device is honest; nil: nothing
	// At is when the report is due, or while it is not known, when its place was asked for. Zero in a ledger without a
	// Span.
	At time.Time `json:"at,omitzero"`
}

// Guarantee is Gaussian differential privacy after an event of probability TailDelta was given up.
type Guarantee struct {
	Mu        float64 `json:"mu"`             // shift of the Gaussian in standard deviations; 0 reveals nothing
	TailDelta float64 `json:"tail_delta"`     // probability
	Pure      float64 `json:"pure,omitempty"` // epsilon that adds to the Gaussian's
	Rho       float64 `json:"rho,omitempty"`  // zero-concentrated differential privacy of further releases
}

// EntryState says how far an entry has come. In every state the guarantee counts as spent.
type EntryState string

// States of an entry.
const (
	Asked    EntryState = "asked"    // the device asked for a slot in the cohort and has no answer
	Reserved EntryState = "reserved" // the device promised to report and has sent nothing
	Spent    EntryState = "spent"    // a report was sent, or may have been
)

// Reason is why a device is not sampled or why a request was refused, as the API spells it. A Reason is an error, so
// errors.Is(err, client.ExpiredToken) reports whether a call was refused for that reason. Later versions may add
// reasons.
type Reason string

// Error returns the reason as the API spells it.
func (r Reason) Error() string { return string(r) }

// Reasons of a Decision.
const (
	Sampled             Reason = "sampled"              // the device will report
	FinalPolicy         Reason = "final_policy"         // learning is over
	PlanRefused         Reason = "plan_refused"         // the randomizer's limits rule the announced plan out
	RecordUsed          Reason = "record_used"          // the device's ledger allows no further record
	RoundsUnderWay      Reason = "rounds_under_way"     // the epoch is past its enrolment
	CohortFull          Reason = "cohort_full"          // the epoch's cohort has no slot left
	ShufflerUnreachable Reason = "shuffler_unreachable" // the shuffler did not answer
	NotAdmitted         Reason = "not_admitted"         // the shuffler refused for another reason; see Decision.Detail
	HostFull            Reason = "host_full"            // all places that the randomizer's credential covers are taken
	OptedOut            Reason = "opted_out"            // the person opted out: the policy decides, without exploration
	DryRun              Reason = "dry_run"              // the randomizer enrols nobody; it is for building an app
	StateRolledBack     Reason = "state_rolled_back"    // the randomizer's state is older than its last action
	NotDrawn            Reason = "not_drawn"            // the device is not in the epoch's panel, as far as is known
	WindowOver          Reason = "window_over"          // the device's report of the epoch is due
	ReportFull          Reason = "report_full"          // the device's report holds as many decisions as it can
)

// Reasons of a Refusal, with what to do. The client repeats a call that was refused as NoPolicy, Rewound, Busy or
// TokensUnreadable.
const (
	// No policy that this host accepts was announced. Ask again; the status says what it refuses.
	NoPolicy Reason = "no_policy"
	// The broker shows less than this host has seen. Ask again; if it stays, the broker was set back.
	Rewound Reason = "rewound"
	// Too many requests come at once. Ask again; if it stays, close idle connections or use more hosts.
	Busy Reason = "busy"
	// The request shows no token of the file. Send Authorization: Bearer TOKEN.
	Unauthorized Reason = "unauthorized"
	// The file of tokens cannot be used. Mend it: the randomizer's log says what is wrong.
	TokensUnreadable Reason = "tokens_unreadable"
	// The device's name is longer than 128 bytes, or not UTF-8.
	BadDevice Reason = "bad_device"
	// No decision can be made from the arms. Try the body on a host in dry run.
	BadArms Reason = "bad_arms"
	// The body is not the JSON that is expected. Compare it with the description.
	BadRequest Reason = "bad_request"
	// The body has too many bytes, or more than 1024 arms.
	BodyTooLarge Reason = "body_too_large"
	// The body did not arrive within ten seconds. Send it at once.
	BodyTooSlow Reason = "body_too_slow"
	// The token is unknown, or its reward window is over: the device reports without this reward.
	ExpiredToken Reason = "expired_token"
	// The reward is not finite, or differs from the one told before.
	BadReward Reason = "bad_reward"
	// The request names another host. If the name is yours, add it to api.hosts; else a web page asked.
	ForeignHost Reason = "foreign_host"
	// A web page asked. If the page is yours, add it to api.origins.
	ForeignOrigin Reason = "foreign_origin"
	// The request is not declared as JSON. Send Content-Type: application/json.
	BadContentType Reason = "bad_content_type"
	// Only a host in dry run says what would become of a body. Start a second one with api.dry_run.
	NotDryRun Reason = "not_dry_run"
	// No such path, or no announced schema.
	NotFound Reason = "not_found"
	// The randomizer failed. Its log says how.
	Internal Reason = "internal"
)

// ErrUnreachable says that no attempt of a call got an answer before the client gave up. It wraps the last attempt's
// error.
var ErrUnreachable = errors.New("the randomizer cannot be reached")

// Refusal is an answer other than success. It unwraps to its Reason.
type Refusal struct {
	Status int    // HTTP status
	Reason Reason // empty if the answer is not a randomizer's, for instance a proxy's
	Detail string // a sentence; text of the answer if it is not a randomizer's
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("the randomizer answered %d %s: %s", r.Status, string(r.Reason), r.Detail)
}

// Unwrap returns the reason.
func (r *Refusal) Unwrap() error { return r.Reason }

// passing reports whether the refusal ends by itself, so that the call is worth repeating.
func (r *Refusal) passing() bool { return r.Status == http.StatusServiceUnavailable }
