package randomizer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/role/listen"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// call sends a request and wants a status and, of a refusal, a reason.
func (s *scene) call(what, body string, status int, reason string, headers ...string) {
	s.t.Helper()
	method, path, _ := strings.Cut(what, " ")
	r, err := http.NewRequest(method, s.api.URL+path, strings.NewReader(body))
	s.must(err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		} else {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	answer, err := http.DefaultClient.Do(r)
	s.must(err)
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	s.must(err)
	if answer.StatusCode != status || reason != "" && !strings.Contains(string(said), `"reason":"`+reason+`"`) {
		s.t.Errorf("%s with %v: %d %.300s, want %d %s", what, headers, answer.StatusCode, said, status, reason)
	}
	if unauthorized := answer.StatusCode == 401; unauthorized != (answer.Header.Get("WWW-Authenticate") == "Bearer") {
		s.t.Errorf("%s: WWW-Authenticate %q", what, answer.Header.Get("WWW-Authenticate"))
	}
}

// operationsOfAPI are requests of each operation.
var operationsOfAPI = []string{
	"POST /v1/devices/x/decisions", "POST /v1/rewards", "POST /v1/devices/x", "GET /v1/devices/x/ledger",
	"PUT /v1/devices/x/opt-out", "DELETE /v1/devices/x/opt-out", "DELETE /v1/devices/x", "GET /v1/status",
	"GET /v1/schema", "POST /v1/check", "GET /v1/openapi.json",
}

const bearer = "0123456789abcdef0123456789abcdef"

// brokenStore fails to keep anything.
type brokenStore struct{ *memory }

var errBroken = errors.New("the disk is full")

func (brokenStore) Put(store.Device) error             { return errBroken }
func (brokenStore) OptOut(string, bool) error          { return errBroken }
func (brokenStore) Replace(string, store.Device) error { return errBroken }
func (brokenStore) Scrub() error                       { return errBroken }

// Every operation of the API answers with each status and reason that its description has, and with no other.
func TestEveryAnswerIsDescribedAndComes(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.bounds.Time = 2 * time.Second
	tokens := filepath.Join(t.TempDir(), "tokens")
	s.must(os.WriteFile(tokens, []byte("test "+bearer), 0o600))
	var err error
	s.access.Tokens, err = listen.OpenTokens(tokens, nil)
	s.must(err)
	s.start()
	const authorization, with = "Authorization", "Bearer " + bearer
	long := strings.Repeat("n", 129)

	// On the header, whatever the operation.
	for _, what := range operationsOfAPI {
		s.call(what, "{}", 401, "unauthorized")
		s.call(what, "{}", 401, "unauthorized", authorization, with+"0")
		s.call(what, "{}", 403, "foreign_host", "Host", "evil.example", authorization, with)
		s.call(what, "{}", 403, "foreign_origin", "Origin", "https://evil.example", authorization, with)
		if strings.HasPrefix(what, "POST") {
			s.call(what, "{}", 415, "bad_content_type", "Content-Type", "text/plain", authorization, with)
		}
		if strings.Contains(what, "/x") {
			s.call(strings.Replace(what, "/x", "/"+long, 1), "{}", 400, "bad_device", authorization, with)
		}
	}
	s.must(os.WriteFile(tokens, []byte("test"), 0o600))
	for _, what := range operationsOfAPI {
		s.call(what, "{}", 503, "tokens_unreadable", authorization, with)
	}
	s.must(os.WriteFile(tokens, []byte("test "+bearer), 0o600))
	s.call("GET /v1/status", "", 200, "", authorization, with)
	s.must(s.stop())
	s.access.Tokens = nil
	s.start()

	// Before a policy, and then under one.
	s.call("POST /v1/devices/x/decisions", twoArms, 503, "no_policy")
	s.call("GET /v1/schema", "", 503, "no_policy")
	s.call("GET /v1/status", "", 200, "")
	a := s.unhurried(12)
	s.open(a)
	s.call("POST /v1/check", twoArms, 403, "not_dry_run")
	s.call("GET /v1/schema", "", 404, "not_found")
	s.call("GET /v1/openapi.json", "", 200, "")
	s.call("POST /v1/devices/x", "", 200, "")
	for _, what := range []string{"POST", "DELETE"} {
		for _, rest := range []string{"decisions", "ledger", "opt-out"} {
			s.call(what+" /v1/devices/"+rest, "", 404, "not_found")
		}
	}
	token := s.decide("x", twoArms)["token"].(string)
	told := func(reward string) string { return fmt.Sprintf(`{"token": %q, "reward": %s}`, token, reward) }
	s.call("POST /v1/devices/y/decisions", `{"arms": [["a"]]}`, 422, "bad_arms")
	s.call("POST /v1/devices/y/decisions", strings.Repeat(" ", 1<<20), 413, "body_too_large")
	s.call("POST /v1/rewards", told("0.5"), 200, "")
	s.call("POST /v1/rewards", told("0.25"), 409, "bad_reward")
	s.call("POST /v1/rewards", `{"token": "?", "reward": 1}`, 410, "expired_token")
	s.call("POST /v1/rewards", `{}`, 400, "bad_request")
	s.call("POST /v1/rewards", told("0.5")+strings.Repeat(" ", 1<<13), 413, "body_too_large")
	s.call("GET /v1/devices/x/ledger", "", 200, "")
	s.slowBody("/v1/rewards")
	s.slowBody("/v1/devices/z/decisions")
	s.call("PUT /v1/devices/x/opt-out", "", 204, "")
	s.call("DELETE /v1/devices/x/opt-out", "", 204, "")
	s.call("DELETE /v1/devices/x", "", 204, "")
	for i := range mostOut {
		s.host.places.out[fmt.Sprint(i)] = true
	}
	s.call("PUT /v1/devices/one-more/opt-out", "", 507, "host_full")
	s.due(a)
	s.reports(3)
	s.must(s.stop())

	s.bounds.Requests = 0
	s.start()
	s.awaitRound(a)
	s.call("POST /v1/rewards", told("0.5"), 503, "busy")
	s.call("POST /v1/devices/v/decisions", twoArms, 503, "busy")
	s.due(a)
	s.reports(4)

	describedWithSchema(t, s)
	describedWhenTheDiskIsFull(t, s)
	describedWhenRewound(t, s, false)
	describedWhenRewound(t, s, true)
	if unseen := s.described.Unseen(); len(unseen) > 0 {
		t.Errorf("described, and never answered:\n%s", strings.Join(unseen, "\n"))
	}
}

// slowBody sends a body that does not come.
func (s *scene) slowBody(path string) {
	s.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.api.URL, "http://"))
	s.must(err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: 40\r\n\r\n", path)
	s.must(err)
	s.must(c.SetReadDeadline(time.Now().Add(testbed.Patience)))
	said, err := io.ReadAll(c)
	s.must(err)
	if !strings.Contains(string(said), "body_too_slow") {
		s.t.Errorf("%s: %s", path, said)
	}
}

