package wire_test

import (
	"bytes"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/allocated"
	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
	"google.golang.org/protobuf/proto"
)

// seeds gives the fuzzer the golden messages of the formats.
func seeds(f *testing.F, names ...string) {
	good, bad := accepted(f), refused(f)
	for _, name := range names {
		for _, b := range append(good[name], bad[name]...) {
			f.Add(b)
		}
	}
}

// FuzzOpenSigned feeds any bytes to every opener of signed statements. Nothing that is not in the golden set can open:
// no one else has the keys.
func FuzzOpenSigned(f *testing.F) {
	open := openers(f)
	names := []string{"announcement", "keyset", "manifest", "counts", "credential", "enrol-request", "enrol-reply",
		"configuration", "learned", "audited-manifest", "panel-announcement", "pool", "draw", "registration",
		"panel-reply",
		"lasting-configuration", "compared-learned", "enrol-requests", "enrol-replies", "nonced-request",
		"structured-announcement", "play-announcement", "tree-announcement",
		"reweighted-announcement", "issuer-certificate", "issued-request", "ticket-reply", "issued",
		"question-announcement"}
	seeds(f, names...)
	known := map[string]bool{}
	for _, messages := range accepted(f) {
		for _, b := range messages {
			known[string(b)] = true
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range names {
			if _, err := open[name](data); err == nil && !known[string(data)] {
				t.Fatalf("%s: something opens that was never signed", name)
			}
		}
	})
}

// fuzzBody signs any bytes, so that the fuzzer gets past the signature, and demands that what opens has the same bytes
// again when signed.
func fuzzBody(f *testing.F, kind seal.Kind, statements ...proto.Message) {
	id := signer(f, goldenSigner)
	for _, m := range statements {
		f.Add(encode(f, m))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		signed := encode(t, &rifflev1.Signed{Body: body, Key: id.Public(), Signature: signature(kind, body, id)})
		var m proto.Message
		var digest [32]byte
		var err error
		allocated.ForInput(t, len(body), func() { m, digest, err = wire.OpenMessage(kind, signed, party(id)) })
		if err != nil {
			if wire.Reason(err) == wire.NoRefusal || wire.Reason(err) == wire.RefusalBadSignature {
				t.Fatalf("reason %v for %v", wire.Reason(err), err)
			}
			return
		}
		again, digest2, err := wire.SignMessage(m, id)
		if err != nil || !bytes.Equal(again, signed) || digest != digest2 {
			t.Fatalf("no round trip: %v", err)
		}
	})
}

func FuzzAnnouncement(f *testing.F) {
	fuzzBody(f, seal.Announcement, announcement(f), finalAnnouncement(f), curatedAnnouncement(f), pairsAnnouncement(f),
		panelAnnouncement(f), structuredAnnouncement(f), sampledAnnouncement(f), reweightedAnnouncement(f),
		clippedAnnouncement(f), treeAnnouncement(f), errorsAnnouncement(f), meanAnnouncement(f),
		histogramAnnouncement(f), fitAnnouncement(f))
}
func FuzzKeySet(f *testing.F) { fuzzBody(f, seal.KeySet, keySet(f)) }
func FuzzManifest(f *testing.F) {
	fuzzBody(f, seal.Manifest, manifest(), destroyedManifest(), auditedManifest())
}
func FuzzConfiguration(f *testing.F) {
	fuzzBody(f, seal.Configuration, configuration(f), lastingConfiguration(f))
}
func FuzzLearned(f *testing.F) {
	fuzzBody(f, seal.Learned, learned(), destroyedLearned(), comparedLearned())
}
func FuzzPool(f *testing.F)     { fuzzBody(f, seal.Pool, pool()) }
func FuzzDraw(f *testing.F)     { fuzzBody(f, seal.Draw, draw()) }
func FuzzCounts(f *testing.F)   { fuzzBody(f, seal.Counts, counts(), curatedCounts(), pairsCounts()) }
func FuzzAccepted(f *testing.F) { fuzzBody(f, seal.Accepted, acceptedSet()) }
func FuzzSummed(f *testing.F)   { fuzzBody(f, seal.Summed, summed()) }
func FuzzIssuersCertificate(f *testing.F) {
	fuzzBody(f, seal.IssuerCertificate, certificate(signer(f, goldenHost)))
}
func FuzzIssuersEntry(f *testing.F) { fuzzBody(f, seal.Issued, issuedEntry(1), issuedEntry(2)) }
func FuzzCredential(f *testing.F) {
	host, by := signer(f, goldenHost), signer(f, goldenSigner)
	fuzzBody(f, seal.Credential, credential(f, host), issued(f, host, by, by))
}

