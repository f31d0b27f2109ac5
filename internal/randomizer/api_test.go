package randomizer

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// The rewards' rules over the API, and that none is taken once the reward window is over.
func TestRewards(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	clock := &ahead{Clock: role.SystemClock()}
	s.config.Clock = clock
	s.start()
	a := s.Announcement(glm.Practical, 12)
	a.Timing.RewardWindow = time.Minute
	s.open(a)
	token := s.decide("x", twoArms)["token"].(string)
	reward := func(body string) (int, any) {
		status, answer := s.post("/v1/rewards", body)
		return status, answer["reason"]
	}
	for _, c := range []struct {
		body   string
		status int
		error  any
	}{
		{`{"token": "` + token + `", "reward": 0.25}`, 200, nil},
		{`{"token": "` + token + `", "reward": 0.25}`, 200, nil},
		{`{"token": "` + token + `", "reward": 0.5}`, 409, "bad_reward"},
		{`{"token": "unknown", "reward": 1}`, 410, "expired_token"},
		{`{"token": "` + token + `"}`, 400, "bad_request"},
		{`{"reward": 1}`, 400, "bad_request"},
		{`{"token": "` + token + `", "reward": "1"}`, 400, "bad_request"},
		{`{"token": "` + token + `", "reward": NaN}`, 400, "bad_request"},
		{`{"token": "` + token + `", "reward": 1e999}`, 400, "bad_request"},
		{`{"token": "` + token + `", "reward": 1, "extra": 1}`, 400, "bad_request"},
		{`{"token": "` + token + `", "reward": 1} {}`, 400, "bad_request"},
		{`{"token": "` + token + `", "reward": 1}]`, 400, "bad_request"},
		{`{"token": "` + token + `", "reward": 1}` + strings.Repeat(" ", 4<<10), 413, "body_too_large"},
		{`{"token`, 400, "bad_request"},
		{``, 400, "bad_request"},
	} {
		if status, e := reward(c.body); status != c.status || e != c.error {
			t.Errorf("%s: %d %v, want %d %v", c.body, status, e, c.status, c.error)
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := s.host.Reward(token, v); !errors.Is(err, device.ErrReward) {
			t.Errorf("reward %v: %v", v, err)
		}
	}
	// At the deadline it is too late, although the report was not made yet; pkg/device has the exact moment.
	clock.by.Store(int64(time.Minute))
	if _, err := s.host.Reward(token, 0.25); !errors.Is(err, api.ErrToken) || s.host.Pending() != 1 {
		t.Errorf("after the deadline: %v, %d reports are pending", err, s.host.Pending())
	}
}

// ahead is a clock that a test puts forward.
type ahead struct {
	role.Clock
	by atomic.Int64
}

func (c *ahead) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.by.Load())) }

// A reward outside what the policy's family allows is clipped, and the app is told so, with what is used in its place;
// whether or not the person is sampled.
func TestClippedRewardsAreCalledClipped(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12)
	s.open(a)
	for i, c := range []struct {
		reward  string
		clipped any
		used    any
	}{{"-1", true, 0.}, {"1e308", true, 1.}, {"1.0000001", true, 1.}, {"1", nil, nil}, {"0", nil, nil}, {"0.5", nil,
		nil}} {
		sampled := s.decide(fmt.Sprint("p", i), twoArms)
		unsampled := s.decide(fmt.Sprint("p", i), twoArms)
		if sampled["sampled"] != true || unsampled["sampled"] != false {
			t.Fatal(sampled, unsampled)
		}
		for _, d := range []map[string]any{sampled, unsampled, sampled} {
			status, answer := s.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": %s}`, d["token"], c.reward))
			if status != 200 || answer["accepted"] != true || answer["clipped"] != c.clipped ||
				answer["used"] != c.used || (answer["range"] != nil) != (c.clipped == true) {
				t.Errorf("reward %s: %d %v", c.reward, status, answer)
			}
		}
	}
	s.due(a)
	s.reports(6)
}

