package inmemory

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/lab/uniform"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// The messages of these releases.
const (
	markedReports = 16
	markedEach    = 3
	markedChunk   = 8
)

// judge has a shuffler mix until its orders are rejected, at most so many releases.
func judge(t *testing.T, s Setup, releases, reports int) *uniform.Judge {
	t.Helper()
	s.Folder, s.Chunk = t.TempDir(), markedChunk
	m, err := NewMarked(s)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	j := uniform.New(0)
	for j.Releases() < releases && !j.Rejects() {
		order, chunks, err := m.Order(t.Context(), reports, markedEach)
		if err != nil {
			t.Fatal(err)
		}
		of := make([]int, len(order))
		for i := range of {
			of[i] = i / markedEach
		}
		if err := j.Add(&uniform.Release{Order: order, Reports: of, Chunks: chunks}); err != nil {
			t.Fatal(err)
		}
	}
	j.Findings() // looks at single events, too
	return j
}

// The shuffler's own mixing is not rejected: in memory, in several buckets of which a part is spilled to the disk, and
// by workers. False alarm: 1e-6 for each.
func TestMarkedMessagesLeaveInAnyOrder(t *testing.T) {
	for name, c := range map[string]struct {
		setup             Setup
		releases, reports int
	}{
		"in memory":  {Setup{}, 200, markedReports},
		"in buckets": {Setup{Memory: 1}, 3, 1200},
		"by workers": {Setup{Workers: 3, Buckets: 4}, 100, markedReports},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if j := judge(t, c.setup, c.releases, c.reports); j.Rejects() {
				t.Errorf("rejected after %d releases: %+v", j.Releases(), j.Findings())
			}
		})
	}
}

// A store of little memory spills marked messages to the disk, so that this way is judged, too.
func TestMarkedMessagesAreSpilled(t *testing.T) {
	folder, spilled := t.TempDir(), 0
	m, err := NewMarked(Setup{Folder: folder, Memory: 1, Reorder: func([]int) { // called when the spool is written
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Error(err)
		}
		spilled = len(files)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, _, err := m.Order(t.Context(), 1200, markedEach); err != nil || spilled == 0 {
		t.Errorf("nothing is spilled: %v", err)
	}
}

// Every planted order is rejected by the same way, through all of the shuffler's mixing. The releases are three times
// those for power 0.99 or more (lab/docs/shufflecheck.md), and the seeds of the faults are fixed.
func TestPlantedOrdersAreRejected(t *testing.T) {
	for fault, releases := range map[uniform.Fault]int{
		uniform.Identity: 4, uniform.Rotation: 4, uniform.Batches: 4, uniform.ChunkLocal: 8, uniform.Together: 8,
		uniform.AnyPlace: 800, uniform.OneCycle: 80, uniform.Repeated: 8, uniform.Stays3: 240, uniform.Skipped3: 600,
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			planted, err := uniform.Plant(fault, rand.NewChaCha8([32]byte{1}))
			if err != nil {
				t.Fatal(err)
			}
			reorder := func(messages []int) {
				slices.Sort(messages)
				shape := uniform.Shape{Items: len(messages), Report: markedEach, Chunk: markedChunk}
				for place, item := range planted.Shuffle(shape).Order {
					messages[place] = item
				}
			}
			if j := judge(t, Setup{Reorder: reorder}, releases, markedReports); !j.Rejects() {
				t.Errorf("not rejected after %d releases: %+v", j.Releases(), j.Findings())
			}
		})
	}
}

// A source that always gives the same words gives the same order again, and is found by it, where one process mixes and
// where workers do.
func TestAStuckSourceIsRejected(t *testing.T) {
	for name, setup := range map[string]Setup{"alone": {}, "workers": {Workers: 1, Buckets: 2}} {
		setup.source = func() protocol.Source { return rand.NewChaCha8([32]byte{2}) }
		if name == "alone" {
			setup.source = func() protocol.Source { return stuck{} }
		}
		if j := judge(t, setup, 20, markedReports); !j.Rejects() {
			t.Errorf("%s: not rejected: %+v", name, j.Findings())
		}
	}
}

// stuck always gives the same word.
type stuck struct{}

func (stuck) Uint64() uint64 { return 1 << 40 }
