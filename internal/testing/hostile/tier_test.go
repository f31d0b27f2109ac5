package hostile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/translog"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// size is how many devices enrol in each cohort here.
const size = 12

// tier is a real analyzer on a real broker behind a shuffler that holds its real keys and does what a test says. One
// analyzer goes through all attacks, one epoch for each: what was refused in one must not spoil the next.
type tier struct {
	*testbed.Bed
	t                 *testing.T
	channel           plan.Channel
	shuffler, auditor *bus.Conn
	log               *translog.Log // the shuffler's
	disk              channel.Disk  // the shuffler's
	said              *record       // the analyzer's log
	account           *outcome.Outcomes
	host              devices.Sender
	number            uint32   // of the next device that did not take part yet
	epoch             uint64   // of the last round that was looked at
	first             [32]byte // digest of the first announcement of that epoch
	mu                sync.Mutex
	unmet             map[string]error // the analyzer's conditions of readiness
	analyzer          *analyzer.Analyzer
	pools             sync.Mutex // held: the analyzer does not look for a pool
	ended             chan struct{}
	failed            error // why the analyzer ended
}

// record keeps what a role logs.
type record struct {
	mu    sync.Mutex
	lines [][]byte
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, bytes.Clone(p))
	return len(p), nil
}

// of finds the errors of an epoch under a message.
func (r *record) of(epoch uint64, message string) (errs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		var l struct {
			Epoch          uint64
			Message, Error string
		}
		if err := json.Unmarshal(line, &l); err == nil && l.Epoch == epoch && l.Message == message {
			errs = append(errs, l.Error)
		}
	}
	return errs
}

// terms are those of small cohorts in a channel.
func terms(c plan.Channel) plan.Terms {
	terms := testbed.Terms()
	if terms.Channel = c; c != plan.Shuffle { // numbers have no messages to save
		terms.MaxShift, terms.VarianceRatio = 0, 0
	}
	return terms
}

func newTier(t *testing.T, c plan.Channel, change ...func(*analyzer.Config)) *tier {
	t.Helper()
	m := &tier{
		Bed: testbed.New(t), t: t, channel: c, disk: channel.Folder(t.TempDir()), said: new(record),
		unmet: map[string]error{}, ended: make(chan struct{}),
	}
	m.shuffler, m.auditor = m.Connect(bus.Shuffler), m.Connect(bus.Auditor)
	m.host.Identity, m.host.Credential = m.Host(10_000)
	learner := testbed.Learner(glm.Practical, size)
	learner.Horizon, learner.Dimension = 40*size, 1 // in which planning is quick
	m.account = testbed.Account(t, "message", nil, analyzer.Reasons())
	config := analyzer.Config{
		Deployment: testbed.Deployment, Identity: m.Analyzer, Keys: []*seal.HPKEKey{m.AnalyzerKey},
		Shuffler: m.Shuffler.Public(), Registrar: m.Registrar.Public(), Disk: channel.Folder(t.TempDir()),
		Learner: learner, Terms: terms(c), Timing: testbed.Timing(),
		Bus: analyzer.Over(m.Connect(bus.Analyzer).Streams),
		Log: zerolog.New(m.said), Messages: m.account,
		Notice: func(condition string, err error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.unmet[condition] = err
		},
	}
	config.Bus = patient{config.Bus, m}
	for _, f := range change {
		f(&config)
	}
	var err error
	m.analyzer, err = analyzer.New(config)
	m.must(err)
	m.log, err = translog.Open(m.Context(), translog.Config{
		Deployment: testbed.Deployment, Role: bus.Shuffler, Identity: m.Shuffler, Broker: m.shuffler.Audit,
		Log: testbed.Log(),
	})
	m.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(m.ended)
		m.failed = m.analyzer.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-m.ended
		if !errors.Is(m.failed, context.Canceled) {
			t.Errorf("the analyzer ended: %v", m.failed)
		}
	})
	return m
}

// patient is the analyzer's broker, whose pools a test can hold back.
type patient struct {
	analyzer.Broker
	m *tier
}

