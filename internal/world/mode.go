package world

import (
	"fmt"
	"math"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Kind says how cohorts are formed.
type Kind string

const (
	// Arrival is one record a person for all of the deployment's life, of those who come first. Cohorts grow.
	Arrival Kind = "arrival"
	// Panel draws each cohort from all people.
	Panel Kind = "panel"
	// Clear has no privacy: everybody is in every panel, every day, and the sums are exact.
	Clear Kind = "not private"
	// Uniform draws an arm, and learns nothing.
	Uniform Kind = "uniform"
	// Default always plays arm 0: what is done without learning.
	Default Kind = "default arm"
)

// Mode is one way to run the deployment.
type Mode struct {
	Kind Kind `json:"kind"`
	// Of panels: Decisions is K_max, the most decisions of a report and the days of an epoch; Records is R, the most
	// reports of a person.
	Decisions int `json:"decisions,omitempty"`
	Records   int `json:"records,omitempty"`
}

// Modes are one-record mode, panels with each K_max and each R, and the yardsticks.
func Modes(decisions, records []int) []Mode {
	modes := []Mode{{Kind: Arrival}}
	for _, k := range decisions {
		for _, r := range records {
			modes = append(modes, Mode{Kind: Panel, Decisions: k, Records: r})
		}
	}
	return append(modes, Mode{Kind: Clear}, Mode{Kind: Uniform}, Mode{Kind: Default})
}

// Name is the mode's in tables.
func (m Mode) Name() string {
	if m.Kind == Panel {
		return fmt.Sprintf("panel, K_max %d, R %d", m.Decisions, m.Records)
	}
	return string(m.Kind)
}

// Setting is everything that is the same for all modes.
type Setting struct {
	World   World        `json:"world"`
	Channel plan.Channel `json:"channel"` // default plan.Shuffle
	// Epsilon and Delta are the guarantee of a person for all of the deployment's life.
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"` // default plan.DefaultDelta
	// Dishonest is the share of people whose noise does not count.
	Dishonest    float64 `json:"dishonest"`
	HalfLife     float64 `json:"half_life"` // in epochs; 0: nothing is forgotten
	Alarm        float64 `json:"alarm"`     // 0: no test for a change
	Control      float64 `json:"control"`
	ControlShare float64 `json:"control_share"`
	Caution      float64 `json:"caution"`
}

// Resolve checks the setting and fills its defaults in.
func (s Setting) Resolve() (Setting, error) {
	w, err := s.World.Resolve()
	if err != nil {
		return s, err
	}
	s.World = w
	if s.Channel == "" {
		s.Channel = plan.Shuffle
	}
	if s.Delta == 0 {
		s.Delta = plan.DefaultDelta
	}
	if err := privacy.CheckTarget(s.Epsilon, s.Delta); err != nil {
		return s, fmt.Errorf("%w: %w", ErrSetting, err)
	}
	if !(s.Dishonest >= 0 && s.Dishonest < 1) || !(s.Control >= 0 && s.Control < 1) {
		return s, fmt.Errorf("%w: dishonest %v and control %v must be in [0, 1)", ErrSetting, s.Dishonest, s.Control)
	}
	return s, nil
}

// Schedule is how panels of a mode go on in a world.
type Schedule struct {
	Window  int // days of an epoch
	Epochs  int // that are over before the last day begins
	Records int // reports of a person, at most one in an epoch
	Panel   int // people of a cohort
	Pool    int // fewest people to draw from
}

// Schedule is that of a mode of panels. The world is resolved. Errors wrap ErrSetting.
func (m Mode) Schedule(w World) (Schedule, error) {
	s := Schedule{Window: m.Decisions, Records: m.Records}
	if m.Kind == Clear {
		s.Window, s.Records = 1, math.MaxInt
	}
	if s.Window < 1 || s.Records < 1 {
		return s, fmt.Errorf("%w: panels need at least 1 decision and 1 record, not %d and %d", ErrSetting, m.Decisions,
			m.Records)
	}
	if s.Epochs = (w.Days - 1) / s.Window; s.Epochs < 1 {
		return s, fmt.Errorf("%w: an epoch of %d days is not over before the last of %d days", ErrSetting, s.Window,
			w.Days)
	}
	s.Records = min(s.Records, s.Epochs)
	s.Panel, s.Pool = panelSize(w.People, s.Records, s.Epochs)
	return s, nil
}

// Effective is the mode with R capped by the number of epochs: modes that are alike in it are the same run.
func (m Mode) Effective(w World) Mode {
	if s, err := m.Schedule(w); err == nil && m.Kind == Panel {
		m.Records = s.Records
	}
	return m
}

// slack is how many more people than a panel holds there must be to draw from in every epoch, on average, so that luck
// does not leave too few.
const slack = 1.1

// panelSize is the size of panels with which a number of people, each in so many panels at most, lasts for the epochs,
// and the fewest people that a panel is drawn from. If people may be in every panel, that is all of them. Else the pool
// shrinks as people have served, and some are left who could serve more often than there are epochs left: panels must
// be smaller than people*records/epochs. The size is the largest that leaves slack in the last epoch, with pools as
// large as they are on average.
func panelSize(people, records, epochs int) (size, pool int) {
	if records >= epochs {
		return people, people
	}
	low, high := 1, people*records/epochs
	for low < high {
		middle := (low + high + 1) / 2
		if float64(lastPool(people, records, epochs, middle)) >= slack*float64(middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low, low
}

// lastPool is how many people there are to draw from in the last epoch, on average.
func lastPool(people, records, epochs, size int) float64 {
	served := make([]float64, records+1) // how many people were in so many panels
	served[0] = float64(people)
	pool := float64(people)
	for range epochs - 1 {
		odds := math.Min(1, float64(size)/pool)
		for k := records - 1; k >= 0; k-- {
			served[k+1] += odds * served[k]
			served[k] -= odds * served[k]
		}
		pool = float64(people) - served[records]
	}
	return pool
}
