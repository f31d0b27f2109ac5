package shuffle

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	machine "github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What arrives is counted, and so is what came to an earlier process. Between rounds nothing is taken in.
func TestChunksAreCountedWhicheverWayTheyCome(t *testing.T) {
	t.Parallel()
	for _, arriving := range []int{0, 1, people} {
		x := newTable(t)
		parts, m := x.cut(x.reports())
		x.stored = parts
		x.take(parts...)
		counts, err := x.count(m, func() {
			x.take(parts[:arriving]...)
			x.take(parts[:arriving]...)
			if want := arriving * x.round.ReportMessages(); x.Taken() != want {
				t.Errorf("%d messages taken in, want %d", x.Taken(), want)
			}
		})
		want := []wire.ReleaseCounts{{Ones: []uint64{people * 4, people * 5}}}
		if err != nil || !reflect.DeepEqual(counts, want) {
			t.Errorf("%d arrive: %v, %v, want %v", arriving, counts, err, want)
		}
		if err := x.Forget(context.Background(), 1, 0); err != nil || len(x.stored) != 0 || x.Taken() != 0 {
			t.Errorf("%v, %d chunks and %d messages are left", err, len(x.stored), x.Taken())
		}
	}
}

// Chunks that the manifest does not name are no substitute for any that it names: the round is counted when all that it
// names are there.
func TestUnnamedChunksCompleteNothing(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	parts, m := x.cut(x.reports())
	var late chan struct{}
	counts, err := x.count(m, func() {
		for i := range uint32(8) {
			x.take(x.chunk(100+i, bytes.Repeat([]byte{byte(i)}, seal.BitSize)))
		}
		x.take(parts[1:]...)
		late = make(chan struct{})
		go func() {
			defer close(late)
			time.Sleep(50 * time.Millisecond)
			x.take(parts[0])
		}()
	})
	<-late
	if err != nil || counts[0].Ones[0] != people*4 {
		t.Errorf("%v, %v", counts, err)
	}
}

// Chunks that the manifest does not name take no more memory than as many messages as two releases: a root that cannot
// be checked for them is refused.
func TestARootThatCannotBeCheckedIsRefused(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	parts, m := x.cut(x.reports())
	x.stored = parts
	for spare, want := range []error{nil, chunks.Rejected} {
		counts, err := x.count(m, func() {
			junk := make([]byte, (people*x.round.ReportMessages()+spare)*seal.BitSize)
			rand.NewChaCha8([32]byte{4}).Read(junk)
			x.take(x.chunk(100, junk))
			x.take(parts...)
		})
		if !errors.Is(err, want) || want == nil && counts == nil {
			t.Errorf("%d messages more than two releases hold: %v, %v", spare, counts, err)
		}
	}
}

// A malicious shuffler sends chunks of noise that its manifest does not name, until no further message is compared, and
// then copies of one person's messages. They do not pass for compared, whether the manifest has a root or not. Nor do
// copies behind less noise.
func TestNoiseHidesNoCopies(t *testing.T) {
	t.Parallel()
	for _, noise := range []int{1, 2 * people, 3 * people} {
		x := newTable(t)
		parts, m := x.cut(bytes.Repeat(x.report(), people))
		m.MessagesRoot = nil
		junk := make([]byte, noise*x.round.ReportMessages()*seal.BitSize)
		rand.NewChaCha8([32]byte{3}).Read(junk)
		counts, err := x.count(m, func() { x.take(append([][]byte{x.chunk(1000, junk)}, parts...)...) })
		if !errors.Is(err, chunks.Rejected) && !errors.Is(err, Repeated) || counts != nil {
			t.Errorf("%d copies of one report pass behind noise of %d: %v, %v", people, noise, counts, err)
		}
	}
}