// No sampled person's token looks like one whose reward is accepted and forgotten. Tokens that begin with a given one
// of 64 letters do not show among 2000 with probability 2e-14.
func TestTokensOfSampledPeopleAreTheirOwn(t *testing.T) {
	for range 2000 {
		if token := newToken(); strings.HasPrefix(token, unsampledToken) {
			t.Fatalf("token %s", token)
		}
	}
}

// The app's mistakes are named, and none of them names a value.
func TestAPIErrors(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.Announcement(glm.Practical, 40))
	for name, c := range map[string]struct {
		body   string
		detail string
	}{
		"not JSON":       {`{"arms": [[0.123456,`, "ends too early"},
		"wrong type":     {`{"arms": [["0.123456"]]}`, `field "arms" must be a list of lists`},
		"NaN":            {`{"arms": [[NaN, 0.123456]]}`, "not JSON at byte"},
		"overflow":       {`{"arms": [[1e999, 0.123456]]}`, `field "arms"`},
		"unknown field":  {`{"arms": [[0.123456, 0]], "reward": 0.123456}`, "unknown field"},
		"no arms":        {`{"arms": []}`, "arm set is empty"},
		"empty":          {``, "ends too early"},
		"wrong size":     {`{"arms": [[0.123456]]}`, "dimension"},
		"uneven":         {`{"arms": [[0.123456, 0.5], [0.123456]]}`, "dimension"},
		"two values":     {`{"arms": [[0.123456, 0]]} {"arms": 1}`, "more than one"},
		"bracket behind": {`{"arms": [[0.123456, 0]]}]`, "more than one"},
		"arms twice":     {`{"arms": [[0.123456, 0]], "arms": [[1, 0]]}`, "twice"},
		"null":           {`null`, "arm set is empty"},
		"arm that is no": {`{"arms": [null]}`, "dimension"},
		"no number":      {`{"arms": [[0.123456, null]]}`, `field "arms" must be a list of lists`},
		"a truth":        {`{"arms": [[true, 0.123456]]}`, `field "arms" must be a list of lists`},
		"nested":         {`{"arms": [[0.123456, [1]]]}`, `field "arms" must be a list of lists`},
		"an object":      {`{"arms": [[0.5, {"123456": 1}]]}`, `field "arms" must be a list of lists`},
		"longer arm":     {`{"arms": [[0.123456, 0, 1]]}`, "more numbers than the policy's dimension"},
	} {
		status, answer := s.post("/v1/devices/"+strings.ReplaceAll(name, " ", "-")+"/decisions", c.body)
		detail, _ := answer["detail"].(string)
		if status != http.StatusUnprocessableEntity || answer["reason"] != "bad_arms" ||
			!strings.Contains(detail, c.detail) {
			t.Errorf("%s: %d %v, want %q", name, status, answer, c.detail)
		}
		if strings.Contains(detail, "123456") {
			t.Errorf("%s: the answer names a value: %s", name, detail)
		}
	}
	for path, want := range map[string]int{"/v1/devices/x/decision": 404, "/v1/devices//decisions": 404, "/": 404,
		"/v1/devices/" + strings.Repeat("x", 200) + "/decisions": 400, "/v1/devices/%ff/decisions": 400} {
		if status, _ := s.post(path, twoArms); status != want && status != http.StatusMovedPermanently &&
			status != http.StatusTemporaryRedirect {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if status, l := s.get("/v1/devices/NaN/ledger"); status != 200 ||
		!strings.Contains(fmt.Sprint(l["explanation"]), "Epoch 1: epsilon") {
		t.Errorf("ledger: %v", l)
	}
	if status, l := s.get("/v1/devices/nobody/ledger"); status != 200 ||
		!strings.Contains(fmt.Sprint(l["explanation"]), "Nothing was spent") {
		t.Errorf("ledger of nobody: %v", l)
	}
	s.reports(19) // every one of them reports all the same
}