// FuzzLeaf puts any bytes, and any body signed as any kind of statement, under any kind into a role's part of the audit
// stream. Nothing that the role did not sign is a leaf, and what it signed is one under at most one kind.
func FuzzLeaf(f *testing.F) {
	id, other := signer(f, goldenSigner), signer(f, goldenHost)
	f.Add(wire.KindManifest, byte(seal.Manifest), encode(f, manifest()))
	f.Add(wire.KindCounts, byte(seal.Counts), encode(f, counts()))
	set := acceptedSet()
	f.Add(wire.AcceptedKind(set.Epoch, set.Round), byte(seal.Accepted), encode(f, set))
	f.Add("accepted-1-1", byte(seal.Accepted), encode(f, set))
	known := map[string]bool{}
	for _, messages := range accepted(f) {
		for _, b := range messages {
			known[string(b)] = true
		}
	}
	f.Fuzz(func(t *testing.T, kind string, as byte, body []byte) {
		of := seal.Kind(as)
		signed := encode(t, &rifflev1.Signed{Body: body, Key: id.Public(), Signature: signature(of, body, id)})
		if wire.Leaf(kind, body, party(id)) && !known[string(body)] {
			t.Fatalf("%x is a leaf, and was never signed", body)
		}
		if !wire.Leaf(kind, signed, party(id)) {
			return
		}
		if wire.Leaf(kind, signed, party(other)) {
			t.Fatalf("%q is another role's leaf, too", kind)
		}
		for _, second := range []string{
			wire.KindConfiguration, wire.KindAnnouncement, wire.KindManifest, wire.KindCounts, wire.KindLearned,
			wire.KindPool, wire.KindDraw, wire.KindCheckpoint, kind + "0", "0" + kind,
		} {
			if second != kind && wire.Leaf(second, signed, party(id)) {
				t.Fatalf("it is a leaf as %q and as %q", kind, second)
			}
		}
	})
}

func FuzzEnrolRequest(f *testing.F) {
	host, registrar := signer(f, goldenHost), signer(f, goldenRegistry)
	f.Add(encode(f, enrolRequest(f, host, registrar)))
	f.Add(encode(f, registration(f, host, registrar)))
	f.Add(encode(f, noncedRequest(f, host, registrar)))
	f.Fuzz(func(t *testing.T, body []byte) {
		signed := encode(t,
			&rifflev1.Signed{Body: body, Key: host.Public(), Signature: signature(seal.EnrolRequest, body, host)})
		e, err := wire.OpenEnrolRequest(signed, party(registrar))
		if err != nil {
			return
		}
		if again, _, err := wire.Sign(e.Request, host); err != nil || !bytes.Equal(again, signed) {
			t.Fatalf("no round trip: %v", err)
		}
	})
}

func FuzzEnrolReply(f *testing.F) {
	shuffler := signer(f, goldenSigner)
	f.Add(encode(f, enrolReply()))
	f.Add(encode(f, refusal()))
	f.Add(encode(f, drawnReply(f, shuffler)))
	f.Add(encode(f, undrawnReply(f, shuffler)))
	f.Fuzz(func(t *testing.T, body []byte) {
		signed := encode(t,
			&rifflev1.Signed{Body: body, Key: shuffler.Public(), Signature: signature(seal.EnrolReply, body, shuffler)})
		m, err := wire.OpenEnrolReply(signed, shuffler.Public(), [32]byte(digestOf(7)))
		if err != nil {
			return
		}
		if again, _, err := wire.Sign(m, shuffler); err != nil || !bytes.Equal(again, signed) {
			t.Fatalf("no round trip: %v", err)
		}
	})
}

// FuzzReport feeds reports with a valid signature of the host over whatever the fuzzer makes of the rest.
func FuzzReport(f *testing.F) {
	host := signer(f, goldenHost)
	good := accepted(f)["report"][0]
	f.Add(good[:len(good)-66], 2)
	f.Add([]byte{}, 1)
	f.Fuzz(func(t *testing.T, body []byte, messages int) {
		allocated.ForInput(t, len(body), func() { _, _, _ = wire.ParseReport(body, messages*seal.BitSize) })
		signed := append(bytes.Clone(body),
			encode(t, &rifflev1.Report{Signature: signature(seal.Report, body, host)})...)
		r, _, err := wire.ParseReport(signed, messages*seal.BitSize)
		if err != nil {
			return
		}
		if again, err := wire.BuildReport(*r, host); err != nil || !bytes.Equal(again, signed) {
			t.Fatalf("no round trip: %v", err)
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	key := hpkeKey(f, goldenShuffler)
	keys := opener(f, key)
	good, err := wire.SealReport([]byte("report"), key.Public(), roundContext)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:40])
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, err := wire.OpenEnvelope(data, keys, roundContext); err == nil && string(got) != "report" {
			t.Fatal("something opens that was never sealed")
		}
	})
}

func FuzzChunk(f *testing.F) {
	seeds(f, "chunk")
	f.Fuzz(func(t *testing.T, data []byte) {
		var c *wire.Chunk
		var err error
		allocated.ForInput(t, len(data), func() { c, err = wire.ParseChunk(data) })
		if err != nil {
			return
		}
		if again, err := wire.BuildChunk(*c); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("no round trip: %v", err)
		}
	})
}
