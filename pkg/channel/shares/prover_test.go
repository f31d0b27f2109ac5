package shares

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"testing"

	"github.com/cloudflare/circl/vdaf/prio3/arith/fp128"
	"github.com/cloudflare/circl/vdaf/prio3/sumvec"
)

// This file holds a second implementation of what attackers need of Prio3SumVec: circl's shares only what is valid.

// turboShake is TurboSHAKE128 with domain byte 1 (RFC 9861).
func turboShake(message []byte, length int) (out []byte) {
	const rate = 168
	m := append(slices.Clone(message), 1)
	for len(m)%rate != 0 {
		m = append(m, 0)
	}
	m[len(m)-1] ^= 0x80
	var state [25]uint64
	for ; len(m) > 0; m = m[rate:] {
		for i := range rate / 8 {
			state[i] ^= binary.LittleEndian.Uint64(m[8*i:])
		}
		keccak(&state)
	}
	for {
		for i := range rate / 8 {
			out = binary.LittleEndian.AppendUint64(out, state[i])
		}
		if len(out) >= length {
			return out[:length]
		}
		keccak(&state)
	}
}

// keccak is the permutation Keccak-p[1600] of 12 rounds (FIPS 202, section 3.3).
func keccak(a *[25]uint64) {
	for _, constant := range []uint64{
		0x000000008000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003, 0x8000000000008002,
		0x8000000000000080, 0x000000000000800a, 0x800000008000000a, 0x8000000080008081, 0x8000000000008080,
		0x0000000080000001, 0x8000000080008008,
	} {
		var c [5]uint64
		for x := range 5 {
			c[x] = a[x] ^ a[x+5] ^ a[x+10] ^ a[x+15] ^ a[x+20]
		}
		for i := range a {
			a[i] ^= c[(i+4)%5] ^ bits.RotateLeft64(c[(i+1)%5], 1)
		}
		x, y, lane := 1, 0, a[1]
		for t := range 24 {
			x, y = y, (2*x+3*y)%5
			lane, a[x+5*y] = a[x+5*y], bits.RotateLeft64(lane, (t+1)*(t+2)/2%64)
		}
		for y := 0; y < 25; y += 5 {
			row := [5]uint64(a[y : y+5])
			for x := range 5 {
				a[y+x] = row[x] ^ ^row[(x+1)%5]&row[(x+2)%5]
			}
		}
		a[0] ^= constant
	}
}

// The uses of Prio3's derivation.
const (
	useMeasurement = 1 + iota
	useProof
	useJoint
	useProve
	useQuery
	useJointSeed
	useJointPart
)

// derive is XofTurboShake128 of the draft for algorithm 3, wire version 12.
func derive(context []byte, use uint16, seed, binder []byte, length int) []byte {
	b := binary.LittleEndian.AppendUint16(nil, uint16(8+len(context)))
	b = binary.BigEndian.AppendUint32(append(b, 12, 0), 3)
	b = append(binary.BigEndian.AppendUint16(b, use), context...)
	return turboShake(append(append(append(b, 32), seed...), binder...), length)
}

// deriveElements derives field elements; a draw that is no element has probability 2^-123 and is not expected.
func deriveElements(context []byte, use uint16, seed, binder []byte, n uint) fp128.Vec {
	v := make(fp128.Vec, n)
	if err := v.UnmarshalBinary(derive(context, use, seed, binder, 16*int(n))); err != nil {
		panic(err)
	}
	return v
}

