package randomizer

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// One person's record in every shape that it can take. What the app sends for them differs; what leaves the host must
// not.
var records = map[string]struct {
	arms   string
	reward string        // "" : none comes
	after  time.Duration // if not 0: when the reward comes, after the end of the window
	cut    bool          // the app's connection breaks in the middle of the arms
	stall  bool          // the rest of the arms never comes
}{
	"usual": {arms: twoArms, reward: "1"},
	"other arms": {arms: `{"arms": [[-1, 0], [0, 1], [0.1, 0.1], [0.5, 0.5], [-0.5, 0.5]]}`,
		reward: "0"},
	"reward missing":      {arms: twoArms},
	"reward late":         {arms: twoArms, reward: "1", after: 300 * time.Millisecond},
	"reward just in time": {arms: twoArms, reward: "1", after: -200 * time.Millisecond},
	"reward out of range": {arms: twoArms, reward: "1e300"},
	"reward not a number": {arms: twoArms, reward: "NaN"},
	"reward malformed":    {arms: twoArms, reward: `"yes`},
	"arms empty":          {arms: `{"arms": []}`, reward: "1"},
	"no arms":             {arms: `{}`, reward: "1"},
	"NaN":                 {arms: `{"arms": [[NaN, 0]]}`, reward: "1"},
	"infinite":            {arms: `{"arms": [[1e999, 0]]}`, reward: "1"},
	"huge":                {arms: `{"arms": [[1e308, 1e308], [-1e308, 1e308]]}`, reward: "1"},
	"malformed":           {arms: `{"arms": [[0.1, `, reward: "1"},
	"empty body":          {arms: ``, reward: "1"},
	"wrong dimension":     {arms: `{"arms": [[0.1, 0.2, 0.3]]}`, reward: "1"},
	"uneven":              {arms: `{"arms": [[0.1, 0.2], [0.3]]}`, reward: "1"},
	"larger than accepted": {arms: `{"arms": [[0.1, 0.2]], "` + strings.Repeat("x", maxDecision) + `": 1}`,
		reward: "1"},
	"connection cut":              {arms: twoArms, reward: "1", cut: true},
	"connection stalls":           {arms: twoArms, reward: "1", stall: true},
	"more arms than one may have": {arms: `{"arms": [` + strings.Repeat(`[1, 0],`, maxArms) + `[1, 0]]}`, reward: "1"},
}

const (
	// patience is what a test grants a machine that is busy with other tests: nothing is claimed about its speed.
	patience = 30 * time.Second
	people   = 6
	changed  = 2 // whose record it is
)

// view is what the broker, the shuffler and whoever watches the network see of one run.
type view struct {
	Enrolled []seen // in order
	Reports  map[uint32]sent
	Sampled  []any // what each app is told, but for the changed person's
}

type seen struct {
	Device, Slot uint32
	Size         int
}

type sent struct {
	Device  uint32
	Size    int
	Reports int
}

// Replacing one person's record changes neither who is enrolled, in which order and under which slot, nor when anybody
// reports, nor how large any report is (conditions 3, 9 and 13 to 16). Over the app's own HTTP API and a real broker.
func TestARecordChangesNothingOutside(t *testing.T) {
	t.Parallel()
	views := map[string]view{}
	names := slices.Sorted(maps.Keys(records))
	if testing.Short() {
		names = []string{"usual", "reward missing", "malformed", "connection cut", "connection stalls"}
	}
	type result struct {
		name string
		view view
	}
	results := make(chan result, len(names))
	t.Run("runs", func(t *testing.T) {
		for _, name := range names {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				// What is seen is only comparable where every step came before the reports, and where nothing held one
				// report up for long: a machine that is too busy for that has it all once more, with a longer window.
				window, slow := 900*time.Millisecond, 0
				for window < patience {
					v, inTime, late := outside(t, name, window)
					switch {
					case !inTime:
						window *= 3
						continue
					case late > 2*time.Second && slow < 2: // the person's own record would hold it up every time
						slow++
						continue
					case late > 2*time.Second:
						t.Errorf("the person reported %v later than the slowest of the others, three times", late)
					}
					results <- result{name, v}
					return
				}
				t.Fatal("this machine is too busy for any window")
			})
		}
	})
	close(results)
	for r := range results {
		views[r.name] = r.view
	}
	for name, v := range views {
		if !reflect.DeepEqual(v, views["usual"]) {
			t.Errorf("with a record that is %q the outside sees\n%+v\ninstead of\n%+v", name, v, views["usual"])
		}
	}
}

