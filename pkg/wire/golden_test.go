package wire_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
	"google.golang.org/protobuf/proto"
)

var update = flag.Bool("update", false, "write the golden vectors anew; a changed vector is a changed wire format")

// Keys of the golden vectors: Ed25519 seeds and X25519 private keys of 32 equal bytes.
const (
	goldenSigner   = 1
	goldenHost     = 2
	goldenRegistry = 3
	goldenShuffler = 5
)

// openers opens each format's bytes; the digest is what other messages name them by.
func openers(t testing.TB) map[string]func([]byte) ([32]byte, error) {
	from, registrar := party(signer(t, goldenSigner)), party(signer(t, goldenRegistry))
	return map[string]func([]byte) ([32]byte, error){
		"announcement": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[plan.Announcement](b, from)
			return d, err
		},
		"keyset":   func(b []byte) ([32]byte, error) { _, d, err := wire.Open[wire.KeySet](b, from); return d, err },
		"manifest": func(b []byte) ([32]byte, error) { _, d, err := wire.Open[wire.Manifest](b, from); return d, err },
		"counts":   func(b []byte) ([32]byte, error) { _, d, err := wire.Open[wire.Counts](b, from); return d, err },
		"accepted": func(b []byte) ([32]byte, error) { _, d, err := wire.Open[wire.Accepted](b, from); return d, err },
		"summed":   func(b []byte) ([32]byte, error) { _, d, err := wire.Open[wire.Summed](b, from); return d, err },
		"configuration": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[wire.Configuration](b, from)
			return d, err
		},
		"learned": func(b []byte) ([32]byte, error) { _, d, err := wire.Open[wire.Learned](b, from); return d, err },
		"audited-manifest": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[wire.Manifest](b, from)
			return d, err
		},
		"panel-announcement": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[plan.Announcement](b, from)
			return d, err
		},
		"pool": func(b []byte) ([32]byte, error) { _, d, err := wire.Open[wire.Pool](b, from); return d, err },
		"draw": func(b []byte) ([32]byte, error) { _, d, err := wire.Open[wire.Draw](b, from); return d, err },
		"registration": func(b []byte) ([32]byte, error) {
			e, err := wire.OpenEnrolRequest(b, registrar)
			return e.Digest, err
		},
		"enrol-requests": func(b []byte) ([32]byte, error) {
			e, err := wire.OpenEnrolRequest(b, registrar)
			return e.Digest, err
		},
		"nonced-request": func(b []byte) ([32]byte, error) {
			e, err := wire.OpenEnrolRequest(b, registrar)
			return e.Digest, err
		},
		"enrol-replies": func(b []byte) ([32]byte, error) {
			m, err := wire.OpenEnrolReply(b, from.Key, [32]byte(digestOf(7)))
			if err != nil {
				return [32]byte{}, err
			}
			return [32]byte(m.Request), nil
		},
		"panel-reply": func(b []byte) ([32]byte, error) {
			m, err := wire.OpenEnrolReply(b, from.Key, [32]byte(digestOf(7)))
			if err != nil {
				return [32]byte{}, err
			}
			return wire.Digest(m)
		},
		"lasting-configuration": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[wire.Configuration](b, from)
			return d, err
		},
		"compared-learned": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[wire.Learned](b, from)
			return d, err
		},
		"credential": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[wire.Credential](b, registrar)
			return d, err
		},
		"enrol-request": func(b []byte) ([32]byte, error) {
			e, err := wire.OpenEnrolRequest(b, registrar)
			return e.Digest, err
		},
		"enrol-reply": func(b []byte) ([32]byte, error) {
			m, err := wire.OpenEnrolReply(b, from.Key, [32]byte(digestOf(7)))
			if err != nil {
				return [32]byte{}, err
			}
			return wire.Digest(m)
		},
		"report": func(b []byte) ([32]byte, error) { _, d, err := wire.ParseReport(b, 2*seal.BitSize); return d, err },
		"chunk":  func(b []byte) ([32]byte, error) { _, err := wire.ParseChunk(b); return wire.ChunkDigest(b), err },
	}
}

