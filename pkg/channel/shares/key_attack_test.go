package shares

import (
	"bytes"
	"slices"
	"testing"

	"github.com/cloudflare/circl/vdaf/prio3/arith/fp128"
	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The wires of the gadget that an attacker looks at carry, for each chunk of a report, an element less one, and a
// random seed. A preparation share of the leader is one point of the polynomial through them. With a second point, the
// seed cancels, and what is left is a sum over known numbers that tells which elements are one.
//
// This runs against circl's calls, without the guards of this package: it shows what they are for.
func TestTwoPreparationSharesOfOneReportUnderTwoKeysGiveEveryBit(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	r, commitment := f.round, f.secret.Commitment()
	entries := []uint64{19, 0, 31, 6, 13}
	vdaf := must(r.vdaf(commitment))
	params := vdaf.Params()
	var drawn [128]byte
	random(1)(drawn[:])
	nonce := sumvec.Nonce{7}
	public, split, err := vdaf.Shard(entries, &nonce, drawn[:])
	if err != nil {
		t.Fatal(err)
	}
	p := uint(1)
	for p < params.JointRandLength()+1 {
		p *= 2
	}
	var root fp128.Fp
	root.SetRootOfUnityTwoN(uint(len64(p) - 1))

	// What the analyzer has: the leader's preparation share under each key, and its own share of the report.
	points := [2]fp128.Vec{}  // one value for each wire
	weights := [2]fp128.Vec{} // how much the polynomial's value at each root of unity counts at the point
	for i, key := range []sumvec.VerifyKey{{1}, {2}} {
		_, theirs, err := vdaf.PrepInit(&key, &nonce, leader, public, split[leader])
		if err != nil {
			t.Fatal(err)
		}
		_, own, err := vdaf.PrepInit(&key, &nonce, helper, public, split[helper])
		if err != nil {
			t.Fatal(err)
		}
		points[i] = verifier(theirs, r)
		points[i].AddAssign(verifier(own, r))
		points[i] = points[i][1 : 1+2*r.chunk]
		at := deriveElements(r.context(commitment), useQuery, key[:], append([]byte{1}, nonce[:]...), 1)[0]
		weights[i] = lagrange(at, root, p)
	}
	found := make([]uint64, r.entries)
	for j := range r.chunk {
		wire := 2*j + 1 // the element less one
		bits, ok := searchBits([2]fp128.Fp{points[0][wire], points[1][wire]}, weights, params.JointRandLength(),
			func(call uint) bool { return call*r.chunk+j < r.entries*r.bits })
		if !ok {
			t.Fatalf("no bits explain wire %d", wire)
		}
		for call := range params.JointRandLength() {
			if element := call*r.chunk + j; element < r.entries*r.bits && bits>>call&1 == 1 {
				found[element/r.bits] |= 1 << (element % r.bits)
			}
		}
	}
	if !slices.Equal(found, entries) {
		t.Errorf("the attack finds %v; the report holds %v", found, entries)
	}
}

func len64(n uint) (bits int) {
	for ; n > 0; n /= 2 {
		bits++
	}
	return bits
}

// verifier is the vector of a preparation share.
func verifier(s *sumvec.PrepShare, r *Round) fp128.Vec {
	b := must(s.MarshalBinary())
	v := make(fp128.Vec, 2*r.chunk+2)
	if err := v.UnmarshalBinary(b[:16*len(v)]); err != nil {
		panic(err)
	}
	return v
}

// lagrange is the value at a point of each of the polynomials of degree below p that are one at one power of the root
// of unity and zero at the others: (at^p - 1) root^k / (p (at - root^k)).
func lagrange(at, root fp128.Fp, p uint) fp128.Vec {
	v := make(fp128.Vec, p)
	var one, scale, power fp128.Fp
	one.SetOne()
	scale = at
	for range len64(p) - 1 {
		scale.Sqr(&scale)
	}
	scale.SubAssign(&one)
	var inverse fp128.Fp
	inverse.InvTwoN(uint(len64(p) - 1))
	scale.MulAssign(&inverse)
	power.SetOne()
	for k := range v {
		var below fp128.Fp
		below.Sub(&at, &power)
		below.Inv(&below)
		v[k].Mul(&scale, &power)
		v[k].MulAssign(&below)
		power.MulAssign(&root)
	}
	return v
}

// searchBits tries all bits of one wire until both points fit the same seed. Where there is no element, the wire
// carries 0 - 1.
func searchBits(points [2]fp128.Fp, weights [2]fp128.Vec, calls uint, there func(call uint) bool) (uint, bool) {
	var one fp128.Fp
	one.SetOne()
	for bits := range uint(1) << calls {
		var seeds [2]fp128.Fp
		for i := range seeds {
			seeds[i] = points[i]
			for call := range calls {
				if bits>>call&1 == 0 || !there(call) {
					seeds[i].AddAssign(&weights[i][call+1])
				}
			}
			var inverse fp128.Fp
			inverse.Inv(&weights[i][0])
			seeds[i].MulAssign(&inverse)
		}
		if seeds[0].IsEqual(&seeds[1]) {
			return bits, true
		}
	}
	return 0, false
}

// No second key exists for a report that this package would use: a report is bound to the commitment of its epoch's
// secret, to its announcement and to its round, and the key follows from these. The leader refuses it before there is a
// preparation share. A second attempt, also in a process that was restored, gives the same bytes.
func TestAReportIsNeverPreparedUnderASecondKey(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	payload := f.payload(1, 2, 3, 4, 5)
	first, _ := f.message(payload)
	again := must(f.round.NewLeader(NewSecret(must(seal.NewIdentity(f.shuffler.Bytes())), [32]byte{9})))
	if message, _, err := again.Prepare(nil, payload); err != nil || !bytes.Equal(message, first) {
		t.Errorf("a second preparation gives other bytes (%v)", err)
	}

	otherEpoch := NewSecret(f.shuffler, [32]byte{10})
	otherShuffler := NewSecret(must(seal.NewIdentity(bytes.Repeat([]byte{77}, 32))), [32]byte{9})
	for what, l := range map[string]*Leader{
		"the secret of another epoch":    must(f.round.NewLeader(otherEpoch)),
		"the secret of another shuffler": must(f.round.NewLeader(otherShuffler)),
		"another announcement":           must(f.another([32]byte{4}, 0).NewLeader(f.secret)),
		"another round":                  must(f.another(f.digest, 1).NewLeader(f.secret)),
	} {
		message, pending, err := l.Prepare(nil, payload)
		f.refused(what, err, wire.RefusalBadShare)
		if len(message) != 0 || pending.once != nil {
			t.Errorf("%s: something is prepared", what)
		}
	}
	// Both halves of the guard: the keys of two rounds differ as well, should a report ever fit both.
	if f.secret.key(f.round) == f.secret.key(f.another([32]byte{4}, 0)) ||
		f.secret.key(f.round) == f.secret.key(f.another(f.digest, 1)) ||
		f.secret.key(f.round) == otherEpoch.key(f.round) {
		t.Error("two rounds have one key")
	}
}
