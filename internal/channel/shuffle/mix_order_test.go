package shuffle

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// inMemory is a Disk of one file.
type inMemory struct {
	channel.Disk
	file []byte
}

func (d *inMemory) Store(_ string, write func(io.Writer) error) error {
	var b bytes.Buffer
	err := write(&b)
	if err == nil {
		d.file = b.Bytes()
	}
	return err
}

func (d *inMemory) Open(string) (io.ReadCloser, error) {
	if d.file == nil {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(d.file)), nil
}

func (d *inMemory) Remove(string) error { d.file = nil; return nil }

// dropped is a Publisher that drops.
type dropped struct{}

func (dropped) PublishChunk(context.Context, uint64, uint32, uint32, []byte) error { return nil }

// oneBit is a bit message whose number is its first byte.
func oneBit(n int) []byte { return bytes.Repeat([]byte{byte(n)}, seal.BitSize) }

// release is one of so many reports with a bit message each. Report i is taken i-th and has message i.
func release(t testing.TB, m *Mixing, reports int) *channel.Release {
	r := &channel.Release{Epoch: 1, Layout: channel.Layout{Messages: 1}, Announced: &plan.Announcement{Final: true}}
	for i := range reports {
		member := channel.Member{Slot: uint32(i), Sequence: uint64(i) + 1}
		r.Members = append(r.Members, member)
		if err := m.Take(1, 0, member, oneBit(i)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// spooledOrder puts the numbers below n into an order, by the whole path from taken reports to the spool. The key of
// the digests is always the same, so that the messages always get to the scatter in the same order.
func spooledOrder(t testing.TB, m *Mixing, d *inMemory) func(n int) []byte {
	source := m.Source
	return func(n int) (order []byte) {
		m.Source = &chosen{make([]uint64, 4), source}
		r := release(t, m, n)
		if slots, err := m.Repeated(t.Context(), r); err != nil || len(slots) > 0 {
			t.Fatal(slots, err)
		}
		if _, err := m.Release(t.Context(), r, new(wire.Manifest)); err != nil {
			t.Fatal(err)
		}
		for message := range slices.Chunk(d.file, seal.BitSize) {
			order = append(order, message[0])
		}
		if err := m.Forget(1, 0); err != nil {
			t.Fatal(err)
		}
		return order
	}
}

// ordersOfFive is the chi-square of so many orders of five against the uniform law of all 120, with 119 degrees of
// freedom.
func ordersOfFive(mix func(n int) []byte, times int) (chi float64) {
	seen := map[string]float64{}
	for range times {
		seen[string(mix(5))]++
	}
	expected := float64(times) / 120
	chi = (120 - float64(len(seen))) * expected
	for _, n := range seen {
		chi += (n - expected) * (n - expected) / expected
	}
	return chi
}

// placesOfForty is how often each of 40 comes to each place, against the uniform law: times 39/40 it is chi-square with
// 39*39 degrees of freedom.
func placesOfForty(mix func(n int) []byte, times int) (chi float64) {
	const n = 40
	var seen [n][n]float64
	for range times {
		for at, i := range mix(n) {
			seen[i][at]++
		}
	}
	expected := float64(times) / n
	for i := range seen {
		for _, count := range seen[i] {
			chi += (count - expected) * (count - expected) / expected
		}
	}
	return chi * (n - 1) / n
}

const (
	orderTimes, orderLimit       = 12_000, 208 // chi-square with 119 degrees of freedom is above with probability 1e-6
	positionTimes, positionLimit = 2_000, 1798 // and with 1521
)

// Every order is as likely as every other, whatever the buckets: five messages in three buckets; in five, of which
// about every third time one gets more than two, so that it is divided anew; and forty in ten. False alarm: 1e-6 for
// each. Power: TestBadMixesAreCaught.
func TestOrdersAreUniformThroughBuckets(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	d := new(inMemory)
	m := &Mixing{
		Chunks: dropped{}, Disk: d, Store: newStore(t), Source: rand.NewChaCha8([32]byte{1}), Chunk: 40, bucket: 2,
	}
	mix := spooledOrder(t, m, d)
	for _, m.bucket = range []int{1, 2} {
		if chi := ordersOfFive(mix, orderTimes); chi > orderLimit {
			t.Errorf("orders of 5, %d in a bucket: chi-square %.0f", m.bucket, chi)
		}
	}
	m.bucket = 4
	if chi := placesOfForty(mix, positionTimes); chi > positionLimit {
		t.Errorf("places of 40: chi-square %.0f", chi)
	}
}

// The same statistics, of as many orders, are far above their limits where the scatter is wrong: at least one of the
// two for each fault.
func TestBadMixesAreCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	type draw func(i, n, buckets int, src protocol.Source) int
	exact := func(_, _, buckets int, src protocol.Source) int { return rand.New(src).IntN(buckets) }
	permuted := func(items []byte, src protocol.Source) { protocol.Permute(items, src) }
	for name, c := range map[string]struct {
		bucket  draw
		permute func([]byte, protocol.Source)
		caught  bool
	}{
		"right": {exact, permuted, false},
		"the order inside buckets is that of arrival": {exact, func([]byte, protocol.Source) {}, true},
		"two of a bucket change places at most": {exact, func(items []byte, src protocol.Source) {
			if len(items) > 1 {
				j := rand.New(src).IntN(len(items))
				items[0], items[j] = items[j], items[0]
			}
		}, true},
		// Buckets of unequal weights give a uniform order, too, as long as every message is drawn alike and for itself:
		// they only need more memory.
		"remainders of two bits": {
			func(_, _, buckets int, src protocol.Source) int { return int(src.Uint64()>>62) % buckets },
			permuted, false,
		},
		"buckets by arrival": {
			func(i, n, buckets int, _ protocol.Source) int { return i * buckets / n }, permuted, true,
		},
		"buckets in turn": {func(i, _, buckets int, _ protocol.Source) int { return i % buckets }, permuted, true},
		"one draw for two messages": {func() draw {
			last := 0
			return func(i, n, buckets int, src protocol.Source) int {
				if i%2 == 0 {
					last = exact(i, n, buckets, src)
				}
				return last
			}
		}(), permuted, true},
		"no bucket gets more than its part": {nil, permuted, true},
	} {
		src := rand.NewChaCha8([32]byte{2})
		mix := func(n int) (order []byte) {
			buckets := make([][]byte, max(3, n/4))
			for i := range n {
				b := 0
				if c.bucket != nil {
					b = c.bucket(i, n, len(buckets), src)
				} else {
					for b = exact(i, n, len(buckets), src); len(buckets[b]) > n/len(buckets); {
						b = exact(i, n, len(buckets), src)
					}
				}
				buckets[b] = append(buckets[b], byte(i))
			}
			for _, b := range buckets {
				c.permute(b, src)
				order = append(order, b...)
			}
			return order
		}
		a, b := ordersOfFive(mix, orderTimes), placesOfForty(mix, positionTimes)
		if caught := a > 1.5*orderLimit || b > 1.5*positionLimit; caught != c.caught {
			t.Errorf("%s: chi-square %.0f of orders, %.0f of places", name, a, b)
		}
	}
}

// What is spooled is a function of the set of messages and of the source's words: the same messages in other hands,
// that came in another order, leave in the same order, so that even a source that somebody knows tells nobody who sent
// what.
func TestTheOrderFollowsFromTheSetAlone(t *testing.T) {
	t.Parallel()
	const reports = 300
	spooled := func(who []int) []byte {
		d := new(inMemory)
		m := &Mixing{Chunks: dropped{}, Disk: d, Store: newStore(t), Source: rand.NewChaCha8([32]byte{3}), bucket: 40}
		r := &channel.Release{Epoch: 1, Layout: channel.Layout{Messages: 2}, Announced: &plan.Announcement{Final: true}}
		all := make([]byte, 2*reports*seal.BitSize)
		rand.NewChaCha8([32]byte{4}).Read(all)
		for slot := range reports {
			r.Members = append(r.Members, channel.Member{Slot: uint32(slot), Sequence: uint64(slot)})
		}
		for i, slot := range who { // report i is of that slot
			payload := slices.Concat(all[i*seal.BitSize:][:seal.BitSize], all[(i+reports)*seal.BitSize:][:seal.BitSize])
			if err := m.Take(1, 0, r.Members[slot], payload); err != nil {
				t.Fatal(err)
			}
		}
		if slots, err := m.Repeated(t.Context(), r); err != nil || len(slots) > 0 {
			t.Fatal(slots, err)
		}
		if _, err := m.Release(t.Context(), r, new(wire.Manifest)); err != nil {
			t.Fatal(err)
		}
		return d.file
	}
	first := spooled(rand.New(rand.NewPCG(1, 1)).Perm(reports))
	for seed := range uint64(3) {
		if !bytes.Equal(spooled(rand.New(rand.NewPCG(seed, 2)).Perm(reports)), first) {
			t.Fatal("who sent what, or when, moves the order")
		}
	}
}

// Reports that were taken are not read again, and a release holds what its members sent alone: not the report of a slot
// that was excluded, not another report of a member's slot, and none of another round.
func TestMembersDecideWhatIsMixed(t *testing.T) {
	t.Parallel()
	f := newFixture(t, 6, 2)
	odd := slices.Repeat([]byte{99}, 2*seal.BitSize)
	for i, member := range f.release.Members {
		other := member
		switch i {
		case 1:
			other.Digest[5] = 1
		case 2:
			other.Sequence += 100
		case 3:
			f.must(f.Take(1, 1, member, odd))
			f.must(f.Take(2, 0, member, odd))
		}
		if other != member {
			f.must(f.Take(1, 0, other, odd))
		}
		f.must(f.Take(1, 0, member, f.reports[member.Slot]))
		f.must(f.Take(1, 0, member, odd)) // the first one is kept
	}
	f.must(f.Take(1, 0, channel.Member{Slot: 77}, odd))
	f.release.Members = slices.Delete(f.release.Members, 4, 5)
	for range 2 { // before the commit, and after it
		slots, err := f.Repeated(t.Context(), f.release)
		f.must(err)
		if len(slots) > 0 {
			t.Errorf("slots %v repeat a message", slots)
		}
	}
	f.must(f.leave(t.Context(), f.release, new(wire.Manifest)))
	left := f.left()
	slices.Sort(left)
	if want := []byte{0, 1, 2, 3, 4, 5, 6, 7, 10, 11}; !bytes.Equal(left, want) || f.reads != 0 {
		t.Errorf("%v left, want %v; %d reads", left, want, f.reads)
	}
}

// A disk that is full delays a release, and what leaves afterwards is the whole of it. On the disk no message is as
// it is before the spool does.
func TestAFullDiskDelaysTheRelease(t *testing.T) {
	t.Parallel()
	const members, each = 80, 150
	f := newFixture(t, members, each)
	f.Chunk = 4000
	source := rand.NewChaCha8([32]byte{5})
	for _, payload := range f.reports {
		source.Read(payload)
	}
	folder := filepath.Join(t.TempDir(), "spill")
	store, err := spill.New(folder, 1)
	f.must(err)
	defer store.Close()
	f.Store = store
	f.must(os.Remove(folder))
	failed := 0
	for _, member := range f.release.Members {
		if f.Take(1, 0, member, f.reports[member.Slot]) != nil {
			failed++
		}
	}
	if _, err := f.Repeated(t.Context(), f.release); failed == 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%d reports are not kept, and %v", failed, err)
	}
	err = f.leave(t.Context(), f.release, new(wire.Manifest))
	if !errors.Is(err, fs.ErrNotExist) || len(f.stored) > 0 {
		t.Fatalf("%v, and %d chunks left", err, len(f.stored))
	}
	f.must(os.Mkdir(folder, 0o700))
	slots, err := f.Repeated(t.Context(), f.release)
	f.must(err)
	spilt, err := filepath.Glob(filepath.Join(folder, "*"))
	f.must(err)
	if len(slots) > 0 || len(spilt) != 1 {
		t.Fatalf("slots %v, files %v", slots, spilt)
	}
	file, err := os.ReadFile(spilt[0])
	f.must(err)
	whole := map[string]bool{}
	for _, payload := range f.reports {
		for message := range slices.Chunk(payload, seal.BitSize) {
			whole[string(message)] = true
		}
		if bytes.Contains(file, payload[:20]) {
			t.Fatal("a message is on the disk as it is")
		}
	}
	m := new(wire.Manifest)
	f.must(f.leave(t.Context(), f.release, m))
	for message := range slices.Chunk(f.messages(), seal.BitSize) {
		if !whole[string(message)] {
			t.Fatal("a message left twice, or none of these")
		}
		delete(whole, string(message))
	}
	if len(whole) > 0 || m.Messages != members*each {
		t.Errorf("%d messages did not leave; the manifest says %d left", len(whole), m.Messages)
	}
	f.must(f.Forget(1, 0))
	if spilt, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(spilt) > 0 {
		t.Errorf("%v is left on the disk (%v)", spilt, err)
	}
}
