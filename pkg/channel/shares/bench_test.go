package shares

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// pace is the least time of one call of each function, in turns, so that other work on the machine disturbs their
// ratios least.
func pace(rounds int, calls ...func()) []time.Duration {
	least := make([]time.Duration, len(calls))
	for round := range rounds {
		for i, call := range calls {
			begin := time.Now()
			call()
			if d := time.Since(begin); round == 0 || d < least[i] {
				least[i] = d
			}
		}
	}
	return least
}

// What a device and the servers do beside the vector sum itself costs little: sharing and preparation take at most 1.3
// times circl's own calls, and a payload at most 1/30 of the one of shuffle in the default plan, both in the same run.
// Times on a busy machine prove nothing: the test runs where
// RIFFLE_LONG is set.
func TestMeasuredCost(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("RIFFLE_LONG is not set")
	}
	for _, c := range []struct {
		coordinates int
		bits        uint
	}{{20, 4}, {20, 6}, {230, 6}} {
		encodings, releases := wide(c.coordinates, c.bits)
		f := newFixture(t, encodings, releases)
		entries, vectors := make([]uint64, c.coordinates), [][]float64{make([]float64, c.coordinates)}
		for i := range entries {
			entries[i], vectors[0][i] = uint64(i)%(1<<c.bits), float64(i)
		}
		v := must(f.round.vdaf(f.secret.Commitment()))
		drawn, nonce, key := make([]byte, 128), sumvec.Nonce{}, f.secret.key(f.round)
		random(1)(drawn)
		public, split, err := v.Shard(entries, &nonce, drawn)
		if err != nil {
			t.Fatal(err)
		}
		payload, src := f.payload(entries...), source(1)
		message, _ := f.message(payload)
		const envelope = NonceSize + publicSize + hashSize
		plain := must(f.helper.opener.Open(message[envelope:envelope+envelopeSize],
			bound(nil, message[:16], message[16:80], message[80:envelope], f.secret.Commitment())))
		own := sumvec.Nonce(message[:16])
		sealer := must(seal.NewEnvelopeSealer(f.analyzer.Public(), seal.ShareEnvelope, f.digest))
		// The default plan of shuffle sends about 150 bit messages for 20 coordinates, and the same for each further
		// one.
		bits := make([]protocol.Coordinate, c.coordinates)
		for i := range bits {
			bits[i].Levels = 6
			if i%2 == 0 {
				bits[i].Levels = 5
			}
		}
		mix := must(shuffle.NewDevice([]protocol.Encoding{{Scale: 1, NoiseBits: 2, Bias: protocol.BiasHalf,
			Coordinates: bits}},
			f.analyzer.Public(), f.digest))
		var theirs [2]sumvec.PrepShare
		m := pace(100,
			func() { // circl's sharing
				v.Shard(entries, &nonce, drawn)
			},
			func() { // ours, to the bytes of both shares
				w := must(f.round.vdaf(f.by.Commitment))
				_, s, _ := w.Shard(entries, &nonce, drawn)
				must(s[leader].MarshalBinary())
				must(s[helper].MarshalBinary())
			},
			func() { // circl's preparation, leader
				_, s, _ := v.PrepInit(&key, &nonce, leader, public, split[leader])
				theirs[leader] = *s
			},
			func() { f.leader.Prepare(nil, payload) },
			func() { // circl's preparation, helper
				state, s, _ := v.PrepInit(&key, &nonce, helper, public, split[helper])
				theirs[helper] = *s
				message, err := v.PrepSharesToPrep(theirs[:])
				if err != nil {
					panic(err)
				}
				v.PrepNext(state, message)
			},
			func() { f.helper.prepare(&own, message[16:80], plain[:helperSize], message[envelope+envelopeSize:]) },
			func() { must(f.helper.Verify(message)) }, // with envelope and proof of participation
			func() { must(f.device.Append(nil, f.by, vectors, src)) },
			func() { must(mix.Append(nil, f.by, vectors, src)) },
			func() { must(sealer.AppendSeal(nil, plain, nil)) },
			func() { must(f.by.AppendProof(nil, f.digest, message[:100])) },
			func() { must(encodings[0].Encode(nil, vectors[0], src)) },
		)
		ratio := func(a, b int) float64 { return float64(m[a]) / float64(m[b]) }
		t.Logf("%d entries of %d bits: %d bytes, beside %d of shuffle; least of 100 each:", c.coordinates, c.bits,
			len(payload), mix.Size())
		t.Logf("  sharing: circl %v, here %v (%.2f)", m[0], m[1], ratio(1, 0))
		t.Logf("  preparation, shuffler: circl %v, here %v (%.2f)", m[2], m[3], ratio(3, 2))
		t.Logf("  preparation, analyzer: circl %v, here %v (%.2f); with envelope and participation %v", m[4], m[5],
			ratio(5, 4), m[6])
		t.Logf("  both: %.2f", float64(m[3]+m[5])/float64(m[2]+m[4]))
		t.Logf("  payload: %v (encoding %v, sharing %v, envelope %v, participation %v), of shuffle %v: 1/%.1f", m[7],
			m[11],
			m[1], m[9], m[10], m[8], ratio(8, 7))
		if r := float64(m[1]+m[3]+m[5]) / float64(m[0]+m[2]+m[4]); r > 1.3 {
			t.Errorf("sharing and preparation take %.2f times circl's", r)
		}
		if r := ratio(8, 7); r < 30 && c.coordinates == 20 {
			t.Errorf("a payload costs 1/%.1f of one of shuffle", r)
		}
		if c.coordinates == 230 && m[7] > 4*time.Millisecond {
			t.Errorf("a payload of %d entries takes %v", c.coordinates, m[7])
		}
	}
}

