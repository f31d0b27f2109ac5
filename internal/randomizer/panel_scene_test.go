package randomizer

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The panels of a scene: twelve devices out of at least thirty, three decisions in a report.
const panelPool, panelDecisions = 30, 3

// panelScene scripts the shuffler and the analyzer of a scene for panels. The scene's lock guards it.
type panelScene struct {
	*scene
	asks       map[[2]uint64]int // by device and epoch; registrations are of epoch 0
	sizes      map[int]bool      // of requests
	registered map[uint32]bool
	slots      map[uint32]uint32 // of the panel that is drawn
	pool, draw []byte
	drawnAt    time.Time
	lie        func(e wire.Enrolment, honest *wire.EnrolReply) // changes an answer; nil: none
	epochs     []*plan.Announcement
	schema     []byte // of features, announced in the first epoch and kept
	period     uint32 // epochs in which a budget is for two; 0: the deployment
	every      time.Duration
}

// ofPanels scripts a scene for panels, with limits that allow two epochs of a person.
func ofPanels(s *scene) *panelScene {
	p := &panelScene{
		scene: s, asks: map[[2]uint64]int{}, sizes: map[int]bool{}, registered: map[uint32]bool{},
	}
	s.config.Limits.Epsilon, s.config.Limits.Records = 100, 2
	s.answer = p.reply
	return p
}

// next draws up the announcement of the next epoch, and publishes it.
func (p *panelScene) next(window time.Duration) *plan.Announcement {
	p.t.Helper()
	a := p.Announcement(glm.Practical, 12)
	a.Plan.Panel = &plan.Panel{Registered: panelPool, Tail: 1e-9}
	a.Plan.Decisions, a.Plan.Records, a.Plan.Period, a.Timing.Every = panelDecisions, 2, p.period, p.every
	a.Schema = p.schema
	a.Timing.RewardWindow, a.Timing.Jitter = window, 20*time.Millisecond
	if n := len(p.epochs); n > 0 {
		last := p.epochs[n-1]
		_, digest := p.Sign(last, p.Analyzer)
		a = last.Clone()
		a.Epoch, a.Previous, a.Timing.RewardWindow = last.Epoch+1, digest[:], window
	}
	c := contributionOf(a.Epoch)
	commitment := panel.Commit(c[:])
	a.Commitment = commitment[:]
	p.mu.Lock()
	p.epochs, p.slots = append(p.epochs, a), nil
	p.mu.Unlock()
	p.open(a)
	return a
}

func contributionOf(epoch uint64) [32]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64([]byte("contribution"), epoch))
}

// drawNow draws the panel of an announcement from the devices that are registered and unknown ones, so that of the
// host's devices the members are in it, and no others.
func (p *panelScene) drawNow(a *plan.Announcement, members ...uint32) {
	p.t.Helper()
	_, digest := p.Sign(a, p.Analyzer)
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []panel.Device
	for number := range p.registered {
		all = append(all, panel.Device{Host: [32]byte(p.identity.Public()), Number: number})
	}
	for i := range uint32(panelPool) {
		all = append(all, panel.Device{Host: [32]byte{1}, Number: i})
	}
	root, c := panel.Root(all), contributionOf(a.Epoch)
	for try := range uint64(1 << 16) {
		own := sha256.Sum256(binary.BigEndian.AppendUint64(nil, try))
		pool, of := p.Sign(&wire.Pool{
			Deployment: testbed.Deployment, Epoch: a.Epoch, Announcement: digest[:], Registered: uint32(len(all)),
			Root: root[:], Contribution: own[:],
		}, p.Shuffler)
		seed, slots := panel.NewSeed(of, c[:]), map[uint32]uint32{}
		for slot, d := range seed.Panel(all, int(a.Cohort.Size)) {
			if d.Host == [32]byte(p.identity.Public()) {
				slots[d.Number] = uint32(slot)
			}
		}
		if len(slots) != len(members) || slices.ContainsFunc(members, func(n uint32) bool {
			_, in := slots[n]
			return !in
		}) {
			continue
		}
		p.slots, p.pool, p.drawnAt = slots, pool, p.clock.Now()
		p.draw, _ = p.Sign(&wire.Draw{
			Deployment: testbed.Deployment, Epoch: a.Epoch, Announcement: digest[:], Pool: of[:], Contribution: c[:],
		}, p.Analyzer)
		return
	}
	p.t.Fatal("no seed draws these devices")
}

// reply is the scripted shuffler's answer. The scene's lock is held.
func (p *panelScene) reply(e wire.Enrolment) *wire.EnrolReply {
	p.asks[[2]uint64{uint64(e.Request.Device), e.Request.Epoch}]++
	r := p.honest(e)
	if p.lie != nil {
		p.lie(e, r)
	}
	return r
}

func (p *panelScene) honest(e wire.Enrolment) *wire.EnrolReply {
	number := e.Request.Device
	if e.Request.Epoch == 0 {
		held := p.registered[number]
		p.registered[number] = true
		return &wire.EnrolReply{Enrolled: true, Held: held}
	}
	if p.slots == nil || e.Request.Epoch != p.announced.Epoch {
		return &wire.EnrolReply{Refusal: wire.RefusalWrongEpoch}
	}
	slot, in := p.slots[number]
	if !in {
		return &wire.EnrolReply{Refusal: wire.RefusalNotDrawn, Pool: p.pool, Draw: p.draw}
	}
	due := p.drawnAt.Add(p.announced.Timing.RewardWindow)
	return &wire.EnrolReply{
		Enrolled: true, Slot: slot, Pool: p.pool, Draw: p.draw,
		ReportAfter: max(0, due.Sub(p.clock.Now()).Truncate(time.Millisecond)),
	}
}

// name names a device to the host, and waits until it is registered; its number.
func (p *panelScene) name(device string) uint32 {
	p.t.Helper()
	if status, answer := p.post("/v1/devices/"+device, ""); status != 200 || answer["device"] != device {
		p.t.Fatalf("%s: %d %v", device, status, answer)
	}
	p.knows(device, "registered", true)
	return p.device(device).Number
}

// knows waits until the ledger of a device says something.
func (p *panelScene) knows(device, field string, value any) {
	p.t.Helper()
	testbed.Eventually(p.t, fmt.Sprintf("%s of %s %v", field, device, value), func() bool {
		_, answer := p.get("/v1/devices/" + device + "/ledger")
		return answer[field] == value
	})
}

// awaitDraw waits until the host knows for all its devices whether they are in the panel.
func (p *panelScene) awaitDraw(members int) {
	p.t.Helper()
	var asked time.Time
	testbed.Eventually(p.t, fmt.Sprintf("known who is in the panel: %d", members), func() bool {
		long := len(p.epochs) > 0 && p.epochs[len(p.epochs)-1].Timing.RewardWindow == testbed.Long
		if long && time.Since(asked) > time.Second/2 {
			asked = time.Now()
			p.clock.Pass(time.Minute) // no host waits for longer until it asks again
		}
		for _, s := range p.host.places.all() {
			s.mu.Lock()
			done := s.attended != nil && s.task == nil
			s.mu.Unlock()
			if !done {
				return false
			}
		}
		s := p.host.Status()
		return s.Panel != nil && s.Panel.Members == members
	})
}
