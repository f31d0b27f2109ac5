package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/hostile"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// flood is what an unknown host, or somebody with a credential, sends while an honest cohort is in progress. All roles
// and the broker run in this process, so that what it takes is what they take together.
type flood struct {
	what   string // sent, with how many
	few    int    // in the ordinary run; 0: it is not in it
	many   int    // with RIFFLE_LONG
	memory int    // MiB that the heap grows by less than, the sender's own part included
	test   func(d *world, r *round, n int) []string
}

// floods are tried one after the other, each with an honest cohort beside it.
func floods() []flood {
	return []flood{
		{"%d requests for enrolment without a credential of the registrar's", 40, 2000, 64, floodUnknownHost},
		{"%d requests of a host for devices beyond its credential", 40, 2000, 64, floodBeyond},
		{"%d requests of 8 MB", 3, 40, 512, floodGiantRequests},
		{"%d reports of the right size, validly signed by a host without a slot", 20, 2000, 128, floodReports},
		{"%d reports of the right size, all of whose bits are of one number", 20, 2000, 128, floodOneNumber},
		{"%d reports of 7 MB", 3, 40, 512, floodGiantReports},
		{"%d connections of one host that ask for all announcements", 0, 200, 256, floodConnections},
		{"%d readers that stop reading announcements, one of 100 kB after the other", 0, 20, 256, floodReaders},
		{"%d statements of junk in the analyzer's and in the shuffler's part of the audit log", 40, 2000, 256,
			floodAudit},
		{"%d requests of an app at the local API with bodies of 1 MB", 20, 400, 256, floodAPI},
		{"%d requests of an app at the local API whose bodies never end", 0, 200, 128, floodSlowAPI},
	}
}

// outcomes counts how often each answer came.
type outcomes struct {
	mu    sync.Mutex
	times map[string]int
}

func (o *outcomes) add(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.times == nil {
		o.times = map[string]int{}
	}
	o.times[what]++
}

// kinds are the answers that came.
func (o *outcomes) kinds() (all []string) {
	for what := range o.times {
		all = append(all, what)
	}
	slices.Sort(all)
	return all
}

// parallel does something n times, sixteen at a time.
func parallel(n int, f func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error { return f(i) })
	}
	return g.Wait()
}

// requests has a host ask n times, and tells the answers.
func (d *world) requests(n int, by *seal.Identity, change func(i int, e *wire.EnrolRequest)) []string {
	d.t.Helper()
	r := d.announced(d.epoch)
	var said outcomes
	conn := d.ConnectHost()
	d.must(parallel(n, func(i int) error {
		e := &wire.EnrolRequest{
			Deployment: testbed.Deployment, Epoch: d.epoch, Announcement: r.digest[:], Nonces: []uint32{1},
		}
		change(i, e)
		signed, _, err := wire.Sign(e, by)
		if err != nil {
			return err
		}
		sealed, err := wire.SealRequest(signed, d.ShufflerKey.Public(), testbed.Deployment)
		if err != nil {
			return err
		}
		b, err := conn.Enrolment.Enrol(d.Context(), sealed.Sealed)
		if err != nil {
			return err
		}
		reply, err := sealed.Answer(b, d.Shuffler.Public())
		if err != nil {
			return err
		}
		said.add(reply.Refusal.String())
		return nil
	}))
	return said.kinds()
}

func floodUnknownHost(d *world, _ *round, n int) []string {
	unknown := testbed.NewIdentity(d.t)
	own, _ := d.Sign(&wire.Credential{
		Deployment: testbed.Deployment, HostKey: unknown.Public(), Devices: 1 << 20,
	}, unknown)
	return d.requests(n, unknown, func(i int, e *wire.EnrolRequest) { e.Device, e.Credential = uint32(i), own })
}

func floodBeyond(d *world, _ *round, n int) []string {
	host, signed := d.Host(1)
	return d.requests(n, host, func(i int, e *wire.EnrolRequest) { e.Device, e.Credential = uint32(i)+1, signed })
}

func floodGiantRequests(d *world, _ *round, n int) []string {
	junk := make([]byte, bus.MaxMessage)
	var said outcomes
	conn := d.ConnectHost()
	d.must(parallel(n, func(int) error {
		b, err := conn.Enrolment.Enrol(d.Context(), junk)
		if err != nil {
			return err
		}
		reply, err := wire.OpenEnrolReply(b, d.Shuffler.Public(), wire.RequestDigest(junk))
		if err == nil {
			said.add(reply.Refusal.String())
		}
		return err
	}))
	return said.kinds()
}

func floodReports(d *world, r *round, n int) []string {
	host, _ := d.Host(1)
	device, err := registry.NewDevice(r.Announcement, r.digest)
	d.must(err)
	var vectors [][]float64
	for _, e := range r.Encodings {
		vectors = append(vectors, make([]float64, len(e.Coordinates)))
	}
	payload, err := device.Append(nil, devices.Sender{Identity: host}, vectors, testbed.Source())
	d.must(err)
	return d.reports(r, n, host, payload)
}

// floodOneNumber hands in reports of messages that open, with a label of the plan, which is the same in all.
func floodOneNumber(d *world, r *round, n int) []string {
	host, _ := d.Host(1)
	sealer, err := seal.NewBitSealer(r.AnalyzerKey, r.digest)
	d.must(err)
	var payload []byte
	for range r.ReportMessages() {
		payload, err = sealer.AppendSeal(payload, 0, 0, true)
		d.must(err)
	}
	return d.reports(r, n, host, payload)
}

