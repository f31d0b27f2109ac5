package wire_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

var roundContext = seal.ReportContext{Deployment: deployment, Epoch: 2, Round: 0}

func opener(t testing.TB, keys ...*seal.HPKEKey) *seal.ReportOpener {
	t.Helper()
	o, err := seal.NewReportOpener(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestReportLengthFollowsThePlan: reports and envelopes are as long as the plan says and nothing else changes that, not
// even numbers that are zero.
func TestReportLengthFollowsThePlan(t *testing.T) {
	host, shuffler := signer(t, 2), hpkeKey(t, 5)
	keys := opener(t, shuffler)
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.IntRange(1, 400).Draw(t, "messages")
		r := wire.Report{
			Announcement: [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "announcement")),
			Epoch:        max(1, rapid.Uint64().Draw(t, "epoch")),
			Round:        rapid.Uint32Range(0, wire.MaxRounds-1).Draw(t, "round"),
			Slot:         rapid.Uint32().Draw(t, "slot"),
			Device:       rapid.Uint32().Draw(t, "device"),
			Payload:      rapid.SliceOfN(rapid.Byte(), messages*seal.BitSize, messages*seal.BitSize).Draw(t, "bits"),
		}
		data, err := wire.BuildReport(r, host)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) != wire.ReportSize(messages*seal.BitSize) {
			t.Fatalf("report of %d bytes, ReportSize %d", len(data), wire.ReportSize(messages*seal.BitSize))
		}
		copy(r.HostKey[:], host.Public())
		got, digest, err := wire.ParseReport(data, messages*seal.BitSize)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Payload, r.Payload) || digest != sha256.Sum256(data) {
			t.Fatal("report changed on its way")
		}
		got.Payload, r.Payload = nil, nil
		if got.Announcement != r.Announcement || got.Epoch != r.Epoch || got.Round != r.Round ||
			got.Slot != r.Slot || got.Device != r.Device || got.HostKey != r.HostKey {
			t.Fatalf("report changed on its way: %+v, %+v", got, r)
		}
		envelope, err := wire.SealReport(data, shuffler.Public(), roundContext)
		if err != nil {
			t.Fatal(err)
		}
		if len(envelope) != wire.EnvelopeSize(messages*seal.BitSize) {
			t.Fatalf("envelope of %d bytes, EnvelopeSize %d", len(envelope), wire.EnvelopeSize(messages*seal.BitSize))
		}
		if inside, err := wire.OpenEnvelope(envelope, keys, roundContext); err != nil || !bytes.Equal(inside, data) {
			t.Fatal("envelope", err)
		}
	})
}

func TestDamagedReportIsRefused(t *testing.T) {
	host := signer(t, 2)
	good, err := wire.BuildReport(report(), host)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := wire.ParseReport(good, 2*seal.BitSize); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 1
		if _, _, err := wire.ParseReport(b, 2*seal.BitSize); err == nil {
			t.Fatalf("opens with byte %d changed", i)
		}
	}
	for _, messages := range []int{0, -1, 1, 3, plan.MaxReportMessages + 1, 1 << 62} {
		if _, _, err := wire.ParseReport(good, messages*seal.BitSize); !errors.Is(err, wire.ErrSize) ||
			wire.Reason(err) != wire.RefusalWrongSize {
			t.Errorf("as %d messages: %v", messages, err)
		}
	}
	// forgeReport signs a changed report as its host would.
	forgeReport := func(change func(*rifflev1.Report)) []byte {
		m := new(rifflev1.Report)
		if err := proto.Unmarshal(good, m); err != nil {
			t.Fatal(err)
		}
		m.Signature = nil
		change(m)
		m.Signature = signature(seal.Report, encode(t, m), host)
		return encode(t, m)
	}
	unknown := protowire.AppendTag(nil, 1000, protowire.VarintType)
	for name, data := range map[string][]byte{
		"epoch 0":        forgeReport(func(m *rifflev1.Report) { *m.Epoch = 0 }),
		"round too high": forgeReport(func(m *rifflev1.Report) { *m.Round = wire.MaxRounds }),
		// same length, other shape: what an absent field gives away, the bits take
		"no slot": forgeReport(func(m *rifflev1.Report) {
			m.Slot = nil
			m.Payload = append(m.Payload,
				make([]byte, 5)...)
		}),
		"short digest": forgeReport(func(m *rifflev1.Report) {
			m.Announcement, m.Payload = m.Announcement[:31], append(m.Payload, 0)
		}),
		"uneven bits": forgeReport(func(m *rifflev1.Report) {
			m.Announcement = append(m.Announcement,
				0)
			m.Payload = m.Payload[1:]
		}),
		"unknown field": forgeReport(func(m *rifflev1.Report) {
			m.Payload = m.Payload[4:]
			m.ProtoReflect().SetUnknown(append(unknown, 1))
		}),
		"no signature": good[:len(good)-66],
		"other's report": func() []byte {
			b := bytes.Clone(good)
			copy(b[len(b)-66-32:],
				signer(t, 3).Public())
			return b
		}(),
	} {
		if _, _, err := wire.ParseReport(data, 2*seal.BitSize); err == nil {
			t.Errorf("%s: opens", name)
		}
	}
	for name, change := range map[string]func(*wire.Report){
		"no payload": func(r *wire.Report) { r.Payload = nil },
		"epoch 0":    func(r *wire.Report) { r.Epoch = 0 },
		"round":      func(r *wire.Report) { r.Round = wire.MaxRounds },
		"too many":   func(r *wire.Report) { r.Payload = make([]byte, (plan.MaxReportMessages+1)*seal.BitSize) },
	} {
		r := report()
		change(&r)
		if _, err := wire.BuildReport(r, host); err == nil {
			t.Errorf("builds a report with %s", name)
		}
	}
}

