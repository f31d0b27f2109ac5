package device

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What a reply says of a panel is verified: the pool, the draw, and whether the device's rank allows what is said. A
// reply that cannot be true is kept as evidence and gives no place; nothing stays set aside for it.
func TestRepliesOfPanelsAreVerified(t *testing.T) {
	f := newFixture(t)
	a := f.panel()
	drawn := func(change func(*wire.Pool, *wire.Draw)) wire.EnrolReply {
		r := f.drawn(a)
		r.Pool, r.Draw = f.statements(a, true, change)
		return r
	}
	for name, of := range map[string]struct {
		reply wire.EnrolReply
		what  string
	}{
		"without statements": {wire.EnrolReply{Enrolled: true}, "without the pool"},
		"not drawn, without statements": {
			wire.EnrolReply{Refusal: wire.RefusalNotDrawn}, "without the pool"},
		"a pool of another epoch": {
			drawn(func(p *wire.Pool, _ *wire.Draw) { p.Epoch = 2 }), "pool is one for another announcement"},
		"a pool for another announcement": {
			drawn(func(p *wire.Pool, _ *wire.Draw) { p.Announcement = make([]byte, 32) }),
			"pool is one for another announcement"},
		"a pool of another deployment": {
			drawn(func(p *wire.Pool, _ *wire.Draw) { p.Deployment = "other" }), "not the shuffler's"},
		"too small a pool": {
			drawn(func(p *wire.Pool, _ *wire.Draw) { p.Registered = registered - 1 }), "has 39 devices"},
		"a draw of another epoch": {
			drawn(func(_ *wire.Pool, d *wire.Draw) { d.Epoch = 2 }), "draw is one for another announcement"},
		"a draw for another announcement": {
			drawn(func(_ *wire.Pool, d *wire.Draw) { d.Announcement = make([]byte, 32) }),
			"draw is one for another announcement"},
		"a draw of another deployment": {
			drawn(func(_ *wire.Pool, d *wire.Draw) { d.Deployment = "other" }), "not the analyzer's"},
		"a draw for another pool": {
			drawn(func(_ *wire.Pool, d *wire.Draw) { d.Pool = make([]byte, 32) }), "another pool"},
		"a contribution that was not committed to": {
			drawn(func(_ *wire.Pool, d *wire.Draw) { d.Contribution = make([]byte, 32) }), "another contribution"},
		"a slot outside of the panel": {
			func() wire.EnrolReply { r := drawn(nil); r.Slot = a.Cohort.Size; return r }(), "slot 12 of a panel of 12"},
		"drawn, and by its rank not": {
			func() wire.EnrolReply {
				r := f.drawn(a)
				r.Pool, r.Draw = f.statements(a, false, nil)
				return r
			}(), "is in the panel, and by its rank it is not"},
		"not drawn, and by its rank drawn": {
			func() wire.EnrolReply {
				r := f.notDrawn(a)
				r.Pool, r.Draw = f.statements(a, true, nil)
				return r
			}(), "is not in the panel, and by its rank it is"},
		"statements of the wrong servers": {
			func() wire.EnrolReply { r := f.drawn(a); r.Pool, r.Draw = r.Draw, r.Pool; return r }(),
			"not the shuffler's"},
		"a draw that is a pool": {
			func() wire.EnrolReply { r := f.drawn(a); r.Draw = r.Pool; return r }(), "not the analyzer's"},
	} {
		d, _ := f.member()
		sealed := must(d.Enrol(start))
		asked := f.asked(sealed)
		reply := f.reply(sealed, of.reply)
		request, signed := asked.Signed, must(asked.OpenReply(reply))
		got, err := d.Answer(reply, start)
		var proof *Evidence
		if !errors.As(err, &proof) || got.Enrolled || !strings.Contains(proof.What, of.what) {
			t.Errorf("%s: %+v %v", name, got, err)
			continue
		}
		if !bytes.Equal(proof.Request, request) || !bytes.Equal(proof.Reply, signed) || proof.Epoch != 1 ||
			proof.Device != 3 {
			t.Errorf("%s: evidence %+v", name, proof)
		}
		d = f.restart(d)
		s := d.Status()
		if s.Evidence == nil || s.Evidence.What != proof.What || len(s.Ledger.Entries) != 0 || s.ReportAt != nil {
			t.Errorf("%s: %+v", name, s)
		}
		second := after(a) // later epochs go on, and the first evidence stays
		must(d.Follow(f.announce(second), start))
		if got := must(d.Answer(f.reply(must(d.Enrol(start)), f.drawn(second)), start)); !got.Enrolled ||
			d.Status().Evidence.Epoch != 1 {
			t.Errorf("%s: in the next epoch %+v", name, got)
		}
	}
}

