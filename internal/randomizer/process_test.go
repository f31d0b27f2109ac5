package randomizer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// process is a whole randomizer as its program runs it, with its ops listener, its log and its state folder, under a
// clock that stands still unless the test moves it, and behind a tap at its connection to the broker.
type process struct {
	*scene
	world *world      // its clock
	again atomic.Bool // whether something was tried again: the machine was too busy for an answer in time
	tap   *testbed.Tap
	log   *lockedBuffer
	state string
	ops   string // where its ops listener is
	halt  func()

	written map[string]time.Time // when each file of the state folder was last written
	read    int                  // bytes of the log that were looked at

	published, bytes int // messages to the broker so far, and their bytes
}

// hurried is a clock that waits for the test, but not before something is tried again. Nobody would let that time pass,
// since the test itself waits for the answer.
type hurried struct {
	*world
	again *atomic.Bool
}

func (h hurried) After(d time.Duration) <-chan time.Time {
	pause := firstPause
	for pause < min(d, longestPause) {
		pause = min(2*pause, longestPause)
	}
	if d != pause {
		return h.world.After(d)
	}
	h.again.Store(true)
	now := make(chan time.Time, 1)
	now <- h.Now()
	return now
}

// deploymentKeys makes the keys of a deployment with one host, as an operator does.
func deploymentKeys(t *testing.T) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "keys")
	if err := keyring.Generate(folder, keyring.Options{
		Name: testbed.Deployment, Hosts: []keyring.HostOptions{{Name: "main", Devices: capacity}},
	}); err != nil {
		t.Fatal(err)
	}
	return folder
}

// startProcess starts a randomizer with the keys of a folder on a broker of its own, that has an announcement.
func startProcess(t *testing.T, keys string, announced func(*testbed.Bed) *plan.Announcement) *process {
	t.Helper()
	users, err := keyring.LoadUsers(keys)
	if err != nil {
		t.Fatal(err)
	}
	bed := testbed.New(t, func(o *broker.Options, _ *bus.ProvisionOptions) {
		o.Users[bus.Randomizer] = append(o.Users[bus.Randomizer], users[keyring.Randomizer]...)
	})
	analyzer, err := keyring.LoadAnalyzer(keys)
	bedMust(t, err)
	shuffler, err := keyring.LoadShuffler(keys)
	bedMust(t, err)
	bed.Analyzer, bed.AnalyzerKey = analyzer.Identity, analyzer.HPKE[0]
	bed.Shuffler, bed.ShufflerKey = shuffler.Identity, shuffler.HPKE[0]
	registrar, err := keyring.LoadRegistrar(keys)
	bedMust(t, err)
	bed.Registrar = registrar.Identity
	p := &process{
		scene: sceneOn(t, bed), world: &world{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)},
		log:   new(lockedBuffer),
		state: filepath.Join(t.TempDir(), "state"), written: map[string]time.Time{},
	}
	p.announced = announced(bed)
	p.Announce(p.analyzer, p.announced)
	p.tap = bed.Tap(p.world.Now)
	common := role.DefaultSettings("127.0.0.1:0")
	common.Log.Level, common.Log.Format = "debug", "json"
	common.Log.Summary = 0 // when it stops, however long a busy machine takes until then
	env, err := role.NewEnv(Role().Name, common, p.log)
	p.must(err)
	env.Clock = hurried{p.world, &p.again}
	settings := Role().Defaults
	settings.Keys, settings.State, settings.API.Listen, settings.Broker.URL = keys, p.state, "127.0.0.1:0", p.tap.URL
	limits := DefaultLimits()
	limits.Epsilon, limits.EpsilonAlone, limits.Delta, limits.MinCohort = 4, 0, 1e-3, 4
	limits.Dishonest, limits.MaxDishonest = 0, 0
	settings.Limits = limits
	serve, err := Role().Prepare(env, settings)
	p.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- env.Run(ctx, serve) }()
	p.halt = sync.OnceFunc(func() { cancel(); p.must(<-done) })
	t.Cleanup(p.halt)
	p.ops, p.api = "http://"+p.listens("ops.listen"), &httptest.Server{URL: "http://" + p.listens("api.listen")}
	return p
}

func bedMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listens is the address of one of the process's listeners, as its log says it.
func (p *process) listens(listener string) (address string) {
	p.t.Helper()
	testbed.Eventually(p.t, listener+" is open", func() bool {
		for line := range strings.Lines(p.log.String()) {
			var said struct{ Listener, Address string }
			if json.Unmarshal([]byte(line), &said) == nil && said.Listener == listener {
				address = said.Address
			}
		}
		return address != ""
	})
	return address
}

// shows waits until /metrics has a line.
func (p *process) shows(line string) {
	p.t.Helper()
	testbed.Eventually(p.t, "on /metrics: "+line, func() bool {
		return slices.Contains(strings.Split(p.opsPage("/metrics"), "\n"), line)
	})
}

// opsPage is what the ops listener answers to a GET: status, headers and body.
func (p *process) opsPage(path string) string {
	p.t.Helper()
	answer, err := http.Get(p.ops + path)
	p.must(err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	p.must(err)
	answer.Header.Del("Date")
	return fmt.Sprintf("%s %v\n%s", answer.Status, answer.Header, body)
}

// What differs from run to run whatever the record. The broker's heartbeats come by the machine's time, and the
// counters of the connection are read once in a second of it: what goes out is held against the tap at the end. By that
// time, too, a host looks whether something was announced or new keys were published, and asks for it over an inbox of
// its own.
var (
	looking    = regexp.MustCompile(`^(UN)?SUB |\.GET\.KV_(announcements|keys) `)
	heartbeats = regexp.MustCompile(`(?m)^riffle_broker_(messages|bytes)_total\{direction="(in|out)".*\n`)
	// of a question for a slot: it is drawn, and has as many digits as it has
	nonce     = regexp.MustCompile(`"nonce":[0-9]+`)
	clockTime = regexp.MustCompile(`"time":"[^"]*"`)
	port      = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)
)

// look is everything that an onlooker sees of the process now, and what it did since the last look.
func (p *process) look() (seen []string) {
	p.t.Helper()
	for _, path := range []string{"/", "/status.json", "/metrics", "/healthz", "/readyz", "/elsewhere"} {
		body := heartbeats.ReplaceAllString(p.opsPage(path), "")
		if strings.Contains(body, "\nriffle_broker_connected{role=\"randomizer\"} 0") {
			p.again.Store(true) // the broker was not heard just now, which the log says only when it lasts
		}
		if path == "/metrics" { // its length has what was taken out in it
			body = regexp.MustCompile(`Content-Length:\[[0-9]+\]`).ReplaceAllString(body, "")
		}
		seen = append(seen, path+" "+body)
	}
	return append(seen, p.behind()...)
}

// behind is what an onlooker sees besides the ops listener.
func (p *process) behind() (seen []string) {
	p.t.Helper()
	p.must(filepath.WalkDir(p.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		about, err := d.Info()
		if err != nil {
			return err
		}
		fresh := !about.ModTime().Equal(p.written[path])
		p.written[path] = about.ModTime()
		size := about.Size()
		if strings.Contains(d.Name(), ".log") { // else it has whole pages
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			size = int64(len(nonce.ReplaceAll(content, nil)))
		}
		seen = append(seen, fmt.Sprintf("file %s %d bytes, written since: %v", d.Name(), size, fresh))
		return nil
	}))
	seen = append(seen, p.sentSince()...)
	said := p.log.String()
	for line := range strings.Lines(said[p.read:]) {
		seen = append(seen, "log "+port.ReplaceAllString(clockTime.ReplaceAllString(line, ""), ""))
	}
	p.read = len(said)
	return seen
}

// sentSince is what the process sent to the broker since the last look.
func (p *process) sentSince() (seen []string) {
	for _, s := range p.tap.Take() {
		if strings.HasPrefix(s.Line, "PUB") || strings.HasPrefix(s.Line, "HPUB") {
			p.published++
			p.bytes += s.Headers + s.Payload
		}
		if !looking.MatchString(s.Line) {
			seen = append(seen, fmt.Sprintf("sent %+v", s))
		}
	}
	return seen
}