// prove is the prover of the range check: it proves whatever it is given, valid or not.
func prove(elements, seeds, joint fp128.Vec, chunk uint) fp128.Vec {
	p := uint(1)
	for p < uint(len(joint))+1 {
		p *= 2
	}
	var one, inverse fp128.Fp
	one.SetOne()
	inverse.InvTwoN(uint(bits.Len(p) - 1))
	wires := make([]fp128.Vec, 2*chunk)
	for i := range wires {
		wires[i] = make(fp128.Vec, p)
		wires[i][0] = seeds[i]
	}
	for call := range joint {
		var power fp128.Fp
		power.SetOne()
		for j := range chunk {
			var element fp128.Fp
			if at := uint(call)*chunk + j; at < uint(len(elements)) {
				element = elements[at]
			}
			power.MulAssign(&joint[call])
			wires[2*j][call+1].Mul(&power, &element)
			wires[2*j+1][call+1].Sub(&element, &one)
		}
	}
	proof := slices.Clone(seeds)
	gadget := make(fp128.Poly, 2*p-1)
	for i := range wires {
		values := wires[i]
		wires[i] = make(fp128.Vec, p)
		wires[i].InvNTT(values, p)
		wires[i].ScalarMul(&inverse)
	}
	for j := range chunk {
		product := make(fp128.Poly, 2*p-1)
		product.Mul(fp128.Poly(wires[2*j]), fp128.Poly(wires[2*j+1]))
		gadget.AddAssign(product)
	}
	return append(proof, gadget...)
}

// forge shares any field elements, as circl shares the bits of entries, with a proof that is made as for valid ones.
func forge(r *Round, commitment []byte, nonce [16]byte, drawn []byte, elements fp128.Vec) (public, first,
	second []byte) {
	context, chunk := r.context(commitment), r.chunk
	vdaf := must(r.vdaf(commitment))
	p := vdaf.Params()
	seed, helperBlind, leaderBlind, proveSeed := drawn[:32], drawn[32:64], drawn[64:96], drawn[96:128]
	mask := deriveElements(context, useMeasurement, seed, []byte{1}, p.MeasurementLength())
	share := slices.Clone(elements)
	share.SubAssign(mask)
	parts := [2][]byte{}
	for i, blind := range [][]byte{leaderBlind, helperBlind} {
		of := []fp128.Vec{share, mask}[i]
		binder := append(append([]byte{byte(i)}, nonce[:]...), must(of.MarshalBinary())...)
		parts[i] = derive(context, useJointPart, blind, binder, 32)
	}
	public = slices.Concat(parts[0], parts[1])
	joint := deriveElements(context, useJoint,
		derive(context, useJointSeed, make([]byte, 32), public, 32), []byte{1}, p.JointRandLength())
	proof := prove(elements, deriveElements(context, useProve, proveSeed, []byte{1}, p.ProveRandLength()), joint, chunk)
	proof.SubAssign(deriveElements(context, useProof, seed, []byte{1, 1}, p.ProofLength()))
	first = slices.Concat(must(share.MarshalBinary()), must(proof.MarshalBinary()), leaderBlind)
	return public, first, slices.Clone(drawn[:64])
}

// elementsOf are the bits of entries as field elements.
func elementsOf(r *Round, entries []uint64) fp128.Vec {
	v := make(fp128.Vec, 0, r.entries*r.bits)
	for _, e := range entries {
		part := make(fp128.Vec, r.bits)
		if err := part.SplitBits(e); err != nil {
			panic(err)
		}
		v = append(v, part...)
	}
	return v
}

// The second implementation shares valid entries byte for byte as circl does: what attacks do with it is what circl's
// servers see.
func TestTheForgerSharesAsCirclDoes(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	entries := []uint64{1, 31, 0, 17, 8}
	var drawn [128]byte
	random(3)(drawn[:])
	nonce := sumvec.Nonce{4, 5}
	vdaf := must(f.round.vdaf(f.secret.Commitment()))
	wantPublic, split, err := vdaf.Shard(entries, &nonce, drawn[:])
	if err != nil {
		t.Fatal(err)
	}
	public, first, second := forge(f.round, f.secret.Commitment(), nonce, drawn[:], elementsOf(f.round, entries))
	if !slices.Equal(public, wantPublic) || !slices.Equal(first, must(split[leader].MarshalBinary())) ||
		!slices.Equal(second, must(split[helper].MarshalBinary())) {
		t.Error("the forger shares valid entries in another way than circl")
	}
}
