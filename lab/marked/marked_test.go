package marked

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/lab/uniform"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func TestMain(m *testing.M) { os.Exit(testbed.RoleTests(m)) }

// People of a cohort, and of all.
const (
	people  = 12
	devices = 100 * people
)

// bench is a shuffler on a broker, and a run against it.
type bench struct {
	*testbed.Bed
	run *Run
}

// start runs a shuffler whose releases are spooled in another order than it mixed them to, if there is a reorder.
func start(t *testing.T, reorder func(r *Run, messages [][]byte)) bench {
	t.Helper()
	b := bench{Bed: testbed.New(t)}
	host, credential := b.Host(devices)
	state := t.TempDir()
	var disk channel.Disk = channel.Folder(state)
	if reorder != nil {
		disk = sorted{disk, func(messages [][]byte) { reorder(b.run, messages) }}
	}
	var sh *shuffler.Shuffler
	of := shuffler.Party{
		Deployment: testbed.Deployment, Analyzer: b.Analyzer.Public(), Registrar: b.Registrar.Public(),
		Identity: b.Shuffler,
		Keys:     []*seal.HPKEKey{b.ShufflerKey},
	}
	by := shuffler.DefaultPolicy()
	by.MinCohort = MinCohort
	told := shuffler.Accounts{
		Reports:    testbed.Account(t, "report", func() int64 { return sh.Held() }, shuffler.Reasons()),
		Enrolments: testbed.Account(t, "enrolment", nil, shuffler.Reasons()),
	}
	streams := shuffler.Over(b.Connect(bus.Shuffler).Streams)
	files, err := shuffler.OpenFiles(state, shuffler.DefaultMemory, of, streams, testbed.Log())
	if err != nil {
		t.Fatal(err)
	}
	mixing := shuffler.Mixing{Disk: disk, Source: entropy.New()}
	channels, err := shuffler.NewChannels(of, files, mixing, streams, told, testbed.Log())
	if err != nil {
		t.Fatal(err)
	}
	sh, err = shuffler.New(of, by, files, channels, streams, told, role.SystemClock(), mixing.Source, testbed.Log())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.run, err = Open(ctx, Deployment{
		Name: testbed.Deployment, Analyzer: b.Analyzer, AnalyzerKey: b.AnalyzerKey.Public(),
		Shuffler: b.Shuffler.Public(),
		Host:     host, Credential: credential,
		Connect: map[bus.Role]*bus.Conn{bus.Analyzer: b.Connect(bus.Analyzer),
			bus.Randomizer: b.Connect(bus.Randomizer)},
	}, Options{People: people, Source: rand.NewChaCha8([32]byte{1}), Patience: testbed.Patience})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := sh.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the shuffler ended: %v", err)
		}
	})
	t.Cleanup(func() { b.run.Close(); cancel(); wg.Wait() })
	return b
}

