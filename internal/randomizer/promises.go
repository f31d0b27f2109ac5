package randomizer

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// unsampledToken begins the token of a decision that no device will report: its reward is accepted and forgotten. It is
// no letter of the alphabet of tokens: a sampled person's token must never begin with it.
const unsampledToken = "."

func newToken() string {
	var b [18]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// session is one promise to report until the last report has left. Its record exists here and nowhere else.
type session struct {
	token  string // of the one decision that it is about; empty where panels are drawn
	dev    *localDevice
	epoch  uint64
	slot   uint32
	number uint32
	due    time.Time // of the first report: the end of the reward window

	// Guarded by the device's lock.
	record device.Record
	owed   bool     // a report is promised and not sealed yet
	tokens []string // of its decisions
}

// decision is what a token names: which decision of a session.
type decision struct {
	session *session
	number  int
}

// promises are what the host's devices have promised: their sessions, and when their reports are due.
type promises struct {
	*core
	places    *places
	timetable *timetable

	lock    sync.Mutex
	tokens  map[string]decision
	open    map[uint32]*session // by device number
	pending int                 // promised reports that have not left
}

// Pending counts the promised reports that have not left.
func (p *promises) Pending() int64 {
	p.lock.Lock()
	defer p.lock.Unlock()
	return int64(p.pending)
}

// of is the open session of a device's number; nil where there is none.
func (p *promises) of(number uint32) *session {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.open[number]
}

// sessions are those that are open.
func (p *promises) sessions() []*session {
	p.lock.Lock()
	defer p.lock.Unlock()
	return slices.Collect(maps.Values(p.open))
}

// decisionOf is the decision of a token; without a session where there is none.
func (p *promises) decisionOf(token string) decision {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.tokens[token]
}

// name enters the token of a session's decision. The device's lock is held, or the host does not run yet.
func (p *promises) name(s *session, token string, number int) {
	s.tokens = append(s.tokens, token)
	p.lock.Lock()
	p.tokens[token] = decision{s, number}
	p.lock.Unlock()
}

// forgetTokens forgets the tokens of a session: the reward window is over. The session's device is locked.
func (p *promises) forgetTokens(s *session) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.dropTokens(s)
}

// dropTokens is forgetTokens where the lock is held.
func (p *promises) dropTokens(s *session) {
	for _, t := range s.tokens {
		delete(p.tokens, t)
	}
	s.tokens = nil
}

// blank has what a device has promised be reported as the null record, and what its open question will promise. The
// device's lock is held.
func (p *promises) blank(dev *localDevice) {
	dev.blank = dev.question != nil
	if s := p.of(dev.state.Number); s != nil && s.dev == dev {
		s.record.Forget()
		p.forgetTokens(s)
	}
}

// promise makes the enrolment durable and enters the report into the timetable. From here on there will be a report at
// that time.
func (p *promises) promise(a *device.Announced, dev *localDevice, reply *wire.EnrolReply) (*session, error) {
	dev.mu.Lock()
	defer dev.mu.Unlock()
	next, err := dev.state.Promise(a, reply, p.c.Clock.Now())
	if err != nil {
		return nil, fmt.Errorf("randomizer: %w", err)
	}
	if err := p.keep(dev, next); err != nil {
		return nil, fmt.Errorf("randomizer: the enrolment cannot be kept: %w", err)
	}
	if a.Panels() { // once the session is over
		dev.why = because(WindowOver, "the report of epoch %d has left", a.Epoch)
	}
	s := p.begin(dev, a)
	p.c.Reports.Received(1)
	p.owe(job{s.due, s, a})
	if p.isRolledBack() { // proved while this was made durable
		p.drop(s, StateRolledBack)
	}
	return s, nil
}

// owe enters a report into the timetable. The device's lock is held, or the host does not run yet.
func (p *promises) owe(j job) {
	j.session.owed = true
	p.lock.Lock()
	p.pending++
	p.lock.Unlock()
	p.timetable.enter(j)
}

// begin opens the session of a device's enrolment, with the null record until a reward comes. The device's lock is
// held, or the host does not run yet.
func (p *promises) begin(dev *localDevice, a *device.Announced) *session {
	e := dev.state.Enrolment
	s := &session{
		dev: dev, epoch: e.Epoch, slot: e.Slot, number: dev.state.Number, due: e.ReportAt,
		record: dev.state.Begin(a),
	}
	if dev.blank {
		s.record.Forget()
		dev.blank = false
	}
	p.lock.Lock()
	p.open[s.number] = s
	p.lock.Unlock()
	if !a.Panels() { // where the decision is one for sure, and its token is told before it is made
		s.token = newToken()
		p.name(s, s.token, 0)
	}
	return s
}

// end closes a session: what is left of its record is wiped.
func (p *promises) end(s *session) {
	s.record.Wipe()
	p.lock.Lock()
	p.dropTokens(s)
	if p.open[s.number] == s {
		delete(p.open, s.number)
	}
	p.lock.Unlock()
}

// recall opens sessions for what an earlier process promised in the epoch in force: their records are gone, so they are
// null.
func (p *promises) recall() {
	a := p.inForce()
	if a == nil || p.isRolledBack() {
		return
	}
	for _, dev := range p.places.all() {
		if !dev.state.Owes(a) {
			continue
		}
		p.countMember(a)
		s := p.begin(dev, a)
		if s.record.Reported() > 0 {
			continue // a later round will tell
		}
		p.c.Reports.Resumed(1)
		p.owe(job{s.due, s, a})
		if a.Weak() != nil { // the host's limits are stricter than they were: it keeps to them
			p.drop(s, BadPlan)
		}
	}
}

// resume takes the announcement in force to the open sessions: those of earlier epochs are over, those of a later round
// of this one report again, each at a public time of its own.
func (p *promises) resume() {
	a, sessions := p.inForce(), p.sessions()
	if a == nil {
		return
	}
	for _, s := range sessions {
		s.dev.mu.Lock()
		switch {
		case s.record.Over():
		case s.epoch != a.Epoch:
			p.drop(s, EpochOver)
		case a.Round > 0 && a.Weak() != nil:
			p.drop(s, BadPlan)
		case a.Round > 0 && s.record.Reported() == int(a.Round) && !s.owed:
			p.c.Reports.Received(1)
			p.owe(job{p.c.Clock.Now().Add(a.Jitter(s.slot)), s, a})
		}
		s.dev.mu.Unlock()
	}
}

// drop ends a session whose next report, if it owes one, will not be sent.
func (p *promises) drop(s *session, why outcome.Reason) {
	p.end(s)
	if !s.owed {
		return
	}
	s.owed = false
	p.left()
	p.c.Reports.Refused(why, 1)
}

// left counts a promised report that left, or will not be sent.
func (p *promises) left() {
	p.lock.Lock()
	p.pending--
	p.lock.Unlock()
}
