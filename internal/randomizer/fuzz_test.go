package randomizer

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// granting is a broker behind which a shuffler gives every device a slot.
type granting struct {
	Broker
	*testbed.Bed
}

func (b granting) EnrolOnce(_ context.Context, request []byte) ([]byte, error) {
	return b.Answer(request, func(signed []byte) (*wire.EnrolReply, error) {
		e, err := wire.OpenEnrolRequest(signed, wire.Party{Deployment: testbed.Deployment, Key: b.Registrar.Public()})
		if err != nil {
			return nil, err
		}
		return &wire.EnrolReply{Enrolled: true, Slot: e.Request.Device, ReportAfter: time.Minute}, nil
	})
}

// fuzzScene is the configuration of a host, and the announcement that it follows.
func fuzzScene(f *testing.F) (Config, bus.Announcement) {
	bed := testbed.New(f)
	identity, credential := bed.Host(capacity)
	a := bed.Announcement(glm.Practical, 12)
	signed, _, err := wire.Sign[plan.Announcement](a, bed.Analyzer)
	if err != nil {
		f.Fatal(err)
	}
	return Config{
		Deployment: testbed.Deployment, Analyzer: bed.Analyzer.Public(), Shuffler: bed.Shuffler.Public(),
		Identity: identity, Credential: credential, Devices: capacity, Source: testbed.Source,
		Limits: device.Limits{Epsilon: 4, Delta: 1e-3, MinCohort: 4, MaxReleases: 8, MaxNorm: 10, MaxMessages: 1000,
			Records: 1},
		Bus: granting{Bed: bed}, Log: zerolog.Nop(),
	}, bus.Announcement{Epoch: a.Epoch, Round: a.Round, Payload: signed}
}

// recorded is an answer on a connection that has deadlines.
type recorded struct{ *httptest.ResponseRecorder }

func (recorded) SetReadDeadline(time.Time) error  { return nil }
func (recorded) SetWriteDeadline(time.Time) error { return nil }
func (recorded) EnableFullDuplex() error          { return nil }

// value is a number that an app would not send by chance: nine digits or more.
var value = regexp.MustCompile(`[0-9]{9,}`)

// FuzzLocalAPI calls every endpoint of the API with any device, token and body. Each call is answered with JSON: what
// was asked for, or one of the API's errors, which is no fault of the host and quotes no number of the body.
func FuzzLocalAPI(f *testing.F) {
	config, announced := fuzzScene(f)
	config.Store = noDevices()
	judge, err := New(config)
	if err != nil {
		f.Fatal(err)
	}
	judged, err := judge.rules.Judge(announced.Payload, announced.Epoch, announced.Round)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(byte(1), "a", []byte(twoArms))
	f.Add(byte(1), "a/b", []byte(`{"arms": [[0.123456789, 1e999]]}`))
	f.Add(byte(0), "", []byte{})
	f.Add(byte(2), "a", []byte(`{"token": "x", "reward": 123456789012}`))
	f.Add(byte(2), "a", []byte(`{"token": "x", "reward": 1, "extra": 1}`))
	f.Add(byte(3), "a", []byte{})
	f.Add(byte(4), "", []byte{})
	f.Add(byte(5), "", []byte{})
	f.Add(byte(6), "..", []byte("PUT"))
	f.Fuzz(func(t *testing.T, endpoint byte, name string, body []byte) {
		config := config
		config.Store = noDevices()
		host, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			host.stop()
			host.asking.Wait()
		}()
		host.shuffler = config.Bus.(granting).ShufflerKey.Public()
		// As follow does with what it has judged: to compute the plan's guarantee for every input takes most of the
		// time.
		host.current, host.pinned = judged, judged.Plan.Channel
		host.played.begin(judged.Epoch)
		served := api.New(host, api.Access{}, false, api.DefaultBounds()).Handler()
		call := func(method, path string, body []byte) (int, []byte) {
			r := httptest.NewRequest(method, "http://127.0.0.1:8400"+path, bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := recorded{httptest.NewRecorder()}
			served.ServeHTTP(w, r)
			return w.Code, w.Body.Bytes()
		}
		at := "/v1/devices/" + url.PathEscape(name)
		paths := [][2]string{
			{http.MethodPost, at}, {http.MethodPost, at + "/decisions"}, {http.MethodPost, "/v1/rewards"},
			{http.MethodGet, at + "/ledger"}, {http.MethodGet, "/v1/status"}, {http.MethodGet, "/v1/schema"},
			{http.MethodPut, "/v1/" + url.PathEscape(name)}, {http.MethodDelete, at},
			{http.MethodPut, at + "/opt-out"}, {http.MethodDelete, at + "/opt-out"},
		}
		of := paths[int(endpoint)%len(paths)]
		var status int
		var said []byte
		allocated.ForInput(t, len(body), func() { status, said = call(of[0], of[1], body) })
		if status >= 300 && status < 400 { // a path that net/http cleans
			return
		}
		if status == http.StatusNoContent && len(said) == 0 {
			return
		}
		if !json.Valid(said) || status == http.StatusInternalServerError {
			t.Fatalf("%s %s with %q: %d %s", of[0], of[1], body, status, said)
		}
		if status != http.StatusOK {
			var failed struct{ Reason, Detail string }
			if err := json.Unmarshal(said, &failed); err != nil || failed.Reason == "" || failed.Detail == "" {
				t.Fatalf("%d %s", status, said)
			}
			for _, number := range value.FindAll(body, -1) {
				if bytes.Contains(said, number) && !bytes.Contains([]byte(name), number) {
					t.Fatalf("the error shows what was sent: %s", said)
				}
			}
			return
		}
		var made struct {
			Arm     int
			Token   string
			Sampled bool
		}
		if int(endpoint)%len(paths) != 1 {
			return
		}
		if err := json.Unmarshal(said, &made); err != nil || made.Token == "" || made.Arm < 0 {
			t.Fatalf("%d %s, %v", status, said, err)
		}
		reward, err := json.Marshal(map[string]any{"token": made.Token, "reward": 0.5})
		if err != nil {
			t.Fatal(err)
		}
		if status, said := call(http.MethodPost, "/v1/rewards", reward); status != http.StatusOK {
			t.Fatalf("the reward of %s: %d %s", made.Token, status, said)
		}
	})
}

// FuzzEvidence reads any bytes as the evidence that an earlier process kept: there is none, or it is an error, or it is
// read.
func FuzzEvidence(f *testing.F) {
	f.Add([]byte(`{"epoch":1,"device":2,"what":"x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		kept := noDevices()
		if err := kept.PutNote(store.Evidence, text); err != nil {
			t.Fatal(err)
		}
		if e, err := readEvidence(kept); (err != nil) != (e == nil && len(text) > 0) {
			t.Fatalf("%+v with %v", e, err)
		}
	})
}