// A shuffler that says "not registered" of a device may be right once, when the device came after the pool. It lies in
// every epoch after one in which it answered the device.
func TestADeniedRegistrationIsALie(t *testing.T) {
	f := newFixture(t)
	late := wire.EnrolReply{Refusal: wire.RefusalNotRegistered}
	for name, of := range map[string]struct {
		first wire.EnrolReply
		lies  bool
	}{
		"after it came late": {late, true}, "after it was not drawn": {f.notDrawn(f.panel()), true},
		"after another refusal":    {wire.EnrolReply{Refusal: wire.RefusalSponsorShare}, false},
		"after it was not in time": {wire.EnrolReply{Refusal: wire.RefusalWrongEpoch}, false},
	} {
		d, a := f.member()
		if _, err := d.Answer(f.reply(must(d.Enrol(start)), of.first), start); err != nil {
			t.Errorf("%s: the first answer: %v", name, err)
		}
		if _, err := d.Answer(f.reply(must(d.Enrol(start)), late), start); err != nil {
			t.Errorf("%s: the same epoch: %v", name, err)
		}
		d, _ = f.member()
		registration := d.state.Registration.Reply
		must(d.Answer(f.reply(must(d.Enrol(start)), of.first), start))
		d = f.restart(d)
		must(d.Follow(f.announce(after(a)), start))
		_, err := d.Answer(f.reply(must(d.Enrol(start)), late), start)
		var proof *Evidence
		if errors.As(err, &proof) != of.lies || !of.lies && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if of.lies && (!bytes.Equal(proof.Registration, registration) || proof.Since != 1) {
			t.Errorf("%s: %+v", name, proof)
		}
	}
}

// A reply to a registration that gives a place, one to another request, and one of another key register nobody; a
// refusal is told, and the device may ask again.
func TestRepliesToRegistrations(t *testing.T) {
	f := newFixture(t)
	d, a := f.opened(f.panels()), f.panel()
	must(d.Follow(f.announce(a), start))
	if _, _, err := d.Registered(nil); err == nil {
		t.Error("a reply to nothing is taken")
	}
	request := must(d.Register())
	pool, draw := f.statements(a, true, nil)
	other := must(f.asked(request).SealReply(sign(&wire.EnrolReply{Request: make([]byte, 32), Enrolled: true},
		f.shuffler)))
	for name, reply := range map[string][]byte{
		"a slot":          f.reply(request, wire.EnrolReply{Enrolled: true, Slot: 1}),
		"a time":          f.reply(request, wire.EnrolReply{Enrolled: true, ReportAfter: 1e9}),
		"a commitment":    f.reply(request, wire.EnrolReply{Enrolled: true, Commitment: make([]byte, 32)}),
		"a pool":          f.reply(request, wire.EnrolReply{Enrolled: true, Pool: pool, Draw: draw}),
		"another request": other,
		"another key":     f.replyBy(f.analyzer, request, wire.EnrolReply{Enrolled: true}),
	} {
		if _, _, err := d.Registered(reply); err == nil || d.state.Registered() {
			t.Errorf("%s: %v", name, err)
		}
	}
	no := f.reply(request, wire.EnrolReply{Refusal: wire.RefusalNoCredential})
	if refusal, again, err := d.Registered(no); refusal != "no_credential" || again || err != nil ||
		d.Status().Registered {
		t.Error(refusal, err)
	}
	later := f.reply(must(d.Register()), wire.EnrolReply{Refusal: wire.RefusalWrongEpoch})
	if refusal, again, err := d.Registered(later); refusal != "wrong_epoch" || !again || err != nil ||
		d.Status().Registered {
		t.Error(refusal, again, err)
	}
	f.register(d)
	if !f.restart(d).Status().Registered {
		t.Error("a restart forgets the registration")
	}
}

