package randomizer

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
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
	"larger than accepted": {arms: `{"arms": [[0.1, 0.2]], "` + strings.Repeat("x", 4<<20) + `": 1}`,
		reward: "1"},
	"connection cut":              {arms: twoArms, reward: "1", cut: true},
	"connection stalls":           {arms: twoArms, reward: "1", stall: true},
	"more arms than one may have": {arms: `{"arms": [` + strings.Repeat(`[1, 0],`, 1024) + `[1, 0]]}`, reward: "1"},
}

const (
	// patience is what a test grants a machine that is busy with other tests: nothing is claimed about its speed.
	patience = testbed.Patience
	people   = 6
	changed  = 2 // whose record it is
	window   = testbed.Long
)

// beside is what an app does besides, at every step of a run.
type beside func(p *process, step string)

// requests asks for paths at every step, or at that one.
func requests(method, paths, body string, at ...string) beside {
	return func(p *process, step string) {
		for path := range strings.FieldsSeq(paths) {
			if len(at) == 0 || slices.Contains(at, step) {
				p.ask(method, path, body, nil)
			}
		}
	}
}

// besides are what an app may do besides. They tell of people's decisions too, and change nothing outside either.
var besides = map[string]beside{
	"asks for ledgers":  requests("GET", "/v1/devices/p2/ledger /v1/devices/nobody/ledger", ""),
	"asks for the rest": requests("GET", "/v1/status /v1/schema /v1/elsewhere", ""),
	"asks as no app may": func(p *process, _ string) {
		for key, value := range map[string]string{"Host": "evil.example.com", "Origin": "https://evil.example",
			"Content-Type": "text/plain"} {
			p.ask("POST", "/v1/devices/x/decisions", twoArms, func(r *http.Request) {
				r.Header.Set(key, value)
				r.Host = r.Header.Get("Host")
			})
		}
	},
	"decides again":           requests("POST", "/v1/devices/p2/decisions", twoArms, "p2 enrolled", "full"),
	"decides again and badly": requests("POST", "/v1/devices/p2/decisions", `{"arms": [`, "p2 enrolled", "full"),
	"names devices":           requests("POST", "/v1/devices/p2 /v1/devices/nobody", ""),
	"names none": requests("POST", "/v1/devices//decisions /v1/devices/"+strings.Repeat("x", 200),
		twoArms),
	"rewards what nobody asked": requests("POST", "/v1/rewards", `{"token": ".no token of ours", "reward": 1}`),
	"rewards in no form":        requests("POST", "/v1/rewards", `{"token": `),
	"people who are not sampled": requests("POST", "/v1/devices/a/decisions /v1/devices/b/decisions", twoArms,
		"full", "p5 reported"),
	"people who are not sampled, badly": requests("POST", "/v1/devices/a/decisions", `{"arms": 5}`, "full"),
}

// ask sends a request that may be refused, and waits for the whole answer.
func (p *process) ask(method, path, body string, change func(*http.Request)) {
	p.t.Helper()
	r, err := http.NewRequest(method, p.api.URL+path, strings.NewReader(body))
	p.must(err)
	r.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultClient.Do(r)
	p.must(err)
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	p.must(err)
}

// Replacing one person's record changes nothing that anybody else sees of a host (conditions 3, 8, 9 and 13 to 16), and
// nor does what an app asks besides. A whole randomizer runs as its program runs it, under a clock that the test moves.
// After every step are compared, and must be equal: each page of the ops listener to the byte, every line of the log at
// level debug, name, size and freshness of every file of the state folder, each message to the broker with subjects,
// sizes, order and time, and what other people's apps are told; in the end also who is enrolled in which slot, and
// whose report came.
//
// Nothing of it is drawn, so there are no false alarms: whatever differs shows. A machine that is too busy to hear its
// broker for seconds says so in its log (the conditions broker and broker_calls, a broker request repeated), or asks
// the shuffler again; such a run is made again (mostTries). What a record causes shows each time, and fails.
func TestARecordChangesNothingOutside(t *testing.T) {
	t.Parallel()
	keys := deploymentKeys(t)
	usual := outside(t, keys, "usual", nil)
	names := slices.Sorted(maps.Keys(records))
	if testing.Short() {
		names = []string{"usual", "reward missing", "malformed", "connection cut"}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			same(t, outside(t, keys, name, nil), usual)
		})
	}
	for name, b := range besides {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			same(t, outside(t, keys, "usual", b), usual)
		})
	}
}

