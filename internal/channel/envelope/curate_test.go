package envelope

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// book is a curator that writes down what it is given.
type book struct {
	lines []string
	first []learn.Record
	draws *int // calls of Absorb by all curators of a test
}

var errBook = errors.New("the curator fails")

func (b *book) Absorb(records []learn.Record) ([]int64, error) {
	*b.draws++
	if *b.draws < 0 {
		b.lines = append(b.lines, "failed halfway")
		return nil, errBook
	}
	given := []int64{int64(*b.draws), -int64(len(records)), 1<<53 - 1}
	b.lines = append(b.lines, fmt.Sprint(records, given))
	if len(b.lines) == 1 {
		b.first = slices.Clone(records)
	}
	return given, nil
}

func (b *book) Replay(records []learn.Record, given []int64) error {
	b.lines = append(b.lines, fmt.Sprint(records, given))
	return nil
}

// reading is a table on which records are read, epoch after epoch.
type reading struct {
	*table
	*Curating
	book  *book // the latest
	draws int
	made  map[uint64]*wire.Manifest // releases, by epoch: their envelopes are sealed once
	kept  map[uint64]testbed.Chunks
}

func newReading(t *testing.T) *reading {
	x := &reading{table: newTable(t, plan.Central), made: map[uint64]*wire.Manifest{},
		kept: map[uint64]testbed.Chunks{}}
	x.start()
	return x
}

// start is a new process.
func (x *reading) start() {
	x.Curating = &Curating{Counting: x.process(), New: func() Curator {
		x.book = &book{draws: &x.draws}
		return x.book
	}}
	x.table.Counting = x.Curating.Counting
}

// epoch announces an epoch of records.
func (x *reading) epoch(epoch uint64) {
	a := *x.round.Announcement
	a.Epoch, a.Encodings = epoch, []protocol.Encoding{plan.RecordEncoding(3, family.NameLogistic, 1)}
	a.Policy = glm.Policy{MaxReward: 1, Dimension: 3}
	a.Plan = plan.Plan{Channel: plan.Central, Curator: &plan.Curator{},
		Rounds: []plan.Round{{Releases: []plan.Release{{Statistic: statistic.Row}}}}}
	x.round = &channel.Round{Announcement: &a, Digest: [32]byte{byte(epoch), 9}, Key: x.round.Key}
}

// secret are the coordinates of the arm of a device's record.
func secret(number uint32) []float64 {
	rng := rand.New(rand.NewPCG(uint64(number), 5))
	return []float64{rng.Float64() / 2, -rng.Float64() / 2, rng.Float64() / 2}
}

// records are envelopes of the records of this many devices, from a number on: every third explored, all odd ones have
// the reward 1.
func (x *reading) records(from, n int) (all [][]byte) {
	x.t.Helper()
	d, err := envelope.NewDevice(x.round.Announcement, x.round.Digest)
	x.must(err)
	for i := from; i < from+n; i++ {
		vector := append(secret(uint32(i)), float64(i%2), map[bool]float64{true: 1}[i%3 == 0])
		b, err := d.Append(nil, x.sender(x.host, uint32(i), 1000, x.registrar), [][]float64{vector},
			rand.NewChaCha8([32]byte{byte(i)}))
		x.must(err)
		all = append(all, b)
	}
	return all
}

// read counts an epoch of the records of people devices, and enters its counts.
func (x *reading) read(epoch uint64) {
	x.t.Helper()
	given := x.count(epoch)
	x.Learned(x.round, &wire.Counts{Releases: []wire.ReleaseCounts{{Curated: given}}})
}

func (x *reading) count(epoch uint64) []int64 {
	x.t.Helper()
	x.epoch(epoch)
	if x.made[epoch] == nil {
		x.made[epoch] = x.cut(x.records(int(epoch)*people, people))
		x.kept[epoch] = x.table.stored
	}
	x.table.stored = x.kept[epoch]
	counts, err := x.countAll(x, x.made[epoch])
	x.must(err)
	if len(counts) != 1 || len(counts[0].Ones) > 0 || len(counts[0].Curated) != 3 {
		x.t.Fatalf("counts %v", counts)
	}
	return counts[0].Curated
}

// countAll is Count, as everything came in time.
func (c *Curating) countAll(x *reading, m *wire.Manifest) ([]wire.ReleaseCounts, error) {
	return c.Count(x.t.Context(), x.round, func(ctx context.Context) (*wire.Manifest, error) {
		for _, chunk := range x.stored {
			c.Take(channel.Part{Epoch: x.round.Epoch, Payload: chunk})
		}
		return m, nil
	})
}

