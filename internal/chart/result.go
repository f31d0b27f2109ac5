package chart

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Result is the result of one deployed run. Its JSON form is a stable interface: keys are added, never renamed or
// removed.
//
// Regret is in units of reward and summed over all users, against each user's best arm: by its true mean if the
// population knows it, by its reward in hindsight for labelled data. Values are mean rewards on people held out.
type Result struct {
	Data    string `json:"data"`           // population: "adult", "synthetic" or a file's name
	Map     string `json:"map,omitempty"`  // feature map of the census
	Family  string `json:"family"`         // reward family
	Profile string `json:"profile"`        // "practical", "paper" or "joint"
	Trust   string `json:"trust"`          // the channel: "shuffle", "shares", "local" or "central"
	Seed    uint64 `json:"seed"`           // of the environment; the noise has none
	Users   int    `json:"users"`          // people decided for
	Dim     int    `json:"dimension"`      // d
	Arms    int    `json:"arms"`           // the most that any person had
	Epochs  int    `json:"epochs"`         // policies that were in force
	Lost    int    `json:"cohorts_lost"`   // cohorts destroyed because too few reported
	Reports int    `json:"reports"`        // reports in releases
	Clipped int    `json:"clipped_people"` // people with an arm of norm above 1, which was scaled down

	Epsilon float64 `json:"epsilon"` // of the worst-off record, over all releases that used it
	Delta   float64 `json:"delta"`   //
	// EpsilonAlone is the same if no other device is honest, for the observer against whom it is larger; null: nothing
	// bounds it.
	EpsilonAlone *float64 `json:"epsilon_alone"`
	Cohort       int      `json:"smallest_release"` // fewest reports in a release
	// VarianceRatio is the largest noise variance of a planned release over that of a trusted curator's Gaussian
	// mechanism with the same budget.
	VarianceRatio float64 `json:"variance_ratio"`

	Regret           float64  `json:"regret"`
	UniformRegret    float64  `json:"uniform_regret"`         // of an arm drawn uniformly, in expectation
	ConstantRegret   float64  `json:"constant_regret"`        // of the best constant arm, known in hindsight
	NonPrivateRegret *float64 `json:"nonprivate_regret"`      // of the same algorithm without noise; null: not run
	PolicyValue      *float64 `json:"policy_value,omitempty"` // of the last policy, on people held out
	ConstantValue    *float64 `json:"best_constant_value,omitempty"`
	NonPrivateValue  *float64 `json:"nonprivate_value,omitempty"` // of a fit to the rewards of all arms of all users
	HeldOut          int      `json:"held_out,omitempty"`         // people that values were measured on

	MessagesPerUser   float64 `json:"messages_per_user"`    // bit messages; users without a report included
	BytesPerUser      float64 `json:"bytes_per_user"`       // bytes from the device
	CPUSecondsPerUser float64 `json:"cpu_seconds_per_user"` // of all roles, without the broker
	// DeviceCPUSecondsPerUser is of the randomizers; ServerCPUSecondsPerUser of shuffler, analyzer and broker.
	DeviceCPUSecondsPerUser float64 `json:"device_cpu_seconds_per_user"`
	ServerCPUSecondsPerUser float64 `json:"server_cpu_seconds_per_user"`
	// Processes are what each process used.
	Processes   []Process `json:"processes,omitempty"`
	WallSeconds float64   `json:"wall_seconds"`
}

// Process is what one process of a run used.
type Process struct {
	Name       string  `json:"name"`
	CPUSeconds float64 `json:"cpu_seconds"`
	PeakBytes  int64   `json:"peak_bytes"` // largest resident set; 0: not known
}

// ErrResult reports a result with a number that no run can have.
var ErrResult = errors.New("chart: impossible result")

// Check refuses NaN and infinities, which JSON cannot hold and which only a broken run has, and a run without users.
func (r Result) Check() error {
	if r.Users <= 0 {
		return fmt.Errorf("%w: %d users", ErrResult, r.Users)
	}
	for name, v := range map[string]*float64{
		"epsilon": &r.Epsilon, "delta": &r.Delta, "regret": &r.Regret, "uniform_regret": &r.UniformRegret,
		"constant_regret": &r.ConstantRegret, "nonprivate_regret": r.NonPrivateRegret, "policy_value": r.PolicyValue,
		"best_constant_value": r.ConstantValue, "nonprivate_value": r.NonPrivateValue,
		"messages_per_user": &r.MessagesPerUser,
		"bytes_per_user":    &r.BytesPerUser, "cpu_seconds_per_user": &r.CPUSecondsPerUser,
		"wall_seconds": &r.WallSeconds, "epsilon_alone": r.EpsilonAlone, "variance_ratio": &r.VarianceRatio,
		"device_cpu_seconds_per_user": &r.DeviceCPUSecondsPerUser,
		"server_cpu_seconds_per_user": &r.ServerCPUSecondsPerUser,
	} {
		if v != nil && (math.IsNaN(*v) || math.IsInf(*v, 0)) {
			return fmt.Errorf("%w: %s is %v", ErrResult, name, *v)
		}
	}
	return nil
}

// WriteJSON writes the result as one indented JSON object and a newline.
func (r Result) WriteJSON(w io.Writer) error {
	b, err := r.encode()
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	return nil
}

// SaveJSON writes the result into a file, which appears whole or not at all.
func (r Result) SaveJSON(path string) error {
	b, err := r.encode()
	if err != nil {
		return err
	}
	return writeFile(path, b)
}

func (r Result) encode() ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	return append(b, '\n'), nil
}
