package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// window is the reward window, and the grace behind it, by a clock that the test puts forward: as long as the slowest
// machine needs for nothing but the contents of records, which no row looks at, and short enough for a deadline to be
// reached in steps.
const window = 10 * time.Second

// world is the three roles' own code on a real broker, with a malicious layer between each of them and that broker. The
// auditor's connection has none: by it the test sees what is really there.
type world struct {
	*testbed.Bed
	t        *testing.T
	channel  plan.Channel
	panels   bool
	auditor  *bus.Conn
	l        *layer
	clock    *testbed.Clock // of host and shuffler
	analyzer *analyzer.Analyzer
	*party   // the host
	people   int
	epoch    uint64
	said     *record         // the analyzer's log
	told     *record         // the shuffler's log
	opening  []*seal.HPKEKey // every key of the shuffler's that reports were sealed to
	mixes    mixes
	counts   analyzer.Config

	mu    sync.Mutex
	unmet map[string]error // conditions of readiness, by role and name
	ended map[bus.Role]error

	ctx         context.Context
	running     sync.WaitGroup
	stopServers func()
}

// party is a host behind a layer.
type party struct {
	host     *randomizer.Host
	l        *layer
	hostDir  string
	identity *seal.Identity
	signed   []byte    // the host's credential
	order    *[32]byte // as in randomizer.Config
	accounts map[string]*outcome.Outcomes
	stopHost func()
}

// newWorld starts a deployment, of panels or of devices that enrol as they arrive. From the beginning its broker shows
// hosts, behind the shuffler's own key set, a later one with the same key, and then the earlier one again.
func newWorld(t *testing.T, c plan.Channel, panels bool) *world {
	t.Helper()
	d := &world{
		Bed: testbed.New(t), t: t, channel: c, panels: panels, clock: new(testbed.Clock), said: new(record),
		told: new(record), unmet: map[string]error{}, ended: map[bus.Role]error{},
	}
	d.l = &layer{arrived: &arrived{kept: map[uint64][][]byte{}}}
	d.l.f.keys = func(payload []byte, show func([]byte) error) error {
		set, _, err := wire.Open[wire.KeySet](payload, d.ShufflerParty())
		if err != nil {
			return err
		}
		next := *set
		next.Number++
		signed, _, err := wire.Sign(&next, d.Shuffler)
		return errors.Join(err, show(payload), show(signed), show(payload))
	}
	d.auditor = d.Connect(bus.Auditor)
	var cancel context.CancelFunc
	d.ctx, cancel = context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); d.running.Wait() })
	notice := func(role bus.Role) func(string, error) {
		return func(condition string, err error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.unmet[string(role)+" `"+condition+"`"] = err
		}
	}
	d.opening = []*seal.HPKEKey{d.ShufflerKey}
	d.mixes = mixes{
		Party: shuffler.Party{
			Deployment: testbed.Deployment, Analyzer: d.Analyzer.Public(), Registrar: d.Registrar.Public(),
			Identity: d.Shuffler, Keys: d.opening,
		},
		Accounts: shuffler.Accounts{
			Enrolments: testbed.Account(t, "enrolment", nil, shuffler.Reasons()), Notice: notice(bus.Shuffler),
		},
		folder: t.TempDir(), broker: shufflerSide{shuffler.Over(d.Connect(bus.Shuffler).Streams), d.l}, clock: d.clock,
		log: zerolog.New(d.told),
	}
	learner := testbed.Learner(glm.Practical, size)
	learner.Horizon, learner.Dimension = 40*size, 1
	timing := testbed.Timing()
	timing.RewardWindow, timing.Grace = window, window
	d.counts = analyzer.Config{
		Deployment: testbed.Deployment, Identity: d.Analyzer, Keys: []*seal.HPKEKey{d.AnalyzerKey},
		Shuffler: d.Shuffler.Public(), Registrar: d.Registrar.Public(), Disk: channel.Folder(t.TempDir()),
		Learner: learner, Terms: terms(c), Timing: timing, Notice: notice(bus.Analyzer),
		Bus: analyzerSide{analyzer.Over(d.Connect(bus.Analyzer).Streams), d.l},
		Log: zerolog.New(d.said), Messages: testbed.Account(t, "message", nil, analyzer.Reasons()),
	}
	d.counts.LogPath = filepath.Join(t.TempDir(), "log") // as where there is a state folder
	if panels {
		ofPanels(&d.counts)
	}
	d.party = d.newParty(d.l)
	d.startServers()
	d.startHost()
	return d
}