// reports hands in a report of a host as often as is said, each time as if it were another one.
func (d *world) reports(r *round, n int, host *seal.Identity, payload []byte) []string {
	conn := d.ConnectHost()
	envelope := d.Seal(wire.Report{Announcement: r.digest, Epoch: r.Epoch, Round: r.Round, Payload: payload}, host)
	d.must(parallel(n, func(i int) error {
		return conn.Reports.PublishReport(d.Context(), r.Epoch, r.Round, fmt.Sprintf("junk-%d", i), envelope)
	}))
	return nil // the manifest has why
}

func floodGiantReports(d *world, r *round, n int) []string {
	var said outcomes
	conn := d.ConnectHost()
	junk := make([]byte, 7<<20)
	_ = parallel(n, func(i int) error {
		err := conn.Reports.PublishReport(d.Context(), r.Epoch, r.Round, fmt.Sprintf("giant-%d", i), junk)
		if errors.Is(err, bus.ErrTooLarge) {
			said.add("too large, by the broker")
		} else {
			said.add(fmt.Sprint(err))
		}
		return nil
	})
	return said.kinds()
}

func floodConnections(d *world, _ *round, n int) []string {
	var said outcomes
	d.must(parallel(n, func(int) error {
		conn := d.ConnectHost()
		_, err := conn.Announcements.ReadAnnouncements(d.Context())
		if err == nil {
			said.add("served")
		}
		return err
	}))
	return said.kinds()
}

func floodReaders(d *world, _ *round, n int) []string {
	ctx, cancel := context.WithCancel(d.ctx)
	d.t.Cleanup(cancel)
	for range n {
		conn, link := d.ConnectOver(bus.Randomizer)
		d.running.Go(func() {
			_ = conn.Announcements.WatchAnnouncements(ctx, func(bus.Announcement) error { return nil })
		})
		link.Freeze()
	}
	thief := d.Connect(bus.Analyzer)
	for epoch := range uint64(20) {
		d.must(thief.Announcements.PutAnnouncement(d.Context(), 1000+epoch, 0, make([]byte, 100<<10)))
	}
	return []string{"stored, and nobody waits for the readers"}
}

func floodAudit(d *world, _ *round, n int) []string {
	for _, role := range []bus.Role{bus.Analyzer, bus.Shuffler} {
		thief := d.Connect(role)
		d.must(parallel(n/2, func(i int) error {
			junk := append(make([]byte, 1000), fmt.Sprint(i)...)
			return thief.Audit.AppendAudit(d.Context(), wire.KindManifest, junk)
		}))
	}
	return []string{"stored, and without effect"}
}

// heap watches how large the heap becomes.
func heap(ctx context.Context) (most func() uint64) {
	var peak uint64
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	look := func() {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			look()
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() uint64 {
		cancel()
		<-done
		look()
		return peak - min(peak, before.HeapAlloc)
	}
}

// run floods an honest epoch after its announcement and before its people, and tells what came of it.
func (f flood) run(d *world, n int) (row []string) {
	r := d.next()
	most := heap(d.ctx)
	said := f.test(d, r, n)
	if sampled, why := d.decide(size); sampled != size {
		d.t.Errorf("%s: %d of %d honest people are sampled: %s", f.what, sampled, size, why)
	}
	d.report(r)
	var m *wire.Manifest
	testbed.Eventually(d.t, "a manifest", func() bool {
		of := bus.AuditFilter{Role: bus.Shuffler, Kind: wire.KindManifest}
		d.must(d.auditor.Audit.ReadAudit(d.Context(), of, func(s bus.Statement) error {
			one, _, err := wire.Open[wire.Manifest](s.Payload, d.ShufflerParty())
			if err == nil && one.Epoch == r.Epoch && m == nil {
				m = one
			}
			return nil
		}))
		return m != nil
	})
	grown := most()
	for _, refused := range m.Refused {
		said = append(said, "`"+refused.Reason.String()+"`")
	}
	honest := "destroyed"
	if m.Outcome == wire.Released && int(m.Reports) == size {
		honest = "released with all reports"
	}
	if grown >= uint64(f.memory)<<20 {
		d.t.Errorf("%s: the heap grew by %d MiB, %d are stated", f.what, grown>>20, f.memory)
	}
	d.t.Logf("%s: %.1f MiB of heap, %v, %s", fmt.Sprintf(f.what, n), float64(grown)/(1<<20), said, honest)
	for i, s := range said {
		if !strings.Contains(s, " ") {
			said[i] = "`" + strings.Trim(s, "`") + "`"
		}
	}
	return []string{strings.Join(said, ", "), fmt.Sprintf("less than %d MiB", f.memory), honest}
}

// floodHeader names the columns of floods.csv.
var floodHeader = []string{"sent during a cohort", "answered, or refused with", "memory of all roles and the broker",
	"the honest cohort"}

// Whatever is sent to a deployment, by unknown hosts, by a host with a credential, by a thief of a role's credential at
// the broker and by an app, is refused with a reason in bounded memory, and the cohort beside it is released whole:
// docs/attacks/floods.csv is what this test finds.
func TestFloodsAreRefusedBesideAnHonestCohort(t *testing.T) {
	long := os.Getenv("RIFFLE_LONG") != ""
	d := newWorld(t, plan.Shuffle, false)
	file, err := os.ReadFile(folder + "floods.csv")
	d.must(err)
	rows := [][]string{floodHeader}
	for _, f := range floods() {
		n := f.few
		if long {
			n = f.many
		}
		if n == 0 {
			continue
		}
		row := append([]string{fmt.Sprintf(f.what, f.many)}, f.run(d, n)...)
		if rows = append(rows, row); !long && !strings.Contains(string(file), hostile.Format([][]string{row})) {
			t.Errorf("docs/attacks/floods.csv does not say %q", row)
		}
	}
	if long {
		same(t, "floods.csv", hostile.Format(rows))
	}
}
