package randomizer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/testing/openapi"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// enrolled is one enrolment as the scripted shuffler saw it.
type enrolled struct {
	device, slot uint32
	at           time.Time
	size         int // bytes of the request
}

// arrival is one report as the scripted shuffler saw it.
type arrival struct {
	at       time.Time
	epoch    uint64
	sequence uint64
	envelope []byte
}

// scene is one host on a real broker, its app's API, and a shuffler and an analyzer that do as the test says.
type scene struct {
	access api.Access // to the API
	bounds api.Bounds // of the API
	// described holds every answer of the API to its description.
	described *openapi.Document
	*testbed.Bed
	t                  *testing.T
	analyzer, shuffler *bus.Conn
	identity           *seal.Identity
	config             Config
	clock              *testbed.Clock // the host's
	logged             *lockedBuffer

	host *Host
	api  *httptest.Server
	stop func() error

	unserve func() // ends the shuffler's service of enrolment, and returns when the broker knows

	mu        sync.Mutex
	signer    *seal.Identity                          // of the answers
	several   func(devices []uint32)                  // hears of a request for them, before it is answered
	lost      func(*wire.EnrolReply) bool             // whether an answer does not arrive; nil: none is lost
	asked     int                                     // requests so far
	answer    func(e wire.Enrolment) *wire.EnrolReply // nil: the next slot, at the announced time
	announced *plan.Announcement
	slots     map[uint32]uint32 // by device
	heard     map[uint32]bool   // devices that were asked for
	enrolled  []enrolled
	arrived   []arrival
	ends      error // with which the host may end by itself; nil: with none
}

const capacity = 128 // devices of the scene's host

func newScene(t *testing.T, change ...func(*broker.Options, *bus.ProvisionOptions)) *scene {
	t.Helper()
	return sceneOn(t, testbed.New(t, change...))
}

