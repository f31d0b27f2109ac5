// Package marked sends reports of marked messages to a running shuffler, through the broker, and tells in which order
// the messages leave. It plays a host and the analyzer: all that it does to the shuffler any host and analyzer can do.
// Whatever runs as the shuffler is judged as it is.
package marked

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/lab/uniform"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Deployment is what a host and the analyzer of the deployment have. The analyzer itself must not run.
type Deployment struct {
	Name        string
	Analyzer    *seal.Identity
	AnalyzerKey []byte                 // its HPKE public key: nobody opens anything here
	Shuffler    []byte                 // its Ed25519 public key
	Host        *seal.Identity         // of a host with People devices for each release: every person reports once
	Credential  []byte                 // of that host
	Connect     map[bus.Role]*bus.Conn // as bus.Analyzer and bus.Randomizer
}

// Options say what is sent.
type Options struct {
	People   int             // of a cohort, at least the shuffler's own minimum
	Source   protocol.Source // of the order in which devices enrol and in which their reports are sent
	Patience time.Duration   // how long the shuffler may say nothing; 0: DefaultPatience
}

// DefaultPatience is how long the shuffler may say nothing, unless Options say otherwise.
const DefaultPatience = 10 * time.Minute

// Round is what was seen of one release.
type Round struct {
	// Orders numbers the items by each of Views. In all of them the items of one report are in the order in which they
	// are in it. Noise that the shuffler added is left out.
	Orders [views]*uniform.Release
	// Shape is that of all of them.
	Shape uniform.Shape
	// Waited reports whether no message left before the last report was at the broker, by the broker's acknowledgement.
	Waited bool
}

// The views are the orders in which reports are numbered.
const (
	byArrival = iota // in which they came to the broker
	bySlot           // of their devices' slots, which are given in the order in which devices enrol
	byDevice         // of the devices' own numbers
	views
)

// Views are the names of a Round's orders.
func Views() [views]string { return [views]string{"by arrival", "by slot", "by device"} }

// dimension is that of the people's arms: the smallest, so that reports are small.
const dimension = 1

// Run is a series of releases of one deployment. It is not safe for concurrent use.
type Run struct {
	d         Deployment
	o         Options
	rng       *rand.Rand
	announced *plan.Announcement
	digest    [32]byte
	key       []byte // the shuffler's

	mu    sync.Mutex
	marks map[string]place // of this epoch's messages

	stop  context.CancelFunc
	mixed chan *bus.Mixed
	over  chan struct{} // nothing more comes
	err   error         // why, once over is closed
}

// ErrSilent says that the shuffler sent nothing for so long.
var ErrSilent = errors.New("marked: the shuffler sends nothing")

// ErrOther says that other messages left than came.
var ErrOther = errors.New("marked: other messages left than came")

// terms ask for so little privacy that reports have few messages: nobody's record is in them.
func terms() plan.Terms {
	return plan.Terms{
		Epsilon: 4, Delta: 1e-3, DropOut: 0.2, MinCohort: MinCohort, MaxShift: 2, VarianceRatio: 64,
	}
}

// MinCohort is the shuffler's own minimum cohort, at most, for a cohort to be released.
const MinCohort = 4

// Open begins, before the first announcement of a deployment. The context ends the run; Close waits for its end.
func Open(ctx context.Context, d Deployment, o Options) (*Run, error) {
	if o.People < MinCohort {
		return nil, fmt.Errorf("marked: %d people, there must be at least %d", o.People, MinCohort)
	}
	learner, err := learner.New(learner.Config{
		Dimension: dimension, Radius: 2, Horizon: 3 * o.People, Epsilon: terms().Epsilon,
		Delta: terms().Delta, MinCohort: MinCohort, Practical: learner.PracticalConfig{FirstCohort: o.People,
			Growth: 1},
	})
	if err != nil {
		return nil, err
	}
	step := learner.Next()
	step.Cohort = o.People
	p, err := plan.Propose(step, terms())
	if err != nil {
		return nil, err
	}
	a := p.Announced(step)
	o.People = int(a.Cohort.Size)
	a.Deployment, a.AnalyzerKey = d.Name, d.AnalyzerKey
	// A cohort is released when all of its reports have come, long before this time is over.
	a.Timing = plan.Timing{RewardWindow: time.Second, Jitter: time.Second, Grace: 12 * time.Hour,
		RoundWindow: time.Hour}
	r := &Run{
		d: d, o: o, rng: rand.New(o.Source), announced: a, mixed: make(chan *bus.Mixed), over: make(chan struct{}),
	}
	if r.o.Patience == 0 {
		r.o.Patience = DefaultPatience
	}
	ctx, r.stop = context.WithCancel(ctx)
	go func() {
		defer close(r.over)
		r.err = d.Connect[bus.Analyzer].Mixed.ReceiveMixed(ctx, func(m *bus.Mixed) {
			select {
			case r.mixed <- m:
			case <-ctx.Done():
			}
		})
	}()
	return r, nil
}

// Close ends the run.
func (r *Run) Close() {
	r.stop()
	<-r.over
}

// Messages is how many messages a report has.
func (r *Run) Messages() int { return r.announced.ReportMessages() }

// Round takes one cohort through the shuffler, and waits until its manifest is out.
//
// Errors: ErrSilent; ErrOther; the context's cause; those of the broker.
func (r *Run) Round(ctx context.Context) (*Round, error) {
	if err := r.announce(ctx); err != nil {
		return nil, err
	}
	slots, err := r.enrol(ctx)
	if err != nil {
		return nil, err
	}
	waited, err := r.report(ctx, slots)
	if err != nil {
		return nil, err
	}
	round, err := r.receive(ctx)
	if err != nil {
		return nil, err
	}
	round.Waited = waited
	return round, r.d.Connect[bus.Analyzer].Mixed.PurgeMixed(ctx, r.announced.Epoch, r.announced.Round)
}