// A shuffler that registered the device before it first asked proves that the device's state is old; so does one that
// has a report of it that it has not made. After an answer that was lost, a registration that is held proves nothing.
func TestOldStatesOfPanelsAreProved(t *testing.T) {
	f := newFixture(t)
	held := wire.EnrolReply{Enrolled: true, Held: true}
	fresh := func() *Device {
		d := f.opened(f.panels())
		must(d.Follow(f.announce(f.panel()), start))
		return d
	}
	d := fresh()
	if _, _, err := d.Registered(f.reply(must(d.Register()), held)); !errors.Is(err, ErrRolledBack) {
		t.Errorf("registered before: %v", err)
	}
	for _, err := range []error{
		second(d.Register()), third(d.Registered(nil)), second(d.Enrol(start)), second(d.Answer(nil, start)),
	} {
		if !errors.Is(err, ErrRolledBack) {
			t.Errorf("after the proof: %v", err)
		}
	}
	for name, again := range map[string]func(*Device) *Device{
		"in one process": func(d *Device) *Device { return d }, "over a restart": f.restart,
	} {
		d := fresh()
		must(d.Register())
		d = again(d)
		if _, _, err := d.Registered(f.reply(must(d.Register()), held)); err != nil || !d.Status().Registered {
			t.Errorf("%s: after a lost answer: %v", name, err)
		}
	}
	for _, heard := range []bool{false, true} {
		d, a := f.member()
		must(d.Enrol(start))
		if heard {
			must(d.Enrol(start))
		}
		reported := f.drawn(a)
		reported.Held = true
		if _, err := d.Answer(f.reply(must(d.Enrol(start)), reported), start); !errors.Is(err, ErrRolledBack) {
			t.Errorf("a report that was made before: %v", err)
		}
	}
	// In panels an entry without an answer is taken back, so that "already enrolled" proves nothing.
	d, _ = f.member()
	served := f.reply(must(d.Enrol(start)), wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled})
	if got, err := d.Answer(served, start); err != nil || got.Refusal != "already_enrolled" {
		t.Errorf("%+v %v", got, err)
	}
}

func second[T any](_ T, err error) error { return err }

func third[T, U any](_ T, _ U, err error) error { return err }

// A device registers only under a plan that its limits allow, and asks only then.
func TestNobodyRegistersForAWeakPlan(t *testing.T) {
	f := newFixture(t)
	c := f.panels()
	c.Limits.MinCohort = 100
	d := must(Open(c, 3, nil))
	must(d.Follow(f.announce(f.panel()), start))
	var weak *WeakPlan
	if _, err := d.Register(); !errors.As(err, &weak) || weak.Limit != "min_cohort" || d.state.Registration != nil {
		t.Errorf("%v, %+v", err, d.state)
	}
}