// same reports the first things that differ.
func same(t *testing.T, got, want []string) {
	t.Helper()
	told := 0
	for i := range max(len(got), len(want)) {
		g, w := "nothing", "nothing"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g == w {
			continue
		}
		if told++; told > 4 {
			return
		}
		gl, wl := strings.Split(g, "\n"), strings.Split(w, "\n")
		for k := range min(len(gl), len(wl)) {
			if gl[k] != wl[k] { // of a page, the first line that differs
				g, w = gl[k], wl[k]
				break
			}
		}
		t.Errorf("the outside sees\n%s\ninstead of\n%s", g, w)
	}
}

// mostTries is how many runs a busy machine has for one that it can keep up with. On an idle one a run takes a second.
const mostTries = 20

// outside is what is seen of a run with a record of that name.
func outside(t *testing.T, keys, name string, b beside) []string {
	t.Helper()
	for range mostTries {
		r := &run{process: startProcess(t, keys, roomy), name: name, beside: b}
		r.play()
		// Once each at the start: later the machine was too busy to hear its broker.
		said := r.log.String()
		if !r.again.Load() && strings.Count(said, `"condition":"broker"`) == 1 &&
			strings.Count(said, `"condition":"broker_calls"`) == 1 &&
			!strings.Contains(said, "broker request repeated") {
			return r.seen
		}
	}
	t.Fatal("this machine is too busy to hear its broker")
	return nil
}

// run is one run of a process.
type run struct {
	*process
	name   string
	beside beside // nil: nothing
	token  any    // of the person whose record it is
	seen   []string
}

// roomy is an announcement whose reports are due in an hour.
func roomy(b *testbed.Bed) *plan.Announcement {
	a := b.Announcement(glm.Practical, 2*people)
	a.Timing.RewardWindow = window
	return a
}

// step ends a step: what an app does besides, and what is seen then.
func (r *run) step(name string) {
	if r.beside != nil {
		r.beside(r.process, name)
	}
	r.seen = append(append(r.seen, "step "+name), r.look()...)
}

func (r *run) play() {
	r.answer = func(e wire.Enrolment) *wire.EnrolReply {
		if _, known := r.slots[e.Request.Device]; known || len(r.slots) < people {
			return nil
		}
		return &wire.EnrolReply{Refusal: wire.RefusalCohortFull}
	}
	for _, line := range []string{`riffle_epoch{role="randomizer"} 1`, `riffle_ready{role="randomizer"} 1`,
		`riffle_released_total{item="announcement",role="randomizer"} 2`, // read once, and then followed
		`riffle_released_total{item="key_set",role="randomizer"} 1`,
		`riffle_condition{condition="broker_room",role="randomizer"} 1`} {
		r.shows(line)
	}
	r.step("start")
	slices.Sort(r.seen) // what a process does at its start it does at the same time
	begin := r.world.Now()
	r.enrolAll()
	r.decide("too late for the cohort", twoArms)
	r.shows(`riffle_refused_total{item="enrolment",reason="cohort_full",role="randomizer"} 1`)
	r.step("full")
	for i := range people {
		r.report(i, begin.Add(time.Duration(i)*time.Second+window))
	}
	r.whole(r.announced)
	r.halt()
	last := r.behind()
	slices.Sort(last)
	r.seen = append(r.seen, last...)
}

