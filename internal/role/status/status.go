// Package status shows how a role is doing, out of one snapshot: as gauges on /metrics, as JSON at /status.json, and
// as a page at / of the ops listener that polls that JSON.
//
// Everything in a snapshot is public or is about the role itself. Regret and rewards are not in it: they are about
// people's records, which no role but a randomizer ever holds.
package status

import (
	"bytes"
	_ "embed" // the page
	"encoding/json"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Snapshot is what a role tells about its work. Zero values are not shown.
type Snapshot struct {
	Deployment string   `json:"deployment"`
	Epoch      uint64   `json:"epoch"`  // 0: nothing was announced yet
	Epochs     int      `json:"epochs"` // that the schedule plans; 0: this role does not know
	Round      uint32   `json:"round"`
	Rounds     int      `json:"rounds"` // of the epoch
	Final      bool     `json:"final"`  // the last policy is out
	Cohort     *Cohort  `json:"cohort,omitempty"`
	Panel      *Panel   `json:"panel,omitempty"` // nil: cohorts are not drawn, or this role does not know
	Budget     *Budget  `json:"budget,omitempty"`
	Releases   []Round  `json:"releases"` // finished rounds, oldest first; nil: this role does not know
	Devices    *Devices `json:"devices,omitempty"`
	Learned    *Learned `json:"learned,omitempty"` // nil: this role does not know
	// Answers are what panels answered to questions, the newest ones, oldest first.
	Answers []*deployment.Answer `json:"answers,omitempty"`
	// Warnings are what an operator should look at although the role is ready, each a sentence that says what to do;
	// the page shows them at its head.
	Warnings []string `json:"warnings,omitempty"`
}

// Cohort is how far the epoch's cohort is.
type Cohort struct {
	Size     uint32 `json:"size"`
	Minimum  uint32 `json:"minimum"`
	Enrolled *int   `json:"enrolled,omitempty"` // nil: this role does not know
	Reports  *int   `json:"reports,omitempty"`  // of the open round
	Messages int    `json:"messages"`           // of one report: bit messages in the channel shuffle, 1 in others
	// Deadline is when the open round is released with those who reported, if they are enough; nil: it is not fixed
	// while enrolment is open, the round is over, or this role does not know.
	Deadline *time.Time `json:"deadline,omitempty"`
	// Waiting counts the reports that the broker holds and the shuffler has not taken in, when it last asked; nil:
	// this role does not know.
	Waiting *int `json:"waiting,omitempty"`
	// Opened counts the messages of the open round that the analyzer has opened; nil: this role does not know.
	Opened *int `json:"opened,omitempty"`
	// Largest counts the slots that one host holds, whichever holds most; nil: this role does not know.
	Largest *int `json:"largest,omitempty"`
}

// Panel is from whom the epoch's cohort is drawn.
type Panel struct {
	Registered int    `json:"registered"`      // devices so far, whether or not they may be in another panel
	Needed     int    `json:"needed"`          // fewest devices that the panel is drawn from
	Pool       *int   `json:"pool,omitempty"`  // devices that it is drawn from; nil: that is not fixed yet
	Drawn      bool   `json:"drawn"`           // the panel is drawn
	Waits      string `json:"waits,omitempty"` // what the draw waits for, in a sentence
}

// Budget is what the deployment promises each person, and what it has cost the worst-off one.
type Budget struct {
	Epsilon privacy.Epsilon `json:"epsilon"` // largest that a plan so far promises its people
	Delta   float64         `json:"delta"`
	// EpsilonAlone is the largest that is left if no other device is honest: +Inf, null in JSON, where a plan leaves
	// nothing; nil: this role does not know.
	EpsilonAlone *privacy.Epsilon `json:"epsilon_alone"`
	Channel      string           `json:"channel,omitempty"`
	RestsOn      string           `json:"rests_on,omitempty"` // continues "the guarantee": plan.Channel.RestsOn
	// Spent is the largest epsilon of an epoch of which something left the shuffler, counted or not; 0: none did; nil:
	// this role does not know.
	Spent *privacy.Epsilon `json:"spent,omitempty"`
	// Records is how many epochs one person may report in, out of any Period that follow each other, 0 being all of the
	// deployment; 0: one. Then Epsilon is of all of them together, and Spent of one.
	Records int `json:"records,omitempty"`
	Period  int `json:"period,omitempty"`
	// Decisions is the most decisions of a person that one report holds; 0: one.
	Decisions int `json:"decisions,omitempty"`
}

// In names the channel that the promise is made in, and what is left of it if no other device is honest, +Inf if
// nothing.
func (b *Budget) In(c plan.Channel, alone float64) {
	left := privacy.Epsilon(alone)
	b.Channel, b.RestsOn, b.EpsilonAlone = string(c), c.RestsOn(), &left
}

// Counts says in how many epochs a person's device may report, and with how many decisions, where cohorts are panels.
func (b *Budget) Counts(p plan.Plan) {
	if p.Panel != nil {
		b.Records, b.Period, b.Decisions = p.PerPerson(), int(p.Period), p.PerReport()
	}
}

// Round is one round that is over.
type Round struct {
	Epoch    uint64 `json:"epoch"`
	Round    uint32 `json:"round"`
	Outcome  string `json:"outcome"`            // released, destroyed or refused
	Enrolled *int   `json:"enrolled,omitempty"` // nil: this role does not know
	Reports  int    `json:"reports"`
	Messages int    `json:"messages"` // of all reports: bit messages in the channel shuffle, reports in others
	// Epsilon is of the epoch's whole plan, with the reports of which something left the shuffler, or may have, counted
	// or not; 0: nothing left.
	Epsilon privacy.Epsilon `json:"epsilon"`
	// Moved is the most by which one dishonest device can have moved a number that was released, in standard deviations
	// of its error; 0: nothing was released, or this role does not know. Influence says it number by number, and is of
	// the newest round alone.
	Moved     float64                `json:"one_device_deviations,omitempty"`
	Influence []plan.StatedInfluence `json:"influence,omitempty"`
}

// Outcomes of a round.
const (
	Released  = "released"
	Destroyed = "destroyed"
	Refused   = "refused" // by the analyzer, after the shuffler released it
)

// Learned is what the deployment learned from what its people reported, as numbers that are public.
type Learned struct {
	Cohorts int `json:"cohorts"` // that the estimate was learnt from
	// Names are what the coefficients stand for, by the deployment's schema of features; nil without one.
	Names     []string       `json:"names,omitempty"`
	Epochs    []LearnedEpoch `json:"epochs"`   // the newest ones, oldest first; the last is the estimate
	Interval  string         `json:"interval"` // what an interval is, or why there is none, in sentences
	Predicted Predicted      `json:"predicted"`
	// Total compares all decisions so far with the control group's; nil without one.
	Total *Lift `json:"total,omitempty"`
	// Action is what a rule did last, and Acted the epoch after which; empty: none did anything.
	Action string `json:"action,omitempty"`
	Acted  uint64 `json:"acted,omitempty"`
}

// LearnedEpoch is the estimate after an epoch.
type LearnedEpoch struct {
	Epoch     uint64          `json:"epoch"`
	Epsilon   privacy.Epsilon `json:"epsilon"` // of the epoch's whole plan, with the reports that came
	Theta     []float64       `json:"theta"`
	HalfWidth []float64       `json:"half_width,omitempty"` // of each coefficient's interval; nil: there is none
	Lift      *Lift           `json:"lift,omitempty"`       // of the epoch; nil without a control group
	// Unchanged is how probable sums like the epoch's are if the world is what it was before; 0: not tested.
	Unchanged float64 `json:"unchanged,omitempty"`
	Action    string  `json:"action,omitempty"` // what a rule did after the epoch: rollback or stop
}

// Lift is how much larger a mean reward the policy brings than the default arm, which the control group gets.
type Lift struct {
	Treated float64 `json:"treated"` // mean reward of the policy
	Control float64 `json:"control"` // mean reward of the default arm
	Lift    float64 `json:"lift"`
	Low     float64 `json:"lift_low"` // 95 % interval, for sampling and all noise
	High    float64 `json:"lift_high"`
}

// Predicted is the mean reward by the model of the arms that it likes least and most, and of an arm of zeros.
type Predicted struct {
	Least   float64 `json:"least"`
	Neutral float64 `json:"neutral"`
	Most    float64 `json:"most"`
}

// Devices are the devices of a randomizer host.
type Devices struct {
	Known    int `json:"known"`
	Capacity int `json:"capacity"`
}

// Account is one kind of item: resumed + received = released + refused + pending.
type Account struct {
	Item        string         `json:"item"`
	Received    uint64         `json:"received"`
	Resumed     uint64         `json:"resumed"`
	Released    uint64         `json:"released"`
	Refused     uint64         `json:"refused"`
	Reasons     map[string]int `json:"reasons"` // of refusals; those that happened
	Retries     map[string]int `json:"retries"`
	Pending     int64          `json:"pending"`
	Unaccounted int64          `json:"unaccounted"`
	PerSecond   *float64       `json:"per_second"` // received, over the last seconds; null: not known yet
}

// View is what /status.json holds.
type View struct {
	Role     string    `json:"role"`
	Ready    bool      `json:"ready"`
	Trouble  string    `json:"trouble,omitempty"` // why it is not ready
	Started  time.Time `json:"started"`
	Now      time.Time `json:"now"`
	Snapshot           // inlined
	Accounts []Account `json:"accounts"`
}

//go:embed page.html
var document []byte

//go:embed learned.js
var learned []byte

// page is the document with the script that draws what was learned in its place.
var page = bytes.Replace(document, []byte("/* learned.js */"), learned, 1)

// window is what rates are taken over.
const window = 10 * time.Second

// board serves a role's snapshot.
type board struct {
	env     *role.Env
	read    func() Snapshot
	started time.Time

	mu   sync.Mutex
	seen []reading // oldest first
}

type reading struct {
	at       time.Time
	received []uint64 // by account
}

// Mount puts the page, its JSON and the gauges into a role's surroundings. read may be called at any time, also
// before the role works.
func Mount(env *role.Env, read func() Snapshot) error {
	b := &board{env: env, read: read, started: env.Clock.Now().UTC().Truncate(time.Second)}
	env.Handle("GET /{$}", http.HandlerFunc(b.page))
	env.Handle("GET /status.json", http.HandlerFunc(b.json))
	return env.Metrics.Register(newGauges(env.Name, read))
}

func (b *board) page(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	// The page is one file: nothing from anywhere else may run in it or be fetched by it.
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "+
		"connect-src 'self'; img-src data:; frame-ancestors 'none'")
	_, _ = w.Write(page) // a browser that went away is no error of ours
}

