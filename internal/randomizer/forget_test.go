package randomizer

import (
	"context"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/client"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// erase, optOut and optIn are what apps ask for, by the client.
func (s *scene) erase(name string)  { s.forget(name, (*client.Client).Erase) }
func (s *scene) optOut(name string) { s.forget(name, out(true)) }
func (s *scene) optIn(name string)  { s.forget(name, out(false)) }

type forgets = func(*client.Client, context.Context, client.Base, string) error

func out(is bool) forgets {
	return func(c *client.Client, ctx context.Context, at client.Base, name string) error {
		return c.OptOut(ctx, at, name, is)
	}
}

func (s *scene) forget(name string, by forgets) {
	s.t.Helper()
	c := client.New(client.Options{GiveUp: -1})
	defer c.Close()
	s.must(by(c, s.Context(), client.At(s.api.URL), name))
}

// holdsNothing checks that the promise of a device is still to be kept, and holds no decision, now and later. One that
// is held takes no second reward that differs.
func (s *scene) holdsNothing(name string) {
	s.t.Helper()
	held := s.host.promises.of(s.device(name).Number)
	if held == nil {
		s.t.Fatalf("%s has no promise", name)
	}
	held.dev.mu.Lock()
	defer held.dev.mu.Unlock()
	for _, reward := range []float64{0.123, 0.456} {
		if _, err := held.record.Reward(0, reward, s.clock.Now()); err != nil {
			s.t.Errorf("%s still holds its record: %v", name, err)
		}
	}
	if !held.record.Full() || held.record.Over() || len(held.tokens) > 0 {
		s.t.Errorf("the record of %s takes decisions, or no report is made of it", name)
	}
}

// reward tells a reward, and wants that status.
func (s *scene) reward(token any, status int) {
	s.t.Helper()
	if got, answer := s.post("/v1/rewards", fmt.Sprintf(`{"token": %q, "reward": 1}`, token)); got != status {
		s.t.Errorf("a reward: %d %v, want %d", got, answer, status)
	}
}

// onDisk are the marks that a file of the state folder has.
func (s *scene) onDisk(marks map[string][]byte) (found []string) {
	s.t.Helper()
	var all []testbed.Mark
	for what, b := range marks {
		all = append(all, testbed.Mark{What: what, Bytes: b})
	}
	found, files := testbed.FindInFolder(s.t, s.config.StateDir, all)
	if files == 0 {
		s.t.Error("there are no files")
	}
	return found
}

// Who is erased is forgotten, from memory and from the files, but for what they have spent: their promised report
// leaves as the null record, and under the same name they are never counted a second time. The name is on the disk at
// no time.
func TestWhoIsErasedIsForgottenAndNotCountedTwice(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12)
	digest := s.open(a)
	const name, other = "erika.mustermann@example", "max.mustermann@example"
	names := map[string][]byte{"a name": []byte("mustermann")}
	d := s.decide(name, twoArms)
	s.clock.Pass(testbed.Long / 2) // so that the first report is the one of who is erased
	others := s.decide(other, twoArms)
	s.reward(d["token"], 200)
	s.reward(others["token"], 200)
	number := s.device(name).Number
	promised := s.device(name).Enrolment
	played := s.host.played.open()
	played.mu.Lock()
	played.times[play{maphash.String(played.seed, name), "sms"}] = 1
	played.mu.Unlock()
	s.erase("nobody")
	s.erase(name)
	if len(played.times) != 0 {
		t.Errorf("what was played is known: %v", played.times)
	}
	if found := s.onDisk(names); len(found) > 0 {
		t.Errorf("%v", found)
	}
	s.reward(d["token"], http.StatusGone)
	s.reward(others["token"], 200)
	s.holdsNothing(name)
	if again := s.decide(name, twoArms); again["reason"] != "record_used" {
		t.Errorf("back before the report: %v", again)
	}
	s.holdsNothing(name)
	s.clock.Pass(promised.ReportAt.Add(a.Timing.Jitter).Sub(s.clock.Now()))
	s.came(1)
	s.due(a)
	arrived := s.reports(2)
	testbed.Eventually(t, "overwritten", func() bool {
		return len(s.onDisk(map[string][]byte{
			"the sealed report":       arrived[0].envelope[:64],
			"when its report was due": []byte(promised.ReportAt.Format(time.RFC3339Nano)),
		})) == 0
	})
	for range 2 { // and after a restart
		if got := s.host.State(name); got.Number != number || got.Ledger.State(1) != privacy.Spent ||
			got.Enrolment.Slot != 0 || !got.Enrolment.ReportAt.IsZero() || got.Enrolment.Commitment != nil {
			t.Errorf("kept: %+v %+v", got, got.Enrolment)
		}
		if again := s.decide(name, twoArms); again["reason"] != "record_used" || s.device(name).Number != number {
			t.Errorf("back: %v", again)
		}
		s.must(s.stop())
		if found := s.onDisk(names); len(found) > 0 {
			t.Errorf("%v", found)
		}
		s.start()
		s.awaitRound(a)
	}
	s.next(a, digest, false)
	if again := s.decide(name, twoArms); again["reason"] != "record_used" {
		t.Errorf("in the next epoch: %v", again)
	}
	if n := len(s.enrolments()); n != 2 {
		t.Errorf("%d enrolments of two people", n)
	}
}