// An analyzer may not change, in a running deployment, from whom panels are drawn, how many decisions a report holds,
// in how many epochs a device reports, or how features become vectors: those who registered were promised that.
func TestWhatPanelsKeep(t *testing.T) {
	f := newFixture(t)
	core := must(New(f.panels()))
	first := f.panel()
	last := must(core.Judge(f.announce(first), 1, 0))
	for what, change := range map[string]func(*plan.Announcement){
		"how many are registered": func(a *plan.Announcement) { a.Plan.Panel.Registered++ },
		"how many are dishonest":  func(a *plan.Announcement) { a.Plan.Panel.Dishonest = 0.01 },
		"the tail":                func(a *plan.Announcement) { a.Plan.Panel.Tail *= 2 },
		"decisions":               func(a *plan.Announcement) { a.Plan.Decisions++ },
		"records":                 func(a *plan.Announcement) { a.Plan.Records++ },
		"period":                  func(a *plan.Announcement) { a.Plan.Period = 9 },
		"no panels": func(a *plan.Announcement) {
			a.Plan.Panel, a.Plan.Decisions, a.Plan.Records, a.Commitment = nil, 0, 0, nil
		},
		"a schema": func(a *plan.Announcement) { a.Schema = []byte(onSchema) },
	} {
		next := after(first)
		if err := must(core.Judge(f.announce(next), 2, 0)).Follows(last); err != nil {
			t.Fatal(err)
		}
		change(next)
		if err := must(core.Judge(f.announce(next), 2, 0)).Follows(last); !errors.Is(err, ErrRewound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Where devices enrol as they arrive, a pool in a reply is none of theirs, and nothing of panels is verified.
func TestArrivalsKnowNoPanels(t *testing.T) {
	f := newFixture(t)
	d, _ := f.device("practical")
	a := f.panel()
	reply := f.drawn(a)
	if _, err := d.Answer(f.reply(must(d.Enrol(start)), reply), start); !errors.Is(err, ErrCommitment) {
		t.Errorf("a place in a panel: %v", err)
	}
	if s := d.Status(); s.Ledger.State(1) != privacy.Asked || s.Evidence != nil {
		t.Errorf("%+v", s)
	}
}

// A request has one nonce however often it is sent, over restarts too, and a copy of the state from before it draws
// another one: by that the shuffler tells a request that comes twice from an older copy.
func TestARequestKeepsItsNonce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, a := f.device(glm.Practical)
	older := f.restart(d)
	nonce := func(d *Device) uint32 {
		e, err := wire.OpenEnrolRequest(f.asked(must(d.Enrol(start))).Signed,
			wire.Party{Deployment: deployment, Key: f.registrar.Public()})
		if err != nil || len(e.Request.Nonces) != 1 || e.Request.Nonces[0] == 0 {
			t.Fatalf("%+v, %v", e.Request, err)
		}
		return e.Request.Nonces[0]
	}
	first := nonce(d)
	if again, restarted := nonce(d), nonce(f.restart(d)); again != first || restarted != first {
		t.Errorf("the nonce of a request is %d, then %d, and %d after a restart", first, again, restarted)
	}
	if other := nonce(older); other == first {
		t.Error("an older copy of the state draws the same nonce")
	}
	judged := must(d.core.Judge(f.announce(a), 1, 0))
	withdrawn := must(d.state.Withdraw(judged))
	if next := must(withdrawn.Ask(judged, start)); next.Request.Nonce != first || !next.Request.Unsure {
		t.Errorf("taken back upon the broker's word, the request is %+v, before it had the nonce %d", next.Request,
			first)
	}
	earlier := &wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
	if asked := must(withdrawn.Ask(judged, start)); asked.Contradicts(earlier, false) != "" ||
		d.state.Contradicts(earlier, false) == "" {
		t.Error("what the broker hid is taken for proof, or what it did not hide is not")
	}
}

// What the broker said of a registration proves nothing: neither of the registration, when it is asked for again, nor
// of the epochs after it. Without the broker's word, it is proof that the shuffler had registered the device before.
func TestARegistrationTakenBackUponTheBrokersWordIsNoProof(t *testing.T) {
	t.Parallel()
	held := &wire.EnrolReply{Enrolled: true, Held: true}
	asked := State{}.Register()
	if asked.Unregistered(held, false) == "" || asked.Unregistered(held, true) != "" {
		t.Error("a registration that was held is no proof, or is proof although a request may have been heard")
	}
	again := asked.Unasked().Register()
	if again.Request.Nonce != asked.Request.Nonce || again.Unregistered(held, false) != "" {
		t.Errorf("asked again as %+v, before as %+v: what the broker hid is taken for proof", again.Request,
			asked.Request)
	}
	if later := again.withRequest(7); !later.Request.Unsure || later.Request.Nonce == asked.Request.Nonce {
		t.Errorf("the request of a later epoch is %+v", later.Request)
	}
}
