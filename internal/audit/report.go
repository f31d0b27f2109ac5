package audit

import (
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Breach is one thing that is wrong, with the entry that proves it.
type Breach struct {
	What What `json:"what"`
	// Entry is where the proof stands: "<role>/<index of the leaf> <kind>", "<role>.checkpoint", or the name of a file.
	Entry   string `json:"entry"`
	Release string `json:"release,omitempty"` // "<epoch>.<round>"
	Detail  string `json:"detail"`            // one sentence for people: what was expected, what was found
}

// MaxBreaches bounds the breaches that a report lists: a log that is wrong from one entry on is wrong in all of them.
const MaxBreaches = 100

// Report is the result of an audit.
type Report struct {
	OK         bool         `json:"ok"` // no breach was found
	Deployment string       `json:"deployment"`
	Channel    plan.Channel `json:"channel,omitempty"`
	Releases   int          `json:"releases"`  // rounds that were released and counted
	Destroyed  int          `json:"destroyed"` // rounds of which nothing counts
	// Epsilon is the largest that an announced plan reveals about a record, recomputed, at Delta: over all releases that
	// use the record. EpsilonAlone is the same if no other device is honest. +Inf, null in JSON: nothing bounds it.
	Epsilon      status.Epsilon `json:"epsilon"`
	EpsilonAlone status.Epsilon `json:"epsilon_alone"`
	Delta        float64        `json:"delta"`
	// Promise is the epsilon that the configured terms promise to each person, at Delta; 0 if there is no configuration.
	Promise float64 `json:"promise"`
	// PoliciesRecomputed counts the rounds whose sums, iterate and policy are those that this audit computed.
	PoliciesRecomputed int `json:"policies_recomputed"`
	// Running tells that the last announcement is not out: the deployment goes on.
	Running   bool        `json:"running"`
	Entries   Entries     `json:"entries"`
	Witnessed []Witnessed `json:"witnessed"`
	Breaches  []Breach    `json:"breaches"`           // in the order in which they were found, at most MaxBreaches
	Unlisted  int         `json:"unlisted,omitempty"` // breaches beyond those
	Notes     []string    `json:"notes"`              // what could not be checked and why, and what a reader must know
	Rounds    []Row       `json:"rounds,omitempty"`   // only where they were asked for (Options.Row)
}

// Entries are how many entries of each log were read.
type Entries struct {
	Analyzer uint64 `json:"analyzer"`
	Shuffler uint64 `json:"shuffler"`
}

// Witnessed is a checkpoint of a log that a witness co-signed.
type Witnessed struct {
	Witness string    `json:"witness"`
	Role    bus.Role  `json:"role"`
	Size    uint64    `json:"size"` // entries
	At      time.Time `json:"at"`
}

// Row is what a round did.
type Row struct {
	Epoch     uint64    `json:"epoch"`
	Round     uint32    `json:"round"`
	Outcome   string    `json:"outcome"` // released, destroyed, or refused by the analyzer
	Size      uint32    `json:"size"`    // slots of the cohort
	Minimum   uint32    `json:"minimum"`
	Enrolled  uint32    `json:"enrolled"`
	Reports   uint32    `json:"reports"`
	Messages  uint64    `json:"messages"` // of them NoiseMessages of the shuffler
	Noise     uint64    `json:"noise_messages"`
	Refused   []Refused `json:"refused"`
	Announced string    `json:"announced"` // the entry of the announcement
	// Epsilon is that of the reports that came, Promised that of the announced minimum, both over all releases that use
	// a record; Alone is Promised if no other device is honest.
	Epsilon  status.Epsilon `json:"epsilon"`
	Promised status.Epsilon `json:"promised"`
	Alone    status.Epsilon `json:"epsilon_alone"`
	// Coefficients are the estimate after the round, HalfWidth half the length of the interval of each; none where there
	// is no interval. Interval says what it is.
	Coefficients []float64 `json:"coefficients,omitempty"`
	HalfWidth    []float64 `json:"half_width,omitempty"`
	Interval     string    `json:"interval,omitempty"`
}

// Refused is how many reports of a round were refused for a reason.
type Refused struct {
	Reason   string `json:"reason"`
	Reports  uint64 `json:"reports"`   // at least
	TakenOut uint32 `json:"taken_out"` // of them, from a slot; exact
}

// place is "<epoch>.<round>".
func place(epoch uint64, round uint32) string { return fmt.Sprintf("%d.%d", epoch, round) }

func (r *Report) breach(b Breach) {
	r.OK = false
	if len(r.Breaches) == MaxBreaches {
		r.Unlisted++
		return
	}
	r.Breaches = append(r.Breaches, b)
}

// witnessed keeps the longest log that a witness saw of a role.
func (r *Report) witnessed(w Witnessed) {
	for i, known := range r.Witnessed {
		if known.Witness == w.Witness && known.Role == w.Role {
			if w.Size > known.Size {
				r.Witnessed[i] = w
			}
			return
		}
	}
	r.Witnessed = append(r.Witnessed, w)
}

// note adds a sentence once.
func (r *Report) note(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	for _, known := range r.Notes {
		if known == text {
			return
		}
	}
	r.Notes = append(r.Notes, text)
}