func TestForeignEnvelopeIsRefused(t *testing.T) {
	shuffler, old, unknown := hpkeKey(t, 5), hpkeKey(t, 6), hpkeKey(t, 7)
	keys := opener(t, shuffler, old)
	sealTo := func(k *seal.HPKEKey) []byte {
		e, err := wire.SealReport([]byte("report"), k.Public(), roundContext)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, k := range []*seal.HPKEKey{shuffler, old} {
		if got, err := wire.OpenEnvelope(sealTo(k), keys, roundContext); err != nil || string(got) != "report" {
			t.Errorf("%q, %v", got, err)
		}
	}
	good := sealTo(shuffler)
	other := roundContext
	other.Round++
	for name, c := range map[string]struct {
		envelope []byte
		context  seal.ReportContext
		reason   wire.Refusal
	}{
		"other round": {good, other, wire.RefusalUndecryptable},
		"unknown key": {sealTo(unknown), roundContext, wire.RefusalUndecryptable},
		"garbage":     {[]byte("garbage"), roundContext, wire.RefusalMalformed},
		"empty":       {nil, roundContext, wire.RefusalMalformed},
		"cut":         {good[:len(good)-1], roundContext, wire.RefusalMalformed},
		"too large":   {make([]byte, 8<<20), roundContext, wire.RefusalMalformed},
	} {
		if got, err := wire.OpenEnvelope(c.envelope, keys, c.context); err == nil || got != nil ||
			wire.Reason(err) != c.reason {
			t.Errorf("%s: %q, %v (%v), want %v", name, got, err, wire.Reason(err), c.reason)
		}
	}
}

func TestChunkOutOfRangeIsRefused(t *testing.T) {
	data, err := wire.BuildChunk(chunk())
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.ParseChunk(data)
	if err != nil || got.Epoch != 2 || got.Round != 1 || got.Index != 2 || !bytes.Equal(got.Payload, chunk().Payload) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(*wire.Chunk){
		"epoch":      func(c *wire.Chunk) { c.Epoch = 0 },
		"round":      func(c *wire.Chunk) { c.Round = wire.MaxRounds },
		"no payload": func(c *wire.Chunk) { c.Payload = nil },
		"too much":   func(c *wire.Chunk) { c.Payload = make([]byte, wire.MaxChunk+1) },
	} {
		c := chunk()
		change(&c)
		if _, err := wire.BuildChunk(c); err == nil {
			t.Errorf("builds a chunk with %s", name)
		}
		if _, err := wire.ParseChunk(encode(t,
			&rifflev1.MixedChunk{Epoch: c.Epoch, Round: c.Round, Index: c.Index, Payload: c.Payload})); err == nil {
			t.Errorf("parses a chunk with %s", name)
		}
	}
	for _, b := range [][]byte{nil, {1}, append(bytes.Clone(data), 0x28, 1),
		make([]byte, wire.MaxChunkMessages*seal.BitSize+65)} {
		if _, err := wire.ParseChunk(b); err == nil {
			t.Errorf("parses %d bytes that are no chunk", len(b))
		}
	}
}

// Of the ways to write a chunk one is read, and a number of more than 32 bits is not cut off.
func TestOneEncodingOfAChunkIsRead(t *testing.T) {
	first := chunk()
	first.Index = 0
	written, err := wire.BuildChunk(first)
	if err != nil {
		t.Fatal(err)
	}
	head, rest := []byte{0x08, 2, 0x10, 1}, written[4:] // epoch and round
	if !bytes.HasPrefix(written, head) {
		t.Fatalf("a chunk begins with % x", written[:4])
	}
	for name, with := range map[string][]byte{
		"a zero that is written out": {0x08, 2, 0x10, 1, 0x18, 0},
		"a longer form of a number":  {0x08, 0x82, 0, 0x10, 1},
		"a round of 33 bits":         {0x08, 2, 0x10, 0x81, 0x80, 0x80, 0x80, 0x10},
	} {
		if m := new(rifflev1.MixedChunk); proto.Unmarshal(slices.Concat(with, rest), m) != nil {
			t.Fatalf("%s: protobuf itself refuses it, so the case shows nothing", name)
		}
		if _, err := wire.ParseChunk(slices.Concat(with, rest)); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSetDigestsDependOnOrderAsDocumented(t *testing.T) {
	a, b := [32]byte{1}, [32]byte{2}
	in := [][32]byte{b, a}
	if wire.ReportsDigest(in) != wire.ReportsDigest([][32]byte{a, b}) || in[0] != b {
		t.Error("the reports' digest depends on their order, or changes it")
	}
	if wire.ChunksDigest(in) == wire.ChunksDigest([][32]byte{a, b}) {
		t.Error("the chunks' digest does not depend on their order")
	}
	if wire.ChunksDigest([][32]byte{a, b}) != sha256.Sum256(append(a[:], b[:]...)) {
		t.Error("the chunks' digest is not SHA-256 over the digests")
	}
	if wire.ChunkDigest([]byte("x")) != sha256.Sum256([]byte("x")) {
		t.Error("a chunk's digest is not SHA-256 of its bytes")
	}
	if wire.ReportsDigest(nil) != sha256.Sum256(nil) {
		t.Error("the empty set's digest")
	}
}

// A report that is read again must be the one that was verified: its signature is not verified a second time.
func TestReparsedReportIsTheVerifiedOne(t *testing.T) {
	host := signer(t, 2)
	data, err := wire.BuildReport(wire.Report{Epoch: 1, Payload: make([]byte, seal.BitSize)}, host)
	if err != nil {
		t.Fatal(err)
	}
	first, digest, err := wire.ParseReport(data, seal.BitSize)
	if err != nil {
		t.Fatal(err)
	}
	again, err := wire.ReparseReport(data, seal.BitSize, digest)
	if err != nil || again.HostKey != first.HostKey || again.Slot != first.Slot ||
		!bytes.Equal(again.Payload, first.Payload) {
		t.Errorf("%v %v", again, err)
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if _, err := wire.ReparseReport(changed, seal.BitSize, digest); !errors.Is(err, wire.ErrMalformed) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
}

// A report that its host signed has one layout: with any bit of it changed and signed again it is refused, or it is the
// report of other values that BuildReport makes of them.
func TestReportsHaveOneLayout(t *testing.T) {
	host := signer(t, goldenHost)
	good := accepted(t)["report"][0]
	payload := len(good) - wire.ReportSize(1) + 1
	for i := range good[:len(good)-66] {
		for bit := range 8 {
			body := bytes.Clone(good[:len(good)-66])
			body[i] ^= 1 << bit
			signed := append(body, encode(t, &rifflev1.Report{Signature: signature(seal.Report, body, host)})...)
			r, _, err := wire.ParseReport(signed, payload)
			if err != nil {
				continue
			}
			if again, err := wire.BuildReport(*r, host); err != nil || !bytes.Equal(again, signed) {
				t.Fatalf("byte %d, bit %d: taken for another report, %v", i, bit, err)
			}
		}
	}
	for _, at := range []int{len(good) - 66, len(good) - 65} { // what says that there is a signature
		odd := bytes.Clone(good)
		odd[at] ^= 1
		if _, _, err := wire.ParseReport(odd, payload); err == nil {
			t.Errorf("a report opens with byte %d changed", at)
		}
	}
}

// An envelope has one encoding: no other one of the same fields opens, and nothing is taken from a part of one.
func TestEnvelopesHaveOneEncoding(t *testing.T) {
	key := hpkeKey(t, goldenShuffler)
	keys := opener(t, key)
	for _, report := range [][]byte{[]byte("report"), bytes.Repeat([]byte("report"), 100)} {
		good, err := wire.SealReport(report, key.Public(), roundContext)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := wire.OpenEnvelope(good, keys, roundContext); err != nil || !bytes.Equal(got, report) {
			t.Fatalf("%q, %v", got, err)
		}
		const ciphertext = 2 + 32 + 2 + 32
		length, n := protowire.ConsumeVarint(good[ciphertext+1:])
		longer := append(bytes.Clone(good[:ciphertext+1]), 0x80|byte(length), 0x80|byte(length>>7), 0)
		for name, odd := range map[string][]byte{
			"a longer form of the length": append(longer, good[ciphertext+1+n:]...),
			"something behind it":         append(bytes.Clone(good), 0x1a, 0),
			"a byte behind it":            append(bytes.Clone(good), 0),
			"an unknown field":            append(bytes.Clone(good), 0x20, 1),
			"another order":               append(bytes.Clone(good[34:]), good[:34]...),
			"no ciphertext":               good[:ciphertext],
			"an empty ciphertext":         append(bytes.Clone(good[:ciphertext]), 0x1a, 0),
			"no key":                      good[34:],
			"nothing":                     nil,
		} {
			if _, err := wire.OpenEnvelope(odd, keys, roundContext); err == nil {
				t.Errorf("%s: it opens", name)
			}
		}
		for i := range good {
			if _, err := wire.OpenEnvelope(good[:i], keys, roundContext); err == nil {
				t.Errorf("the first %d bytes open", i)
			}
			odd := bytes.Clone(good)
			for bit := range 8 {
				odd[i] ^= 1 << bit
				if _, err := wire.OpenEnvelope(odd, keys, roundContext); err == nil {
					t.Errorf("with bit %d of byte %d changed it opens", bit, i)
				}
				odd[i] ^= 1 << bit
			}
		}
	}
}
