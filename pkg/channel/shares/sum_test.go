package shares

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"github.com/cloudflare/circl/vdaf/prio3/arith/fp128"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

var _ channel.Device = (*Device)(nil)

// pass takes reports through both servers.
func (f *fixture) pass(payloads ...[]byte) {
	f.Helper()
	for _, p := range payloads {
		message, pending := f.message(p)
		v, err := f.helper.Verify(message)
		if err != nil {
			f.Fatal(err)
		}
		if err := f.helper.Add(f.helperSum, v); err != nil {
			f.Fatal(err)
		}
		if err := f.leader.Finish(f.leaderSum, pending, v.Answer[:]); err != nil {
			f.Fatal(err)
		}
	}
}

func source(n byte) protocol.Source { return rand.NewChaCha8([32]byte{n}) }

// The counts are the sums of what the devices' encodings give from the same randomness, and of both servers' noise from
// theirs: nothing is lost between the vectors and the counts, and each noise is added exactly once.
func TestTheCountsAreEncodedEntriesAndBothServersNoise(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	want := [][]uint64{make([]uint64, 3), make([]uint64, 2)}
	vectors := [][][]float64{{{0, 0, 0}, {0, 0}}, {{0.6, 0.2, 3}, {-1.5, 2}}, {{1, 0.75, 1}, {2, -2}},
		{{-1, 0, 9}, {0.1, 1}}}
	for i, v := range vectors {
		p, err := f.device.Append([]byte("before"), f.by, v, source(byte(i)))
		if err != nil || string(p[:6]) != "before" || len(p) != 6+f.device.Size() {
			t.Fatalf("%d bytes, %v", len(p), err)
		}
		f.pass(p[6:])
		src := source(byte(i))
		for r, e := range encodings {
			for j, n := range must(e.Encode(nil, v[r], src)) {
				want[r][j] += uint64(n)
			}
		}
	}
	if f.leaderSum.Reports() != 4 || f.helperSum.Reports() != 4 {
		t.Errorf("%d and %d reports", f.leaderSum.Reports(), f.helperSum.Reports())
	}
	for round := range 2 { // sums can be asked for again: the noise of the first time is not in them
		share := must(f.leaderSum.Noise(source(byte(10 + round))))
		counts, err := f.helperSum.Counts(must(f.round.ParseNoisedShare(share.Bytes())), source(20))
		if err != nil {
			t.Fatal(err)
		}
		noised := [][]uint64{append([]uint64(nil), want[0]...), append([]uint64(nil), want[1]...)}
		shuffler, analyzer := source(byte(10+round)), source(20)
		for r := range noised {
			for j := range noised[r] {
				noised[r][j] += protocol.Binomial(releases[r].ShufflerNoise, releases[r].Bias, shuffler)
				noised[r][j] += protocol.Binomial(releases[r].AnalyzerNoise, releases[r].Bias, analyzer)
			}
		}
		if !reflect.DeepEqual(counts, noised) {
			t.Errorf("counts %v, want %v", counts, noised)
		}
	}
}

// Without server noise in the plan, nothing is added.
func TestNoServerNoiseIsAddedThatThePlanDoesNotName(t *testing.T) {
	encodings, releases := wide(7, 6)
	f := newFixture(t, encodings, releases)
	f.pass(f.payload(0, 1, 63, 7, 32, 31, 2), f.payload(0, 1, 63, 7, 32, 31, 2))
	counts, err := f.helperSum.Counts(must(f.leaderSum.Noise(source(1))), source(2))
	if want := [][]uint64{{0, 2, 126, 14, 64, 62, 4}}; err != nil || !reflect.DeepEqual(counts, want) {
		t.Errorf("counts %v, %v; want %v", counts, err, want)
	}
}

// Neither share tells the sums: the shuffler's is uniformly distributed whatever the reports, as is the analyzer's. The
// check looks at the top bit of the shares of 400 single reports of the largest entries: its frequency is within 5
// standard deviations of one half (false alarm below 1e-6 for a random run; the seeds are the same in every run).
func TestOneShareLooksUniform(t *testing.T) {
	encodings, releases := wide(4, 5)
	f := newFixture(t, encodings, releases)
	f.device.random = random(9)
	ones := [2]int{}
	const n = 400
	for range n / 4 {
		f.leaderSum, f.helperSum = must(f.round.NewLeaderSum()), must(f.round.NewHelperSum())
		f.pass(f.payload(31, 31, 31, 31))
		for i, s := range []*running{&f.leaderSum.running, &f.helperSum.running} {
			b := must(s.total.MarshalBinary())
			for at := 15; at < len(b); at += 16 {
				ones[i] += int(b[at] >> 7)
			}
		}
	}
	for i, k := range ones {
		if math.Abs(float64(k)-n/2) > 5*math.Sqrt(n)/2 {
			t.Errorf("server %d: the top bit of %d shares of %d is one", i, k, n)
		}
	}
}

