package testbed

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/riffle-dp/riffle/internal/bus"
	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Sign signs a statement as wire does, checks included.
func (b *Bed) Sign(statement proto.Message, by *seal.Identity) (signed []byte, digest [32]byte) {
	b.tb.Helper()
	signed, digest, err := wire.Sign(statement, by)
	b.must(err)
	return signed, digest
}

// Unsigned reads the outer message of signed bytes.
func Unsigned(tb testing.TB, signed []byte) *rifflev1.Signed {
	tb.Helper()
	s := new(rifflev1.Signed)
	if err := proto.Unmarshal(signed, s); err != nil {
		tb.Fatal(err)
	}
	return s
}

// Announce signs an announcement with the analyzer's key and stores it.
func (b *Bed) Announce(analyzer *bus.Conn, a *rifflev1.Announcement) (digest [32]byte) {
	b.tb.Helper()
	signed, digest := b.Sign(a, b.Analyzer)
	b.must(analyzer.PutAnnouncement(b.Context(), a.Epoch, a.Round, signed))
	return digest
}

// PublishKeys publishes the shuffler's HPKE key.
func (b *Bed) PublishKeys(shuffler *bus.Conn) {
	b.tb.Helper()
	signed, _ := b.Sign(&rifflev1.KeySet{Deployment: Deployment, Number: 1, Keys: [][]byte{b.ShufflerKey.Public()}}, b.Shuffler)
	b.must(shuffler.PutKeys(b.Context(), signed))
}

// Messages is how many bit messages each report of the announced round holds.
func (b *Bed) Messages(a *rifflev1.Announcement) int {
	b.tb.Helper()
	n, err := wire.ReportMessages(a)
	b.must(err)
	return n
}

// Open opens a report's envelope with the shuffler's key.
func (b *Bed) Open(envelope []byte, a *rifflev1.Announcement) *wire.Report {
	b.tb.Helper()
	opener, err := seal.NewReportOpener(b.ShufflerKey)
	b.must(err)
	plain, err := wire.OpenEnvelope(envelope, opener, seal.ReportContext{Deployment: Deployment, Epoch: a.Epoch, Round: a.Round})
	b.must(err)
	report, _, err := wire.ParseReport(plain, b.Messages(a))
	b.must(err)
	return report
}

// Seal signs a report with the host's key and seals it to the shuffler.
func (b *Bed) Seal(r wire.Report, host *seal.Identity) []byte {
	b.tb.Helper()
	report, err := wire.BuildReport(r, host)
	b.must(err)
	envelope, err := wire.SealReport(report, b.ShufflerKey.Public(), seal.ReportContext{Deployment: Deployment, Epoch: r.Epoch, Round: r.Round})
	b.must(err)
	return envelope
}

// Junk stores under a round what whoever has the analyzer's broker credential can, without its signing key: nonsense, an announcement
// that somebody else signed, and what else is given, such as a genuine one of another round.
func (b *Bed) Junk(analyzer *bus.Conn, epoch uint64, round uint32, more ...[]byte) {
	b.tb.Helper()
	a := b.Announcement(glm.Practical, 12)
	a.Epoch, a.Round = epoch, round
	if epoch > 1 || round > 0 {
		a.Previous = make([]byte, 32)
	}
	forged, _ := b.Sign(a, NewIdentity(b.tb))
	for _, payload := range append([][]byte{{}, []byte("junk"), forged}, more...) {
		b.must(analyzer.PutAnnouncement(b.Context(), epoch, round, payload))
	}
}