// judge takes cohorts through the shuffler, so many at most, until some view of them is rejected.
func (b bench) judge(t *testing.T, rounds int) []*uniform.Sample {
	t.Helper()
	names := Views()
	samples := uniform.Samples(0, names[:]...)
	for range rounds {
		r, err := b.run.Round(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !r.Waited {
			t.Error("messages left before the last report came")
		}
		for view, s := range samples {
			if err := s.Add(r.Orders[view], r.Shape); err != nil {
				t.Fatal(err)
			}
		}
		if slices.ContainsFunc(samples, func(s *uniform.Sample) bool { return s.Judge().Rejects() }) {
			break
		}
	}
	return samples
}

// A shuffler on a broker passes. False alarm: 1e-6. Power: the tests below, and lab/docs/shufflecheck.md.
func TestMarkedReportsLeaveInAnyOrder(t *testing.T) {
	t.Parallel()
	samples := start(t, nil).judge(t, 8)
	for _, s := range samples {
		if s.Judge().Rejects() || s.Judge().Releases() != 8 {
			t.Errorf("%s: %d releases, %+v", s.Name, s.Judge().Releases(), s.Judge().Findings())
		}
	}
}

// sorted is a disk on which a release is spooled in another order than it was mixed to.
type sorted struct {
	channel.Disk
	reorder func(messages [][]byte)
}

func (d sorted) Store(name string, write func(io.Writer) error) error {
	if !strings.HasPrefix(name, "release-") {
		return d.Disk.Store(name, write)
	}
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	messages := slices.Collect(slices.Chunk(b.Bytes(), seal.BitSize))
	d.reorder(messages)
	return channel.StoreFile(d.Disk, name, slices.Concat(messages...))
}

// A running shuffler that leaves messages as they came, or nearly so, is rejected, and so is one that goes by slots or
// by the devices' numbers. Each of these faults is found in a single release of 96 messages with power 0.99.
func TestBadShufflersOnTheWireAreRejected(t *testing.T) {
	for name, c := range map[string]struct {
		fault uniform.Fault
		view  int
		apart bool // first all first messages leave, then all second ones
	}{
		"identity":        {uniform.Identity, byArrival, false},
		"rotation":        {uniform.Rotation, byArrival, false},
		"batches":         {uniform.Batches, byArrival, false},
		"chunk-local":     {uniform.ChunkLocal, byArrival, false},
		"together":        {uniform.Together, byArrival, false},
		"reports by slot": {uniform.Batches, bySlot, false},
		"arrivals apart":  {uniform.Identity, byArrival, true},
		"slots apart":     {uniform.Identity, bySlot, true},
		"devices apart":   {uniform.Identity, byDevice, true},
		"by coordinate":   {uniform.ChunkLocal, byArrival, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			planted, err := uniform.Plant(c.fault, rand.NewChaCha8([32]byte{2}))
			if err != nil {
				t.Fatal(err)
			}
			b := start(t, func(r *Run, messages [][]byte) {
				each := r.Messages()
				number := func(message []byte) int {
					p, _ := r.of(message)
					if c.apart {
						return p.within*people + p.report[c.view]
					}
					return p.report[c.view]*each + p.within
				}
				slices.SortFunc(messages, func(a, b []byte) int { return number(a) - number(b) })
				in := slices.Clone(messages)
				for i, from := range planted.Shuffle(uniform.Shape{Items: len(in), Report: each}).Order {
					messages[i] = in[from]
				}
			})
			samples := b.judge(t, 5)
			if own := samples[c.view].Judge(); !own.Rejects() {
				t.Errorf("not rejected: %+v", own.Findings())
			}
			if c.apart && c.fault == uniform.Identity { // only in the view of the fault do neighbours stay
				for view, s := range samples {
					if view != c.view && neighbours(s) > neighbours(samples[c.view])-clear {
						t.Errorf("%s finds that neighbours stay as well as %s", s.Name, samples[c.view].Name)
					}
				}
			}
		})
	}
}

// clear is by how many decimal digits evidence must differ.
const clear = 5

// neighbours is the evidence that neighbours stay.
func neighbours(s *uniform.Sample) float64 {
	for _, f := range s.Judge().Findings() {
		if f.Test == uniform.TestNeighbours {
			return f.Evidence
		}
	}
	return 0
}

// A message that is at the broker before the last report was sent is seen.
func TestAMessageThatLeavesEarlyIsSeen(t *testing.T) {
	t.Parallel()
	b := start(t, nil)
	chunk, err := wire.BuildChunk(wire.Chunk{Epoch: 1, Index: 7, Payload: make([]byte, seal.BitSize)})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Connect(bus.Shuffler).Mixed.PublishChunk(t.Context(), 1, 0, 7, chunk); err != nil {
		t.Fatal(err)
	}
	r, err := b.run.Round(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Waited {
		t.Error("nobody saw it")
	}
	if r, err = b.run.Round(t.Context()); err != nil || !r.Waited {
		t.Errorf("the next release: %v", err)
	}
}

// A shuffler that forwards other messages than came is not judged, and said to.
func TestOtherMessagesAreRefused(t *testing.T) {
	t.Parallel()
	b := start(t, func(_ *Run, messages [][]byte) { messages[3] = bytes.Repeat([]byte{1}, seal.BitSize) })
	if _, err := b.run.Round(t.Context()); !errors.Is(err, ErrOther) {
		t.Error(err)
	}
}

// A cohort that no shuffler would release is refused at once.
func TestTooFewPeopleAreRefused(t *testing.T) {
	if _, err := Open(t.Context(), Deployment{}, Options{People: MinCohort - 1}); err == nil {
		t.Error("accepted")
	}
}
