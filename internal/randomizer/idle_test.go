//go:build unix

package randomizer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// undrawn is a broker that has one announcement, and a shuffler behind it that has drawn no panel.
type undrawn struct {
	announcer
	bed   *testbed.Bed
	asked atomic.Int64
}

func (u *undrawn) EnrolOnce(_ context.Context, request []byte) ([]byte, error) {
	u.asked.Add(1)
	return u.bed.Answer(request, func([]byte) (*wire.EnrolReply, error) {
		return &wire.EnrolReply{Refusal: wire.RefusalWrongEpoch}, nil
	})
}

func (u *undrawn) PublishReport(context.Context, uint64, uint32, string, []byte) error { return nil }

// What a device that waits costs its host. Where devices enrol as they arrive, each took part in an epoch before; where
// panelScene is drawn, each is registered and waits until the panel is. A process of the host finds them in its store.
// The metrics are bytes of the heap and of stacks per device; what the process has resident in all, of that what is its
// own and what is pages of the state file, which the system takes back as it needs, in megabytes (where there is
// /proc); and questions to the shuffler in the first second.
func BenchmarkIdleDevices(b *testing.B) {
	const devices = 100_000
	for _, panels := range []bool{false, true} {
		b.Run(map[bool]string{false: "arrival", true: "panel"}[panels], func(b *testing.B) {
			bed := testbed.New(b)
			a := bed.Announcement(glm.Practical, 12)
			if panels {
				a.Plan.Panel = &plan.Panel{Registered: 30, Tail: 1e-9}
				a.Plan.Decisions, a.Plan.Records = 3, 2
				c := panel.Commit(make([]byte, panel.ContributionSize))
				a.Commitment = c[:]
				a.Timing.RewardWindow = time.Hour
			}
			u := &undrawn{bed: bed, announcer: announcer{keys: bed.KeySet()}}
			u.signed, _ = bed.Sign(a, bed.Analyzer)
			config := configOf(b, bed, u, devices, panels)
			debug.FreeOSMemory()
			before := used()
			h, err := New(config)
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var running sync.WaitGroup
			begin := time.Now()
			running.Go(func() { _ = h.Run(ctx) })
			testbed.Eventually(b, "waiting", func() bool {
				h.panels.attendance.mu.Lock()
				defer h.panels.attendance.mu.Unlock()
				return h.Status().Epoch == 1 && (!panels || len(h.panels.attendance.waiting) >= devices-maxPatient)
			})
			time.Sleep(time.Second - time.Since(begin))
			asked := float64(u.asked.Load())
			for b.Loop() {
				debug.FreeOSMemory()
			}
			b.ReportMetric(asked, "asked")
			b.ReportMetric(float64(used()-before)/devices, "bytes/device")
			for name, what := range map[string]string{"resident-MB": "VmRSS", "own-MB": "RssAnon",
				"file-MB": "RssFile"} {
				b.ReportMetric(resident(what), name)
			}
			runtime.KeepAlive(h)
			cancel()
			running.Wait()
		})
	}
}

// configOf is the configuration of a host whose store has so many devices.
func configOf(b *testing.B, bed *testbed.Bed, u *undrawn, devices int, panels bool) Config {
	b.Helper()
	h := benchmarkHost(b, bed, u, devices)
	h.c.Limits.Epsilon, h.c.Limits.Records = 100, 2
	core, err := device.New(device.Config{Deployment: h.c.Deployment, Analyzer: h.c.Analyzer, Shuffler: h.c.Shuffler,
		Identity: h.c.Identity, Credential: h.c.Credential, Limits: h.c.Limits})
	if err != nil {
		b.Fatal(err)
	}
	a, err := core.Judge(u.signed, 1, 0)
	if err != nil || a.Weak() != nil {
		b.Fatal(err, a.Weak())
	}
	config := h.c
	config.Store, config.StateDir = nil, b.TempDir()
	kept, err := store.Open(filepath.Join(config.StateDir, "devices"))
	if err != nil {
		b.Fatal(err)
	}
	reply := make([]byte, 180)  // as long as the shuffler's word
	puts := new(errgroup.Group) // together, so that they share writes to the disk
	puts.SetLimit(1_000)
	for i := range devices {
		s := core.NewState(uint32(i))
		if panels {
			s.Registration = &device.Registration{Reply: bytes.Repeat([]byte{byte(i)}, len(reply))}
		} else if s, err = s.Ask(a, time.Now()); err == nil {
			if s, err = s.Promise(a, &wire.EnrolReply{Enrolled: true, Slot: uint32(i)}, time.Now()); err == nil {
				s.Enrolment.Reported = 1
				s.Ledger, err = s.Ledger.Spend(1)
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		name := fmt.Sprintf("person-%06d@example.org", i)
		puts.Go(func() error { return kept.Put(store.Device{Name: name, State: s}) })
	}
	if err := puts.Wait(); err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(kept.Close(), h.Close()); err != nil {
		b.Fatal(err)
	}
	return config
}

// used is what heap and stacks take, in bytes.
func used() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// resident is a line of /proc/self/status in megabytes; 0 where there is none.
func resident(what string) float64 {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, what+":"); ok {
			kilobytes, _ := strconv.Atoi(strings.Fields(rest)[0])
			return float64(kilobytes) / 1024
		}
	}
	return 0
}