func (p patient) ReadAudit(ctx context.Context, f bus.AuditFilter, handler func(bus.Statement) error) error {
	if f.Kind == wire.KindPool {
		p.m.pools.Lock()
		defer p.m.pools.Unlock()
	}
	return p.Broker.ReadAudit(ctx, f, handler)
}

func (m *tier) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// round is an announced round, and what the analyzer had refused before it.
type round struct {
	*plan.Announcement
	digest [32]byte
	first  [32]byte // digest of the epoch's first announcement
	before map[outcome.Reason]uint64
}

// next waits for the next epoch's announcement.
func (m *tier) next() *round {
	m.t.Helper()
	m.epoch++
	return m.announced(m.epoch, 0)
}

func (m *tier) announced(epoch uint64, number uint32) *round {
	m.t.Helper()
	r := &round{before: m.refused()}
	testbed.Eventually(m.t, fmt.Sprintf("announced: round %d of epoch %d", number, epoch), func() bool {
		select {
		case <-m.ended:
			m.t.Fatalf("the analyzer ended: %v", m.failed)
		default:
		}
		all, err := m.auditor.Announcements.ReadAnnouncementsAt(m.Context(), epoch, number)
		m.must(err)
		for _, stored := range all {
			if a, digest, err := wire.OpenAnnouncement(stored.Payload, epoch, number, m.AnalyzerParty()); err == nil {
				r.Announcement, r.digest = a, digest
				if number == 0 {
					m.first = digest
				}
				r.first = m.first
				return true
			}
		}
		return false
	})
	if r.Final {
		m.t.Fatal("the deployment is over before the attacks are")
	}
	return r
}

func (m *tier) refused() map[outcome.Reason]uint64 {
	all := map[outcome.Reason]uint64{}
	for _, c := range m.account.Balance().Refused {
		all[c.Reason] = c.Items
	}
	return all
}

// person is one device's report of a round, and what its payload adds to the sums.
type person struct {
	payload []byte
	entries [][]uint64 // by release and coordinate
}

// people are devices that did not take part before.
func (m *tier) people(r *round, n int) (all []person) {
	m.t.Helper()
	for range n {
		by := m.host
		by.Number = m.number
		m.number++
		all = append(all, m.person(r, by))
	}
	return all
}

// person makes a device's report.
func (m *tier) person(r *round, by devices.Sender) person {
	m.t.Helper()
	device, err := registry.NewDevice(r.Announcement, r.digest)
	m.must(err)
	if m.channel == plan.Shares {
		by.Commitment = shares.NewSecret(m.Shuffler, r.first).Commitment()
	}
	seed := [32]byte{byte(r.Epoch), byte(by.Number), byte(by.Number >> 8)}
	src := rand.NewChaCha8(seed)
	var p person
	var vectors [][]float64
	for _, e := range r.Encodings {
		vector := make([]float64, len(e.Coordinates))
		for j := range vector {
			vector[j] = float64(int(by.Number)%3-1) * 0.1
		}
		vectors = append(vectors, vector)
		ones, err := e.Encode(nil, vector, src)
		m.must(err)
		entries := make([]uint64, len(ones))
		for j, n := range ones {
			entries[j] = uint64(n)
		}
		p.entries = append(p.entries, entries)
	}
	p.payload, err = device.Append(nil, by, vectors, rand.NewChaCha8(seed))
	m.must(err)
	return p
}

// sum adds up what reports hold.
func sum(all ...person) [][]uint64 {
	total := make([][]uint64, len(all[0].entries))
	for i := range total {
		total[i] = make([]uint64, len(all[0].entries[i]))
		for _, p := range all {
			for j, n := range p.entries[i] {
				total[i][j] += n
			}
		}
	}
	return total
}