// Messages that are all different pass, and a duplicate is found wherever it is: in one chunk, in two, at
// their ends. A message that is again in a chunk that the manifest does not name counts once, and does no harm.
func TestOnlyCopiesAreFound(t *testing.T) {
	t.Parallel()
	const size = seal.BitSize
	x := newTable(t)
	honest := x.reports()
	n := len(honest) / size
	for _, of := range [][2]int{{0, 1}, {0, n - 1}, {5, 6}, {n - 2, n - 1}, {3, n / 2}} {
		messages := bytes.Clone(honest)
		copy(messages[of[1]*size:(of[1]+1)*size], messages[of[0]*size:])
		parts, m := x.cut(messages)
		if counts, err := x.count(m, func() { x.take(parts...) }); !errors.Is(err, Repeated) || counts != nil {
			t.Errorf("message %d is at %d again: %v, %v", of[0], of[1], counts, err)
		}
	}
	parts, m := x.cut(honest)
	counts, err := x.count(m, func() {
		x.take(x.chunk(1000, honest[:5*size]))
		x.take(parts...)
	})
	if want := []uint64{people * 4, people * 5}; err != nil || !reflect.DeepEqual(counts[0].Ones, want) {
		t.Errorf("%v, %v, want ones %v", counts, err, want)
	}
}

// What was counted is compared, whatever the store holds when the manifest comes.
func TestWhatWasCountedIsCompared(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	copies, m := x.cut(bytes.Repeat(x.report(), people))
	innocent, _ := x.cut(x.reports())
	for name, stored := range map[string]testbed.Chunks{
		"the copies are there": copies, "nothing is there any more": nil, "other chunks are there now": innocent,
	} {
		x.stored = stored
		if counts, err := x.count(m, func() { x.take(copies...) }); !errors.Is(err, Repeated) || counts != nil {
			t.Errorf("%s: %v, %v", name, counts, err)
		}
	}
}

// Fewer messages than the manifest's reports hold are rejected: a report that left messages out would shift the sums.
func TestMissingMessagesAreRejected(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	parts, m := x.cut(x.reports())
	x.round.Cohort.Size++
	m.Reports++
	if counts, err := x.count(m, func() { x.take(parts...) }); !errors.Is(err, chunks.Rejected) {
		t.Errorf("%v, %v", counts, err)
	}
}

// Counts that do not fit the announcement give no sums.
func TestSumsRefuseImpossibleCounts(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	x.round.Encodings[0].Scale = 1
	x.round.Encodings[0].Bias = 1 << 31
	of := func(ones ...uint64) *wire.Counts {
		return &wire.Counts{Reports: people, Releases: []wire.ReleaseCounts{{Ones: ones}}}
	}
	sums, err := machine.Sums(x.round.Announcement, of(people*4, people*5))
	// Of 4 people's ones at a coordinate, 4*3/2 are noise on average; the variance is 4/4 + 4*3/4.
	if err != nil || !reflect.DeepEqual(sums, []wire.Sum{{Values: []float64{10, 14}, Variance: []float64{4, 4}}}) {
		t.Errorf("%v, %v", sums, err)
	}
	for _, c := range []*wire.Counts{of(people*4+1, 0), of(0), {Reports: people}} {
		if sums, err := machine.Sums(x.round.Announcement, c); err == nil {
			t.Errorf("%v: %v", c, sums)
		}
	}
}

