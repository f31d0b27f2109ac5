package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	hoststore "github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// oracle knows what every device put into its reports, and holds what leaves each role against it. It sees bytes
// before the broker does: what was tried and lost counts as having left.
type oracle struct {
	w     *World
	marks []testbed.Mark // of records
	// credentials are the hosts', each verified once
	credentials *wire.Credentials

	decoding sync.Mutex
	events   map[*byte]*cohort.Event // of journals, by where their entry is

	mu        sync.Mutex
	reports   map[[32]byte]*report // by digest
	owners    map[string]*report   // of each message of the channels with messages
	first     map[mark][32]byte    // the report of a device in a round
	rounds    map[round]*released
	announced map[round]*announcement
	counted   map[mark][]round     // in which a device was counted
	due       map[uint64]time.Time // when the last report of an epoch is due, by the simulation's time
	// acknowledged reports of which a process's disk did not have that they are admitted, by sequence
	early     map[*incarnation]map[uint64]bool
	lastEpoch uint64 // announced
	ended     bool   // the last policy is announced
	released  int
	destroyed int
}

// round names a round.
type round struct {
	epoch uint64
	round uint32
}

// mark is a device in a round: what must not be counted twice. A device in any round has the zero round.
type mark struct {
	host   [32]byte
	device uint32
	at     round
}

// report is what a device sent.
type report struct {
	mark
	*wire.Report
	digest [32]byte
}

// announcement is what a round was announced as.
type announcement struct {
	*plan.Announcement
	digest [32]byte
}

// released is what left of a round.
type released struct {
	chunks   map[uint32][]byte
	manifest []byte
	digest   [32]byte // the manifest's
	m        *wire.Manifest
	out      bool // the manifest was published, or that was tried
	taken    bool // other chunks left before, and the broker said so
	counts   []byte
	members  []*report
}

func newOracle(w *World) *oracle {
	return &oracle{
		w: w, marks: testbed.Marks(markArm), events: map[*byte]*cohort.Event{},
		credentials: wire.NewCredentials(wire.Party{Deployment: testbed.Deployment, Key: w.keys.registrar.Public()}),
		reports:     map[[32]byte]*report{}, owners: map[string]*report{}, first: map[mark][32]byte{},
		rounds: map[round]*released{}, announced: map[round]*announcement{}, counted: map[mark][]round{},
		early: map[*incarnation]map[uint64]bool{}, due: map[uint64]time.Time{},
	}
}

// progress is how many cohorts were counted.
func (o *oracle) progress() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.released
}

// final reports whether learning is over.
func (o *oracle) final() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

func (o *oracle) at(r round) *released {
	l := o.rounds[r]
	if l == nil {
		l = &released{chunks: map[uint32][]byte{}}
		o.rounds[r] = l
	}
	return l
}