// announce announces the next epoch.
func (r *Run) announce(ctx context.Context) error {
	r.announced.Epoch++
	if r.announced.Epoch > 1 {
		r.announced.Previous = bytes.Clone(r.digest[:])
	}
	signed, digest, err := wire.Sign(r.announced, r.d.Analyzer)
	if err != nil {
		return err
	}
	r.digest = digest
	analyzer := r.d.Connect[bus.Analyzer]
	if err := analyzer.Audit.AppendAudit(ctx, wire.KindAnnouncement, signed); err != nil {
		return err
	}
	return analyzer.Announcements.PutAnnouncement(ctx, r.announced.Epoch, r.announced.Round, signed)
}

// number is that of a device of this epoch.
func (r *Run) number(device int) uint32 {
	return uint32(r.announced.Epoch-1)*uint32(r.o.People) + uint32(device)
}

// enrol takes a slot for each device, in a random order. It returns the slots by device.
func (r *Run) enrol(ctx context.Context) ([]uint32, error) {
	if err := r.keys(ctx); err != nil {
		return nil, err
	}
	slots := make([]uint32, r.o.People)
	for _, device := range r.rng.Perm(r.o.People) {
		request, _, err := wire.Sign(&wire.EnrolRequest{
			Deployment: r.d.Name, Epoch: r.announced.Epoch, Announcement: r.digest[:], Device: r.number(device),
			Credential: r.d.Credential, Nonces: []uint32{seal.Nonce()},
		}, r.d.Host)
		if err != nil {
			return nil, err
		}
		if slots[device], err = r.slot(ctx, request); err != nil {
			return nil, fmt.Errorf("marked: device %d: %w", device, err)
		}
	}
	return slots, nil
}

// again is the pause before a shuffler is asked again that has not heard of the announcement yet.
const again = 10 * time.Millisecond

// slot asks for a slot until the shuffler knows of the epoch.
func (r *Run) slot(ctx context.Context, request []byte) (uint32, error) {
	sealed, err := wire.SealRequest(request, r.key, r.d.Name)
	if err != nil {
		return 0, err
	}
	for {
		answer, err := r.d.Connect[bus.Randomizer].Enrolment.Enrol(ctx, sealed.Sealed)
		if err != nil {
			return 0, err
		}
		reply, err := sealed.Answer(answer, r.d.Shuffler)
		if err != nil {
			return 0, err
		}
		if reply.Enrolled {
			return reply.Slot, nil
		}
		if reply.Refusal != wire.RefusalWrongEpoch {
			return 0, fmt.Errorf("refused a slot: %s", reply.Refusal)
		}
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// report sends a report of each device, one after another in a random order, each with marked messages. waited tells
// whether nothing of the round stood at the broker before the last report was sent.
func (r *Run) report(ctx context.Context, slots []uint32) (waited bool, err error) {
	devices := r.rng.Perm(r.o.People)
	payloads := r.mark(devices, slots)
	within := seal.ReportContext{Deployment: r.d.Name, Epoch: r.announced.Epoch, Round: r.announced.Round}
	for arrival, device := range devices {
		report, err := wire.BuildReport(wire.Report{
			Announcement: r.digest, Epoch: r.announced.Epoch, Round: r.announced.Round, Slot: slots[device],
			Device: r.number(device), Payload: payloads[arrival],
		}, r.d.Host)
		if err != nil {
			return false, err
		}
		envelope, err := wire.SealReport(report, r.key, within)
		if err != nil {
			return false, err
		}
		if arrival == r.o.People-1 {
			if waited, err = r.nothing(ctx); err != nil {
				return false, err
			}
		}
		id := hex.EncodeToString(binary.BigEndian.AppendUint32(nil, r.number(device)))
		err = r.d.Connect[bus.Randomizer].Reports.PublishReport(ctx, r.announced.Epoch, r.announced.Round, id, envelope)
		if err != nil {
			return false, err
		}
	}
	return waited, nil
}

// mark makes the payloads of devices in the order in which they will arrive, and remembers their messages.
func (r *Run) mark(devices []int, slots []uint32) (payloads [][]byte) {
	marks := map[string]place{}
	for arrival, device := range devices {
		payload := make([]byte, r.Messages()*seal.BitSize)
		seal.Random(payload)
		shuffle.WriteLabels(payload, r.announced.Encodings)
		i := 0
		for message := range slices.Chunk(payload, seal.BitSize) {
			marks[string(message)] = place{
				[views]int{byArrival: arrival, bySlot: int(slots[device]), byDevice: device}, i,
			}
			i++
		}
		payloads = append(payloads, payload)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks = marks
	return payloads
}

// keys reads the shuffler's HPKE key, once there is one.
func (r *Run) keys(ctx context.Context) error {
	payload, err := r.d.Connect[bus.Randomizer].Keys.ReadKeys(ctx, bus.Shuffler)
	for errors.Is(err, bus.ErrGone) {
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		payload, err = r.d.Connect[bus.Randomizer].Keys.ReadKeys(ctx, bus.Shuffler)
	}
	if err != nil {
		return err
	}
	set, _, err := wire.Open[wire.KeySet](payload, wire.Party{Deployment: r.d.Name, Key: r.d.Shuffler})
	if err != nil {
		return err
	}
	r.key = set.Keys[0]
	return nil
}