// BenchmarkAppend is a device's payload in the default plan's size.
func BenchmarkAppend(b *testing.B) {
	encodings, releases := wide(20, 6)
	f := newFixture(b, encodings, releases)
	vectors, src, dst := [][]float64{make([]float64, 20)}, source(1), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		dst = must(f.device.Append(dst[:0], f.by, vectors, src))
	}
}

// BenchmarkPrepare is one report at both servers.
func BenchmarkPrepare(b *testing.B) {
	encodings, releases := wide(20, 6)
	f := newFixture(b, encodings, releases)
	payload := f.payload(make([]uint64, 20)...)
	message, _ := f.message(payload)
	b.Run("leader", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f.leader.Prepare(message[:0], payload)
		}
	})
	b.Run("helper", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(f.helper.Verify(message))
		}
	})
}

// BenchmarkChunk compares lengths of chunks: one report is shared and prepared by both servers.
func BenchmarkChunk(b *testing.B) {
	for _, c := range []struct{ entries, bits uint }{{20, 4}, {20, 6}, {20, 9}, {20, 12}, {230, 6}, {230, 9}} {
		n := c.entries * c.bits
		for p := uint(4); p <= 128; p *= 2 {
			chunk := (n + p - 2) / (p - 1)
			v := must(sumvec.New(2, c.entries, c.bits, chunk, nil))
			params := v.Params()
			name := fmt.Sprintf("%dx%d/chunk=%d,leader=%d,prepared=%d,chosen=%v", c.entries, c.bits, chunk,
				16*(params.MeasurementLength()+params.ProofLength())+32, 16*params.VerifierLength()+32,
				chunk == chunkLength(n))
			entries, key := make([]uint64, c.entries), sumvec.VerifyKey{}
			var nonce sumvec.Nonce
			b.Run(name+"/shard", func(b *testing.B) {
				for range b.N {
					v.Shard(entries, &nonce, make([]byte, 128))
				}
			})
			public, shares, err := v.Shard(entries, &nonce, make([]byte, 128))
			if err != nil {
				b.Fatal(err)
			}
			b.Run(name+"/prepare", func(b *testing.B) {
				for range b.N {
					for id := range uint8(2) {
						v.PrepInit(&key, &nonce, id, public, shares[id])
					}
				}
			})
		}
	}
}
