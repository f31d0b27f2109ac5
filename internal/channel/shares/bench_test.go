package shares

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// BenchmarkRelease takes a cohort through both servers and a broker, all in this process. Reports come from memory. The
// number of reports is RIFFLE_REPORTS, 4096 without it.
func BenchmarkRelease(b *testing.B) {
	reports, err := strconv.Atoi(os.Getenv("RIFFLE_REPORTS"))
	if err != nil {
		reports = 4096
	}
	bed := testbed.New(b)
	shuffler, analyzer := bed.Connect(bus.Shuffler), bed.Connect(bus.Analyzer)
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	config := testbed.Learner(glm.Practical, size)
	config.Dimension = 5
	learner, err := learner.New(config)
	must(err)
	step := learner.Next()
	step.Cohort = reports
	terms := plan.DefaultTermsFor(plan.Shares)
	terms.MinCohort = 0
	a := bed.Draw(step, terms, 1, nil)
	_, digest := bed.Sign(a, bed.Analyzer)
	device, err := shares.NewDevice(a, digest)
	must(err)
	identity, credential := bed.Host(uint32(reports))
	commitment := shares.NewSecret(bed.Shuffler, digest).Commitment()
	payloads := make([][]byte, reports)
	release := &channel.Release{Epoch: 1, Announcement: digest, Announced: a, First: digest, Minimum: a.Cohort.Minimum}
	release.Layout, err = new(Mixing).Layout(a)
	must(err)
	var vectors [][]float64
	for _, e := range a.Encodings {
		vectors = append(vectors, make([]float64, len(e.Coordinates)))
	}
	var making sync.WaitGroup
	begin := time.Now()
	for p := range runtime.GOMAXPROCS(0) {
		making.Go(func() {
			device, err := shares.NewDevice(a, digest)
			if err != nil {
				return
			}
			src := entropy.New()
			for i := p; i < reports; i += runtime.GOMAXPROCS(0) {
				by := devices.Sender{
					Identity: identity, Credential: credential, Number: uint32(i), Commitment: commitment,
				}
				payloads[i], _ = device.Append(nil, by, vectors, src)
			}
		})
	}
	making.Wait()
	perReport := float64(time.Since(begin).Microseconds()) * float64(runtime.GOMAXPROCS(0)) / float64(reports)
	b.ReportMetric(perReport, "device-µs")
	for i := range reports {
		release.Members = append(release.Members, channel.Member{
			Slot: uint32(i), Digest: sha256.Sum256(binary.BigEndian.AppendUint32(nil, uint32(i))),
		})
	}
	_ = device
	b.ResetTimer()
	for range b.N {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		mixDisk, countDisk := channel.Folder(b.TempDir()), channel.Folder(b.TempDir())
		participants, err := channel.OpenParticipants(countDisk, testbed.Deployment, nil)
		must(err)
		m := &Mixing{
			Deployment: testbed.Deployment, Broker: mixingOver(shuffler.Streams), Disk: mixDisk,
			Source: entropy.New(), Identity: bed.Shuffler,
			Analyzer: bed.Analyzer.Public(),
			Reports: func(_ context.Context, _ *channel.Release, m channel.Member) (*wire.Report, error) {
				return &wire.Report{Payload: payloads[m.Slot]}, nil
			},
		}
		c := &Counting{
			Deployment: testbed.Deployment, Identity: bed.Analyzer, Participants: participants,
			Broker:   countingOver(analyzer.Streams),
			Verifier: devices.NewVerifier(wire.Party{Deployment: testbed.Deployment, Key: bed.Registrar.Public()}),
			Disk:     countDisk, Source: entropy.New(), Clock: role.SystemClock(),
		}
		var both sync.WaitGroup
		over := make(chan *wire.Manifest, 1)
		both.Go(func() {
			manifest := &wire.Manifest{Announcement: digest[:], Reports: uint32(reports)}
			if rejected, err := m.Release(ctx, release, manifest); err != nil || len(rejected) > 0 {
				b.Errorf("%d rejected, %v", len(rejected), err)
				cancel()
			}
			over <- manifest
		})
		taking, stop := context.WithCancel(ctx)
		both.Go(func() {
			_ = analyzer.Mixed.ReceiveMixed(taking, func(m *bus.Mixed) {
				c.Take(channel.Part{Epoch: m.Epoch, Round: m.Round, Payload: m.Payload})
				_ = m.Ack()
			})
		})
		_, err = c.Count(ctx, &channel.Round{Announcement: a, Digest: digest, Key: bed.AnalyzerKey},
			func(ctx context.Context) (*wire.Manifest, error) {
				select {
				case m := <-over:
					return m, nil
				case <-ctx.Done():
					return nil, errors.New("over")
				}
			})
		stop()
		both.Wait()
		must(err)
		must(c.Forget(ctx, 1, 0))
		must(m.Forget(1, 0))
		cancel()
	}
	b.ReportMetric(float64(reports)*float64(b.N)/b.Elapsed().Seconds(), "reports/s")
	round, err := shares.NewRound(a, digest)
	must(err)
	b.ReportMetric(float64(round.PayloadSize()), "payload-B")
	b.ReportMetric(float64(round.PrepareMessageSize()), "prepare-message-B")
}