// Of somebody who has spent nothing, nothing is left at all, not even the keyed hash of the name; the place is free for
// others.
func TestNothingIsLeftOfWhoSpentNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Devices = 1
	s.start()
	a := s.unhurried(12)
	digest := s.open(a)
	s.refusing(wire.RefusalCohortFull)
	s.expectAll(0, 1, "cohort_full")
	key := map[string][]byte{"the keyed hash": []byte(s.host.store.Key("p0"))}
	if len(s.onDisk(key)) == 0 {
		t.Error("the device was not there")
	}
	s.erase("p0")
	if found := s.onDisk(key); len(found) > 0 || s.host.places.get("p0") != nil {
		t.Errorf("%v", found)
	}
	s.places(0)
	s.must(s.stop())
	s.start()
	s.refusing(wire.NoRefusal)
	s.awaitRound(a)
	a, _ = s.next(a, digest, false)
	s.expectAll(1, 2, "sampled")
	s.expectAll(0, 1, "host_full")
	s.places(1)
	s.due(a)
	s.reports(1)
}

// Who opted out gets arms and is never sampled, over restarts, until that is lifted; what was promised before is
// reported as the null record. They take no place, and the shuffler does not hear of them.
func TestWhoOptedOutIsNotSampled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Limits.Records, s.config.Limits.Epsilon = 2, 50
	s.start()
	a := s.unhurried(12)
	digest := s.open(a)
	s.optOut("never")
	s.optOut("never")
	never := func() {
		t.Helper()
		d := s.decide("never", twoArms)
		if d["sampled"] != false || d["reason"] != "opted_out" || !(d["propensity"].(float64) > 0) {
			t.Errorf("%v", d)
		}
		s.reward(d["token"], 200)
		if _, l := s.get("/v1/devices/never/ledger"); l["opted_out"] != true {
			t.Errorf("%v", l)
		}
	}
	never()
	d := s.decide("later", twoArms)
	s.reward(d["token"], 200)
	s.optOut("later")
	s.holdsNothing("later")
	s.reward(d["token"], http.StatusGone)
	if again := s.decide("later", twoArms); again["reason"] != "opted_out" {
		t.Errorf("%v", again)
	}
	s.places(1)
	if s.host.places.get("never") != nil {
		t.Error("who opted out before takes a place")
	}
	s.erase("later") // which does not lift it
	s.must(s.stop())
	s.start()
	s.awaitRound(a)
	never()
	s.due(a)
	s.reports(1)
	a, _ = s.next(a, digest, false)
	never()
	if again := s.decide("later", twoArms); again["reason"] != "opted_out" {
		t.Errorf("in the next epoch: %v", again)
	}
	s.optIn("later")
	if again := s.decide("later", twoArms); again["reason"] != "sampled" {
		t.Errorf("back: %v", again)
	}
	if n := len(s.enrolments()); n != 2 {
		t.Errorf("%d enrolments", n)
	}
	s.due(a)
	s.reports(2)
}

