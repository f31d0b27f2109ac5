package shuffle

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// nowhere is a Disk that forgets, and a Publisher that drops.
type nowhere struct{ channel.Disk }

func (nowhere) Store(_ string, write func(io.Writer) error) error { return write(io.Discard) }

func (nowhere) PublishChunk(context.Context, uint64, uint32, uint32, []byte) error { return nil }

// load is a release whose reports, of 150 bit messages each, are made as they are taken.
func load(reports int) *channel.Release {
	r := &channel.Release{
		Epoch: 1, Layout: channel.Layout{Messages: 150}, Announced: &plan.Announcement{Final: true},
		Members: make([]channel.Member, reports),
	}
	for i := range r.Members {
		r.Members[i] = channel.Member{Slot: uint32(i), Sequence: uint64(i) + 1}
		binary.BigEndian.PutUint64(r.Members[i].Digest[:], uint64(i))
	}
	return r
}

func take(b testing.TB, m *Mixing, r *channel.Release) {
	payload, source := make([]byte, r.Layout.Size()), rand.NewChaCha8([32]byte{1})
	for _, member := range r.Members {
		source.Read(payload)
		if err := m.Take(r.Epoch, r.Round, member, payload); err != nil {
			b.Fatal(err)
		}
	}
}

// spent is the processor time that the process has taken: what else the machine does is not in it.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		panic("no processor time")
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMix mixes a million bit messages, from reports that were taken to the spool: it compares them, scatters them
// and permutes them. It gives the processor time of each message, beside that of copying its bytes; of its part of the
// messages' root; and of the SHA-256 alone that the root needs. All are measured in the same run.
func BenchmarkMix(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const reports = 7000
	r := load(reports)
	all := make([]byte, reports*r.Layout.Size())
	rand.NewChaCha8([32]byte{2}).Read(all)
	to := make([]byte, len(all))
	var leaf [1 + 32]byte // of the tree
	var inner [1 + 64]byte
	for name, memory := range map[string]int64{"memory": 1 << 30, "file": 8 << 20} {
		b.Run(name, func(b *testing.B) {
			s, err := spill.New(b.TempDir(), memory)
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			m := &Mixing{Disk: nowhere{}, Store: s, Source: entropy.New()}
			var mixing, copying, root, hashing time.Duration
			for b.Loop() {
				take(b, m, r)
				begin := spent()
				if slots, err := m.Repeated(b.Context(), r); err != nil || len(slots) > 0 {
					b.Fatal(slots, err)
				}
				if err := m.mix(b.Context(), r, m.spool(r)); err != nil {
					b.Fatal(err)
				}
				mixing += spent() - begin
				m.taken.forget(roundID{1, 0})
				begin = spent()
				copy(to, all)
				copying += spent() - begin
				begin = spent()
				rootOfRun(b, s, all)
				root += spent() - begin
				begin = spent()
				for at := 0; at < len(all); at += seal.BitSize {
					_ = sha256.Sum256(all[at:][:seal.BitSize])
					_ = sha256.Sum256(leaf[:])
					_ = sha256.Sum256(inner[:])
				}
				hashing += spent() - begin
			}
			each := float64(b.N) * reports * 150
			b.ReportMetric(each/mixing.Seconds()/1e6, "M/s")
			b.ReportMetric(float64(mixing)/each, "ns/message")
			b.ReportMetric(float64(mixing)/float64(copying), "copies")
			b.ReportMetric(float64(root)/each, "root-ns/message")
			b.ReportMetric(float64(hashing)/each, "sha256-ns/message")
		})
	}
}

