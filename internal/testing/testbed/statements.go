package testbed

import (
	"fmt"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Sign signs a statement as wire does, checks included.
func (b *Bed) Sign(statement any, by *seal.Identity) (signed []byte, digest [32]byte) {
	b.tb.Helper()
	var err error
	switch s := statement.(type) {
	case *plan.Announcement:
		signed, digest, err = wire.Sign(s, by)
	case *wire.KeySet:
		signed, digest, err = wire.Sign(s, by)
	case *wire.Manifest:
		signed, digest, err = wire.Sign(s, by)
	case *wire.Counts:
		signed, digest, err = wire.Sign(s, by)
	case *wire.Credential:
		signed, digest, err = wire.Sign(s, by)
	case *wire.IssuerCertificate:
		signed, digest, err = wire.Sign(s, by)
	case *wire.Pool:
		signed, digest, err = wire.Sign(s, by)
	case *wire.Draw:
		signed, digest, err = wire.Sign(s, by)
	case *wire.EnrolRequest:
		signed, digest, err = wire.Sign(s, by)
	case *wire.EnrolReply:
		signed, digest, err = wire.Sign(s, by)
	default:
		err = fmt.Errorf("%T is no statement", statement)
	}
	b.must(err)
	return signed, digest
}

// Announce signs an announcement with the analyzer's key and stores it.
func (b *Bed) Announce(analyzer *bus.Conn, a *plan.Announcement) (digest [32]byte) {
	b.tb.Helper()
	signed, digest := b.Sign(a, b.Analyzer)
	b.must(analyzer.Announcements.PutAnnouncement(b.Context(), a.Epoch, a.Round, signed))
	return digest
}

// PublishKeys publishes the shuffler's HPKE key.
func (b *Bed) PublishKeys(shuffler *bus.Conn) {
	b.tb.Helper()
	b.must(shuffler.Keys.PutKeys(b.Context(), b.KeySet()))
}

// KeySet is the shuffler's first signed set of keys.
func (b *Bed) KeySet() []byte {
	b.tb.Helper()
	signed, _ := b.Sign(&wire.KeySet{Deployment: Deployment, Number: 1, Keys: [][]byte{b.ShufflerKey.Public()}},
		b.Shuffler)
	return signed
}

// Open opens a report's envelope with the shuffler's key.
func (b *Bed) Open(envelope []byte, a *plan.Announcement) *wire.Report {
	b.tb.Helper()
	opener, err := seal.NewReportOpener(b.ShufflerKey)
	b.must(err)
	plain, err := wire.OpenEnvelope(envelope, opener,
		seal.ReportContext{Deployment: Deployment, Epoch: a.Epoch, Round: a.Round})
	b.must(err)
	report, _, err := wire.ParseReport(plain, a.ReportMessages()*seal.BitSize)
	b.must(err)
	return report
}

// Answer answers a sealed request for enrolment as the function Answer does, with the keys of the bed.
func (b *Bed) Answer(sealed []byte, reply func(signed []byte) (*wire.EnrolReply, error)) ([]byte, error) {
	return Answer(sealed, b.ShufflerKey, b.Shuffler, reply)
}

// Answer opens a sealed request for enrolment with the shuffler's key, and signs and seals the reply to its signed
// bytes, whose digest it fills in.
func Answer(sealed []byte, key *seal.HPKEKey, shuffler *seal.Identity,
	reply func(signed []byte) (*wire.EnrolReply, error)) ([]byte, error) {
	opener, err := seal.NewRequestOpener(Deployment, key)
	if err != nil {
		return nil, err
	}
	o, err := wire.OpenSealedRequest(sealed, opener)
	if err != nil {
		return nil, err
	}
	r, err := reply(o.Signed)
	if err != nil {
		return nil, err
	}
	digest := wire.RequestDigest(o.Signed)
	r.Request = digest[:]
	signed, _, err := wire.Sign(r, shuffler)
	if err != nil {
		return nil, err
	}
	return o.SealReply(signed)
}

// Seal signs a report with the host's key and seals it to the shuffler.
func (b *Bed) Seal(r wire.Report, host *seal.Identity) []byte {
	b.tb.Helper()
	report, err := wire.BuildReport(r, host)
	b.must(err)
	envelope, err := wire.SealReport(report, b.ShufflerKey.Public(),
		seal.ReportContext{Deployment: Deployment, Epoch: r.Epoch, Round: r.Round})
	b.must(err)
	return envelope
}

// Junk stores under a round what a holder of the analyzer's broker credential can store without its signing key:
// nonsense, an announcement that another key signed, and the further bytes that are given, such as a genuine
// announcement of another round.
func (b *Bed) Junk(analyzer *bus.Conn, epoch uint64, round uint32, more ...[]byte) {
	b.tb.Helper()
	a := b.Announcement(glm.Practical, 12)
	a.Epoch, a.Round = epoch, round
	if epoch > 1 || round > 0 {
		a.Previous = make([]byte, 32)
	}
	forged, _ := b.Sign(a, NewIdentity(b.tb))
	for _, payload := range append([][]byte{{}, []byte("junk"), forged}, more...) {
		b.must(analyzer.Announcements.PutAnnouncement(b.Context(), epoch, round, payload))
	}
}