// enrolAll lets a person a second decide.
func (r *run) enrolAll() {
	for i := range people {
		device, record := fmt.Sprint("p", i), records["usual"]
		if i == changed {
			record = records[r.name]
		}
		switch {
		case record.cut:
			r.cut(device, record.arms)
		case record.stall:
			r.begin(device, fmt.Sprintf("Content-Length: %d\r\n", len(record.arms)), record.arms[:len(record.arms)/2])
		default:
			_, answer := r.post("/v1/devices/"+device+"/decisions", record.arms)
			if i == changed {
				r.token = answer["token"]
			} else {
				r.seen = append(r.seen, fmt.Sprint("told ", answer["sampled"], answer["reason"], answer["epoch"],
					answer["reward_by"]))
			}
		}
		r.shows(fmt.Sprintf(`riffle_released_total{item="enrolment",role="randomizer"} %d`, i+1))
		if i == changed && record.after == 0 {
			r.reward()
		}
		r.step(device + " enrolled")
		r.world.pass(time.Second)
	}
}

// cut sends half of a request's body and breaks the connection.
func (s *scene) cut(device, body string) {
	s.t.Helper()
	s.must(s.begin(device, fmt.Sprintf("Content-Length: %d\r\n", len(body)), body[:len(body)/2]).Close())
}

// reward gives the reward of the record, if one comes.
func (r *run) reward() {
	if reward := records[r.name].reward; reward != "" {
		r.ask("POST", "/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": %s}`, fmt.Sprint(r.token), reward), nil)
	}
}

// report lets the report of a person fall due, and stops before and after it.
func (r *run) report(person int, due time.Time) {
	testbed.Eventually(r.t, "waiting for the report's time", func() bool { return r.world.hasWaiter(due) })
	for _, after := range []time.Duration{-200 * time.Millisecond, 0, 300 * time.Millisecond} {
		r.world.pass(due.Add(after).Sub(r.world.Now()))
		if after >= 0 {
			r.shows(fmt.Sprintf(`riffle_released_total{item="report",role="randomizer"} %d`, person+1))
		}
		if after != 0 && person == changed && records[r.name].after == after {
			r.reward()
		}
		r.step(fmt.Sprintf("p%d reported", person))
	}
}

// whole adds what a whole run looks like from outside: to the broker's connection, and to the shuffler.
func (r *run) whole(a *plan.Announcement) {
	testbed.Eventually(r.t, "as many messages and bytes on /metrics as the broker sees", func() bool {
		r.seen = append(r.seen, r.sentSince()...)
		shown := strings.Split(r.opsPage("/metrics"), "\n")
		return slices.Contains(shown,
			fmt.Sprintf(`riffle_broker_messages_total{direction="out",role="randomizer"} %d`, r.published)) &&
			slices.Contains(shown, fmt.Sprintf(`riffle_broker_bytes_total{direction="out",role="randomizer"} %d`,
				r.bytes))
	})
	rank := map[uint32]int{}
	for i, e := range r.enrolments() {
		rank[e.device] = i
		r.seen = append(r.seen, fmt.Sprintf("enrolled: %d in slot %d, asked with %d bytes", i, e.slot, e.size))
	}
	r.came(people)
	for i, one := range r.arrivals() {
		report := r.Open(one.envelope, a)
		if len(one.envelope) != wire.EnvelopeSize(a.ReportMessages()*seal.BitSize) {
			r.t.Errorf("a report of %d bytes, the plan gives %d", len(one.envelope),
				wire.EnvelopeSize(a.ReportMessages()*seal.BitSize))
		}
		r.seen = append(r.seen, fmt.Sprintf("report %d: of %d in slot %d, %d bytes", i, rank[report.Device],
			report.Slot, len(one.envelope)))
	}
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
	s.host.promises.lock.Lock()
	defer s.host.promises.lock.Unlock()
	if len(s.host.promises.tokens)+len(s.host.promises.open) != 0 {
		t.Error("the late decision brought its session back")
	}
}