// BenchmarkMixToBroker mixes a million bit messages and sends them to a broker that keeps them in files: scatter,
// permute, spool, digest, publish, root. It is held against publishing the same bytes alone, in the same run. The
// broker runs in this process, so that the processor time is that of both.
func BenchmarkMixToBroker(b *testing.B) {
	const reports = 7000
	bed := testbed.New(b)
	conn := bed.Connect(bus.Shuffler)
	s, err := spill.New(b.TempDir(), 64<<20)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	m := &Mixing{Chunks: conn.Mixed, Disk: channel.Folder(b.TempDir()), Store: s, Source: entropy.New()}
	r := load(reports)
	r.Epoch = 0
	chunk := make([]byte, chunkMessages*seal.BitSize)
	var mixing, mixingSpent, publishing time.Duration
	for b.Loop() {
		r.Epoch++
		take(b, m, r)
		begin, used := time.Now(), spent()
		if slots, err := m.Repeated(b.Context(), r); err != nil || len(slots) > 0 {
			b.Fatal(slots, err)
		}
		if _, err := m.Release(b.Context(), r, new(wire.Manifest)); err != nil {
			b.Fatal(err)
		}
		mixing, mixingSpent = mixing+time.Since(begin), mixingSpent+spent()-used
		if err := m.Forget(r.Epoch, 0); err != nil {
			b.Fatal(err)
		}
		begin = time.Now()
		for i := range reports * 150 / chunkMessages {
			binary.BigEndian.PutUint32(chunk, uint32(i))
			if err := conn.Mixed.PublishChunk(b.Context(), r.Epoch, 1, uint32(i), chunk); err != nil {
				b.Fatal(err)
			}
		}
		publishing += time.Since(begin)
	}
	each := float64(b.N) * reports * 150
	b.ReportMetric(each/mixing.Seconds()/1e6, "M/s")
	b.ReportMetric(float64(mixingSpent)/each, "cpu-ns/message")
	b.ReportMetric(each/publishing.Seconds()/1e6, "publish-M/s")
}

// rootOfRun is the messages' root, as send computes it.
func rootOfRun(b *testing.B, s *spill.Store, all []byte) {
	sent := s.Sorter(sha256.Size)
	defer sent.Close()
	var batch []byte
	for part := range slices.Chunk(all, chunkMessages*seal.BitSize) {
		batch = batch[:0]
		for message := range slices.Chunk(part, seal.BitSize) {
			digest := wire.MessageDigest(message)
			batch = append(batch, digest[:]...)
		}
		if err := sent.Append(batch); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := sortedRoot(sent); err != nil {
		b.Fatal(err)
	}
}

// TestMixingTakesTheSameMemoryForAnyCohort mixes 1, 10 and 50 million bit messages with 256 MiB, and prints the most
// memory that the process had at any time. It takes minutes, and 15 GB of disk.
func TestMixingTakesTheSameMemoryForAnyCohort(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("slow; set RIFFLE_LONG=1")
	}
	for _, millions := range []int{1, 10, 50} {
		debug.FreeOSMemory()
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			t.Skip("the most memory that a process had is only known on Linux: ", err)
		}
		s, err := spill.New(t.TempDir(), 64<<20) // a quarter, as in the role
		if err != nil {
			t.Fatal(err)
		}
		r := load(millions * 1_000_000 / 150)
		m := &Mixing{Chunks: nowhere{}, Disk: channel.Folder(t.TempDir()), Store: s, Source: entropy.New()}
		begin := time.Now()
		take(t, m, r)
		taken := time.Since(begin)
		if slots, err := m.Repeated(t.Context(), r); err != nil || len(slots) > 0 {
			t.Fatal(slots, err)
		}
		mixed := time.Since(begin) - taken
		manifest := new(wire.Manifest)
		if _, err := m.Release(t.Context(), r, manifest); err != nil || manifest.Messages != uint64(r.Messages()) {
			t.Fatal(manifest.Messages, err)
		}
		t.Logf("%d million messages: %s; taken in %.1f s, scattered in %.1f s, all in %.1f s",
			millions, peak(t), taken.Seconds(), mixed.Seconds(), time.Since(begin).Seconds())
		if err := m.Forget(1, 0); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// peak is the most memory that the process had, in words.
func peak(t *testing.T) string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmHWM") {
			return fmt.Sprintf("peak of resident memory %s", strings.Join(strings.Fields(line)[1:], " "))
		}
	}
	return "unknown"
}