// sceneOn is newScene with keys that are there already.
func sceneOn(t *testing.T, bed *testbed.Bed) *scene {
	t.Helper()
	s := &scene{
		Bed: bed, t: t, slots: map[uint32]uint32{}, heard: map[uint32]bool{}, logged: new(lockedBuffer),
		clock: new(testbed.Clock), described: openapi.Open(t, api.Description()),
	}
	s.analyzer, s.shuffler = s.Connect(bus.Analyzer), s.Connect(bus.Shuffler)
	var credential []byte
	s.identity, credential = s.Host(capacity)
	s.signer, s.bounds = s.Shuffler, api.DefaultBounds()
	s.PublishKeys(s.shuffler)
	s.config = Config{
		Deployment: testbed.Deployment, Analyzer: s.Analyzer.Public(), Shuffler: s.Shuffler.Public(),
		Identity:   s.identity,
		Credential: credential, Devices: capacity, StateDir: t.TempDir(), Source: testbed.Source,
		Limits: device.Limits{Epsilon: 4, Delta: 1e-3, MinCohort: 4, MaxReleases: 8, MaxNorm: 10, MaxMessages: 1000,
			Records: 1},
		Bus: Over(s.Connect(bus.Randomizer).Streams), Log: zerolog.New(s.logged), Clock: s.clock,
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	serving, end := context.WithCancel(ctx)
	served := make(chan struct{})
	s.unserve = func() {
		end()
		<-served
		// answered after the end of the subscription was heard
		_, err := s.shuffler.Keys.ReadKeys(s.Context(), bus.Shuffler)
		s.must(err)
	}
	wg.Go(func() {
		defer close(served)
		_ = s.shuffler.Enrolment.ServeEnrol(serving, 4, s.enrol)
	})
	wg.Go(func() { _ = s.shuffler.Reports.ReceiveReports(ctx, s.take) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return s
}

// start runs the host until stop, or the end of the test, which also checks its account.
func (s *scene) start() {
	s.t.Helper()
	var host *Host
	s.config.Reports = testbed.Account(s.t, "report", func() int64 { return host.Pending() }, Reasons())
	host, err := New(s.config)
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- host.Run(ctx) }()
	s.host = host
	s.api = httptest.NewServer(s.described.Watch(s.t, api.New(host, s.access, s.config.DryRun, s.bounds).Handler()))
	at := s.api
	s.stop = sync.OnceValue(func() error {
		at.Close()
		cancel()
		err := <-done
		if e := host.c.Reports.Check(); e != nil {
			s.t.Error(e)
		}
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	})
	stop := s.stop
	s.t.Cleanup(func() {
		if err := stop(); err != nil && (s.ends == nil || !errors.Is(err, s.ends)) {
			s.t.Error(err)
		}
	})
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// unhurried is an announcement whose reports leave when the test says so: see due.
func (s *scene) unhurried(cohort int) *plan.Announcement {
	a := s.Announcement(glm.Practical, cohort)
	a.Timing.RewardWindow = testbed.Long
	return a
}

// open announces and waits until the host has judged the announcement.
func (s *scene) open(a *plan.Announcement) [32]byte {
	s.t.Helper()
	s.mu.Lock()
	s.announced = a
	s.mu.Unlock()
	digest := s.Announce(s.analyzer, a)
	if s.host != nil {
		s.awaitRound(a)
	}
	return digest
}

func (s *scene) awaitRound(a *plan.Announcement) {
	s.t.Helper()
	testbed.Eventually(s.t, "in the announced round, with the shuffler's key", func() bool {
		now := s.host.Status()
		return s.host.shufflerKey() != nil && now.Epoch == a.Epoch && now.Round == a.Round
	})
}

// enrol is the scripted shuffler's answer.
func (s *scene) enrol(_ context.Context, request []byte) ([]byte, error) {
	opener, err := seal.NewRequestOpener(testbed.Deployment, s.ShufflerKey)
	s.must(err)
	o, err := wire.OpenSealedRequest(request, opener)
	if err != nil {
		s.t.Errorf("a request that is not sealed: %v", err)
		return nil, err
	}
	reply, err := s.answerTo(o.Signed, len(request))
	if err != nil || reply == nil {
		return []byte("as good as no answer, and quicker"), err
	}
	return o.SealReply(reply)
}

// answerTo is the signed answer to a request that was opened; nil where it is lost.
func (s *scene) answerTo(request []byte, size int) ([]byte, error) {
	now := s.clock.Now()
	e, err := wire.OpenEnrolRequest(request, wire.Party{Deployment: testbed.Deployment, Key: s.Registrar.Public()})
	if err != nil {
		s.t.Errorf("enrolment request: %v", err)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.several != nil {
		s.several(e.Request.Devices())
	}
	var whole *wire.EnrolReply
	for _, number := range e.Request.Devices() {
		one := e
		one.Request = &wire.EnrolRequest{Epoch: e.Request.Epoch, Announcement: e.Request.Announcement, Device: number}
		if reply := s.enrolOne(one, now, size); whole == nil {
			whole = reply
		} else {
			whole.Add(reply)
		}
	}
	for i := range e.Request.Devices() {
		if s.lost != nil && s.lost(whole.Of(i)) {
			return nil, nil
		}
	}
	whole.Request = e.Digest[:]
	signed, _, err := wire.Sign(whole, s.signer)
	return signed, err
}

// enrolOne is the answer to one device. The scene's lock is held.
func (s *scene) enrolOne(e wire.Enrolment, now time.Time, size int) (reply *wire.EnrolReply) {
	s.asked++
	s.heard[e.Request.Device] = true
	if s.answer != nil {
		reply = s.answer(e)
	}
	if reply == nil {
		slot, known := s.slots[e.Request.Device]
		if !known {
			slot = uint32(len(s.slots))
			s.slots[e.Request.Device] = slot
			s.enrolled = append(s.enrolled, enrolled{e.Request.Device, slot, now, size})
		}
		reply = &wire.EnrolReply{Enrolled: true, Slot: slot, Held: known, ReportAfter: s.announced.Timing.RewardWindow}
	}
	return reply
}

func (s *scene) take(d *bus.Delivery) {
	now := s.clock.Now()
	s.mu.Lock()
	// What a busy machine acknowledged late comes again.
	if !d.Redelivered || !slices.ContainsFunc(s.arrived, func(a arrival) bool { return a.sequence == d.Sequence }) {
		s.arrived = append(s.arrived, arrival{now, d.Epoch, d.Sequence, d.Payload})
	}
	s.mu.Unlock()
	if err := d.Ack(); err != nil {
		s.t.Log(err)
	}
}

// reports waits for exactly so many.
func (s *scene) reports(n int) []arrival {
	s.t.Helper()
	s.came(n)
	testbed.Eventually(s.t, "quiet", func() bool { return s.host.Pending() == 0 })
	if got := s.arrivals(); len(got) != n {
		s.t.Fatalf("%d reports, expected %d", len(got), n)
	}
	return s.arrivals()
}

// came waits until this many reports came to the shuffler.
func (s *scene) came(n int) {
	s.t.Helper()
	testbed.Eventually(s.t, "there as many reports as expected", func() bool { return len(s.arrivals()) >= n })
}

// arrivals are the reports that have come, as they are in the stream: one may be delivered again, behind later ones.
func (s *scene) arrivals() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(slices.Values(s.arrived), func(a, b arrival) int {
		return cmp.Compare(a.sequence, b.sequence)
	})
}

func (s *scene) enrolments() []enrolled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.enrolled)
}

// post sends a body to the API.
func (s *scene) post(path, body string) (status int, answer map[string]any) {
	s.t.Helper()
	r, err := http.Post(s.api.URL+path, "application/json", bytes.NewReader([]byte(body)))
	s.must(err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	s.must(err)
	s.must(json.Unmarshal(b, &answer))
	return r.StatusCode, answer
}

func (s *scene) get(path string) (status int, answer map[string]any) {
	s.t.Helper()
	r, err := http.Get(s.api.URL + path)
	s.must(err)
	defer r.Body.Close()
	s.must(json.NewDecoder(r.Body).Decode(&answer))
	return r.StatusCode, answer
}

// decide asks for a decision that must succeed.
func (s *scene) decide(device, body string) map[string]any {
	s.t.Helper()
	status, d := s.post("/v1/devices/"+device+"/decisions", body)
	if status != http.StatusOK {
		s.t.Fatalf("decision of %s: %d %v", device, status, d)
	}
	return d
}

const twoArms = `{"arms": [[0.6, 0.2], [-0.3, 0.5]]}`

// bits opens a report and counts its bit messages: ones and messages, by release and coordinate.
func (s *scene) bits(envelope []byte, a *plan.Announcement, digest [32]byte) (ones, seen [][]uint64) {
	s.t.Helper()
	for _, e := range a.Encodings {
		ones, seen = append(ones, make([]uint64, len(e.Coordinates))), append(seen, make([]uint64, len(e.Coordinates)))
	}
	opener := seal.NewBitOpener(s.AnalyzerKey, digest)
	report := s.Open(envelope, a)
	for at := 0; at < len(report.Payload); at += seal.BitSize {
		release, coordinate, one, err := opener.Open(report.Payload[at : at+seal.BitSize])
		s.must(err)
		seen[release][coordinate]++
		if one {
			ones[release][coordinate]++
		}
	}
	return ones, seen
}

// device is what the host holds of a device.
func (s *scene) device(name string) device.State {
	held := s.host.places.get(name)
	held.mu.Lock()
	defer held.mu.Unlock()
	return held.state
}

// countRefused is how many promised reports of the host's account had that fate.
func (s *scene) countRefused(r outcome.Reason) int { return testbed.Refused(s.host.c.Reports, r) }

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// due passes the time until all reports that were promised under an announcement so far are due.
func (s *scene) due(a *plan.Announcement) {
	s.t.Helper()
	s.clock.Pass(a.Timing.RewardWindow + a.Timing.Jitter)
}