// newParty is a host that was not started yet.
func (d *world) newParty(l *layer) *party {
	p := &party{l: l, hostDir: d.t.TempDir(), accounts: map[string]*outcome.Outcomes{}}
	p.identity, p.signed = d.Host(10_000)
	return p
}

// startHost starts the host, or starts it again with the state that it left.
func (d *world) startHost() { d.start(d.party, d.Connect(bus.Randomizer)) }

func (d *world) start(p *party, conn *bus.Conn) {
	d.t.Helper()
	var h *randomizer.Host
	p.accounts["report"] = testbed.Account(d.t, "report", func() int64 { return h.Pending() }, randomizer.Reasons())
	p.accounts["keys"] = testbed.Account(d.t, "keys", nil, randomizer.KeySetReasons())
	p.accounts["announcement"] = testbed.Account(d.t, "announcement", nil, randomizer.AnnouncementReasons())
	records := 1
	if d.panels {
		records = 2
	}
	h, err := randomizer.New(randomizer.Config{
		Deployment: testbed.Deployment, Analyzer: d.Analyzer.Public(), Shuffler: d.Shuffler.Public(),
		Identity:   p.identity,
		Credential: p.signed, Devices: 10_000, Order: p.order, StateDir: p.hostDir,
		Source: func() protocol.Source { return entropy.New() }, Bus: hostSide{randomizer.Over(conn.Streams), p.l},
		Limits: device.Limits{
			Trust: plan.Channels(), Epsilon: 4, Delta: 1e-3, MinCohort: 4, MaxReleases: 8, MaxNorm: 10,
			MaxMessages: 1000,
			Records:     records,
		},
		Log: testbed.Log(), Clock: d.clock, Reports: p.accounts["report"], KeySets: p.accounts["keys"],
		Announcements: p.accounts["announcement"],
	})
	d.must(err)
	ctx, cancel := context.WithCancel(d.ctx)
	p.host = h
	done := d.run(bus.Randomizer, ctx, h.Run)
	p.stopHost = func() { cancel(); <-done }
}

func (d *world) run(role bus.Role, ctx context.Context, f func(context.Context) error) (done chan struct{}) {
	done = make(chan struct{})
	d.running.Go(func() {
		defer close(done)
		d.note(role, f(ctx))
	})
	return done
}

func (d *world) note(role bus.Role, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended[role] = err
}

// dead names the roles that ended by themselves.
func (d *world) dead() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for role, err := range d.ended {
		return fmt.Sprintf("%s ends: %v", role, err)
	}
	return ""
}

