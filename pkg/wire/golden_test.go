package wire_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

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
		"structured-announcement": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[plan.Announcement](b, from)
			return d, err
		},
		"tree-announcement": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[plan.Announcement](b, from)
			return d, err
		},
		"reweighted-announcement": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[plan.Announcement](b, from)
			return d, err
		},
		"question-announcement": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[plan.Announcement](b, from)
			return d, err
		},
		"play-announcement": func(b []byte) ([32]byte, error) {
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
			if _, err := wire.OpenCredential(b, registrar); err != nil {
				return [32]byte{}, err
			}
			c, err := wire.ReadCredential(b)
			if err != nil {
				return [32]byte{}, err
			}
			return wire.Digest(c)
		},
		"issuer-certificate": func(b []byte) ([32]byte, error) {
			_, d, err := wire.Open[wire.IssuerCertificate](b, registrar)
			return d, err
		},
		"issued": func(b []byte) ([32]byte, error) { _, d, err := wire.Open[wire.Issued](b, from); return d, err },
		"issued-request": func(b []byte) ([32]byte, error) {
			e, err := wire.OpenEnrolRequest(b, registrar)
			return e.Digest, err
		},
		"ticket-reply": func(b []byte) ([32]byte, error) {
			m, err := wire.OpenEnrolReply(b, from.Key, [32]byte(digestOf(7)))
			if err != nil {
				return [32]byte{}, err
			}
			return wire.Digest(m)
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
	ends := credential(t, host)
	ends.NotAfter = 7
	return map[string][][]byte{
		"announcement": {sign(by, announcement(t)), sign(by, finalAnnouncement(t)),
			sign(by, curatedAnnouncement(t)), sign(by, pairsAnnouncement(t))},
		"keyset":        {sign(by, keySet(t))},
		"manifest":      {sign(by, manifest()), sign(by, destroyedManifest())},
		"counts":        {sign(by, counts()), sign(by, curatedCounts()), sign(by, pairsCounts())},
		"accepted":      {sign(by, acceptedSet())},
		"summed":        {sign(by, summed())},
		"credential":    {sign(registrar, credential(t, host)), sign(registrar, ends)},
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

		"structured-announcement": {sign(by, structuredAnnouncement(t))},
		"reweighted-announcement": {sign(by, reweightedAnnouncement(t)), sign(by, clippedAnnouncement(t))},
		"play-announcement": {sign(by, sampledAnnouncement(t)), sign(by, optimisticAnnouncement(t)),
			sign(by, spannerAnnouncement(t)), sign(by, inverseGapAnnouncement(t))},
		"question-announcement": {sign(by, meanAnnouncement(t)), sign(by, histogramAnnouncement(t)),
			sign(by, fitAnnouncement(t))},
		"tree-announcement": {sign(by, treeAnnouncement(t)), sign(by, errorsAnnouncement(t))},

		"issuer-certificate": {sign(registrar, certificate(by))},
		"issued-request":     {sign(host, issuedRequest(t, host, by, registrar))},
		"ticket-reply":       {sign(by, ticketReply())},
		"issued":             {sign(by, issuedEntry(1)), sign(by, issuedEntry(2))},
	}
}

// formats is the order in the file.
var formats = []string{"announcement", "keyset", "manifest", "counts", "credential", "enrol-request",
	"enrol-reply", "report", "chunk", "accepted", "summed", "configuration", "learned", "audited-manifest",
	"panel-announcement", "pool", "draw", "registration", "panel-reply", "lasting-configuration", "compared-learned",
	"enrol-requests", "enrol-replies", "nonced-request", "structured-announcement", "play-announcement",
	"tree-announcement", "reweighted-announcement", "issuer-certificate", "issued-request", "ticket-reply",
	"issued", "question-announcement"}

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