// What the announcement and the manifest do not allow is refused as a whole, also where the rest fits together.
func TestRoundsThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(x *table, m *wire.Manifest, messages []byte){
		"another announcement": func(_ *table, m *wire.Manifest, _ []byte) { m.Announcement = make([]byte, 32) },
		"too few reports":      func(x *table, _ *wire.Manifest, _ []byte) { x.round.Cohort.Minimum++ },
		"too many reports": func(x *table, _ *wire.Manifest, _ []byte) {
			x.round.Cohort.Size, x.round.Cohort.Minimum = people-1, people-1
		},
		"other chunks": func(_ *table, m *wire.Manifest, _ []byte) {
			m.ChunksDigest = make([]byte, 32)
		},
		"another number of messages": func(_ *table, m *wire.Manifest, _ []byte) { m.Messages++ },
		"messages of fewer reports": func(x *table, m *wire.Manifest, _ []byte) {
			m.Reports--
			x.round.Cohort.Minimum--
		},
		"another root":                 func(_ *table, m *wire.Manifest, _ []byte) { m.MessagesRoot[31] ^= 1 },
		"a message that does not open": nil,
		"nothing wrong":                func(*table, *wire.Manifest, []byte) {},
		"no root":                      func(_ *table, m *wire.Manifest, _ []byte) { m.MessagesRoot = nil },
	} {
		x := newTable(t)
		messages := x.reports()
		if change == nil {
			messages[len(messages)-1] ^= 1
		}
		parts, m := x.cut(messages)
		if change != nil {
			change(x, m, messages)
		}
		counts, err := x.count(m, func() { x.take(parts...) })
		if name == "nothing wrong" {
			if err != nil || counts == nil {
				t.Errorf("%s: %v", name, err)
			}
		} else if !errors.Is(err, chunks.Rejected) || counts != nil {
			t.Errorf("%s: %v, %v", name, counts, err)
		}
	}
}

// A chunk of another round is not counted, wherever it is stored, and a chunk that comes twice counts once.
func TestAChunkCountsOnceAndInItsRound(t *testing.T) {
	t.Parallel()
	x := newTable(t)
	parts, m := x.cut(x.reports())
	foreign, err := wire.BuildChunk(wire.Chunk{Epoch: 1, Round: 1, Index: 0, Payload: x.report()})
	if err != nil {
		t.Fatal(err)
	}
	counts, err := x.count(m, func() {
		x.take(foreign)
		x.take(parts...)
		x.take(parts...)
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []uint64{people * 4, people * 5}; !reflect.DeepEqual(counts[0].Ones, want) {
		t.Errorf("ones %v, want %v", counts[0].Ones, want)
	}
}

// A shuffler that changes a label gets the round refused, since the numbers of messages do not fit. One that exchanges
// two labels breaks both messages: that is refused, too, or counts as two zeros where the plan expects a dishonest
// report. So it reaches no more than by putting broken messages in the place of the two.
func TestChangedLabelsReachNoMoreThanDroppedMessages(t *testing.T) {
	t.Parallel()
	label := func(messages []byte, i int) []byte { return seal.Label(messages[i*seal.BitSize:]) }
	const first, second = 0, 4 // messages of coordinates 0 and 1 in a report, which has 4 and 5
	for _, x := range []struct {
		what      string
		change    func(messages []byte)
		dishonest uint32
		ones      []uint64 // nil: refused
	}{
		{"one label is changed", func(m []byte) { label(m, first)[2] = 1 }, 0, nil},
		{"one label is changed, and a report may be broken", func(m []byte) { label(m, first)[2] = 1 }, 1, nil},
		{"a label of no coordinate", func(m []byte) { label(m, first)[1] = 1 }, 1, nil},
		{"two are exchanged", func(m []byte) { label(m, first)[2], label(m, second)[2] = 1, 0 }, 0, nil},
		{"two are exchanged, and a report may be broken",
			func(m []byte) { label(m, first)[2], label(m, second)[2] = 1, 0 }, 1, []uint64{people*4 - 1, people*5 - 1}},
		{"nothing", func([]byte) {}, 0, []uint64{people * 4, people * 5}},
	} {
		of := newTable(t)
		of.round.Cohort.MaxDishonest = x.dishonest
		messages := of.reports()
		x.change(messages)
		parts, m := of.cut(messages)
		counts, err := of.count(m, func() { of.take(parts...) })
		if x.ones == nil {
			if !errors.Is(err, chunks.Rejected) || counts != nil {
				t.Errorf("%s: %v, %v, want it rejected", x.what, counts, err)
			}
		} else if err != nil || !reflect.DeepEqual(counts[0].Ones, x.ones) {
			t.Errorf("%s: %v, %v, want ones %v", x.what, counts, err, x.ones)
		}
	}
}