// unready names the conditions of readiness that are not met.
func (d *world) unready() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, err := range d.unmet {
		if err != nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

func (d *world) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// next waits until the host is in the next epoch.
func (d *world) next() *round {
	d.t.Helper()
	d.epoch++
	return d.in(d.epoch)
}

func (d *world) in(epoch uint64) *round {
	d.t.Helper()
	testbed.Eventually(d.t, fmt.Sprintf("in epoch %d", epoch), func() bool {
		if dead := d.dead(); dead != "" {
			d.t.Fatalf("before epoch %d: %s", epoch, dead)
		}
		return d.host.Status().Epoch == epoch && d.host.Status().Enrolling
	})
	return d.announced(epoch)
}

// announced reads what the analyzer announced.
func (d *world) announced(epoch uint64) *round {
	d.t.Helper()
	all, err := d.auditor.Announcements.ReadAnnouncementsAt(d.Context(), epoch, 0)
	d.must(err)
	for _, stored := range all {
		if a, digest, err := wire.OpenAnnouncement(stored.Payload, epoch, 0, d.AnalyzerParty()); err == nil {
			return &round{Announcement: a, digest: digest}
		}
	}
	d.t.Fatalf("epoch %d is not announced", epoch)
	return nil
}

// decide has so many people decide, none of whom did before, and tells how many are sampled.
func (d *world) decide(n int) (sampled int, why outcome.Reason) {
	return d.decideAt(d.party, n)
}

// decideAt is decide at some host.
func (d *world) decideAt(p *party, n int) (sampled int, why outcome.Reason) {
	d.t.Helper()
	for range n {
		name := fmt.Sprintf("p%d", d.people)
		d.people++
		made, err := p.host.Decide(d.Context(), name, func(int) ([][]float64, error) {
			return [][]float64{{0.6}, {-0.3}}, nil
		})
		d.must(err)
		if made.Sampled {
			sampled++
			_, err := p.host.Reward(made.Token, float64(d.people%2))
			d.must(err)
		} else {
			why = made.Reason
		}
	}
	return sampled, why
}

// report passes the time until all promised reports are due, and waits until they left.
func (d *world) report(r *round) {
	d.t.Helper()
	d.clock.Pass(r.Timing.RewardWindow + r.Timing.Jitter)
	d.sent(d.party)
}

// sent waits until a host's reports left.
func (d *world) sent(p *party) {
	d.t.Helper()
	testbed.Eventually(d.t, "sent", func() bool { return p.host.Pending() == 0 })
}

// cohort is an honest epoch up to the reports.
func (d *world) cohort() *round {
	d.t.Helper()
	r := d.next()
	if n, why := d.decide(size); n != size {
		d.t.Fatalf("%d of %d are sampled: %s", n, size, why)
	}
	d.report(r)
	return r
}

// entries opens a report with both servers' keys, and adds what it holds to the sums.
func (d *world) entries(r *round, envelopes [][]byte) [][]uint64 {
	d.t.Helper()
	total := make([][]uint64, len(r.Encodings))
	for i, e := range r.Encodings {
		total[i] = make([]uint64, len(e.Coordinates))
	}
	add := func(i, j int, n uint64) { total[i][j] += n }
	verifier := devices.NewVerifier(wire.Party{
		Deployment: testbed.Deployment, Key: d.Registrar.Public(), Hosts: d.counts.Hosts.Past(),
	})
	switch d.channel {
	case plan.Shuffle:
		tally := shuffle.NewTally(r.Encodings)
		opener := seal.NewBitOpener(d.AnalyzerKey, r.digest)
		for _, e := range envelopes {
			tally.Open(opener, d.payload(r, e))
		}
		ones, _ := tally.Counts(uint64(len(envelopes)), make([]uint64, len(r.Encodings)))
		return ones
	case plan.Shares:
		return d.joined(r, envelopes, verifier)
	default:
		opener, err := envelope.NewOpener(r.Announcement, r.digest, d.AnalyzerKey, verifier)
		d.must(err)
		for _, e := range envelopes {
			one, _, err := opener.Open(nil, d.payload(r, e))
			d.must(err)
			for i := range total {
				for j := range total[i] {
					add(i, j, uint64(one[0]))
					one = one[1:]
				}
			}
		}
		return total
	}
}

// payload is that of a report.
func (d *world) payload(r *round, envelope []byte) []byte {
	d.t.Helper()
	opener, err := seal.NewReportOpener(d.opening...)
	d.must(err)
	plain, err := wire.OpenEnvelope(envelope, opener,
		seal.ReportContext{Deployment: testbed.Deployment, Epoch: r.Epoch, Round: r.Round})
	d.must(err)
	report, _, err := wire.ParseReport(plain, payloadSize(r))
	d.must(err)
	return report.Payload
}

// joined is the sum of shares, as both servers would join it.
func (d *world) joined(r *round, envelopes [][]byte, verifier *devices.Verifier) [][]uint64 {
	d.t.Helper()
	of, err := shares.NewRound(r.Announcement, r.digest)
	d.must(err)
	secret := shares.NewSecret(d.Shuffler, r.digest)
	leader, err := of.NewLeader(secret)
	d.must(err)
	helper, err := of.NewHelper(secret, d.AnalyzerKey, verifier)
	d.must(err)
	first, err := of.NewLeaderSum()
	d.must(err)
	second, err := of.NewHelperSum()
	d.must(err)
	for _, e := range envelopes {
		message, pending, err := leader.Prepare(nil, d.payload(r, e))
		d.must(err)
		verified, err := helper.Verify(message)
		d.must(err)
		d.must(helper.Add(second, verified))
		d.must(leader.Finish(first, pending, verified.Answer[:]))
	}
	share, err := first.Noise(testbed.Source())
	d.must(err)
	counts, err := second.Counts(share, testbed.Source())
	d.must(err)
	return counts
}
