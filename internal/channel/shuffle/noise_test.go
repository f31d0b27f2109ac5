package shuffle

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	machine "github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const serverBits = 100

// noisy is a round of four people in which the shuffler adds noise, and a mixing side that holds their reports.
func noisy(t *testing.T) (f *fixture, of *channel.Round, ones [][]uint64) {
	t.Helper()
	key, err := seal.GenerateHPKE()
	if err != nil {
		t.Fatal(err)
	}
	release := plan.Release{NoiseBits: 2, Bias: protocol.BiasHalf, ShufflerNoise: serverBits}
	a := &plan.Announcement{
		Epoch: 1, AnalyzerKey: key.Public(), Cohort: plan.Cohort{Size: people, Minimum: people},
		Plan: plan.Plan{Channel: plan.Shuffle,
			Rounds: []plan.Round{{Releases: []plan.Release{release, release}}}},
	}
	for _, coordinates := range [][]protocol.Coordinate{{{Levels: 1}, {Levels: 2}}, {{Levels: 3}}} {
		a.Encodings = append(a.Encodings,
			protocol.Encoding{Scale: 1, Coordinates: coordinates, NoiseBits: 2, Bias: protocol.BiasHalf})
	}
	of = &channel.Round{Announcement: a, Digest: [32]byte{9}, Key: key}
	f = &fixture{t: t, reports: map[uint32][]byte{}}
	f.Mixing = &Mixing{
		Reports: f.report, Chunks: f, Disk: channel.Folder(t.TempDir()), Store: newStore(t), Source: entropy.New(),
		Chunk: 150,
	}
	layout, err := f.Layout(a)
	f.must(err)
	f.release = &channel.Release{Epoch: 1, Layout: layout, Announced: a, Announcement: of.Digest, Minimum: people}
	device, err := registry.NewDevice(a, of.Digest)
	f.must(err)
	opener := seal.NewBitOpener(key, of.Digest)
	total := shuffle.NewTally(a.Encodings)
	for slot := range uint32(people) {
		f.release.Members = append(f.release.Members, channel.Member{Slot: slot, Sequence: uint64(slot) + 1})
		f.reports[slot], err = device.Append(nil, devices.Sender{}, [][]float64{{1, 1}, {2}}, entropy.New())
		f.must(err)
		total.Open(opener, f.reports[slot])
	}
	ones, _ = total.Counts(people, []uint64{0, 0})
	return f, of, ones
}

// counted counts what left.
func count(f *fixture, of *channel.Round, m *wire.Manifest) ([]wire.ReleaseCounts, *Counting, error) {
	stored := testbed.Chunks(f.stored)
	c := &Counting{
		Receiver: chunks.Receiver[tally]{
			Store: &stored, Spill: spilt(f.t), Clock: role.SystemClock(), Log: zerolog.Nop(),
		},
	}
	m.Reports, m.Announcement = people, of.Digest[:]
	counts, err := c.Count(context.Background(), of, func(context.Context) (*wire.Manifest, error) {
		for _, chunk := range f.stored {
			c.Take(channel.Part{Epoch: 1, Payload: chunk})
		}
		return m, nil
	})
	return counts, c, err
}

