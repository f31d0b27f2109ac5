package planner

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Result is a plan and its costs. Its JSON form is a stable interface: keys are added, never renamed or removed.
//
// The numbers at the top describe the cohort in which a person sends most, and its release with the most messages per
// coordinate; Epsilon and Mu are the weakest of all cohorts. A person is in one cohort only, so guarantees of cohorts
// do not add up.
type Result struct {
	Epsilon               float64 `json:"epsilon"`
	Delta                 float64 `json:"delta"`
	Mu                    float64 `json:"mu"`
	MessagesPerUser       int     `json:"messages_per_user"`
	MessagesPerCoordinate int     `json:"messages_per_coordinate"`
	NoiseBits             uint32  `json:"noise_bits"`
	Scale                 float64 `json:"scale"` // levels per data unit
	Bias                  float64 `json:"bias"`
	VarianceRatio         float64 `json:"variance_ratio"` // of noise, over the central Gaussian's with the same budget
	BytesPerUser          int     `json:"bytes_per_user"`
	CPUSecondsPerUser     float64 `json:"cpu_seconds_per_user"`
	UnusedBudget          float64 `json:"unused_budget"` // largest part of mu^2 that a cohort's plan has no use for

	MeanMessages          float64 `json:"mean_messages_per_user"` // over all people
	MeanBytes             float64 `json:"mean_bytes_per_user"`
	SealSecondsPerMessage float64 `json:"seal_seconds_per_message"`

	AskedEpsilon float64     `json:"asked_epsilon"`
	Account      *Account    `json:"account,omitempty"` // where issuers let people in
	Learner      glm.Profile `json:"learner,omitempty"` // a program, where one was asked for
	Users        int         `json:"users"`
	Dimension    int         `json:"dimension"`
	// Options, if not 0, is how many options a decision has, each with its own weight of each of Context numbers.
	Options      int     `json:"options,omitempty"`
	Context      int     `json:"context,omitempty"`
	Family       string  `json:"family,omitempty"`
	ThetaNorm    float64 `json:"theta_norm"`
	HessianShare float64 `json:"hessian_share,omitempty"`
	DropOut      float64 `json:"drop_out"`
	Dishonest    float64 `json:"dishonest"`
	// DishonestReports is the fewest reports of a cohort whose noise is not counted.
	DishonestReports int `json:"dishonest_reports"`

	// MessageLimit is the limit on one person's messages that follows the numbers released; 0 where another budget was
	// given.
	MessageLimit int `json:"message_limit,omitempty"`
	// HostMessages is the most that hosts send unless they are told, where the plan needs more; else 0.
	HostMessages int `json:"host_messages,omitempty"`

	// Trust is the channel that this plan is for, where another one than shuffle or server noise was asked for.
	Trust plan.Channel `json:"trust,omitempty"`

	FirstCohort *FirstCohort `json:"first_cohort,omitempty"`
	Exploration string       `json:"exploration,omitempty"` // the rule behind spreads
	Cohorts     []Cohort     `json:"cohorts"`
	Frontier    []Frontier   `json:"frontier"`

	// Channels are the four channels beside each other, of the learner's statistics; empty with other releases. Reasons
	// say which one is recommended, and why.
	Channels []Channel `json:"channels"`
	Reasons  []string  `json:"reasons,omitempty"`

	// Prediction is what the deployment will learn; nil: not predicted.
	Prediction *Predicted `json:"prediction,omitempty"`
}

// FirstCohort is the size of the first cohort and why.
type FirstCohort struct {
	Size int    `json:"size"`
	Rule string `json:"rule"`
}

// Cohort is the plan of one cohort.
type Cohort struct {
	Size    int `json:"size"`
	Minimum int `json:"minimum"` // fewest reports that are released
	// Spread says how widely its people explore, in standard deviations: 0 where every arm is tried, or none.
	Spread  float64 `json:"spread"`
	Honest  int     `json:"honest"`  // devices whose noise is counted
	Epsilon float64 `json:"epsilon"` // guaranteed, at the minimum
	// ExpectedEpsilon is what the plan gives if all devices report and are honest.
	ExpectedEpsilon float64 `json:"expected_epsilon"`
	// HonestEpsilon is what the plan gives at the minimum if all devices are honest.
	HonestEpsilon     float64   `json:"honest_epsilon"`
	Mu                float64   `json:"mu"`
	MessagesPerUser   int       `json:"messages_per_user"`
	BytesPerUser      int       `json:"bytes_per_user"`
	CPUSecondsPerUser float64   `json:"cpu_seconds_per_user"`
	UnusedBudget      float64   `json:"unused_budget"`
	Releases          []Release `json:"releases"`
}

// Release is one kind of release of a cohort.
type Release struct {
	Statistic             string  `json:"statistic"`
	Times                 int     `json:"times"` // how many equal releases
	Coordinates           int     `json:"coordinates"`
	MessagesPerUser       int     `json:"messages_per_user"`       // of one such release
	MessagesPerCoordinate int     `json:"messages_per_coordinate"` // most of any coordinate
	Levels                uint32  `json:"levels"`                  // most of any coordinate
	NoiseBits             uint32  `json:"noise_bits"`
	Bias                  float64 `json:"bias"`
	Scale                 float64 `json:"scale"` // levels per data unit
	Shift                 float64 `json:"shift"` // l2 distance in levels by which a record can move it
	Mu                    float64 `json:"mu"`    // of one such release by itself
	// Standard deviations of each sum, data units: Riffle's noise at worst, a trusted curator's Gaussian noise, and the
	// sum of every device's own Gaussian noise in the local model, for the same budget and shares.
	Deviation        float64 `json:"deviation"`
	CentralDeviation float64 `json:"central_deviation"`
	LocalDeviation   float64 `json:"local_deviation"`
	VarianceRatio    float64 `json:"variance_ratio"`
	// ServerNoise is the number of noise bits that servers add to each sum once.
	ServerNoise uint64 `json:"server_noise_bits,omitempty"`
	Limit       string `json:"limit"` // what keeps the scale from being larger: privacy, messages or shift
}

// Frontier is what error costs in messages in one cohort.
type Frontier struct {
	Cohort int     `json:"cohort"` // number, from 1
	People int     `json:"people"`
	Points []Point `json:"points"`
}

// Point is one choice of a frontier.
type Point struct {
	MessagesPerUser   int     `json:"messages_per_user"`
	BytesPerUser      int     `json:"bytes_per_user"`
	CPUSecondsPerUser float64 `json:"cpu_seconds_per_user"`
	VarianceRatio     float64 `json:"variance_ratio"` // the largest of the releases
	Epsilon           float64 `json:"epsilon"`
}

// WriteJSON writes the result as one indented JSON object and a newline.
func (r Result) WriteJSON(w io.Writer) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("planner: %w", err)
	}
	if _, err := w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("planner: %w", err)
	}
	return nil
}