// A curator reads the records that devices sent; the next process builds the same one from sealed envelopes and signed
// counts, without another draw of noise, as often as it likes.
func TestACuratorIsBuiltAgainWithoutNewNoise(t *testing.T) {
	t.Parallel()
	x := newReading(t)
	x.read(1)
	x.read(2)
	want := slices.Clone(x.book.lines)
	if len(want) != 2 || x.draws != 2 {
		t.Fatalf("%d rounds were read with %d draws", len(want), x.draws)
	}
	for i, r := range x.book.first {
		number := people + i
		arm := secret(uint32(number))
		for j := range arm {
			if math.Abs(r.Arm[j]-arm[j]) > 1e-4 {
				t.Errorf("the arm of device %d is read as %v, it is %v", number, r.Arm, arm)
			}
		}
		if r.Reward != float64(number%2) || (r.Tag == learn.Explored) != (number%3 == 0) || r.Count() != 1 {
			t.Errorf("device %d is read as %+v", number, r)
		}
	}
	first, second := x.past[0], x.past[1]
	for _, key := range []bool{true, false} {
		x.start()
		x.Learned(first.Round, &wire.Counts{Releases: []wire.ReleaseCounts{{Curated: first.curated}}})
		lost := *second.Round
		if !key {
			lost.Key = nil
		}
		x.Learned(&lost, &wire.Counts{Releases: []wire.ReleaseCounts{{Curated: second.curated}}})
		if !key {
			x.epoch(4)
			m := x.cut(x.records(4*people, people))
			if _, err := x.countAll(x, m); err == nil || x.draws != 3 {
				t.Errorf("without the key: %v, %d draws", err, x.draws)
			}
			continue
		}
		x.read(3)
		if !slices.Equal(x.book.lines[:2], want) || len(x.book.lines) != 3 || x.draws != 3 {
			t.Errorf("read again was\n%q\nwith %d draws, before it was\n%q", x.book.lines, x.draws, want)
		}
	}
}

// What was drawn and not signed before a crash is signed after it, whether or not the broker lost the counts; for other
// envelopes it is refused.
func TestWhatACuratorGaveOutIsNotDrawnAgain(t *testing.T) {
	t.Parallel()
	x := newReading(t)
	given := x.count(1)
	x.start()
	if again := x.count(1); !slices.Equal(again, given) || x.draws != 1 {
		t.Fatalf("given out is %v after %v, with %d draws", again, given, x.draws)
	}
	x.Learned(x.round, &wire.Counts{Releases: []wire.ReleaseCounts{{Curated: given}}})
	x.must(x.Forget(t.Context(), 1, 0))
	x.start() // with a broker from before the round
	if again := x.count(1); !slices.Equal(again, given) || x.draws != 1 {
		t.Errorf("a broker that was set back gets %v after %v, with %d draws", again, given, x.draws)
	}
	var why outcome.Reason
	m := x.cut(x.records(900, people))
	if _, err := x.countAll(x, m); !errors.Is(err, ErrGivenOut) || errors.As(err, &why) || x.draws != 1 {
		t.Errorf("for other envelopes: %v, %d draws", err, x.draws)
	}
	if _, err := x.Count(t.Context(), x.round, func(context.Context) (*wire.Manifest, error) {
		return nil, chunks.Rejected // of a shuffler that destroyed the cohort
	}); !errors.Is(err, ErrGivenOut) || errors.As(err, &why) {
		t.Errorf("for a destroyed cohort: %v", err)
	}
	x.Learned(x.round, &wire.Counts{Releases: []wire.ReleaseCounts{{Curated: given}}})
	x.count(2)
	other := []int64{7, 7, 7} // the log had others first: the curator goes on from them
	x.Learned(x.round, &wire.Counts{Releases: []wire.ReleaseCounts{{Curated: other}}})
	x.read(3)
	if line := x.book.lines[1]; !bytes.HasSuffix([]byte(line), []byte("[7 7 7]")) || len(x.book.lines) != 3 {
		t.Errorf("the curator went on from %s", line)
	}
}

// A curator that failed, or whose release could not be stored, is not asked again: the next attempt builds another.
func TestAFailedCuratorIsBuiltAgain(t *testing.T) {
	t.Parallel()
	x := newReading(t)
	x.read(1)
	x.draws = -10
	x.epoch(2)
	m := x.cut(x.records(2*people, people))
	if _, err := x.countAll(x, m); !errors.Is(err, errBook) {
		t.Fatalf("%v", err)
	}
	x.draws = 1
	if counts, err := x.countAll(x, m); err != nil || counts[0].Curated[0] != 2 || len(x.book.lines) != 2 {
		t.Errorf("%v, %v, read: %q", counts, err, x.book.lines)
	}
}

// An envelope that is refused is no record; what a device could not have sent does not stop the others.
func TestARefusedEnvelopeIsNoRecord(t *testing.T) {
	t.Parallel()
	x := newReading(t)
	x.epoch(1)
	envelopes := x.records(0, people)
	twice := append(slices.Clone(envelopes), envelopes[0])
	counts, err := x.countAll(x, x.cut(twice))
	if err != nil || counts[0].Curated[1] != -people {
		t.Errorf("%v, %v, want %d records", counts, err, people)
	}
	x.epoch(2)
	envelopes = x.records(people, people)
	envelopes[0], envelopes[1] = envelopes[2], envelopes[2] // more copies than dishonest reports are planned for
	if _, err := x.countAll(x, x.cut(envelopes)); !errors.Is(err, chunks.Rejected) || x.draws != 1 {
		t.Errorf("%v with %d draws", err, x.draws)
	}
	x.epoch(3) // people who were counted in the first epoch
	if _, err := x.countAll(x, x.cut(x.records(0, people))); !errors.Is(err, chunks.Rejected) || x.draws != 1 {
		t.Errorf("a second record of each person: %v with %d draws", err, x.draws)
	}
}