// The shuffler adds its noise as messages that open as devices' do, among theirs, says how many they are, and the
// analyzer removes their mean. The noise is Bin(100, 1/2): a count is off its mean by more than 6 standard deviations
// with probability below 1e-8 each.
func TestTheShufflersNoiseIsSealedAndCounted(t *testing.T) {
	t.Parallel()
	f, of, ones := noisy(t)
	m := new(wire.Manifest)
	f.must(f.leave(t.Context(), f.release, m))
	if m.NoiseMessages != 3*serverBits || m.Messages != people*uint64(of.ReportMessages())+3*serverBits {
		t.Fatalf("%d messages, %d of noise", m.Messages, m.NoiseMessages)
	}
	counts, _, err := count(f, of, m)
	f.must(err)
	for i := range ones {
		for j, n := range ones[i] {
			noise := float64(counts[i].Ones[j]) - float64(n)
			if z := (noise - serverBits/2) / math.Sqrt(serverBits/4); math.Abs(z) > 6 {
				t.Errorf("release %d, coordinate %d: noise %v", i, j, noise)
			}
		}
	}
	sums, err := machine.Sums(of.Announcement, &wire.Counts{Reports: people, Releases: counts})
	f.must(err)
	if want := float64(people)*(0.25+0.5) + serverBits/4; sums[0].Variance[0] != want {
		t.Errorf("variance %v, want %v", sums[0].Variance[0], want)
	}
	for name, change := range map[string]func(m *wire.Manifest){
		"less noise than planned": func(m *wire.Manifest) { m.NoiseMessages-- },
		"more noise than planned": func(m *wire.Manifest) { m.NoiseMessages++ },
		"none":                    func(m *wire.Manifest) { m.NoiseMessages = 0 },
	} {
		other := *m
		change(&other)
		if counts, _, err := count(f, of, &other); !errors.Is(err, chunks.Rejected) || counts != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A shuffler that leaves its noise out, or puts it on one coordinate, is refused.
func TestNoiseThatIsNotThePlansIsRefused(t *testing.T) {
	t.Parallel()
	f, of, _ := noisy(t)
	lazy := *of.Announcement
	lazy.Plan = lazy.Plan.Clone()
	for i := range lazy.Plan.Rounds[0].Releases {
		lazy.Plan.Rounds[0].Releases[i].ShufflerNoise = 0
	}
	f.release.Announced = &lazy
	m := new(wire.Manifest)
	f.must(f.leave(t.Context(), f.release, m))
	m.NoiseMessages = 3 * serverBits
	if counts, _, err := count(f, of, m); !errors.Is(err, chunks.Rejected) || counts != nil {
		t.Errorf("without noise: %v", err)
	}
	f, of, _ = noisy(t)
	moved := *of.Announcement
	moved.Plan = moved.Plan.Clone()
	moved.Plan.Rounds[0].Releases[0].ShufflerNoise = 0
	moved.Plan.Rounds[0].Releases[1].ShufflerNoise = 3 * serverBits
	f.release.Announced = &moved
	m = new(wire.Manifest)
	f.must(f.leave(t.Context(), f.release, m))
	if counts, _, err := count(f, of, m); !errors.Is(err, chunks.Rejected) || counts != nil {
		t.Errorf("on one coordinate: %v", err)
	}
}

// A release that left in part leaves again with the same noise; one of which nothing left may leave with another. The
// places of the noise are anywhere.
func TestNoiseIsSpooledBeforeItLeaves(t *testing.T) {
	t.Parallel()
	f, _, _ := noisy(t)
	gone := errors.New("the broker is away")
	f.publish = func(index uint32) error {
		if index == 1 {
			return gone
		}
		return nil
	}
	m := new(wire.Manifest)
	if err := f.leave(t.Context(), f.release, m); !errors.Is(err, gone) || len(f.stored) != 1 {
		t.Fatalf("%d chunks, %v", len(f.stored), err)
	}
	before := bytes.Clone(f.stored[0])
	f.publish = nil
	f.Mixing = &Mixing{
		Reports: f.report, Chunks: f, Disk: f.Disk, Store: f.Store, Source: entropy.New(), Chunk: 150,
	}
	f.must(f.leave(t.Context(), f.release, m))
	if !bytes.Equal(before, f.stored[0]) || m.NoiseMessages != 3*serverBits {
		t.Errorf("the first chunk is another one, or %d messages of noise", m.NoiseMessages)
	}
	f.must(f.Forget(1, 0))
	own := map[[seal.BitSize]byte]bool{}
	for _, r := range f.reports {
		for at := 0; at < len(r); at += seal.BitSize {
			own[[seal.BitSize]byte(r[at:])] = true
		}
	}
	// Of 348 messages 48 are devices': with all orders alike, those among the first 48 of 5 releases are about 33, and
	// outside [1, 100] with probability below 1e-10. If noise were behind or before them there would be 240 or none.
	among := 0
	for epoch := range uint64(5) {
		f.release.Epoch, f.stored = epoch+2, nil
		f.must(f.leave(t.Context(), f.release, m))
		first, err := wire.ParseChunk(f.stored[0])
		f.must(err)
		for i := range len(own) {
			if own[[seal.BitSize]byte(first.Payload[i*seal.BitSize:])] {
				among++
			}
		}
		f.must(f.Forget(f.release.Epoch, 0))
	}
	if among < 1 || among > 100 {
		t.Errorf("%d devices' messages among the first", among)
	}
}

// Plans whose noise no shuffler can make, and rounds of other channels, have no layout; envelopes have one of one
// message.
func TestLayoutsOfOtherPlans(t *testing.T) {
	t.Parallel()
	f, of, _ := noisy(t)
	a := of.Announcement.Clone()
	for _, bits := range []uint64{shuffle.MaxNoiseMessages, plan.MaxServerNoise, math.MaxUint64} {
		a.Plan.Rounds[0].Releases[0].ShufflerNoise = bits
		if l, err := f.Layout(a); !errors.Is(err, shuffle.ErrNoise) {
			t.Errorf("%d noise bits: %+v, %v", bits, l, err)
		}
		_, err := shuffle.AppendNoise(t.Context(), nil, a, of.Digest, entropy.New())
		if !errors.Is(err, shuffle.ErrNoise) {
			t.Errorf("%d noise bits are made: %v", bits, err)
		}
	}
	a = of.Announcement.Clone()
	a.Plan.Channel = plan.Central
	if l, err := f.Layout(a); err == nil {
		t.Errorf("shuffle has a layout of central: %+v", l)
	}
	l, err := (&Mixing{Channel: plan.Central}).Layout(a)
	want := channel.Layout{Messages: 1, Channel: plan.Central, Payload: registry.PayloadSize(plan.Central, a.Encodings)}
	if err != nil || l != want || l.Size() != want.Payload {
		t.Errorf("%+v, %v; want %+v", l, err, want)
	}
	canceled, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	made, err := shuffle.AppendNoise(canceled, []byte("x"), of.Announcement, of.Digest, entropy.New())
	if !errors.Is(err, stop) || string(made) != "x" {
		t.Errorf("%d bytes, %v", len(made), err)
	}
	unknown := &channel.Release{Epoch: 1, Layout: f.release.Layout, Members: f.release.Members}
	if _, err := f.Repeated(t.Context(), unknown); err == nil {
		t.Error("a release is put into buckets without its noise")
	}
	if err := f.leave(t.Context(), unknown, new(wire.Manifest)); err == nil {
		t.Error("a release leaves whose announcement is not known")
	}
}

// Envelopes of another length than bit messages leave as they are, each once, whatever their number in a chunk.
func TestEnvelopesAreMixed(t *testing.T) {
	t.Parallel()
	const size, members = 300, 50
	f := &fixture{t: t, reports: map[uint32][]byte{}}
	f.Mixing = &Mixing{
		Channel: plan.Central, Reports: f.report, Chunks: f, Disk: channel.Folder(t.TempDir()), Store: newStore(t),
		Source: entropy.New(), Chunk: 7,
	}
	f.release = &channel.Release{
		Epoch: 1, Layout: channel.Layout{Messages: 1, Channel: plan.Central, Payload: size},
		Announced: &plan.Announcement{Final: true},
	}
	source := rand.NewChaCha8([32]byte{4})
	left := map[string]bool{}
	for slot := range uint32(members) {
		f.release.Members = append(f.release.Members, channel.Member{Slot: slot})
		f.reports[slot] = make([]byte, size)
		source.Read(f.reports[slot])
		left[string(f.reports[slot])] = true
	}
	m := new(wire.Manifest)
	f.must(f.leave(t.Context(), f.release, m))
	var order []byte
	for _, c := range f.stored {
		chunk, err := wire.ParseChunk(c)
		f.must(err)
		for b := chunk.Payload; len(b) > 0; b = b[size:] {
			if !left[string(b[:size])] {
				t.Fatal("an envelope left twice, or none of these")
			}
			delete(left, string(b[:size]))
			order = append(order, b[0])
		}
	}
	if len(left) > 0 || m.Messages != members || m.NoiseMessages != 0 || int(m.Chunks) != (members+6)/7 {
		t.Errorf("%d envelopes did not leave; manifest %+v", len(left), m)
	}
	same := true
	for slot, first := range order {
		same = same && first == f.reports[uint32(slot)][0]
	}
	if same {
		t.Error("the envelopes left in the order of slots")
	}
	copy(f.reports[7], f.reports[3][:seal.EncapsulatedSize])
	f.must(f.Forget(1, 0))
	slots, err := f.Repeated(t.Context(), f.release)
	f.must(err)
	if len(slots) != 2 || slots[0] != 3 || slots[1] != 7 {
		t.Errorf("slots %v repeat an envelope", slots)
	}
}

// BenchmarkNoise makes 88 000 messages: full noise for the largest cohort of the default schedule.
func BenchmarkNoise(b *testing.B) {
	key, err := seal.GenerateHPKE()
	if err != nil {
		b.Fatal(err)
	}
	release := plan.Release{Bias: protocol.BiasHalf, ShufflerNoise: 4400}
	a := &plan.Announcement{
		AnalyzerKey: key.Public(), Encodings: []protocol.Encoding{{Coordinates: make([]protocol.Coordinate, 20)}},
		Plan: plan.Plan{Channel: plan.Shuffle, Rounds: []plan.Round{{Releases: []plan.Release{release}}}},
	}
	for b.Loop() {
		if _, err := shuffle.AppendNoise(b.Context(), nil, a, [32]byte{}, entropy.New()); err != nil {
			b.Fatal(err)
		}
	}
}