// counts waits for what the analyzer signed of a round.
func (m *tier) counts(r *round) *wire.Counts {
	m.t.Helper()
	testbed.Eventually(m.t, fmt.Sprintf("counted: epoch %d", r.Epoch), func() bool {
		select {
		case <-m.ended:
			m.t.Fatalf("the analyzer ended: %v", m.failed)
		default:
		}
		return slices.ContainsFunc(m.analyzer.Progress().Releases, func(s analyzer.ReleaseStats) bool {
			return s.Epoch == r.Epoch && s.Round == r.Round
		})
	})
	var c *wire.Counts
	m.must(m.auditor.Audit.ReadAudit(m.Context(), bus.AuditFilter{Role: bus.Analyzer, Kind: wire.KindCounts},
		func(s bus.Statement) error {
			one, _, err := wire.Open[wire.Counts](s.Payload, m.AnalyzerParty())
			if err == nil && one.Epoch == r.Epoch && one.Round == r.Round {
				c = one
			}
			return err
		}))
	return c
}

// digests are what differs from run to run in what the analyzer says.
var digests = regexp.MustCompile(`, [0-9a-f]{16}`)

// why is what the analyzer refused of a round, and for which reasons.
func (m *tier) why(r *round) string {
	var whys []string
	for _, c := range m.account.Balance().Refused {
		if c.Items > r.before[c.Reason] && c.Reason != analyzer.Destroyed && c.Reason != "rejected" {
			whys = append(whys, "`"+string(c.Reason)+"`")
		}
	}
	for _, text := range m.said.of(r.Epoch, "round rejected") {
		if sentence, cut := strings.CutPrefix(text, "rejected: "); cut {
			whys = append(whys, "`rejected`: "+digests.ReplaceAllString(sentence, ""))
		}
	}
	return strings.Join(whys, "; ")
}

// holds reports whether counts are these sums, with servers' noise where the plan has any, which only adds.
func holds(r *round, c *wire.Counts, sums [][]uint64) bool {
	if c.Destroyed || len(c.Releases) != len(sums) {
		return false
	}
	for i := range sums {
		noise := r.Releases()[i].ServerNoise()
		for j, n := range c.Releases[i].Ones {
			if n < sums[i][j] || n > sums[i][j]+noise {
				return false
			}
		}
	}
	return true
}

// lost is the verdict on a round that the shuffler destroyed.
const lost = "the cohort is lost"

// verdict says what came of a round, for whose reports honest are what may count.
func (m *tier) verdict(r *round, honest []person) string {
	m.t.Helper()
	c := m.counts(r)
	why := m.why(r)
	switch {
	case c.Destroyed && why != "":
		return "refused by the analyzer, the whole release: " + why
	case c.Destroyed:
		return lost
	case !holds(r, c, sum(honest...)):
		return fmt.Sprintf("counted: %d reports, **and the sums are not those of the %d honest reports: %s**",
			c.Reports, len(honest), apart(c, sum(honest...)))
	case why != "":
		return fmt.Sprintf("refused by the analyzer, and the %d others count: %s", c.Reports, why)
	}
	return fmt.Sprintf("counted: %d reports, and the sums are theirs", c.Reports)
}

// apart says by how much counts differ from sums.
func apart(c *wire.Counts, sums [][]uint64) string {
	var by []string
	all := 0
	for i := range c.Releases {
		for j, n := range c.Releases[i].Ones {
			if all++; n != sums[i][j] {
				by = append(by, fmt.Sprintf("%+d", int64(n)-int64(sums[i][j])))
			}
		}
	}
	return fmt.Sprintf("of %d numbers %d differ, by %s", all, len(by), strings.Join(by, ", "))
}

// audited is what an audit of the logs says, by release.
func (m *tier) audited() (breaches map[string][]string) {
	m.t.Helper()
	bundle := bundleOf(m.Bed)
	live, err := audit.NewLive(m.Context(), audit.Over(m.auditor.Streams), bundle)
	m.must(err)
	report, err := audit.Check(m.Context(), live, audit.Options{Trust: bundle})
	m.must(err)
	breaches = map[string][]string{}
	for _, b := range report.Breaches {
		what := "`" + string(b.What) + "`"
		if !slices.Contains(breaches[b.Release], what) {
			breaches[b.Release] = append(breaches[b.Release], what)
		}
	}
	return breaches
}