// Sealed records that are missing, changed, cut or another round's stop the analyzer before any noise is drawn.
func TestSealedRecordsThatAreNotWholeAreRefused(t *testing.T) {
	t.Parallel()
	x := newReading(t)
	x.read(1)
	past, path := x.past[0], filepath.Join(x.folder, "sealed-1-0")
	whole, err := os.ReadFile(path)
	x.must(err)
	for name, c := range map[string]struct {
		content []byte
		want    error
	}{
		"missing": {nil, channel.ErrOldState},
		"changed": {append(slices.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1), channel.ErrDamagedState},
		"cut":     {whole[:len(whole)/2], channel.ErrDamagedState},
		"tiny":    {whole[:3], channel.ErrDamagedState},
		"another round's": {appendChecksum(append([]byte(sealedDomain), make([]byte, 32)...)),
			channel.ErrDamagedState},
		"not sealed to this analyzer": {appendChecksum(slices.Concat([]byte(sealedDomain), past.Digest[:],
			make([]byte, envelope.Size(past.Encodings)))), channel.ErrDamagedState},
	} {
		x.must(os.RemoveAll(path))
		if c.content != nil {
			x.must(os.WriteFile(path, c.content, 0o600))
		}
		x.start()
		x.Learned(past.Round, &wire.Counts{Releases: []wire.ReleaseCounts{{Curated: past.curated}}})
		x.epoch(2)
		if _, err := x.countAll(x, x.cut(x.records(2*people, people))); !errors.Is(err, c.want) || x.draws != 1 {
			t.Errorf("%s: %v with %d draws, want %v", name, err, x.draws, c.want)
		}
	}
}

// No record is in the state folder or in the log in a form that could be read, and nothing of records is left after
// the end of a run but who took part and what was given out, so that it is not drawn again.
func TestRecordsAreOnlyInMemory(t *testing.T) {
	t.Parallel()
	x := newReading(t)
	for epoch := uint64(1); epoch <= 3; epoch++ {
		x.read(epoch)
	}
	x.epoch(4)
	_, err := x.countAll(x, x.cut(slices.Repeat(x.records(4*people, 1), people)))
	files, globErr := filepath.Glob(filepath.Join(x.folder, "*"))
	x.must(globErr)
	if len(files) < 9 {
		t.Errorf("files %v", files)
	}
	seen := [][]byte{x.log.Bytes(), []byte(err.Error())}
	for _, f := range files {
		b, err := os.ReadFile(f)
		x.must(err)
		seen = append(seen, b)
	}
	e := plan.RecordEncoding(3, family.NameLogistic, 1)
	for number := uint32(people); number < 5*people; number++ {
		arm := secret(number)
		var wide, text []byte
		for j, v := range arm {
			level := uint16((v - e.Coordinates[j].Offset) * e.Scale)
			wide = binary.BigEndian.AppendUint16(wide, level)
			text = fmt.Appendf(nil, "%.4f", v)
		}
		// Six bytes each: in the sealed bytes, which are random, they occur by chance once in ten million runs. With
		// four it was once in some thousands.
		for _, form := range [][]byte{wide, text} {
			for i, b := range seen {
				if bytes.Contains(b, form) {
					t.Fatalf("the record of device %d is readable in place %d", number, i)
				}
			}
		}
	}
	x.must(x.End())
	x.must(x.End())
	files, globErr = filepath.Glob(filepath.Join(x.folder, "*"))
	x.must(globErr)
	for _, f := range files {
		if name := filepath.Base(f); !strings.HasPrefix(name, "participants") && !strings.HasPrefix(name, "curated") {
			t.Errorf("%s is left", f)
		}
	}
	draws := x.draws
	x.start() // with a broker from before the first round
	if x.count(1); x.draws != draws {
		t.Error("a round is drawn again after the end of the run")
	}
}

// The entries of an envelope become the record that the curator's learner knows, explorers with their tag.
func TestEntriesBecomeRecords(t *testing.T) {
	t.Parallel()
	x := newReading(t)
	x.epoch(1)
	entries, err := x.round.Encodings[0].Encode(nil, []float64{0.25, -0.5, 0, 1, 1}, rand.NewChaCha8([32]byte{}))
	x.must(err)
	r := record(x.round.Announcement, entries)
	if !slices.Equal(r.Arm, []float64{0.25, -0.5, 0}) || r.Reward != 1 || r.Tag != learn.Explored || r.Count() != 1 {
		t.Errorf("%+v", r)
	}
}
