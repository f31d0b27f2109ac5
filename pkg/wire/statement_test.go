package wire_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func roundTrip(t *testing.T, kind seal.Kind, m proto.Message) {
	t.Helper()
	id := signer(t, 1)
	signed, digest, err := wire.SignMessage(m, id)
	if err != nil {
		t.Fatalf("%T: %v", m, err)
	}
	got, digest2, err := wire.OpenMessage(kind, signed, party(id))
	if err != nil {
		t.Fatalf("%T: %v", m, err)
	}
	if !proto.Equal(got, m) || digest != digest2 {
		t.Errorf("%T changed on its way", m)
	}
	if d := seal.Digest(kind, encode(t, m)); d != digest {
		t.Errorf("%T: digest %x", m, d)
	}
	for i := range signed { // whatever byte is changed, it does not open
		b := bytes.Clone(signed)
		b[i] ^= 0x10
		if _, _, err := wire.OpenMessage(kind, b, party(id)); err == nil {
			t.Fatalf("%T opens with byte %d changed", m, i)
		}
	}
	for n := range len(signed) {
		if _, _, err := wire.OpenMessage(kind, signed[:n], party(id)); err == nil {
			t.Fatalf("%T opens when cut to %d bytes", m, n)
		}
	}
}

func TestStatementsRoundTrip(t *testing.T) {
	roundTrip(t, seal.Announcement, announcement(t))
	roundTrip(t, seal.Announcement, finalAnnouncement(t))
	roundTrip(t, seal.KeySet, keySet(t))
	roundTrip(t, seal.Manifest, manifest())
	roundTrip(t, seal.Manifest, destroyedManifest())
	roundTrip(t, seal.Counts, counts())
	roundTrip(t, seal.Counts,
		&rifflev1.Counts{Deployment: deployment, Epoch: 1, Announcement: digestOf(1), Manifest: digestOf(2),
			Reports: 3, Destroyed: true})
	roundTrip(t, seal.Credential, credential(t, signer(t, 2)))
}

func TestStatementOfAnotherPartyIsRefused(t *testing.T) {
	id, other := signer(t, 1), signer(t, 2)
	signed, _, err := wire.SignMessage(manifest(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		signed []byte
		from   wire.Party
		want   error
		reason wire.Refusal
	}{
		{"other signer", signed, party(other), wire.ErrSigner, wire.RefusalBadSignature},
		{"no key expected", signed, wire.Party{Deployment: deployment}, wire.ErrSigner, wire.RefusalBadSignature},
		{"other deployment", signed, wire.Party{Deployment: "other", Key: id.Public()}, wire.ErrDeployment,
			wire.RefusalWrongDeployment},
		{"another kind's signature", forge(t, seal.Counts, manifest(), id), party(id), wire.ErrSignature,
			wire.RefusalBadSignature},
		{"other's signature under this key", func() []byte {
			s := forgeSigned(t, seal.Manifest, manifest(), other)
			s.Key = id.Public()
			return encode(t, s)
		}(), party(id), wire.ErrSignature, wire.RefusalBadSignature},
		{"empty", nil, party(id), wire.ErrMalformed, wire.RefusalMalformed},
		{"garbage", []byte("garbage"), party(id), wire.ErrMalformed, wire.RefusalMalformed},
		{"too large", make([]byte, wire.MaxEnrolment+1), party(id), wire.ErrTooLarge, wire.RefusalMalformed},
	} {
		got, digest, err := wire.Open[wire.Manifest](c.signed, c.from)
		if !errors.Is(err, c.want) || wire.Reason(err) != c.reason {
			t.Errorf("%s: %v (%v), want %v (%v)", c.name, err, wire.Reason(err), c.want, c.reason)
		}
		if got != nil || digest != [32]byte{} {
			t.Errorf("%s: something is returned", c.name)
		}
	}
	if wire.Reason(nil) != wire.NoRefusal {
		t.Error("a reason for no error")
	}
}

// TestOneEncodingOfAMessageOpens: of all the ways to write a message that protobuf allows, one opens.
func TestOneEncodingOfAMessageOpens(t *testing.T) {
	id := signer(t, 1)
	body := encode(t, manifest())
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
	// field 3, round, is zero in the manifest: written out it is the same message
	zero := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 0)
	// field 2, epoch, again: the last one counts
	again := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 2)
	nested := announcement(t)
	nested.Cohort.ProtoReflect().SetUnknown(unknown)
	long := func() []byte { // the first field's length in two bytes instead of one
		tag, length := body[0], body[1]
		return append([]byte{tag, length | 0x80, 0}, body[2:]...)
	}()
	for name, b := range map[string][]byte{
		"unknown field": append(bytes.Clone(body), unknown...),
		"zero field":    append(bytes.Clone(body), zero...),
		"field twice":   append(bytes.Clone(body), again...),
		"order":         append(bytes.Clone(again), bytes.Replace(body, again, nil, 1)...),
		"long varint":   long,
	} {
		if m := new(rifflev1.Manifest); proto.Unmarshal(b, m) != nil {
			t.Fatalf("%s: protobuf itself refuses it, so the case shows nothing", name)
		}
		signed := encode(t, &rifflev1.Signed{Body: b, Key: id.Public(), Signature: signature(seal.Manifest, b, id)})
		if _, _, err := wire.Open[wire.Manifest](signed, party(id)); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := wire.Open[plan.Announcement](forge(t, seal.Announcement, nested, id),
		party(id)); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("unknown field inside: %v", err)
	}
	outer := append(forge(t, seal.Manifest, manifest(), id), unknown...)
	if _, _, err := wire.Open[wire.Manifest](outer, party(id)); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("unknown field outside: %v", err)
	}
}

