package randomizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/client"
	"github.com/riffle-dp/riffle/pkg/device"
)

// unusable are bodies that no decision can be made from, with what an app is told of each.
var unusable = map[string]string{
	`{"arms": [[0.6], [0.2]]}`:                       "dimension",
	`{"arms": [[0.6, 0.2, 0.1]]}`:                    "more numbers than the policy's dimension",
	`{"arms": [[0.6, 0.2]`:                           "ends too early",
	`{"arms": [[0.6, 0.2]], "default": 3}`:           `"default" names no arm`,
	`{"arms": [[0.6, 0.2]], "exclude": [0]}`:         "excluded",
	`{"arms": []}`:                                   "arms",
	`{"arms": [[0.6, "much"]]}`:                      "numbers",
	`{"arms": [{"id": "none"}]}`:                     "no schema of features",
	`{"arms": [[1, 0]], "context": {"age": 3}}`:      "no schema of features",
	`{"arms": [[1, 0]], "weather": "fine"}`:          "unknown field",
	`[[1, 0]]`:                                       "JSON object",
	"{\"arms\": [[1, 0]]}\n{\"arms\": [[1, 0]]}":     "more than one JSON value",
	`{"arms": [[` + strings.Repeat("1,", 9) + `1]]}`: "dimension",
}

// A host in dry run decides with the announced policy, asks the shuffler nothing, keeps nothing and sends nothing. Each
// of its answers says that it is one, whether devices enrol as they arrive or are drawn.
func TestDryRun(t *testing.T) {
	t.Parallel()
	for _, panels := range []bool{false, true} {
		t.Run(fmt.Sprintf("panels %v", panels), func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.config.DryRun = true
			s.config.Enrolments = testbed.Account(t, "enrolment", func() int64 { return s.host.Asking() },
				EnrolmentReasons())
			a := s.unhurried(12)
			p := ofPanels(s)
			s.start()
			if panels {
				a = p.next(testbed.Long)
			} else {
				s.answer = nil
				s.open(a)
			}
			dry := func(what string, answer map[string]any) {
				t.Helper()
				if answer["dry_run"] != true {
					t.Errorf("%s: %v", what, answer)
				}
			}
			_, registered := s.post("/v1/devices/x", "")
			dry("a name", registered)
			plays := map[any]int{}
			for i := range 40 {
				d := s.decide("x", twoArms)
				dry("a decision", d)
				if d["sampled"] != false || d["reason"] != "dry_run" || d["reward_by"] != nil {
					t.Fatalf("%v", d)
				}
				plays[d["arm"]]++
				status, accepted := s.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": %d}`, d["token"], i))
				dry("a reward", accepted)
				if status != http.StatusOK || accepted["accepted"] != true || (accepted["clipped"] == true) != (i > 1) {
					t.Errorf("%d %v", status, accepted)
				}
			}
			if len(plays) != 2 && !panels { // a policy that knows nothing plays both
				t.Errorf("arms played: %v", plays)
			}
			_, ledger := s.get("/v1/devices/x/ledger")
			dry("a ledger", ledger)
			_, refused := s.post("/v1/devices/x/decisions", `{"arms": 3}`)
			dry("a refusal", refused)
			_, unknown := s.get("/v1/nothing")
			dry("no such path", unknown)
			_, now := s.get("/v1/status")
			dry("the status", now)
			if now["enrolling"] != false || now["epoch"] != 1.0 || now["devices"] != 0.0 {
				t.Errorf("%v", now)
			}
			if !slices.Contains(s.host.Snapshot().Warnings, dryRunMeans) {
				t.Errorf("the page says %q", s.host.Snapshot().Warnings)
			}
			s.due(a)
			if n := s.count(); n != 0 || len(s.arrivals()) != 0 || s.host.Pending() != 0 || len(s.storedNames()) != 0 {
				t.Errorf("the shuffler was asked %d times, %d reports came, %d are pending, the store has %v", n,
					len(s.arrivals()), s.host.Pending(), s.storedNames())
			}
		})
	}
}

// A state folder in which devices took part is not taken for a dry run, which would break what they promised; one of a
// dry run has none.
func TestADryRunHasAStateOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.unhurried(12))
	s.decide("x", twoArms)
	s.must(s.stop())
	s.config.DryRun = true
	if _, err := New(s.config); !errors.Is(err, errDryRunState) {
		t.Fatalf("taken: %v", err)
	}
}