// Where panels are drawn, who opted out before is not registered; a device that is registered asks and reports as it
// did, and its report holds nothing. An erased device goes on in the same way, until its person comes back.
func TestOptingOutOfPanels(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	s.optOut("before")
	a := p.next(testbed.Long)
	if status, answer := s.post("/v1/devices/before", ""); status != 200 || answer["registered"] != false ||
		answer["reason"] != "opted_out" {
		t.Errorf("%d %v", status, answer)
	}
	later, erased := p.name("later"), p.name("erased")
	s.optOut("later")
	s.erase("erased")
	if status, answer := s.post("/v1/devices/later", ""); status != 200 || answer["registered"] != true {
		t.Errorf("%d %v", status, answer)
	}
	p.drawNow(a, later, erased)
	p.awaitDraw(2)
	for _, name := range []string{"before", "later"} {
		if d := s.decide(name, twoArms); d["sampled"] != false || d["reason"] != "opted_out" {
			t.Errorf("%s: %v", name, d)
		}
	}
	d := s.decide("erased", twoArms)
	if d["sampled"] != true || s.device("erased").Number != erased {
		t.Errorf("back after an erasure: %v", d)
	}
	s.reward(d["token"], 200)
	s.erase("erased")
	s.holdsNothing("erased")
	if d := s.decide("erased", twoArms); d["reason"] != "report_full" {
		t.Errorf("back after another one: %v", d)
	}
	s.due(a)
	s.reports(2)
	p.mu.Lock()
	registered := len(p.registered)
	p.mu.Unlock()
	if registered != 2 {
		t.Errorf("%d devices are registered", registered)
	}
}

// Neither shows to others: with one person who is erased, or opts out, the pages, the metrics, the log, and each
// message to the broker are what they are else. The files of the state folder, which nobody else has, are not compared.
func TestForgettingShowsNothingOutside(t *testing.T) {
	t.Parallel()
	keys := deploymentKeys(t)
	withoutFiles := func(seen []string) []string {
		return slices.DeleteFunc(seen, func(line string) bool { return strings.HasPrefix(line, "file ") })
	}
	usual := withoutFiles(outside(t, keys, "usual", nil))
	for name, b := range map[string]beside{
		"erased":    requests("DELETE", "/v1/devices/p2 /v1/devices/nobody", "", "p2 enrolled", "p2 reported"),
		"opted out": requests("PUT", "/v1/devices/p2/opt-out /v1/devices/nobody/opt-out", "", "p2 enrolled"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			same(t, withoutFiles(outside(t, keys, "usual", b)), usual)
		})
	}
}

// Who opts out between two steps of taking part is asked for in neither.
func TestOptingOutBetweenSteps(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.unhurried(12)
	s.open(a)
	dev, _, _, err := s.host.places.find("x")
	s.must(err)
	s.optOut("x")
	if q, _, why, err := s.host.enrolments.ask(s.host.inForce(), dev, s.clock.Now()); q != nil || err != nil ||
		reasonOf(why) != OptedOut {
		t.Errorf("%v, %v, %v", q, why, err)
	}
	if again, err := s.host.panels.register(dev, &task{a: s.host.inForce(), turn: true}); again != never ||
		err != nil || dev.now().Registration != nil {
		t.Errorf("%v, %v", again, err)
	}
	if _, why := s.host.room(s.host.inForce(), dev); reasonOf(why) != OptedOut {
		t.Errorf("%v", why)
	}
}

// An erased person's arms are not counted any more.
func TestErasureForgetsWhatWasPlayed(t *testing.T) {
	p := newPlayed()
	c := p.open()
	c.times = map[play]uint32{}
	for _, name := range []string{"a", "b"} {
		c.times[play{maphash.String(c.seed, name), "sms"}]++
	}
	p.forget("a")
	if _, b := c.times[play{maphash.String(c.seed, "b"), "sms"}]; len(c.times) != 1 || !b {
		t.Errorf("%v", c.times)
	}
}
