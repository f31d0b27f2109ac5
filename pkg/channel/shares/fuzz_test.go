package shares

import (
	"bytes"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/cloudflare/circl/vdaf/prio3/sumvec"

	"github.com/riffle-dp/riffle/pkg/wire"
)

func hexOf(b []byte) string                 { return hex.EncodeToString(b) }
func bytesOf(text string) ([]byte, error)   { return hex.DecodeString(text) }
func resize(b []byte, n int) (sized []byte) { return slices.Grow(slices.Clone(b), n)[:n] }

// FuzzPayload feeds any bytes to the shuffler's side, cut or filled to the right length too. Whatever has a prepare
// message is a payload whose share fits its public share; only the golden ones do, with any envelope.
func FuzzPayload(f *testing.F) {
	g, fix := goldenRound(f, readGolden(f).Payloads)
	for _, p := range g.Payloads {
		f.Add([]byte(p))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, payload := range [][]byte{data, resize(data, fix.round.PayloadSize())} {
			message, pending, err := fix.leader.Prepare([]byte("before"), payload)
			if err != nil {
				if why := wire.Reason(err); why != wire.RefusalWrongSize && why != wire.RefusalBadShare ||
					string(message) != "before" || pending.once != nil {
					t.Fatalf("%v (%v), %d bytes", err, why, len(message))
				}
				continue
			}
			if len(message) != len("before")+fix.round.PrepareMessageSize() || Nonce(message[6:]) != Nonce(payload) {
				t.Fatalf("a prepare message of %d bytes", len(message))
			}
		}
	})
}

// FuzzPrepareMessage feeds any bytes to the analyzer's side. Only the golden prepare messages verify: every byte of a
// prepare message is bound to the others.
func FuzzPrepareMessage(f *testing.F) {
	g, fix := goldenRound(f, readGolden(f).Payloads)
	for _, r := range g.Messages {
		f.Add([]byte(r))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, message := range [][]byte{data, resize(data, fix.round.PrepareMessageSize())} {
			v, err := fix.helper.Verify(message)
			known := slices.ContainsFunc(g.Messages, func(r hexadecimal) bool { return bytes.Equal(r, message) })
			if (err == nil) != known {
				t.Fatalf("golden %v, %v", known, err)
			}
			if err != nil && (wire.Reason(err) == wire.NoRefusal || v.once != nil) {
				t.Fatalf("%v: %+v", err, v)
			}
		}
	})
}

// FuzzPreparation feeds any bytes to what the analyzer does with an opened envelope, which a hostile device can fill at
// will, and with a hostile shuffler's preparation share.
func FuzzPreparation(f *testing.F) {
	g, fix := goldenRound(f, readGolden(f).Payloads)
	const fixed = NonceSize + publicSize + helperSize
	for _, message := range g.Messages {
		const envelope = NonceSize + publicSize + hashSize
		plain := must(fix.helper.opener.Open(message[envelope:envelope+envelopeSize],
			slices.Concat(message[:envelope], g.Commitment)))
		preparation := message[envelope+envelopeSize:]
		f.Add([]byte(slices.Concat(message[:NonceSize+publicSize], plain[:helperSize], preparation)))
	}
	size := fixed + fix.round.preparation
	f.Fuzz(func(t *testing.T, data []byte) {
		b := resize(data, size)
		nonce := sumvec.Nonce(b[:NonceSize])
		out, answer, err := fix.helper.prepare(&nonce, b[NonceSize:NonceSize+publicSize], b[NonceSize+publicSize:fixed],
			b[fixed:])
		if why := wire.Reason(err); err != nil && (out != nil || answer != [32]byte{} ||
			why != wire.RefusalBadShare && why != wire.RefusalBadProof) {
			t.Fatalf("%v (%v)", err, why)
		}
	})
}

// FuzzNoisedShare feeds any bytes as the shuffler's share of the sums, and any bytes as an answer.
func FuzzNoisedShare(f *testing.F) {
	g, fix := goldenRound(f, readGolden(f).Payloads)
	f.Add([]byte(g.Share))
	f.Add([]byte(g.Answers[0]))
	_, first := fix.message(g.Payloads[0])
	state := first.once
	f.Fuzz(func(t *testing.T, data []byte) {
		one := Pending{&pending{state.state}} // it is good for one report
		if err := fix.leader.Finish(fix.leaderSum, one, data); (err == nil) != bytes.Equal(data, g.Answers[0]) {
			t.Fatalf("answer %x: %v", data, err)
		}
		for _, b := range [][]byte{data, resize(data, fix.round.AggregateSize())} {
			share, err := fix.round.ParseNoisedShare(b)
			if err != nil {
				if why := wire.Reason(err); why != wire.RefusalWrongSize && why != wire.RefusalBadShare {
					t.Fatalf("%v (%v)", err, why)
				}
				continue
			}
			if !bytes.Equal(share.Bytes(), b) {
				t.Fatal("a share has other bytes than it was read from")
			}
			if counts, err := fix.helperSum.Counts(share, source(1)); (err == nil) != (len(counts) == 2) {
				t.Fatalf("%v, %v", counts, err)
			}
		}
	})
}
