package bench

import (
	"errors"
	"fmt"
	"math"
)

// Roles of rows.
const (
	RoleDevice   = "device"     // the devices, with the people who use them
	RoleBroker   = "broker"     //
	RoleShuffler = "shuffler"   // with its workers
	RoleAnalyzer = "analyzer"   // with its workers
	RoleAll      = "end_to_end" // all of them together
)

// Sources of rows: the kind of load, or that nothing ran.
const (
	FromDevices  = "devices"  // sealed by devices of this run
	FromKept     = "kept"     // sealed once, reported to several deployments
	FromJunk     = "junk"     // random bytes in place of sealed bits
	FromComputed = "computed" // from other rows
)

// Row is what one role of one run cost. Its JSON form is a stable interface: keys are added, never renamed or removed.
type Row struct {
	Role    string `json:"role"`
	Channel string `json:"channel"`
	Users   int    `json:"users"` // people of the cohort, each with one report

	// PerSecond is reports a second: end to end of wall time on this machine, for a role of its own processor time,
	// that is, what one core of the role takes.
	PerSecond         float64 `json:"per_second"`
	CPUSecondsPerUser float64 `json:"cpu_seconds_per_user"`
	// BytesPerUser is what the role sent to the broker and received from it; of the broker and end to end, all that it
	// carried.
	BytesPerUser float64 `json:"bytes_per_user"`
	// ResidentBytes is the most memory that a process of the role had; end to end the sum of the servers and the
	// broker. 0: not known, because the system has no /proc.
	ResidentBytes int64 `json:"resident_bytes"`
	// RatioToBound is the least processor time that the role's work could take, Bound, over what it took, in [0, 1] but
	// for errors of measurement; 0: there is no bound.
	RatioToBound float64 `json:"ratio_to_bound"`
	Bound        string  `json:"bound"`

	Dimension         int     `json:"dimension"`
	Messages          int     `json:"messages"` // of one report: bit messages in shuffle, else 1
	MessagesPerSecond float64 `json:"messages_per_second"`
	SentPerUser       float64 `json:"sent_bytes_per_user"`     // to the broker
	ReceivedPerUser   float64 `json:"received_bytes_per_user"` // from the broker
	// ResidentPerUser is how much more memory a person takes than in the smallest run of the same kind, in bytes; 0:
	// there is no smaller run, or the memory is not known.
	ResidentPerUser float64 `json:"resident_bytes_per_user"`
	WallSeconds     float64 `json:"wall_seconds"`
	Source          string  `json:"source"` // what the role worked on, or FromComputed
	Workers         int     `json:"workers"`
}

// ErrRow reports a row with a number that no run can have.
var ErrRow = errors.New("bench: impossible row")

// Check refuses a row that is not whole.
func (r Row) Check() error {
	for name, v := range map[string]float64{
		"per_second": r.PerSecond, "cpu_seconds_per_user": r.CPUSecondsPerUser, "bytes_per_user": r.BytesPerUser,
		"ratio_to_bound": r.RatioToBound, "messages_per_second": r.MessagesPerSecond,
		"sent_bytes_per_user": r.SentPerUser, "received_bytes_per_user": r.ReceivedPerUser,
		"resident_bytes_per_user": r.ResidentPerUser, "wall_seconds": r.WallSeconds,
	} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%w: %s of the %s is %v", ErrRow, name, r.Role, v)
		}
	}
	switch {
	case r.Users < 1 || r.Messages < 1 || r.Dimension < 1:
		return fmt.Errorf("%w: %d people with %d messages in %d dimensions", ErrRow, r.Users, r.Messages, r.Dimension)
	case (r.RatioToBound > 0) != (r.Bound != ""):
		return fmt.Errorf("%w: the %s is at %v of the bound %q", ErrRow, r.Role, r.RatioToBound, r.Bound)
	}
	return nil
}

// of fills in what follows from the processor time of a run.
func (r Row) of(cpu float64, bound float64) Row {
	r.CPUSecondsPerUser = cpu / float64(r.Users)
	if cpu > 0 {
		r.PerSecond = float64(r.Users) / cpu
		r.MessagesPerSecond = r.PerSecond * float64(r.Messages)
		r.RatioToBound = bound * float64(r.Users) / cpu
	}
	if !(r.RatioToBound > 0) {
		r.Bound = ""
	}
	return r
}