// An empty message in place of an absent one, and the reverse, would be the same statement in other bytes.
func TestEmptyMessageIsNotAnAbsentOne(t *testing.T) {
	id := signer(t, 1)
	type a = rifflev1.Announcement
	oneRound := announcement(t)
	oneRound.Plan.Rounds = oneRound.Plan.Rounds[:1]
	for name, c := range map[string]struct {
		of     *a
		change func(*a)
	}{
		"no timing":           {oneRound, func(m *a) { m.Timing = nil }},
		"final, empty cohort": {finalAnnouncement(t), func(m *a) { m.Cohort = new(rifflev1.Cohort) }},
		"final, empty timing": {finalAnnouncement(t), func(m *a) { m.Timing = new(rifflev1.Timing) }},
		"final, unknown field": {finalAnnouncement(t),
			func(m *a) { m.ProtoReflect().SetUnknown([]byte{0xc0, 0x3e, 1}) }},
	} {
		if _, _, err := wire.Open[plan.Announcement](forge(t, seal.Announcement, c.of, id), party(id)); err != nil {
			t.Fatalf("%s: unchanged: %v", name, err)
		}
		c.change(c.of)
		_, _, err := wire.Open[plan.Announcement](forge(t, seal.Announcement, c.of, id), party(id))
		if !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReportMessagesCountLevelsAndNoise(t *testing.T) {
	a := opened(t)
	if n, want := a.ReportMessages(), 3*(7+2)+2*(7+3); n != want {
		t.Errorf("%d, want %d", n, want)
	}
	for i, e := range a.Encodings {
		if r := a.Plan.Rounds[0].Releases[i]; e.NoiseBits != r.NoiseBits || e.Bias != r.Bias {
			t.Errorf("encoding %d has other noise than its release", i)
		}
	}
}

func TestRandomBytesAreRefusedWithAReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data")
		_, _, err := wire.Open[wire.Counts](data, wire.Party{Deployment: deployment, Key: make([]byte, 32)})
		if err == nil || wire.Reason(err) == wire.NoRefusal {
			t.Fatal("random bytes open, or are refused without a reason")
		}
	})
}

// A length that no bytes follow is refused, however large it is, before memory for so much is asked for.
func TestLengthsBeyondTheBytesAreRefused(t *testing.T) {
	id := signer(t, 1)
	for _, length := range []uint64{2, 1 << 20, 1 << 40, math.MaxInt64, 1 << 63, math.MaxUint64} {
		b := append(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.BytesType), length), 'x')
		if _, _, err := wire.Open[wire.Manifest](b, party(id)); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("length %d outside: %v", length, err)
		}
		signed := encode(t, &rifflev1.Signed{Body: b, Key: id.Public(), Signature: signature(seal.Manifest, b, id)})
		if _, _, err := wire.Open[wire.Manifest](signed, party(id)); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("length %d inside: %v", length, err)
		}
	}
}
