package device

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A plan that just keeps to a limit is allowed, and the next one is not.
func TestLimitsHoldToTheLastOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.announcement(glm.Practical)
	for limit, set := range map[string]func(l *Limits, beyond int){
		"min_cohort":   func(l *Limits, beyond int) { l.MinCohort = int(a.Cohort.Minimum) + beyond },
		"max_messages": func(l *Limits, beyond int) { l.MaxMessages = a.ReportMessages() - beyond },
		"max_releases": func(l *Limits, beyond int) { l.MaxReleases = len(a.Encodings) - beyond },
		"max_norm":     func(l *Limits, beyond int) { l.MaxNorm = a.Policy.Radius * (1 - 1e-12*float64(beyond)) },
	} {
		for beyond := range 2 {
			c := f.config()
			set(&c.Limits, beyond)
			var weak *WeakPlan
			err := must(must(New(c)).Judge(f.announce(a), 1, 0)).Weak()
			if beyond == 0 && err != nil || beyond == 1 && (!errors.As(err, &weak) || weak.Limit != limit) {
				t.Errorf("%s, %d beyond it: %v", limit, beyond, err)
			}
		}
	}
}

// A device whose state was proved old makes no report that it still owed.
func TestAProvedDeviceReportsNothingThatItOwes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, _ := f.device(glm.Practical)
	f.enrol(d)
	var kept saved
	if err := json.Unmarshal(must(d.Save()), &kept); err != nil {
		t.Fatal(err)
	}
	for _, kept.RolledBack = range []string{"", "it was"} {
		d := must(Open(f.config(), 0, must(json.Marshal(kept))))
		_, err := d.Report(start.Add(time.Hour))
		proved := kept.RolledBack != ""
		if errors.Is(err, ErrRolledBack) != proved || errors.Is(err, ErrNoReport) != proved {
			t.Errorf("%q: %v", kept.RolledBack, err)
		}
	}
}

// The nonce of a request for another epoch, and none, is that of no question: the shuffler would take it for another
// one.
func TestNobodyAsksWithAnotherNonce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	core := must(New(f.config()))
	a := must(core.Judge(f.announce(f.announcement(glm.Practical)), 1, 0))
	asked := must(core.NewState(3).Ask(a, start))
	must(core.Requests(a, asked))
	must(core.Registration(asked.withRequest(0)))
	for name, s := range map[string]State{"none": core.NewState(3), "another epoch's": asked.withRequest(2)} {
		if request, err := core.Requests(a, s); err == nil {
			t.Errorf("the request is %s: %x", name, request)
		}
	}
	for name, s := range map[string]State{"none": core.NewState(3), "an epoch's": asked} {
		if request, err := core.Registration(s); err == nil {
			t.Errorf("the request to register is %s: %x", name, request)
		}
	}
}

// "Already enrolled" proves nothing where an earlier question had no answer: it may have been the one.
func TestAnEarlierQuestionMayHaveBeenHeard(t *testing.T) {
	t.Parallel()
	earlier := &wire.EnrolReply{Refusal: wire.RefusalAlreadyEnrolled}
	for entries, proof := range []bool{1: true, 2: false} {
		s := State{Ledger: privacy.Ledger{Entries: make([]privacy.Entry, entries)}}
		if got := s.Contradicts(earlier, false) != ""; got != proof {
			t.Errorf("with %d questions in the ledger it is proof: %v", entries, got)
		}
	}
}

// A place in a panel is an answer from which on the shuffler must know the device.
func TestAPlaceInAPanelProvesTheRegistration(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	core := must(New(f.panels()))
	a := must(core.Judge(f.announce(f.panel()), 1, 0))
	s := core.NewState(0).Register().Confirm([]byte("registered"))
	next := must(must(s.Ask(a, start)).Promise(a, &wire.EnrolReply{Enrolled: true, ReportAfter: time.Minute}, start))
	if next.Registration.Since != a.Epoch || next.wasKnown(a.Epoch) || !next.wasKnown(a.Epoch+1) {
		t.Errorf("%+v", next.Registration)
	}
}

// A reply answers as many devices as asked, or refuses all of them.
func TestAReplyAnswersEveryDevice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	core := must(New(f.config()))
	a := must(core.Judge(f.announce(f.announcement(glm.Practical)), 1, 0))
	request := must(core.Requests(a, must(core.NewState(3).Ask(a, start)), must(core.NewState(5).Ask(a, start))))
	digest := wire.RequestDigest(request)
	one := []wire.FurtherReply{{Enrolled: true, Slot: 1}}
	two, full := append(one, one...), wire.RefusalCohortFull
	for name, c := range map[string]struct {
		reply wire.EnrolReply
		want  error
	}{
		"both":                   {wire.EnrolReply{Enrolled: true, Further: one}, nil},
		"all are refused":        {wire.EnrolReply{Refusal: full}, nil},
		"the first alone":        {wire.EnrolReply{Enrolled: true}, ErrCommitment},
		"three":                  {wire.EnrolReply{Enrolled: true, Further: two}, ErrCommitment},
		"three, the first is no": {wire.EnrolReply{Refusal: full, Further: two}, ErrCommitment},
	} {
		c.reply.Request = digest[:]
		all, err := core.Replies(a, request, sign(&c.reply, f.shuffler), 2)
		if !errors.Is(err, c.want) || c.want == nil && (len(all) != 2 || all[1].Enrolled != c.reply.Enrolled) {
			t.Errorf("%s: %d answers, %v", name, len(all), err)
		}
	}
}

// The first proof against the shuffler is kept, whatever it says later.
func TestTheFirstEvidenceIsKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d, _ := f.member()
	for _, what := range []string{"one lie", "another"} {
		must(d.Enrol(start))
		if err := d.accuse(&Evidence{What: what}); err == nil || d.Status().Evidence.What != "one lie" {
			t.Errorf("%s: %v, kept is %+v", what, err, d.Status().Evidence)
		}
	}
}
