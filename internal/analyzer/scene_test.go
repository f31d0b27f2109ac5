package analyzer

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func TestMain(m *testing.M) { os.Exit(testbed.RoleTests(m)) }

var errCrash = errors.New("crash")

// scene is an analyzer on a real broker, with a shuffler that publishes what the test says.
type scene struct {
	*testbed.Bed
	t        *testing.T
	shuffler *bus.Conn
	auditor  *bus.Conn
	config   Config
	crash    func(after string) error // nil: never
	waits    *atomic.Int64            // of the analyzer, so far

	analyzer *Analyzer
	ended    chan struct{}
	stop     func() error
}

const cohort = 12

// impatient is a clock of an analyzer that waits a twentieth of the time before it looks again. It counts how often.
type impatient struct {
	role.Clock
	waits *atomic.Int64
}

func (i impatient) After(d time.Duration) <-chan time.Time {
	i.waits.Add(1)
	return i.Clock.After(d / 20)
}

// looksOn waits until the analyzer has looked again for what it waits for, and not found it.
func (s *scene) looksOn() {
	s.t.Helper()
	before := s.waits.Load() // a look that is under way may have begun before
	testbed.Eventually(s.t, "looked again", func() bool { return s.waits.Load() >= before+2 })
}

func newScene(t *testing.T, profile glm.Profile, change ...func(*broker.Options, *bus.ProvisionOptions)) *scene {
	t.Helper()
	s := &scene{Bed: testbed.New(t, change...), t: t, waits: new(atomic.Int64)}
	s.shuffler, s.auditor = s.Connect(bus.Shuffler), s.Connect(bus.Auditor)
	s.config = Config{
		Deployment: testbed.Deployment, Identity: s.Analyzer, Keys: []*seal.HPKEKey{s.AnalyzerKey},
		Shuffler: s.Shuffler.Public(),
		Learner:  testbed.Learner(profile, cohort), Terms: testbed.Terms(), Timing: testbed.Timing(),
		Bus: Over(s.Connect(bus.Analyzer).Streams), Log: testbed.Log(),
		Clock: impatient{role.SystemClock(), s.waits},
	}
	return s
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start runs the analyzer until stop, a crash, or the end of the test.
func (s *scene) start() {
	s.t.Helper()
	s.config.Messages = testbed.Account(s.t, "bit_message", nil, Reasons())
	config := s.config
	if s.crash != nil {
		config.Bus = crashing{config.Bus, s.crash, new(string)}
	}
	z, err := New(config)
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = z.Run(ctx)
	}()
	s.analyzer, s.ended = z, ended
	s.stop = sync.OnceValue(func() error {
		cancel()
		<-ended
		if err := z.c.Messages.Check(); err != nil {
			s.t.Error(err)
		}
		if errors.Is(failed, context.Canceled) {
			return nil
		}
		return failed
	})
	stop := s.stop
	s.t.Cleanup(func() { _ = stop() })
}

// After which steps an analyzer crashes. Of a statement there are three: before and after it is in the audit log,
// and after the checkpoint over it.
const (
	afterAnnouncing = "announcing"
	afterPurging    = "purging"
	before          = "before the "
	after           = "after the "
	sealed          = "after the checkpoint of the "
)

// steps are all of them.
func steps() []string {
	all := []string{afterAnnouncing, afterPurging}
	for _, kind := range []string{wire.KindConfiguration, wire.KindAnnouncement, wire.KindCounts, wire.KindLearned} {
		all = append(all, before+kind, after+kind, sealed+kind)
	}
	return all
}

// crashing is a broker on which the analyzer fails after a step: crash returns the error, or nil to go on.
type crashing struct {
	Broker
	crash func(after string) error
	last  *string // kind of the last statement
}

func (c crashing) ReadManifest(ctx context.Context, epoch uint64, round uint32) ([]byte, error) {
	if err := c.crash(afterAnnouncing); err != nil {
		return nil, err
	}
	return c.Broker.ReadManifest(ctx, epoch, round)
}

func (c crashing) AppendAuditAfter(ctx context.Context, kind string, payload []byte, last uint64) (uint64, error) {
	step := sealed + *c.last
	if kind != wire.KindCheckpoint {
		if err := c.crash(before + kind); err != nil {
			return 0, err
		}
		step, *c.last = after+kind, kind
	}
	sequence, err := c.Broker.AppendAuditAfter(ctx, kind, payload, last)
	if err == nil {
		err = c.crash(step)
	}
	return sequence, err
}

func (c crashing) PurgeMixed(ctx context.Context, epoch uint64, round uint32) error {
	if err := c.Broker.PurgeMixed(ctx, epoch, round); err != nil {
		return err
	}
	return c.crash(afterPurging)
}

// logBuffer is a log that a test reads while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// end waits until the analyzer ends by itself.
func (s *scene) end() {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(testbed.Patience):
		s.t.Fatal("the analyzer goes on")
	}
}

// announcement waits for a round's announcement.
func (s *scene) announcement(epoch uint64, round uint32) (*plan.Announcement, [32]byte) {
	s.t.Helper()
	var a *plan.Announcement
	var digest [32]byte
	testbed.Eventually(s.t, "announced", func() bool {
		all, err := s.auditor.Announcements.ReadAnnouncements(s.Context())
		s.must(err)
		for _, stored := range all {
			if stored.Epoch == epoch && stored.Round == round {
				a, digest, err = wire.OpenAnnouncement(stored.Payload, epoch, round, s.AnalyzerParty())
				if err == nil {
					break // the first that the analyzer signed counts
				}
				if !errors.Is(err, wire.ErrForeign) {
					s.t.Fatal(err)
				}
			}
		}
		select {
		case <-s.ended:
			if a == nil {
				s.t.Fatalf("the analyzer ended: %v", s.stop())
			}
		default:
		}
		return a != nil
	})
	return a, digest
}