// outside returns what is seen of a run; whether every decision was answered within the window; and by how much longer
// than anybody else's the report of the person whose record it is took.
func outside(t *testing.T, name string, window time.Duration) (v view, inTime bool, over time.Duration) {
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Practical, 12)
	a.Timing.RewardWindow = window
	s.open(a)
	inTime = true
	due := map[uint32]time.Time{}
	for i := range people {
		device, record := fmt.Sprint("p", i), records["usual"]
		if i == changed {
			record = records[name]
		}
		var token any
		switch {
		case record.cut:
			s.cut(device, record.arms)
		case record.stall:
			s.begin(device, fmt.Sprintf("Content-Length: %d\r\n", len(record.arms)), record.arms[:len(record.arms)/2])
		default:
			_, answer := s.post("/v1/devices/"+device+"/decisions", record.arms)
			token = answer["token"]
			if i != changed {
				v.Sampled = append(v.Sampled, answer["sampled"], answer["reason"], answer["epoch"])
			}
		}
		testbed.Eventually(t, "enrolled", func() bool { return len(s.enrolments()) == i+1 })
		s.host.mu.Lock()
		held := s.host.devices[device]
		s.host.mu.Unlock()
		testbed.Eventually(t, "promised", func() bool {
			held.mu.Lock()
			defer held.mu.Unlock()
			if held.state.Enrolment == nil {
				return false
			}
			due[held.state.Number] = held.state.Enrolment.ReportAt
			return true
		})
		inTime = inTime && s.clock.Now().Before(due[held.state.Number])
		if record.reward != "" {
			body := fmt.Sprintf(`{"token": %q, "reward": %s}`, fmt.Sprint(token), record.reward)
			if record.after == 0 {
				s.post("/v1/rewards", body)
			} else {
				time.AfterFunc(window+record.after, func() {
					http.Post(s.api.URL+"/v1/rewards", "application/json",
						strings.NewReader(body))
				})
			}
		}
	}
	// Each host numbers its devices in an order of its own: here they are known by the order of their enrolment.
	rank := map[uint32]uint32{}
	for i, e := range s.enrolments() {
		rank[e.device] = uint32(i)
		v.Enrolled = append(v.Enrolled, seen{rank[e.device], e.slot, e.size})
		// The promise was made when the enrolment was answered: nothing of the record had a part in its time.
		if wait := due[e.device].Sub(e.at); wait < window || wait > window+patience {
			t.Errorf("device %d enrolled and is due %v later, announced are %v", e.device, wait, window)
		}
	}
	v.Reports = map[uint32]sent{}
	late := map[uint32]time.Duration{} // by rank
	for _, r := range s.reports(people) {
		report := s.Open(r.envelope, a)
		one := v.Reports[report.Slot]
		v.Reports[report.Slot] = sent{rank[report.Device], len(r.envelope), one.Reports + 1}
		if len(r.envelope) != wire.EnvelopeSize(a.ReportMessages()*seal.BitSize) {
			t.Errorf("a report of %d bytes, the plan gives %d", len(r.envelope), wire.EnvelopeSize(a.ReportMessages()*seal.BitSize))
		}
		if late[rank[report.Device]] = r.at.Sub(due[report.Device]); late[rank[report.Device]] < 0 {
			t.Errorf("device %d reported %v before its time", report.Device, -late[rank[report.Device]])
		}
	}
	// A busy machine delays everybody. Nobody is delayed for their own sake.
	slowest := time.Duration(0)
	for device, l := range late {
		if device != changed {
			slowest = max(slowest, l)
		}
	}
	time.Sleep(time.Until(due[changed].Add(500 * time.Millisecond))) // past a late reward
	s.reports(people)
	return v, inTime, late[changed] - slowest
}

// cut sends half of a request's body and breaks the connection.
func (s *scene) cut(device, body string) {
	s.t.Helper()
	c := s.begin(device, fmt.Sprintf("Content-Length: %d\r\n", len(body)), body[:len(body)/2])
	time.Sleep(20 * time.Millisecond)
	s.must(c.Close())
}

// A decision that takes for ever (an arm set that is hard to design for) delays no report, the person's own included:
// it is made of the null record, in time.
func TestASlowDecisionDelaysNoReport(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Practical, 12)
	s.open(a)
	release := make(chan struct{})
	answered := make(chan error, 1)
	go func() {
		_, err := s.host.Decide(t.Context(), "slow", func(int) ([][]float64, error) {
			<-release
			return [][]float64{{1, 0}}, nil
		})
		answered <- err
	}()
	testbed.Eventually(t, "enrolled", func() bool { return len(s.enrolments()) == 1 })
	s.decide("quick", twoArms)
	s.reports(2)
	close(release)
	s.must(<-answered)
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	if len(s.host.sessions)+len(s.host.open) != 0 {
		t.Error("the late decision brought its session back")
	}
}