// Reports that were prepared by several goroutines, each with objects of its own, merge into the sums over all.
func TestSumsOfManyGoroutinesMerge(t *testing.T) {
	encodings, releases := wide(6, 4)
	f := newFixture(t, encodings, releases)
	var payloads [][]byte
	for i := range uint64(24) {
		payloads = append(payloads, f.payload(i%16, 1, 2, 3, i%7, 15))
	}
	var wg sync.WaitGroup
	type sums struct {
		leader *LeaderSum
		helper *HelperSum
	}
	parts := make([]sums, 4)
	for i := range parts {
		wg.Go(func() {
			l, h := must(f.round.NewLeader(f.secret)), must(f.round.NewHelper(f.secret, f.analyzer, f.verifier))
			parts[i] = sums{must(f.round.NewLeaderSum()), must(f.round.NewHelperSum())}
			for _, p := range payloads[6*i : 6*i+6] {
				message, pending, err := l.Prepare(nil, p)
				if err != nil {
					t.Error(err)
					return
				}
				v, err := h.Verify(message)
				if err == nil {
					err = errors.Join(h.Add(parts[i].helper, v), l.Finish(parts[i].leader, pending, v.Answer[:]))
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for range 2 { // the second time there is nothing left
		for _, p := range parts {
			if err := errors.Join(f.leaderSum.Merge(p.leader), f.helperSum.Merge(p.helper)); err != nil {
				t.Fatal(err)
			}
		}
	}
	counts, err := f.helperSum.Counts(must(f.leaderSum.Noise(source(1))), source(2))
	var first, fifth uint64
	for i := range uint64(24) {
		first, fifth = first+i%16, fifth+i%7
	}
	if want := [][]uint64{{first, 24, 48, 72, fifth, 360}}; err != nil || !reflect.DeepEqual(counts, want) ||
		f.helperSum.Reports() != 24 || f.leaderSum.Reports() != 24 {
		t.Errorf("counts %v of %d reports, %v; want %v", counts, f.helperSum.Reports(), err, want)
	}
	other := must(f.another([32]byte{8}, 0).NewLeaderSum())
	if f.leaderSum.Merge(other) == nil || f.leaderSum.Merge(f.leaderSum) == nil {
		t.Error("sums of two rounds merge, or a sum with itself")
	}
}

// An answer that is not the one to this report adds nothing, and neither does a report that was not verified.
func TestOnlyTheAnswerToAReportFinishesIt(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	message, pending := f.message(f.payload(1, 2, 3, 4, 5))
	other, _ := f.message(f.payload(1, 2, 3, 4, 5))
	v, w := must(f.helper.Verify(message)), must(f.helper.Verify(other))
	for what, c := range map[string]struct {
		pending Pending
		answer  []byte
		want    wire.Refusal
	}{
		"the answer to another report": {pending, w.Answer[:], wire.RefusalBadShare},
		"a changed answer":             {pending, change(v.Answer[:], 0), wire.RefusalBadShare},
		"a short answer":               {pending, v.Answer[:31], wire.RefusalWrongSize},
		"a long answer":                {pending, append(v.Answer[:], 0), wire.RefusalWrongSize},
		"no answer":                    {pending, nil, wire.RefusalWrongSize},
		"nothing prepared":             {Pending{}, v.Answer[:], wire.RefusalBadShare},
	} {
		f.refused(what, f.leader.Finish(f.leaderSum, c.pending, c.answer), c.want)
	}
	f.refused("the sum of another round",
		f.leader.Finish(must(f.another([32]byte{8}, 0).NewLeaderSum()), pending, v.Answer[:]), wire.RefusalBadShare)
	f.refused("a report that was not verified", f.helper.Add(f.helperSum, Verified{}), wire.RefusalBadShare)
	f.refused("the analyzer's sum of another round",
		f.helper.Add(must(f.another([32]byte{8}, 0).NewHelperSum()), v), wire.RefusalBadShare)
	if f.leaderSum.Reports() != 0 || f.helperSum.Reports() != 0 {
		t.Error("something was added")
	}
	// What belongs together is added, and no second time.
	if err := errors.Join(f.leader.Finish(f.leaderSum, pending, v.Answer[:]),
		f.helper.Add(f.helperSum, v)); err != nil {
		t.Error(err)
	}
	f.refused("a report that was finished", f.leader.Finish(f.leaderSum, pending, v.Answer[:]), wire.RefusalBadShare)
	f.refused("a report that was added", f.helper.Add(f.helperSum, v), wire.RefusalBadShare)
	if f.leaderSum.Reports() != 1 || f.helperSum.Reports() != 1 {
		t.Error("a report was added twice")
	}
}

// Shares over different sets of reports, or a share that the shuffler shifted out of range, make no counts. What lies
// above anything that devices of the encoding send is cut.
func TestSumsOutOfRangeMakeNoCounts(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	a, b := f.payload(1, 2, 3, 20, 5), f.payload(31, 31, 31, 31, 31)
	f.pass(a, b)
	share := must(f.leaderSum.Noise(source(1)))
	counts, err := f.helperSum.Counts(share, source(2))
	if err != nil {
		t.Fatal(err)
	}
	for r, e := range encodings {
		for j, n := range counts[r] {
			if n > 2*uint64(e.MessagesAt(j))+releases[r].ServerNoise() {
				t.Errorf("release %d, coordinate %d counts %d", r, j, n)
			}
		}
	}
	if want := 2*uint64(encodings[1].MessagesAt(0)) + 20; counts[1][0] != want {
		t.Errorf("31 and 20 with a noise of at most 20 are counted as %d, and cut to %d", counts[1][0], want)
	}

	shift := func(by fp128.Fp) NoisedShare {
		s := must(f.round.ParseNoisedShare(share.Bytes()))
		s.elements[0].AddAssign(&by)
		return s
	}
	exact := must(f.leaderSum.elements())
	helps := must(f.helperSum.elements())
	exact.AddAssign(helps)
	if n := must(exact[0].GetUint64()); n != 32 {
		t.Fatalf("the sum is %d", n)
	}
	for what, by := range map[string]fp128.Fp{
		"below zero":                         negative(32 + 40 + 30 + 1),
		"above what all reports could prove": number(2*31 + 40 + 30 + 1),
		"far away":                           number(1 << 63),
		"and further":                        func() fp128.Fp { x := number(1 << 63); x.MulAssign(&x); return x }(),
	} {
		if counts, err := f.helperSum.Counts(shift(by), source(2)); !errors.Is(err, ErrSum) || counts != nil {
			t.Errorf("%s: %v, %v", what, counts, err)
		}
	}
	if _, err := f.helperSum.Counts(NoisedShare{}, source(2)); !errors.Is(err, ErrSum) {
		t.Errorf("no share: %v", err)
	}
	differing := must(f.round.NewHelperSum())
	if _, err := differing.Counts(share, source(2)); !errors.Is(err, ErrSum) {
		t.Errorf("shares of different sets: %v", err)
	}
	for what, c := range map[string]struct {
		b    []byte
		want wire.Refusal
	}{
		"short":            {share.Bytes()[1:], wire.RefusalWrongSize},
		"long":             {append(share.Bytes(), 0), wire.RefusalWrongSize},
		"nothing":          {nil, wire.RefusalWrongSize},
		"not in the field": {append(share.Bytes()[16:], negative16()...), wire.RefusalBadShare},
	} {
		_, err := f.round.ParseNoisedShare(c.b)
		f.refused(what, err, c.want)
	}
}

// negative16 is the encoding of the field's order, which is no element.
func negative16() []byte {
	return []byte{1, 0, 0, 0, 0, 0, 0, 0, 0xe4, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
}

// A shuffler's share can leave with its noise only: neither the sum nor what is behind it has a method that gives
// bytes.
func TestAnUnnoisedShareHasNoBytes(t *testing.T) {
	for _, v := range []any{&LeaderSum{}, &HelperSum{}, &Pending{}, Pending{}} {
		kind := reflect.TypeOf(v)
		for i := range kind.NumMethod() {
			m := kind.Method(i).Type
			for j := range m.NumOut() {
				if out := m.Out(j); out.Kind() == reflect.Slice || out.Kind() == reflect.Array ||
					out.Kind() == reflect.String {
					if name := kind.Method(i).Name; name != "Counts" {
						t.Errorf("%v.%s returns %v", kind, name, out)
					}
				}
			}
		}
		if s := kind; s.Kind() == reflect.Pointer && s.Elem().Kind() == reflect.Struct {
			for i := range s.Elem().NumField() {
				if field := s.Elem().Field(i); field.IsExported() {
					t.Errorf("%v has the exported field %s", kind, field.Name)
				}
			}
		}
	}
}