// like is a further scene whose answers are held to the same description.
func like(t *testing.T, s *scene) *scene {
	other := newScene(t)
	other.described = s.described
	return other
}

// describedWithSchema has features announced, and a host in dry run.
func describedWithSchema(t *testing.T, s *scene) {
	other := like(t, s)
	other.config.DryRun = true
	other.start()
	other.call("POST /v1/check", "{}", 503, "no_policy")
	a := other.unhurried(12)
	schema, err := feature.Open([]byte(twoNumbers))
	other.must(err)
	a.Schema = schema.Canonical()
	other.open(a)
	other.call("GET /v1/schema", "", 200, "")
	other.call("POST /v1/check", twoArms, 200, "bad_arms")
	other.call("POST /v1/check", threeArms, 200, "dry_run")
	other.call("POST /v1/devices/x/decisions", threeArms, 200, "dry_run")
	other.call("DELETE /v1/devices/x", "", 204, "")
	other.call("PUT /v1/devices/x/opt-out", "", 204, "")
	other.call("DELETE /v1/devices/x/opt-out", "", 204, "")
}

// describedWhenTheDiskIsFull has a host that can keep nothing.
func describedWhenTheDiskIsFull(t *testing.T, s *scene) {
	other := like(t, s)
	p := ofPanels(other)
	other.config.Store = brokenStore{noDevices()}
	other.start()
	other.host.places.out["out"] = true
	other.host.places.devices["erased"] = &localDevice{name: "erased"}
	other.call("PUT /v1/devices/x/opt-out", "", 500, "internal")
	other.call("DELETE /v1/devices/out/opt-out", "", 500, "internal")
	other.call("DELETE /v1/devices/erased", "", 500, "internal")
	p.next(testbed.Long)
	other.call("POST /v1/devices/x", "", 500, "internal")
	arrival := like(t, s)
	arrival.config.Store = brokenStore{noDevices()}
	arrival.start()
	arrival.open(arrival.unhurried(12))
	arrival.call("POST /v1/devices/x/decisions", twoArms, 500, "internal")
}

// describedWhenRewound has a broker that was set back.
func describedWhenRewound(t *testing.T, s *scene, dry bool) {
	before := like(t, s)
	before.config.DryRun = dry
	before.start()
	a := before.Announcement(glm.Practical, 12)
	digest := before.open(a)
	next := before.Announcement(glm.Practical, 12)
	next.Epoch, next.Previous = 2, digest[:]
	before.open(next)
	before.must(before.stop())
	other := like(t, s)
	other.Analyzer, other.Shuffler, other.config.Analyzer = before.Analyzer, before.Shuffler, before.Analyzer.Public()
	other.config.StateDir, other.config.DryRun = before.config.StateDir, dry
	other.PublishKeys(other.shuffler)
	other.start()
	other.open(a)
	what := "POST /v1/devices/x/decisions"
	if dry {
		what = "POST /v1/check"
	}
	other.call(what, twoArms, 503, "rewound")
}
