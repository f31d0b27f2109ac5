package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/journal"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func TestMain(m *testing.M) { os.Exit(testbed.RoleTests(m)) }

// deployment is the three roles in one process, each with its own rights on the broker, and the app's API of the one
// host.
type deployment struct {
	*testbed.Bed
	t       *testing.T
	auditor *bus.Conn
	api     *httptest.Server
	host    *randomizer.Host
	state   string         // the shuffler's
	learned string         // the analyzer's state
	clock   *testbed.Clock // the host's
	mixed   *forwarded     // what the shuffler sent on
	stop    func()
}

func start(t *testing.T, learner learner.Config, timing plan.Timing, terms plan.Terms,
	change ...func(*analyzer.Config)) *deployment {
	t.Helper()
	d := &deployment{Bed: testbed.New(t), t: t, state: t.TempDir(), learned: t.TempDir(), clock: new(testbed.Clock)}
	d.auditor = d.Connect(bus.Auditor)
	records := 1
	if terms.Registered > 0 {
		records = 0 // as many as the plan says
	}
	id, credential := d.Host(1000)
	var sh *shuffler.Shuffler
	var h *randomizer.Host
	accounts := []*outcome.Outcomes{
		testbed.Account(t, "report", func() int64 { return sh.Held() }, shuffler.Reasons()),
		testbed.Account(t, "enrolment", nil, shuffler.Reasons()),
		testbed.Account(t, "report", func() int64 { return h.Pending() }, randomizer.Reasons()),
		testbed.Account(t, "bit_message", nil, analyzer.Reasons()),
	}
	of := shuffler.Party{
		Deployment: testbed.Deployment, Analyzer: d.Analyzer.Public(), Registrar: d.Registrar.Public(),
		Identity: d.Shuffler,
		Keys:     []*seal.HPKEKey{d.ShufflerKey}, Ticket: ticketKey,
	}
	by := shuffler.DefaultPolicy()
	by.MinCohort = 4
	told := shuffler.Accounts{Reports: accounts[0], Enrolments: accounts[1]}
	d.mixed = &forwarded{Broker: shuffler.Over(d.Connect(bus.Shuffler).Streams)}
	streams := d.mixed
	files, err := shuffler.OpenFiles(d.state, shuffler.DefaultMemory, of, streams, testbed.Log())
	d.must(err)
	mixing := shuffler.Mixing{Disk: channel.Folder(d.state), Source: entropy.New()}
	channels, err := shuffler.NewChannels(of, files, mixing, streams, told, testbed.Log())
	d.must(err)
	sh, err = shuffler.New(of, by, files, channels, streams, told, role.SystemClock(), mixing.Source, testbed.Log())
	d.must(err)
	h, err = randomizer.New(randomizer.Config{
		Deployment: testbed.Deployment, Analyzer: d.Analyzer.Public(), Shuffler: d.Shuffler.Public(), Identity: id,
		Credential: credential,
		Devices:    1000, StateDir: t.TempDir(), Source: func() protocol.Source { return entropy.New() },
		Bus: randomizer.Over(d.Connect(bus.Randomizer).Streams),
		Limits: device.Limits{Trust: plan.Channels(), Epsilon: 4, Delta: 1e-3, MinCohort: 4, MaxReleases: 8,
			MaxNorm: 10, MaxMessages: 1000, Records: records},
		Log: testbed.Log(), Reports: accounts[2], Clock: d.clock,
	})
	d.must(err)
	config := analyzer.Config{
		Deployment: testbed.Deployment, Identity: d.Analyzer, Keys: []*seal.HPKEKey{d.AnalyzerKey},
		Shuffler:  d.Shuffler.Public(),
		Registrar: d.Registrar.Public(), Disk: channel.Folder(d.learned),
		Learner: learner, Terms: terms, Timing: timing, Bus: analyzer.Over(d.Connect(bus.Analyzer).Streams),
		Log: testbed.Log(), Messages: accounts[3],
	}
	for _, f := range change {
		f(&config)
	}
	z, err := analyzer.New(config)
	d.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, role := range []func(context.Context) error{sh.Run, h.Run, z.Run} {
		wg.Go(func() {
			if err := role(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("a role ended: %v", err)
			}
		})
	}
	d.host, d.api = h, httptest.NewServer(api.New(h, api.Access{}, false, api.DefaultBounds()).Handler())
	d.stop = sync.OnceFunc(func() {
		d.api.Close()
		cancel()
		wg.Wait()
		for _, a := range accounts {
			if err := a.Check(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(d.stop)
	return d
}

func (d *deployment) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// post sends a body to the app's API; the answer is empty where there is none.
func (d *deployment) post(path, body string) (status int, answer map[string]any) {
	d.t.Helper()
	r, err := http.Post(d.api.URL+path, "application/json", bytes.NewReader([]byte(body)))
	d.must(err)
	defer r.Body.Close()
	d.must(json.NewDecoder(r.Body).Decode(&answer))
	return r.StatusCode, answer
}

// announcement waits until the host is in the round and returns its announcement.
func (d *deployment) announcement(epoch uint64, round uint32) (*plan.Announcement, *glm.Policy) {
	d.t.Helper()
	testbed.Eventually(d.t, fmt.Sprintf("in round %d of epoch %d", round, epoch), func() bool {
		s := d.host.Status()
		if s.Refused != "" {
			d.t.Fatal(s.Refused)
		}
		return s.Epoch > epoch || s.Epoch == epoch && (s.Round > round || s.Round == round &&
			(s.Enrolling || round > 0 || s.Final))
	})
	all, err := d.auditor.Announcements.ReadAnnouncements(d.Context())
	d.must(err)
	for _, stored := range all {
		if stored.Epoch == epoch && stored.Round == round {
			a, _, err := wire.Open[plan.Announcement](stored.Payload, d.AnalyzerParty())
			d.must(err)
			return a, &a.Policy
		}
	}
	d.t.Fatalf("no announcement of round %d of epoch %d", round, epoch)
	return nil, nil
}

// counts waits for the signed counts of a round.
func (d *deployment) counts(epoch uint64, round uint32) *wire.Counts {
	d.t.Helper()
	var c *wire.Counts
	testbed.Eventually(d.t, fmt.Sprintf("counted: round %d of epoch %d", round, epoch), func() bool {
		filter := bus.AuditFilter{Role: bus.Analyzer, Kind: "counts"}
		d.must(d.auditor.Audit.ReadAudit(d.Context(), filter, func(st bus.Statement) error {
			one, _, err := wire.Open[wire.Counts](st.Payload, d.AnalyzerParty())
			if err == nil && one.Epoch == epoch && one.Round == round {
				c = one
			}
			return err
		}))
		return c != nil
	})
	return c
}

// manifests are all that the shuffler signed, oldest first.
func (d *deployment) manifests() (all []*wire.Manifest) {
	d.t.Helper()
	filter := bus.AuditFilter{Role: bus.Shuffler, Kind: "manifest"}
	d.must(d.auditor.Audit.ReadAudit(d.Context(), filter, func(st bus.Statement) error {
		m, _, err := wire.Open[wire.Manifest](st.Payload, d.ShufflerParty())
		all = append(all, m)
		return err
	}))
	return all
}

// journal is everything that the shuffler decided; the deployment must have stopped.
func (d *deployment) journal() (all []*cohort.Event) {
	d.t.Helper()
	j, err := journal.Open(filepath.Join(d.state, "journal"))
	d.must(err)
	defer j.Close()
	d.must(j.Replay(func(entry []byte) error {
		ev, err := cohort.DecodeEvent(entry)
		all = append(all, ev)
		return err
	}))
	return all
}

// due passes the time until all reports that were promised under an announcement so far are due.
func (d *deployment) due(a *plan.Announcement) {
	d.t.Helper()
	d.clock.Pass(a.Timing.RewardWindow + a.Timing.Jitter)
}