// accepted are the golden messages by format; each is a function of the fixtures alone.
func accepted(t testing.TB) map[string][][]byte {
	by, host, registrar := signer(t, goldenSigner), signer(t, goldenHost), signer(t, goldenRegistry)
	sign := func(id *seal.Identity, m proto.Message) []byte {
		signed, _, err := wire.SignMessage(m, id)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	must := func(b []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	replaced := credential(t, host) // of a host whose key was replaced
	replaced.FirstKey = digestOf(4)
	return map[string][][]byte{
		"announcement": {sign(by, announcement(t)), sign(by, finalAnnouncement(t)),
			sign(by, curatedAnnouncement(t))},
		"keyset":        {sign(by, keySet(t))},
		"manifest":      {sign(by, manifest()), sign(by, destroyedManifest())},
		"counts":        {sign(by, counts()), sign(by, curatedCounts())},
		"accepted":      {sign(by, acceptedSet())},
		"summed":        {sign(by, summed())},
		"credential":    {sign(registrar, credential(t, host)), sign(registrar, replaced)},
		"enrol-request": {sign(host, enrolRequest(t, host, registrar))},
		"enrol-reply":   {sign(by, enrolReply()), sign(by, refusal())},
		"report":        {must(wire.BuildReport(report(), host))},
		"chunk":         {must(wire.BuildChunk(chunk()))},

		"configuration":    {sign(by, configuration(t))},
		"learned":          {sign(by, learned()), sign(by, destroyedLearned())},
		"audited-manifest": {sign(by, auditedManifest())},

		"panel-announcement":    {sign(by, panelAnnouncement(t))},
		"pool":                  {sign(by, pool())},
		"draw":                  {sign(by, draw())},
		"registration":          {sign(host, registration(t, host, registrar))},
		"panel-reply":           {sign(by, drawnReply(t, by)), sign(by, undrawnReply(t, by))},
		"enrol-requests":        {sign(host, enrolRequests(t, host, registrar))},
		"enrol-replies":         {sign(by, enrolReplies())},
		"nonced-request":        {sign(host, noncedRequest(t, host, registrar))},
		"lasting-configuration": {sign(by, lastingConfiguration(t))},
		"compared-learned":      {sign(by, comparedLearned())},
	}
}

// refused are messages that must never be accepted, by format.
func refused(t testing.TB) map[string][][]byte {
	by, host, registrar := signer(t, goldenSigner), signer(t, goldenHost), signer(t, goldenRegistry)
	out := map[string][][]byte{}
	add := func(format string, b []byte) { out[format] = append(out[format], b) }
	for format, messages := range accepted(t) { // damaged in ways that every format must notice
		good := messages[0]
		tampered := bytes.Clone(good)
		tampered[len(tampered)-1] ^= 1
		if format != "chunk" { // a chunk carries no authentication of its own
			add(format, tampered)
		}
		add(format, good[:len(good)-1])
		add(format, append(bytes.Clone(good), 0xc0, 0x3e, 1)) // field 1000
		add(format, append(bytes.Clone(good), 0))
	}
	add("announcement", forge(t, seal.Announcement, announcement(t), host)) // signed by another party
	add("announcement", forge(t, seal.Manifest, announcement(t), by))       // signed as another kind
	for _, change := range []func(*rifflev1.Announcement){
		func(a *rifflev1.Announcement) { a.Deployment = "other" },
		func(a *rifflev1.Announcement) { a.Plan.Rounds[0].Releases[0].NoiseBits = 0 },
		func(a *rifflev1.Announcement) { a.Plan.Rounds[0].Releases[0].Shift = math.NaN() },
		func(a *rifflev1.Announcement) { a.Policy.Theta[0] = math.Inf(1) },
		func(a *rifflev1.Announcement) { a.Policy.Theta[0] = 4 },
		func(a *rifflev1.Announcement) { a.Cohort.Minimum = 0 },
		func(a *rifflev1.Announcement) { a.Cohort.MaxDishonest = 100 },
		func(a *rifflev1.Announcement) { a.Encodings = a.Encodings[:1] },
		func(a *rifflev1.Announcement) { a.AnalyzerKey = make([]byte, 32) },
	} {
		a := announcement(t)
		change(a)
		add("announcement", forge(t, seal.Announcement, a, by))
	}
	for _, change := range []func(*rifflev1.Announcement){
		func(a *rifflev1.Announcement) { a.Plan.Curator = nil },
		func(a *rifflev1.Announcement) { a.Plan.Channel = rifflev1.Channel_CHANNEL_SHUFFLE },
		func(a *rifflev1.Announcement) { a.Plan.Curator.OtherNoise = math.Inf(1) },
		func(a *rifflev1.Announcement) { a.Policy.Criterion = nil },
	} {
		a := curatedAnnouncement(t)
		change(a)
		add("announcement", forge(t, seal.Announcement, a, by))
	}
	unknown := announcement(t) // a field of the plan that the schema does not have
	unknown.Plan.ProtoReflect().SetUnknown([]byte{11 << 3, 1})
	add("announcement", forge(t, seal.Announcement, unknown, by))
	both := curatedCounts()
	both.Releases[0].Ones = []uint64{1}
	add("counts", forge(t, seal.Counts, both, by))
	m := manifest()
	m.Messages++
	add("manifest", forge(t, seal.Manifest, m, by))
	rootless := manifest()
	rootless.MessagesRoot = nil
	add("manifest", forge(t, seal.Manifest, rootless, by))
	k := keySet(t)
	k.Keys[1] = make([]byte, 32)
	add("keyset", forge(t, seal.KeySet, k, by))
	c := counts()
	c.Destroyed = true
	add("counts", forge(t, seal.Counts, c, by))
	empty := summed()
	empty.Reports = 0
	add("summed", forge(t, seal.Summed, empty, by))
	add("summed", forge(t, seal.Accepted, acceptedSet(), by)) // the other server's
	cred := credential(t, host)
	cred.Devices = 0
	add("credential", forge(t, seal.Credential, cred, registrar))
	cred = credential(t, host)
	cred.FirstKey = cred.HostKey
	add("credential", forge(t, seal.Credential, cred, registrar))
	r := enrolRequest(t, host, registrar)
	r.Device = 10
	add("enrol-request", forge(t, seal.EnrolRequest, r, host))
	reply := enrolReply()
	reply.Refusal = rifflev1.Refusal_REFUSAL_LATE
	add("enrol-reply", forge(t, seal.EnrolReply, reply, by))
	add("chunk", encode(t, &rifflev1.MixedChunk{Epoch: 1}))
	conf := configuration(t)
	conf.Terms = append([]byte(" "), conf.Terms...)
	add("configuration", forge(t, seal.Configuration, conf, by))
	add("configuration", forge(t, seal.Configuration, configuration(t), host))
	l := learned()
	l.Sums[0].Values[0] = math.NaN()
	add("learned", forge(t, seal.Learned, l, by))
	add("learned", forge(t, seal.Counts, learned(), by))
	twice := auditedManifest()
	twice.Refused[1].Reason = twice.Refused[0].Reason
	add("audited-manifest", forge(t, seal.Manifest, twice, by))
	more := auditedManifest()
	more.Refused[1].TakenOut = 6
	add("audited-manifest", forge(t, seal.Manifest, more, by))
	refusedOfPanels(t, add)
	for _, further := range [][]uint32{{4, 4}, {3}, {5, 4}, {10}, make([]uint32, 64)} {
		several := enrolRequests(t, host, registrar)
		several.Further = further
		add("enrol-requests", forge(t, seal.EnrolRequest, several, host))
	}
	several := registration(t, host, registrar)
	several.Further = []uint32{4}
	add("enrol-requests", forge(t, seal.EnrolRequest, several, host))
	few := noncedRequest(t, host, registrar)
	few.Nonces = few.Nonces[1:]
	add("nonced-request", forge(t, seal.EnrolRequest, few, host))
	none := noncedRequest(t, host, registrar)
	none.Nonces[1] = 0
	add("nonced-request", forge(t, seal.EnrolRequest, none, host))
	for _, change := range []func(*rifflev1.EnrolReply){
		func(r *rifflev1.EnrolReply) { r.Further[0].Refusal = rifflev1.Refusal_REFUSAL_LATE },
		func(r *rifflev1.EnrolReply) { r.Further[1].Refusal = 0 },
		func(r *rifflev1.EnrolReply) { r.Further[1].Slot = 1 },
		func(r *rifflev1.EnrolReply) { r.Pool, r.Draw = []byte{1}, []byte{1} },
		func(r *rifflev1.EnrolReply) { r.Further = append(r.Further, make([]*rifflev1.FurtherReply, 62)...) },
	} {
		replies := enrolReplies()
		change(replies)
		add("enrol-replies", forge(t, seal.EnrolReply, replies, by))
	}
	return out
}

// refusedOfPanels adds the messages of panels that must never be accepted.
func refusedOfPanels(t testing.TB, add func(format string, b []byte)) {
	by, host, registrar := signer(t, goldenSigner), signer(t, goldenHost), signer(t, goldenRegistry)
	for _, change := range []func(*rifflev1.Announcement){
		func(a *rifflev1.Announcement) { a.Commitment = nil },
		func(a *rifflev1.Announcement) { a.Plan.Panel = nil },
		func(a *rifflev1.Announcement) { a.Plan.Panel.Registered = 0 },
		func(a *rifflev1.Announcement) { a.Plan.Panel.Dishonest = 1 },
		func(a *rifflev1.Announcement) { a.Plan.Panel.Tail = a.Plan.Delta },
		func(a *rifflev1.Announcement) { a.Plan.Decisions = 0 },
		func(a *rifflev1.Announcement) { a.Plan.Records = 0 },
		func(a *rifflev1.Announcement) { a.Plan.Period = 3 },
		func(a *rifflev1.Announcement) { a.Policy.Control = 1 },
		func(a *rifflev1.Announcement) { a.Policy.Caution = math.Inf(1) },
	} {
		a := panelAnnouncement(t)
		change(a)
		add("panel-announcement", forge(t, seal.Announcement, a, by))
	}
	add("pool", forge(t, seal.Pool, pool(), host))
	add("pool", forge(t, seal.Draw, pool(), by))
	nobody := pool()
	nobody.Registered = 0
	add("pool", forge(t, seal.Pool, nobody, by))
	add("draw", forge(t, seal.Pool, draw(), by))
	short := draw()
	short.Contribution = short.Contribution[:31]
	add("draw", forge(t, seal.Draw, short, by))
	r := registration(t, host, registrar)
	r.Announcement = digestOf(2)
	add("registration", forge(t, seal.EnrolRequest, r, host))
	full := undrawnReply(t, by)
	full.Refusal = rifflev1.Refusal_REFUSAL_NOT_REGISTERED
	add("panel-reply", forge(t, seal.EnrolReply, full, by))
	half := drawnReply(t, by)
	half.Draw = nil
	add("panel-reply", forge(t, seal.EnrolReply, half, by))
	c := lastingConfiguration(t)
	c.Rules = []byte(`{}`)
	add("lasting-configuration", forge(t, seal.Configuration, c, by))
	for _, change := range []func(*rifflev1.Learned){
		func(l *rifflev1.Learned) { l.Lift.High = l.Lift.Low - 1 },
		func(l *rifflev1.Learned) { l.Total.Treated = math.NaN() },
		func(l *rifflev1.Learned) { l.Unchanged = 1.5 },
		func(l *rifflev1.Learned) { l.Action = "pause" },
	} {
		l := comparedLearned()
		change(l)
		add("compared-learned", forge(t, seal.Learned, l, by))
	}
}

// formats is the order in the file.
var formats = []string{"announcement", "keyset", "manifest", "counts", "credential", "enrol-request",
	"enrol-reply", "report", "chunk", "accepted", "summed", "configuration", "learned", "audited-manifest",
	"panel-announcement", "pool", "draw", "registration", "panel-reply", "lasting-configuration", "compared-learned",
	"enrol-requests", "enrol-replies", "nonced-request"}

const goldenFile = "testdata/wire.golden"

// TestGoldenVectorsAreUnchanged compares every format with stored bytes: a change of one breaks the other side. Lines
// are "ok format digest bytes" or "no format reason bytes".
func TestGoldenVectorsAreUnchanged(t *testing.T) {
	var b bytes.Buffer
	fmt.Fprintln(&b,
		"# riffle.v1 on the wire. ok format digest bytes | no format refusal bytes (must be refused). "+
			"Keys: golden_test.go.")
	open, good, bad := openers(t), accepted(t), refused(t)
	for _, format := range formats {
		for i, data := range good[format] {
			digest, err := open[format](data)
			if err != nil {
				t.Errorf("%s %d: %v", format, i, err)
			}
			fmt.Fprintf(&b, "ok %s %x %x\n", format, digest, data)
		}
		for i, data := range bad[format] {
			_, err := open[format](data)
			if err == nil {
				t.Errorf("%s: bad vector %d is accepted", format, i)
			}
			fmt.Fprintf(&b, "no %s %s %x\n", format, strings.ToUpper(wire.Reason(err).String()), data)
		}
	}
	if *update {
		if err := os.WriteFile(goldenFile, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	want, got := strings.Split(string(stored), "\n"), strings.Split(b.String(), "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("line %d differs from the stored vector", i+1)
		}
	}
}

// TestGoldenEnvelopeOpens opens a stored envelope around the golden report: line 1 is the envelope, sealed to the
// X25519 key of 32 bytes 5.
func TestGoldenEnvelopeOpens(t *testing.T) {
	const file = "testdata/envelope.golden"
	want := accepted(t)["report"][0]
	if *update {
		envelope, err := wire.SealReport(want, hpkeKey(t, goldenShuffler).Public(), roundContext)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(hex.EncodeToString(envelope)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.OpenEnvelope(envelope, opener(t, hpkeKey(t, goldenShuffler)), roundContext)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, %v", got, err)
	}
}
