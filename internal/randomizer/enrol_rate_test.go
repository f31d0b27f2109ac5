//go:build unix

package randomizer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/journal"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// slots is a shuffler as far as a host's enrolment goes: it opens and checks each request as the role does, gives the
// next slot, makes it durable in a journal, signs and seals the reply, and answers 64 requests at a time.
type slots struct {
	bed      *testbed.Bed
	requests *seal.RequestOpener
	journal  *journal.Journal
	admitted *wire.Credentials

	mu   sync.Mutex
	next uint32
}

func (s *slots) enrol(_ context.Context, request []byte) ([]byte, error) {
	opened, err := wire.OpenSealedRequest(request, s.requests)
	if err != nil {
		return nil, err
	}
	e, err := s.admitted.OpenEnrolRequest(opened.Signed)
	if err != nil {
		return nil, err
	}
	var whole *wire.EnrolReply
	var durable func() error
	for _, device := range e.Request.Devices() {
		s.mu.Lock()
		one := &wire.EnrolReply{Enrolled: true, Slot: s.next, ReportAfter: time.Hour}
		s.next++
		durable = s.journal.Append(fmt.Appendf(nil, "%100d", device)) // as long as the role's entry
		s.mu.Unlock()
		if whole == nil {
			whole = one
		} else {
			whole.Add(one)
		}
	}
	if err := durable(); err != nil {
		return nil, err
	}
	whole.Request = e.Digest[:]
	signed, _, err := wire.Sign(whole, s.bed.Shuffler)
	if err != nil {
		return nil, err
	}
	return opened.SealReply(signed)
}

// atOnce is how many people ask for a first decision at the same time.
const atOnce = 64

// How long a first decision takes where 64 people at a time ask for one: over a real broker, with the device's
// question, the slot and the promise each durable before anything rests on it. Host, broker and shuffler share the
// machine. The metrics: median and the 99th of 100 in milliseconds, the median of what one synced append to a file of
// this disk takes, how many of those the median enrolment takes, and cores that were busy.
func BenchmarkEnrolment(b *testing.B) {
	bed := testbed.New(b)
	j, err := journal.Open(filepath.Join(b.TempDir(), "journal"))
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	opener, err := seal.NewRequestOpener(testbed.Deployment, bed.ShufflerKey)
	if err != nil {
		b.Fatal(err)
	}
	serving := &slots{bed: bed, journal: j, requests: opener,
		admitted: wire.NewCredentials(wire.Party{Deployment: testbed.Deployment, Key: bed.Registrar.Public()})}
	shuffler, analyzer := bed.Connect(bus.Shuffler), bed.Connect(bus.Analyzer)
	bed.PublishKeys(shuffler)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { _ = shuffler.Enrolment.ServeEnrol(ctx, 64, serving.enrol) })
	h := benchmarkHost(b, bed, Over(bed.Connect(bus.Randomizer).Streams), b.N)
	running.Go(func() { _ = h.Run(ctx) })
	bed.Announce(analyzer, bed.Announcement(glm.Practical, max(12, b.N)))
	testbed.Eventually(b, "announced", func() bool { return h.Status().Enrolling })
	times := make([]time.Duration, b.N)
	used := cpuTime()
	b.ResetTimer()
	begin := time.Now()
	var person atomic.Int64
	var people sync.WaitGroup
	for range atOnce {
		people.Go(func() {
			for i := person.Add(1) - 1; i < int64(b.N); i = person.Add(1) - 1 {
				asked := time.Now()
				d, err := h.Decide(ctx, fmt.Sprint("person-", i), twoVectors)
				if err != nil || !d.Sampled {
					b.Errorf("%+v: %v", d, err)
					return
				}
				times[i] = time.Since(asked)
			}
		})
	}
	people.Wait()
	wall := time.Since(begin)
	busy := cpuTime() - used
	b.StopTimer()
	slices.Sort(times)
	milliseconds := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	synced := syncedAppend(b)
	b.ReportMetric(milliseconds(times[b.N/2]), "median-ms")
	b.ReportMetric(milliseconds(times[b.N*99/100]), "p99-ms")
	b.ReportMetric(float64(b.N)/wall.Seconds(), "enrolled/s")
	b.ReportMetric(milliseconds(synced), "sync-ms")
	b.ReportMetric(times[b.N/2].Seconds()/synced.Seconds(), "syncs/median")
	b.ReportMetric(busy.Seconds()/wall.Seconds(), "cores")
	b.ReportMetric(busy.Seconds()/float64(b.N)*1e6, "cpu-us/enrolment")
}

// benchmarkHost is a host that logs nothing, with its state in a file that is synced.
func benchmarkHost(b *testing.B, bed *testbed.Bed, conn Broker, devices int) *Host {
	b.Helper()
	identity, credential := bed.Host(uint32(devices))
	h, err := New(Config{
		Deployment: testbed.Deployment, Analyzer: bed.Analyzer.Public(), Shuffler: bed.Shuffler.Public(),
		Identity: identity, Credential: credential, Devices: devices, StateDir: b.TempDir(),
		Limits: device.Limits{Epsilon: 4, Delta: 1e-3, MinCohort: 4, MaxReleases: 8, MaxNorm: 10, MaxMessages: 1000,
			Records: 1},
		Source: func() protocol.Source { return entropy.New() }, Bus: conn, Log: zerolog.Nop(),
		Reports: testbed.Account(b, "report", nil, Reasons()),
	})
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// twoVectors are the arms of a decision in dimension 2.
func twoVectors(int) ([][]float64, error) { return [][]float64{{0.6, 0.2}, {-0.3, 0.5}}, nil }

// syncedAppend is the median time that appending a page to a file, and syncing it, takes on the disk of tests.
func syncedAppend(b *testing.B) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	times := make([]time.Duration, 200)
	page := make([]byte, 4096)
	for i := range times {
		begin := time.Now()
		if _, err := f.Write(page); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		times[i] = time.Since(begin)
	}
	slices.Sort(times)
	return times[len(times)/2]
}
