package device

import (
	"crypto/sha256"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The panels of the fixture: twelve devices of at least forty, three decisions in a report, two epochs of a device.
const registered, perReport, perPerson = 40, 3, 2

// panels is config for the fixture's panels.
func (f *fixture) panels() Config {
	c := f.config()
	c.Limits.Epsilon, c.Limits.Records = 100, 0 // as many epochs as the plan says
	return c
}

// contribution is the analyzer's in an epoch.
func contribution(epoch uint64) [32]byte { return sha256.Sum256([]byte{byte(epoch)}) }

// ofPanels makes an announcement one of panels.
func ofPanels(a *plan.Announcement) *plan.Announcement {
	out := a.Clone()
	out.Plan.Panel = &plan.Panel{Registered: registered, Tail: 1e-9}
	out.Plan.Decisions, out.Plan.Records = perReport, perPerson
	c := contribution(a.Epoch)
	commitment := panel.Commit(c[:])
	out.Commitment = commitment[:]
	return out
}

// panel is the first announcement of a deployment that draws panels.
func (f *fixture) panel() *plan.Announcement {
	if f.ofPanels == nil {
		f.ofPanels = ofPanels(f.announcement(glm.Practical))
	}
	return f.ofPanels.Clone()
}

// after is the announcement of the next epoch.
func after(a *plan.Announcement) *plan.Announcement {
	out, digest := a.Clone(), digestOf(a)
	out.Epoch, out.Previous = a.Epoch+1, digest[:]
	c := contribution(out.Epoch)
	commitment := panel.Commit(c[:])
	out.Commitment = commitment[:]
	return out
}

// statements are the pool and the draw of an announcement, by which the device with number 3 is in the panel or not.
// What change does to them is signed, too.
func (f *fixture) statements(a *plan.Announcement, in bool, change func(*wire.Pool, *wire.Draw)) (pool, draw []byte) {
	digest, c := digestOf(a), contribution(a.Epoch)
	all := []panel.Device{{Host: [32]byte(f.identity.Public()), Number: 3}}
	for i := range uint32(registered - 1) {
		all = append(all, panel.Device{Host: [32]byte{byte(i)}, Number: i})
	}
	root := panel.Root(all)
	for try := byte(0); ; try++ {
		own := sha256.Sum256([]byte{try})
		p := &wire.Pool{
			Deployment: deployment, Epoch: a.Epoch, Announcement: digest[:], Registered: registered, Root: root[:],
			Contribution: own[:],
		}
		d := &wire.Draw{Deployment: deployment, Epoch: a.Epoch, Announcement: digest[:], Contribution: c[:]}
		if change != nil {
			change(p, d)
		}
		signed, of, err := wire.Sign(p, f.shuffler)
		if err != nil {
			f.Fatal(err)
		}
		if len(d.Pool) == 0 {
			d.Pool = of[:]
		}
		rank := panel.NewSeed(of, d.Contribution).Rank(all[0])
		drawn := panel.Plausible(rank, registered, int(a.Cohort.Size), true)
		out := panel.Plausible(rank, registered, int(a.Cohort.Size), false)
		// The extremes only: a rank near the boundary proves nothing of either answer.
		if in && !out || !in && !drawn {
			return signed, sign(d, f.analyzer)
		}
		if try == 255 {
			f.Fatal("no draw is extreme enough")
		}
	}
}

// drawn is the shuffler's answer that the device is in the panel, in slot 7, and has a minute left.
func (f *fixture) drawn(a *plan.Announcement) wire.EnrolReply {
	r := wire.EnrolReply{Enrolled: true, Slot: 7, ReportAfter: time.Minute}
	r.Pool, r.Draw = f.statements(a, true, nil)
	return r
}

// notDrawn is the answer that it is not.
func (f *fixture) notDrawn(a *plan.Announcement) wire.EnrolReply {
	r := wire.EnrolReply{Refusal: wire.RefusalNotDrawn}
	r.Pool, r.Draw = f.statements(a, false, nil)
	return r
}

// member is a registered device of the fixture's panels, under the first announcement.
func (f *fixture) member() (*Device, *plan.Announcement) {
	f.Helper()
	d, a := must(Open(f.panels(), 3, nil)), f.panel()
	must(d.Follow(f.announce(a), start))
	if err := d.Keys(f.keys(1, f.shufflerKey)); err != nil {
		f.Fatal(err)
	}
	f.register(d)
	return d, a
}

func (f *fixture) register(d *Device) {
	f.Helper()
	request := must(d.Register())
	refusal, again, err := d.Registered(f.reply(request, wire.EnrolReply{Enrolled: true}))
	if refusal != "" || again || err != nil {
		f.Fatal(refusal, err)
	}
}
