//go:build unix

package randomizer

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// tenArms are ten random arms on the unit sphere in five dimensions.
func tenArms() [][]float64 {
	src := rand.New(rand.NewPCG(1, 2))
	arms := make([][]float64, 10)
	for i := range arms {
		arms[i] = make([]float64, 5)
		norm := 0.0
		for j := range arms[i] {
			arms[i][j] = src.NormFloat64()
			norm += arms[i][j] * arms[i][j]
		}
		for j := range arms[i] {
			arms[i][j] /= math.Sqrt(norm)
		}
	}
	return arms
}

// answered is where an answer goes: a connection without a network.
type answered struct{ *httptest.ResponseRecorder }

func (answered) SetReadDeadline(time.Time) error { return nil }

// How many decisions between ten arms in five dimensions one core makes for people who are not sampled: because the
// cohort is full, or because the person's record is used already; at the host, and through the handler of the API
// with its JSON. The arms draw from the design, as they do before anything is learned, which takes longest.
func BenchmarkDecisions(b *testing.B) {
	bed := testbed.New(b)
	arms := tenArms()
	body, err := json.Marshal(map[string]any{"arms": arms})
	if err != nil {
		b.Fatal(err)
	}
	direct := func(h *Host) {
		d, err := h.Decide(context.Background(), "x", func(int) ([][]float64, error) { return arms, nil })
		if err != nil || d.Sampled {
			b.Fatalf("%+v: %v", d, err)
		}
	}
	for _, full := range []bool{true, false} {
		h := decider(b, bed, full)
		name := map[bool]string{true: "cohort full", false: "record used"}[full]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			used := cpuTime()
			for b.Loop() {
				direct(h)
			}
			perSecond(b, used)
		})
		served := api.New(h, api.Access{}, false, api.DefaultBounds()).Handler()
		b.Run(name+", by HTTP", func(b *testing.B) {
			b.ReportAllocs()
			used := cpuTime()
			for b.Loop() {
				r := httptest.NewRequest("POST", "http://localhost/v1/devices/x/decisions",
					strings.NewReader(string(body)))
				r.Header.Set("Content-Type", "application/json")
				w := answered{httptest.NewRecorder()}
				if served.ServeHTTP(w, r); w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
			perSecond(b, used)
		})
	}
}

// perSecond reports decisions per second of a core's time, collecting garbage included: others may use the machine,
// too.
func perSecond(b *testing.B, before time.Duration) {
	b.ReportMetric(float64(b.N)/(cpuTime()-before).Seconds(), "decisions/core-s")
}

// decider is a host whose devices cannot be sampled.
func decider(b *testing.B, bed *testbed.Bed, full bool) *Host {
	b.Helper()
	h := benchmarkHost(b, bed, acceptor{}, 1000)
	b.Cleanup(func() { _ = h.Close() })
	config := testbed.Learner(glm.Practical, 50)
	config.Dimension = 5
	l, err := learner.New(config)
	if err != nil {
		b.Fatal(err)
	}
	step := l.Next()
	step.Cohort = 50
	signed, _ := bed.Sign(bed.Draw(step, testbed.Terms(), 1, nil), bed.Analyzer)
	if fresh, err := h.following.follow(bus.Announcement{Epoch: 1, Payload: signed}); !fresh || err != nil {
		b.Fatal(fresh, err)
	}
	h.full = full
	s, _, _, err := h.places.find("x")
	if err != nil {
		b.Fatal(err)
	}
	// The device took part in an epoch before.
	past := *h.current.Announcement
	past.Epoch = 7
	before := *h.current
	before.Announcement = &past
	next, err := s.state.Ask(&before, time.Now())
	if err == nil {
		next, err = next.Promise(&before, &wire.EnrolReply{Enrolled: true}, time.Now())
	}
	if err != nil {
		b.Fatal(err)
	}
	s.state = next
	return h
}
