package shares

import (
	"bytes"
	"testing"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// What one process prepared or verified, another one adds up to the same sums. It is added once, wherever that is.
func TestSharesAreHandedOver(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	here, there := must(f.round.NewLeaderSum()), must(f.round.NewLeaderSum())
	mine, theirs := must(f.round.NewHelperSum()), must(f.round.NewHelperSum())
	for n := range uint64(5) {
		message, pending := f.message(f.payload(n, 1, 2, 3, n))
		b := must(f.round.AppendPending([]byte{7}, pending))
		if len(b) != 1+f.round.PendingSize() || b[0] != 7 {
			t.Fatalf("%d bytes", len(b))
		}
		verified := must(f.helper.Verify(message))
		v := must(f.round.AppendVerified(nil, verified))
		if len(v) != f.round.VerifiedSize() {
			t.Fatalf("%d bytes", len(v))
		}
		other, again := must(f.round.ParsePending(b[1:])), must(f.round.ParseVerified(v))
		if again.Nonce != verified.Nonce || again.Participant != verified.Participant ||
			again.Answer != verified.Answer {
			t.Errorf("handed over is %v, want %v", again, verified)
		}
		for _, err := range []error{
			f.leader.Finish(here, pending, verified.Answer[:]), f.leader.Finish(there, other, again.Answer[:]),
			f.helper.Add(mine, verified), f.helper.Add(theirs, again),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		f.refused("added again", f.leader.Finish(there, other, again.Answer[:]), wire.RefusalBadShare)
		f.refused("added again", f.helper.Add(theirs, again), wire.RefusalBadShare)
		if _, err := f.round.AppendPending(nil, pending); err == nil {
			t.Error("what was added is handed over")
		}
		if _, err := f.round.AppendVerified(nil, verified); err == nil {
			t.Error("what was added is handed over")
		}
	}
	for _, sums := range [][2]*running{{&here.running, &there.running}, {&mine.running, &theirs.running}} {
		a, b := must(must(sums[0].elements()).MarshalBinary()), must(must(sums[1].elements()).MarshalBinary())
		if !bytes.Equal(a, b) || sums[0].reports != sums[1].reports {
			t.Error("the sums differ")
		}
	}
}

// An answer that is not for the report is refused after a handover as before it, and so are bytes that are no share.
func TestWhatIsHandedOverIsChecked(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	message, pending := f.message(f.payload(1, 1, 2, 3, 4))
	b := must(f.round.AppendPending(nil, pending))
	answer := must(f.helper.Verify(message)).Answer
	answer[3] ^= 1
	f.refused("another answer", f.leader.Finish(f.leaderSum, must(f.round.ParsePending(b)), answer[:]),
		wire.RefusalBadShare)
	v := must(f.round.AppendVerified(nil, must(f.helper.Verify(message))))
	large := bytes.Repeat([]byte{255}, 16)
	for name, bad := range map[string][]byte{
		"short": b[1:], "long": append(bytes.Clone(b), 0), "out of range": append(bytes.Clone(large), b[16:]...),
	} {
		_, err := f.round.ParsePending(bad)
		f.refused(name, err, wire.RefusalBadShare)
	}
	for name, bad := range map[string][]byte{
		"short": v[1:], "long": append(bytes.Clone(v), 0), "out of range": append(v[:len(v)-16:len(v)-16], large...),
	} {
		_, err := f.round.ParseVerified(bad)
		f.refused(name, err, wire.RefusalBadShare)
	}
}

// BenchmarkHandover is what the process that adds up does for one report that another one prepared or verified, beside
// what that one does.
func BenchmarkHandover(b *testing.B) {
	encodings, releases := wide(65, 9)
	f := newFixture(b, encodings, releases)
	payload := f.payload(make([]uint64, 65)...)
	message, pending := f.message(payload)
	verified := must(f.helper.Verify(message))
	p, v := must(f.round.AppendPending(nil, pending)), must(f.round.AppendVerified(nil, verified))
	for name, call := range map[string]func(){
		"leader/worker": func() { must(f.round.AppendPending(nil, second(f.message(payload)))) },
		"leader/lead": func() {
			if err := f.leader.Finish(f.leaderSum, must(f.round.ParsePending(p)), verified.Answer[:]); err != nil {
				b.Fatal(err)
			}
		},
		"helper/worker": func() { must(f.round.AppendVerified(nil, must(f.helper.Verify(message)))) },
		"helper/lead": func() {
			if err := f.helper.Add(f.helperSum, must(f.round.ParseVerified(v))); err != nil {
				b.Fatal(err)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
	b.Logf("payload %d bytes, prepare message %d, handed over %d and %d", len(payload), len(message), len(p), len(v))
}

func second[A, B any](_ A, b B) B { return b }
