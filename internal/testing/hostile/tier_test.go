package hostile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	mixing "github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/translog"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
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
	number            uint32 // of the next device that did not take part yet
	epoch             uint64 // of the last round that was looked at
	mu                sync.Mutex
	unmet             map[string]error // the analyzer's conditions of readiness
	analyzer          *analyzer.Analyzer
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
		Learner: learner, Terms: terms(c), Timing: testbed.Timing(), Bus: m.Connect(bus.Analyzer),
		Log: zerolog.New(m.said), Messages: m.account,
		Notice: func(condition string, err error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.unmet[condition] = err
		},
	}
	for _, f := range change {
		f(&config)
	}
	var err error
	m.analyzer, err = analyzer.New(config)
	m.must(err)
	m.log, err = translog.Open(m.Context(), translog.Config{
		Deployment: testbed.Deployment, Role: bus.Shuffler, Identity: m.Shuffler, Broker: m.shuffler, Log: testbed.Log(),
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
		all, err := m.auditor.AnnouncementsAt(m.Context(), epoch, number)
		m.must(err)
		for _, stored := range all {
			if a, digest, err := wire.OpenAnnouncement(stored.Payload, epoch, number, m.AnalyzerParty()); err == nil {
				r.Announcement, r.digest = a, digest
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
		by.Commitment = shares.NewSecret(m.Shuffler, r.digest).Commitment()
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

// lies are what the shuffler does otherwise than it should while it releases.
type lies struct {
	manifest func(*wire.Manifest)
	chunk    func(index uint32, payload []byte) []byte // what is sent in place of a chunk
	unlogged bool                                      // the manifest is sent, and not put into the audit log
}

// sent is what a shuffler let out.
type sent struct {
	chunks   map[uint32][]byte
	manifest *wire.Manifest
	signed   []byte
}

// release has the shuffler release these reports.
func (m *tier) release(r *round, reports []person, l lies) *sent {
	m.t.Helper()
	out := &sent{chunks: map[uint32][]byte{}, manifest: &wire.Manifest{
		Deployment: testbed.Deployment, Epoch: r.Epoch, Round: r.Round, Announcement: r.digest[:], Outcome: wire.Released,
		Enrolled: r.Cohort.Size, Reports: uint32(len(reports)), ReportsDigest: make([]byte, 32),
	}}
	if m.channel == plan.Shares {
		if !m.exchange(r, reports, out, l) {
			out.manifest = &wire.Manifest{
				Deployment: testbed.Deployment, Epoch: r.Epoch, Announcement: r.digest[:], Outcome: wire.Destroyed,
				Enrolled: r.Cohort.Size,
			}
		}
	} else {
		m.permute(r, reports, out, l)
	}
	if l.manifest != nil {
		l.manifest(out.manifest)
	}
	out.signed, _ = m.Sign(out.manifest, m.Shuffler)
	if !l.unlogged {
		m.must(m.log.AppendAudit(m.Context(), wire.KindManifest, out.signed))
	}
	m.must(m.shuffler.PublishManifest(m.Context(), r.Epoch, r.Round, out.signed))
	return out
}

// permute mixes and sends messages, in the channels that have them.
func (m *tier) permute(r *round, reports []person, out *sent, l lies) {
	m.t.Helper()
	var messages [][]byte
	var digests, each [][32]byte
	for _, p := range reports {
		messages = slices.AppendSeq(messages, slices.Chunk(p.payload, registry.MessageSize(r.Announcement)))
	}
	protocol.Permute(messages, testbed.Source())
	for _, message := range messages {
		digests = append(digests, sha256.Sum256(message))
	}
	for part := range slices.Chunk(messages, (len(messages)+2)/3) {
		index := uint32(len(each))
		chunk, err := wire.BuildChunk(wire.Chunk{
			Epoch: r.Epoch, Round: r.Round, Index: index, Payload: slices.Concat(part...)})
		m.must(err)
		each = append(each, wire.ChunkDigest(chunk))
		out.chunks[index] = chunk
		if l.chunk != nil {
			chunk = l.chunk(index, chunk)
		}
		m.must(m.shuffler.PublishChunk(m.Context(), r.Epoch, r.Round, index, chunk))
	}
	all, root := wire.ChunksDigest(each), transparency.SortedRoot(digests)
	out.manifest.Messages, out.manifest.Chunks = uint64(len(messages)), uint32(len(each))
	out.manifest.ChunksDigest, out.manifest.MessagesRoot = all[:], root[:]
}

// exchanging is the broker of a shuffler that sends other chunks than it should.
type exchanging struct {
	*bus.Conn
	m   *tier
	out *sent
	l   lies
}

func (e exchanging) PublishChunk(ctx context.Context, epoch uint64, round, index uint32, payload []byte) error {
	e.out.chunks[index] = bytes.Clone(payload)
	if e.l.chunk != nil {
		payload = e.l.chunk(index, payload)
	}
	return e.Conn.PublishChunk(ctx, epoch, round, index, payload)
}

func (e exchanging) AppendAudit(ctx context.Context, kind string, signed []byte) error {
	return e.m.log.AppendAudit(ctx, kind, signed)
}

// exchange goes through the channel of shares; released is false where the analyzer lets no sum leave.
func (m *tier) exchange(r *round, reports []person, out *sent, l lies) (released bool) {
	m.t.Helper()
	mix := &mixing.Mixing{
		Deployment: testbed.Deployment, Broker: exchanging{m.shuffler, m, out, l}, Disk: m.disk, Source: entropy.New(),
		Identity: m.Shuffler, Analyzer: m.Analyzer.Public(), Log: testbed.Log(),
		Reports: func(_ context.Context, _ *channel.Release, of channel.Member) (*wire.Report, error) {
			return &wire.Report{Slot: of.Slot, Payload: bytes.Clone(reports[of.Slot].payload)}, nil
		},
	}
	layout, err := mix.Layout(r.Announcement)
	m.must(err)
	release := &channel.Release{
		Epoch: r.Epoch, Round: r.Round, Announcement: r.digest, Announced: r.Announcement, First: r.digest,
		Layout: layout, Minimum: 1, // a malicious shuffler minds no minimum
	}
	for slot := range reports {
		release.Members = append(release.Members, channel.Member{
			Slot: uint32(slot), Sequence: uint64(slot) + 1, Digest: [32]byte{byte(slot * 17), byte(slot)}})
	}
	rejected, err := mix.Release(m.Context(), release, out.manifest)
	if errors.Is(err, channel.ErrImpossible) {
		return false
	}
	m.must(err)
	out.manifest.Reports -= uint32(len(rejected))
	if least := r.Cohort.Minimum; out.manifest.Reports < least { // it says that there were enough
		out.manifest.Reports, out.manifest.Messages = least, uint64(least)
		return true
	}
	for _, one := range rejected {
		at := slices.IndexFunc(out.manifest.Refused, func(f wire.Refused) bool { return f.Reason == one.Reason })
		if at < 0 {
			at = len(out.manifest.Refused)
			out.manifest.Refused = append(out.manifest.Refused, wire.Refused{Reason: one.Reason})
		}
		out.manifest.Refused[at].Reports++
		out.manifest.Refused[at].TakenOut++
	}
	slices.SortFunc(out.manifest.Refused, func(a, b wire.Refused) int { return int(a.Reason) - int(b.Reason) })
	return true
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
	m.must(m.auditor.ReadAudit(m.Context(), bus.AuditFilter{Role: bus.Analyzer, Kind: wire.KindCounts},
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

// holds tells whether counts are these sums; in central with the analyzer's noise, which only adds.
func holds(r *round, c *wire.Counts, sums [][]uint64) bool {
	if c.Destroyed || len(c.Releases) != len(sums) {
		return false
	}
	for i := range sums {
		noise := r.Releases()[i].AnalyzerNoise
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
		return "counted, **and the sums are not those of the honest reports**"
	case why != "":
		return fmt.Sprintf("refused by the analyzer, and the %d others count: %s", c.Reports, why)
	}
	return fmt.Sprintf("counted: %d reports", c.Reports)
}

// audited is what an audit of the logs says, by release.
func (m *tier) audited() (breaches map[string][]string) {
	m.t.Helper()
	bundle := keyring.Bundle{
		Deployment: testbed.Deployment, Analyzer: m.Analyzer.Public(), Shuffler: m.Shuffler.Public(),
		Registrar: m.Registrar.Public(),
	}
	live, err := audit.NewLive(m.Context(), m.auditor, bundle)
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