// A check says what is wrong with a body, by the reason that a decision about it is refused for, and what becomes of
// the device. Only a host in dry run answers it: on another the body is not even read, and nobody is asked for.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.DryRun = true
	s.start()
	if status, answer := s.post("/v1/check", twoArms); status != http.StatusServiceUnavailable {
		t.Errorf("before any policy: %d %v", status, answer)
	}
	a := s.unhurried(12)
	digest := s.open(a)
	for body, wrong := range unusable {
		status, answer := s.post("/v1/check", body)
		detail, _ := answer["detail"].(string)
		if status != http.StatusOK || answer["ok"] != false || answer["dry_run"] != true ||
			!strings.Contains(detail, wrong) || !strings.Contains(answer["would"].(string), "null record") {
			t.Errorf("%s: %d %v", body, status, answer)
		}
		if _, refused := s.post("/v1/devices/x/decisions", body); refused["reason"] != answer["reason"] ||
			refused["detail"] != answer["detail"] {
			t.Errorf("%s: checked as %v, refused as %v", body, answer, refused)
		}
	}
	c := client.New(client.Options{GiveUp: -1})
	defer c.Close()
	checked, err := c.Check(t.Context(), client.At(s.api.URL), client.Request{
		Vectors: [][]float64{{0.6, 0.2}, {-0.3, 0.5}}, Default: 1, Exclude: []int{0}})
	if err != nil || !checked.OK || !checked.DryRun || checked.Decision == nil || checked.Decision.Arm != 1 ||
		checked.Decision.Propensity != 1 || strings.Contains(checked.Would, "null record") {
		t.Errorf("%+v, %v", checked, err)
	}
	s.next(a, digest, true)
	if _, answer := s.post("/v1/check", twoArms); answer["ok"] != true ||
		!strings.Contains(answer["would"].(string), "not asked for: final_policy") {
		t.Errorf("under the final policy: %v", answer)
	}

	normal := newScene(t)
	normal.start()
	normal.open(normal.unhurried(12))
	for _, body := range append([]string{twoArms}, slices.Sorted(keysOf(unusable))...) {
		status, answer := normal.post("/v1/check", body)
		if status != http.StatusForbidden || answer["reason"] != "not_dry_run" || answer["detail"] == "" ||
			answer["ok"] != nil || answer["dry_run"] != nil {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	if _, _, err := normal.host.Check(func(*device.Announced) (api.Arms, error) {
		t.Error("a host that is not in dry run looks at the arms")
		return api.Arms{}, nil
	}); !errors.Is(err, api.ErrNotDryRun) {
		t.Errorf("%v", err)
	}
	if normal.count() != 0 || normal.host.Status().Devices != 0 || normal.status().Malformed != (api.Malformed{}) {
		t.Errorf("%d devices are asked for, %+v", normal.count(), normal.status().Malformed)
	}
}

func keysOf(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// What an app sends shows to the app alone. Two hosts whose people come in the same order, one with bodies that are all
// unusable and the other with good ones, have the same metrics, the same page and the same log; the status says how
// many were unusable.
func TestMalformedBodiesShowToTheAppAlone(t *testing.T) {
	t.Parallel()
	bodies := slices.Sorted(keysOf(unusable))
	shown := func(spoilt bool) (outside string, now api.Status) {
		s := newScene(t)
		env, err := role.NewEnv("randomizer", role.DefaultSettings("127.0.0.1:0"), io.Discard)
		s.must(err)
		s.config.Enrolments, err = outcome.New(env.Metrics, env.Name, "enrolment", nil, EnrolmentReasons()...)
		s.must(err)
		s.start()
		s.must(status.Mount(env, s.host.Snapshot))
		a := s.unhurried(40)
		s.open(a)
		for i, body := range bodies {
			if !spoilt {
				body = twoArms
			}
			status, d := s.post(fmt.Sprintf("/v1/devices/p%d/decisions", i), body)
			if (status == http.StatusOK) == spoilt {
				t.Errorf("%s: %d %v", body, status, d)
			}
			token, reward := "x", `{"token": "x"}`
			if !spoilt {
				token = d["token"].(string)
				reward = fmt.Sprintf(`{"token": %q, "reward": 1}`, token)
			}
			s.post("/v1/rewards", reward)
			s.post(fmt.Sprintf("/v1/devices/p%d/decisions", i), body) // of a person who is not sampled any more
		}
		s.due(a)
		s.reports(len(bodies))
		return outsideOf(t, s, env), s.status()
	}
	good, well := shown(false)
	bad, ill := shown(true)
	if good != bad {
		t.Errorf("with good bodies a host shows\n%s\nand with unusable ones\n%s", good, bad)
	}
	if want := (api.Malformed{Decisions: 2 * len(bodies), Rewards: len(bodies)}); ill.Malformed != want ||
		well.Malformed != (api.Malformed{}) {
		t.Errorf("malformed: %+v, want %+v, and %+v", ill.Malformed, want, well.Malformed)
	}
}

// outsideOf is what a host shows to others than its app: each counter and gauge, the page, and the messages of its log.
func outsideOf(t *testing.T, s *scene, env *role.Env) string {
	t.Helper()
	var lines []string
	families, err := env.Metrics.Gather()
	s.must(err)
	for _, f := range families {
		for _, m := range f.Metric {
			if strings.HasPrefix(f.GetName(), "riffle_") && m.Histogram == nil {
				lines = append(lines, fmt.Sprint(f.GetName(), m.Label, m.Counter.GetValue(), m.Gauge.GetValue()))
			}
		}
	}
	page, err := json.Marshal(s.host.Snapshot())
	s.must(err)
	for _, line := range strings.Split(strings.TrimSpace(s.logged.String()), "\n") {
		var entry struct{ Level, Message, Reason string }
		if line != "" {
			s.must(json.Unmarshal([]byte(line), &entry))
			lines = append(lines, fmt.Sprint(entry))
		}
	}
	return strings.Join(append(lines, string(page)), "\n")
}

// status is what the API shows.
func (s *scene) status() (now api.Status) {
	s.t.Helper()
	r, err := http.Get(s.api.URL + "/v1/status")
	s.must(err)
	defer r.Body.Close()
	s.must(json.NewDecoder(r.Body).Decode(&now))
	return now
}