func (b *board) json(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(b.view(b.env.Clock.Now())) // as above
}

func (b *board) view(now time.Time) View {
	v := View{Role: b.env.Name, Started: b.started, Now: now.UTC().Truncate(time.Second), Snapshot: b.read()}
	if v.Releases == nil {
		v.Releases = []Round{}
	}
	if err := b.env.Health.Ready(); err != nil {
		v.Trouble = err.Error()
	}
	v.Ready = v.Trouble == ""
	v.Accounts = []Account{}
	for _, o := range b.env.Accounts() {
		v.Accounts = append(v.Accounts, account(o))
	}
	b.rates(now, v.Accounts)
	return v
}

func account(o *outcome.Outcomes) Account {
	balance := o.Balance()
	a := Account{Item: o.Item(), Received: balance.Received, Resumed: balance.Resumed, Released: balance.Released,
		Pending:     balance.Pending,
		Unaccounted: balance.Unaccounted(), Reasons: map[string]int{}, Retries: map[string]int{}}
	for i, c := range balance.Refused {
		a.Refused += c.Items
		if c.Items > 0 {
			a.Reasons[string(c.Reason)] = int(c.Items)
		}
		if n := balance.Retried[i].Items; n > 0 {
			a.Retries[string(c.Reason)] = int(n)
		}
	}
	return a
}

// rates fills in how fast items come, from what earlier looks saw: nothing is counted while no one looks.
func (b *board) rates(now time.Time, accounts []Account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.seen) > 1 && now.Sub(b.seen[1].at) >= window {
		b.seen = b.seen[1:]
	}
	if len(b.seen) > 0 {
		first := b.seen[0]
		if d := now.Sub(first.at).Seconds(); d >= 0.5 && len(first.received) == len(accounts) {
			for i := range accounts {
				rate := math.Round(float64(accounts[i].Received-first.received[i])/d*10) / 10
				accounts[i].PerSecond = &rate
			}
		}
	}
	if n := len(b.seen); n == 0 || now.Sub(b.seen[n-1].at) >= time.Second/2 {
		r := reading{at: now}
		for _, a := range accounts {
			r.received = append(r.received, a.Received)
		}
		b.seen = append(b.seen, r)
	}
}