// announcement sees what the analyzer announces.
func (o *oracle) announcement(_ *incarnation, signed []byte) {
	w := o.w
	party := wire.Party{Deployment: testbed.Deployment, Key: w.keys.analyzer.Public()}
	a, digest, err := wire.Open[plan.Announcement](signed, party)
	if err != nil {
		w.violated("announcement", "%v", err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r := round{a.Epoch, a.Round}
	if before := o.announced[r]; before != nil && before.digest != digest {
		w.violated("announcement", "a second one of round %v", r)
		return
	}
	o.announced[r] = &announcement{a, digest}
	o.lastEpoch, o.ended = max(o.lastEpoch, a.Epoch), o.ended || a.Final
}

// report sees what a host sends.
func (o *oracle) report(i *incarnation, epoch uint64, number uint32, envelope []byte) {
	w := o.w
	o.leak("a report of "+i.p.name, envelope)
	plain, err := w.open(epoch, number, envelope)
	if err != nil {
		w.violated("report", "%s sends what does not open: %v", i.p.name, err)
		return
	}
	r, digest, err := wire.ParseReport(plain, payloadOf(len(plain)))
	if err != nil {
		w.violated("report", "%s sends what is no report: %v", i.p.name, err)
		return
	}
	m := mark{r.HostKey, r.Device, round{epoch, number}}
	one := &report{m, r, digest}
	o.spent(i, one)
	o.mu.Lock()
	defer o.mu.Unlock()
	if before, sent := o.first[m]; sent && before != digest && !i.p.back {
		w.violated("second report", "device %d of %s sends two different reports in round %v", r.Device, i.p.name, m.at)
	} else if !sent {
		o.first[m] = digest
	}
	o.reports[digest] = one
	for _, message := range o.messages(r.Payload) {
		if other := o.owners[string(message)]; other != nil && other.digest != digest {
			w.violated("repeated message", "device %d of %s sends a message that was sent before", r.Device, i.p.name)
		}
		o.owners[string(message)] = one
	}
}

// messages are what of a payload is in a release as it is.
func (o *oracle) messages(payload []byte) [][]byte {
	switch o.w.list.Channel {
	case plan.Shuffle:
		return slices.Collect(slices.Chunk(payload, seal.BitSize))
	case plan.Local, plan.Central:
		return [][]byte{payload}
	}
	return nil
}

// leak sees that nothing of a record is where others can read it.
func (o *oracle) leak(where string, b []byte) {
	for _, found := range testbed.Find(b, o.marks) {
		o.w.violated("leak", "%s: %s", where, found)
	}
}

// spent holds a report that leaves against the ledger on its host's disk: what it costs is there before.
func (o *oracle) spent(i *incarnation, r *report) {
	spent, due := false, time.Time{}
	i.disk.contents(func(where string, b []byte) {
		var d hoststore.Device
		if where != storeFile || json.Unmarshal(b, &d) != nil || d.Number != r.Device {
			return
		}
		for _, e := range d.Ledger.Entries {
			spent = spent || e.Epoch == r.at.epoch && e.State == privacy.Spent
		}
		if d.Enrolment != nil && d.Enrolment.Epoch == r.at.epoch {
			due = d.Enrolment.ReportAt
		}
	})
	if now := i.p.clock.Now(); now.Before(due) {
		o.w.violated("early", "the report of device %d of %s leaves %v before its time", r.Device, i.p.name,
			due.Sub(now))
	}
	if spent {
		return
	}
	o.w.violated("ledger", "a report of device %d of %s leaves in epoch %d and its disk does not have it as spent",
		r.Device, i.p.name, r.at.epoch)
}

// chunk sees what the shuffler forwards.
func (o *oracle) chunk(i *incarnation, epoch uint64, number, index uint32, payload []byte) {
	if !i.committed(epoch, number) {
		o.w.violated("commit", "a chunk of round %d of epoch %d leaves, and the journal does not have its membership",
			number, epoch)
	}
	o.leak("a chunk", payload)
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.at(round{epoch, number})
	if before, sent := l.chunks[index]; sent && !bytes.Equal(before, payload) && !i.p.back {
		o.w.violated("retry", "chunk %d of round %d of epoch %d leaves a second time with other bytes", index, number,
			epoch)
	}
	l.chunks[index] = bytes.Clone(payload)
}

// taken sees that the broker refuses a chunk, because it holds another one. A shuffler that knows nothing of what left
// before its state was set back tries that once more with other members: the broker's answer is how it hears of them,
// and the round must not be released then.
func (o *oracle) taken(epoch uint64, number, index uint32, stored []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.at(round{epoch, number})
	l.chunks[index], l.taken = stored, true
}

// manifest sees what the shuffler states.
func (o *oracle) manifest(i *incarnation, signed []byte, out bool) {
	w := o.w
	party := wire.Party{Deployment: testbed.Deployment, Key: w.keys.shuffler.Public()}
	m, digest, err := wire.Open[wire.Manifest](signed, party)
	if err != nil {
		w.violated("manifest", "%v", err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r := round{m.Epoch, m.Round}
	l := o.at(r)
	if l.manifest != nil && !bytes.Equal(l.manifest, signed) {
		if !i.p.back || w.broker.Holds(bus.StreamAudit, l.manifest) || w.broker.Holds(bus.StreamMixed, l.manifest) {
			w.violated("retry", "two manifests of round %v: %v of %d reports, and %v of %d", r, l.m.Outcome,
				l.m.Reports, m.Outcome, m.Reports)
			return
		}
		o.unsaid(r, l) // the first was lost with the process that tried to state it, and with the process's state
	}
	if l.manifest == nil {
		l.manifest, l.digest, l.m = bytes.Clone(signed), digest, m
		if m.Outcome == wire.Released {
			if l.taken {
				w.violated("retry", "round %v is released, and the broker holds other chunks of it", r)
			}
			o.membership(r, l)
		}
	}
	l.out = l.out || out
	if out {
		logged := false
		i.disk.contents(func(_ string, b []byte) { logged = logged || bytes.Contains(b, signed) })
		if !logged {
			w.violated("log", "the manifest of round %v leaves before it is in the shuffler's log", r)
		}
	}
}

// unsaid takes back what a manifest that reached nobody said.
func (o *oracle) unsaid(r round, l *released) {
	for _, one := range l.members {
		who := mark{host: one.host, device: one.device}
		o.counted[who] = slices.DeleteFunc(o.counted[who], func(other round) bool { return other == r })
	}
	l.manifest, l.m, l.members = nil, nil, nil
}

// counts sees what the analyzer counted.
func (o *oracle) counts(_ *incarnation, signed []byte) {
	w := o.w
	c, _, err := wire.Open[wire.Counts](signed, wire.Party{Deployment: testbed.Deployment,
		Key: w.keys.analyzer.Public()})
	if err != nil {
		w.violated("counts", "%v", err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	r := round{c.Epoch, c.Round}
	l := o.at(r)
	if l.counts != nil {
		if !bytes.Equal(l.counts, signed) && !w.parties["analyzer"].back {
			w.violated("retry", "two counts of round %v", r)
		}
		return
	}
	l.counts = bytes.Clone(signed)
	if l.m == nil || l.digest != [32]byte(c.Manifest) {
		w.violated("counts", "round %v is counted under a manifest that the shuffler did not sign", r)
		return
	}
	if c.Destroyed {
		o.destroyed++
		if l.m.Outcome == wire.Released {
			w.violated("counts", "round %v was released, and the analyzer does not count it", r)
		}
		return
	}
	o.released++
	if l.m.Outcome != wire.Released || c.Reports != l.m.Reports {
		w.violated("counts", "round %v: %d reports are counted, the manifest says %v of %d", r, c.Reports, l.m.Outcome,
			l.m.Reports)
		return
	}
	if l.members != nil {
		o.exact(r, l, c)
	}
}

// open opens an envelope with any of the shuffler's keys.
func (w *World) open(epoch uint64, number uint32, envelope []byte) ([]byte, error) {
	opener, err := seal.NewReportOpener(w.keys.reports...)
	if err != nil {
		return nil, err
	}
	return wire.OpenEnvelope(envelope, opener, seal.ReportContext{
		Deployment: testbed.Deployment, Epoch: epoch, Round: number,
	})
}

// payloadOf is the length of the payload of a report of so many bytes.
func payloadOf(length int) int {
	for n := max(1, length-400); n < length; n++ {
		if wire.ReportSize(n) == length {
			return n
		}
	}
	return 0
}

// anyBack reports whether a state was set back in this run.
func (w *World) anyBack() bool {
	for _, p := range w.parties {
		if p.back {
			return true
		}
	}
	return false
}

// patience is how long a decision may take: as long as a host waits for the shuffler, and a moment.
const patience = 6 * time.Second

// look is the oracle's look at what is left when the list is over.
func (o *oracle) look() {
	w := o.w
	w.mu.Lock()
	decisions := slices.Clone(w.decisions)
	w.mu.Unlock()
	for _, d := range decisions {
		if took := d.answered - d.asked; d.done && d.err == nil && took > patience && !d.i.p.slow {
			w.violated("decision", "person %d waited %v for a decision", d.person, took)
		}
	}
	for _, p := range w.order {
		if p.run != nil && p.run.host != nil && len(p.excuse) == 0 && p.run.host.Status().Refused != "" {
			w.violated("refused", "%s takes no part, and nothing was done to it: %s", p.name,
				p.run.host.Status().Refused)
		}
	}
	for _, name := range who() {
		p := w.parties[name]
		p.disk.clone().contents(func(where string, b []byte) { o.leak("the disk of "+name+", "+where, b) })
	}
	w.mu.Lock()
	spoken := w.spoken
	w.mu.Unlock()
	o.leak("a role's log", spoken)
}

func (r round) String() string { return fmt.Sprintf("%d.%d", r.epoch, r.round) }