// counts waits for a round's signed counts.
func (s *scene) counts(epoch uint64, round uint32) *wire.Counts {
	s.t.Helper()
	var c *wire.Counts
	testbed.Eventually(s.t, "counted", func() bool {
		n := 0
		filter := bus.AuditFilter{Role: bus.Analyzer, Kind: "counts"}
		s.must(s.auditor.Audit.ReadAudit(s.Context(), filter, func(st bus.Statement) error {
			one, _, err := wire.Open[wire.Counts](st.Payload, s.AnalyzerParty())
			if err == nil && one.Epoch == epoch && one.Round == round { // others are junk, which a thief can append
				c = one
				n++
			}
			return nil
		}))
		if n > 1 {
			s.t.Fatalf("round %d of epoch %d was counted %d times", round, epoch, n)
		}
		return c != nil
	})
	return c
}

// sameOnes says that a round was counted, with these ones.
func sameOnes(c *wire.Counts, ones [][]uint64) bool {
	same := !c.Destroyed && len(c.Releases) == len(ones)
	for i := range ones {
		same = same && slices.Equal(c.Releases[i].Ones, ones[i])
	}
	return same
}

// release is what a shuffler hands over.
type release struct {
	chunks   [][]byte
	manifest *wire.Manifest
}

// bit is one message of a hand-made release.
type bit struct {
	release    uint8
	coordinate uint16
	one        bool
}

// bits are the messages of this number of reports, in random order. share is the share of ones at each coordinate, and
// ones the number.
func bits(
	encodings []protocol.Encoding, reports int, share func(release, coordinate int) float64,
) (all []bit, ones [][]uint64) {
	for i, e := range encodings {
		ones = append(ones, make([]uint64, len(e.Coordinates)))
		for j := range e.Coordinates {
			n := reports * e.MessagesAt(j)
			ones[i][j] = uint64(float64(n) * share(i, j))
			for k := range n {
				all = append(all, bit{uint8(i), uint16(j), k < int(ones[i][j])})
			}
		}
	}
	protocol.Permute(all, testbed.Source())
	return all, ones
}

// half has ones everywhere, a little more than half of them.
func half(release, coordinate int) float64 { return 0.5 + 0.01*float64(release+coordinate) }

// seal makes messages.
func (s *scene) seal(a *plan.Announcement, digest [32]byte, all ...bit) (messages []byte) {
	s.t.Helper()
	sealer, err := seal.NewBitSealer(a.AnalyzerKey, digest)
	s.must(err)
	for _, b := range all {
		messages, err = sealer.AppendSeal(messages, b.release, b.coordinate, b.one)
		s.must(err)
	}
	return messages
}

// cut makes a release of messages, in chunks of 70.
func (s *scene) cut(a *plan.Announcement, digest [32]byte, messages []byte, reports int) *release {
	s.t.Helper()
	r := &release{}
	var digests [][32]byte
	for part := range slices.Chunk(messages, 70*seal.BitSize) {
		index := uint32(len(r.chunks))
		chunk, err := wire.BuildChunk(wire.Chunk{Epoch: a.Epoch, Round: a.Round, Index: index, Payload: part})
		s.must(err)
		r.chunks, digests = append(r.chunks, chunk), append(digests, wire.ChunkDigest(chunk))
	}
	total := wire.ChunksDigest(digests)
	r.manifest = &wire.Manifest{
		Deployment: testbed.Deployment, Epoch: a.Epoch, Round: a.Round, Announcement: digest[:], Outcome: wire.Released,
		Enrolled: a.Cohort.Size, Reports: uint32(reports), Messages: uint64(len(messages) / seal.BitSize),
		Chunks: uint32(len(r.chunks)), ChunksDigest: total[:], ReportsDigest: make([]byte, 32),
		MessagesRoot: rootOf(messages, seal.BitSize),
	}
	return r
}

// rootOf is the root over messages of this size.
func rootOf(messages []byte, size int) []byte {
	var digests [][32]byte
	for m := range slices.Chunk(messages, size) {
		digests = append(digests, wire.MessageDigest(m))
	}
	root := transparency.SortedRoot(digests)
	return root[:]
}

// publish hands a release over: chunks first.
func (s *scene) publish(r *release) {
	s.t.Helper()
	for i, c := range r.chunks {
		if c != nil {
			s.must(s.shuffler.Mixed.PublishChunk(s.Context(), r.manifest.Epoch, r.manifest.Round, uint32(i), c))
		}
	}
	s.close(r)
}

func (s *scene) close(r *release) {
	s.t.Helper()
	signed, _ := s.Sign(r.manifest, s.Shuffler)
	s.must(s.shuffler.Audit.AppendAudit(s.Context(), "manifest", signed))
	s.must(s.shuffler.Mixed.PublishManifest(s.Context(), r.manifest.Epoch, r.manifest.Round, signed))
}

// honest is a round's release of this number of reports, and the counts that it must give.
func (s *scene) honest(a *plan.Announcement, digest [32]byte, reports int) (*release, [][]uint64) {
	s.t.Helper()
	all, ones := bits(a.Encodings, reports, half)
	return s.cut(a, digest, s.seal(a, digest, all...), reports), ones
}

// destroyedRelease is what a shuffler says of a cohort that did not come together.
func destroyedRelease(a *plan.Announcement, digest [32]byte) *release {
	return &release{manifest: &wire.Manifest{
		Deployment: testbed.Deployment, Epoch: a.Epoch, Round: a.Round, Announcement: digest[:],
		Outcome: wire.Destroyed, Enrolled: a.Cohort.Size, Reports: 3,
	}}
}
