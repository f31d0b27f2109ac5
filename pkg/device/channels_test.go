package device

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// through is an announcement moved to a channel, with about as much noise as it had for the whole cohort where another
// party than the cohort's devices makes it.
func through(a *plan.Announcement, c plan.Channel) *plan.Announcement {
	out := a.Clone()
	out.Plan.Channel = c
	for i := range out.Plan.Rounds {
		for j := range out.Plan.Rounds[i].Releases {
			r := &out.Plan.Rounds[i].Releases[j]
			cohort := uint64(r.NoiseBits) * uint64(a.Cohort.Minimum)
			switch c {
			case plan.Local:
				r.NoiseBits = uint32(cohort)
			case plan.Central:
				r.NoiseBits, r.AnalyzerNoise = 0, cohort
			}
		}
	}
	for j := range out.Encodings {
		out.Encodings[j].NoiseBits = out.Plan.Rounds[out.Round].Releases[j].NoiseBits
	}
	return out
}

// served are the channels that devices can report through.
func served() (all []plan.Channel) {
	for _, c := range plan.Channels() {
		if registry.Known(c) {
			all = append(all, c)
		}
	}
	return all
}

// everywhere trusts every channel.
func (f *fixture) everywhere() Config {
	c := f.config()
	c.Limits.Trust = plan.Channels()
	return c
}

// committed is a reply that gives slot 7, as the shuffler of the channel gives it.
func (f *fixture) committed(a *plan.Announcement) wire.EnrolReply {
	yes := wire.EnrolReply{Enrolled: true, Slot: 7, ReportAfter: time.Minute}
	if a.Plan.Channel == plan.Shares {
		yes.Commitment = shares.NewSecret(f.shuffler, digestOf(a)).Commitment()
	}
	return yes
}

// unsealed is a report of any channel, for the shuffler that opens its envelope.
func (f *fixture) unsealed(envelope []byte, a *plan.Announcement) *wire.Report {
	f.Helper()
	plain, err := wire.OpenEnvelope(envelope, must(seal.NewReportOpener(f.shufflerKey)),
		seal.ReportContext{Deployment: deployment, Epoch: a.Epoch, Round: a.Round})
	if err != nil {
		f.Fatal(err)
	}
	report, _, err := wire.ParseReport(plain, registry.PayloadSize(a.Plan.Channel, a.Encodings))
	if err != nil {
		f.Fatal(err)
	}
	return report
}

// verifies reports whether both servers of the channel shares accept a report of an epoch with this secret.
func (f *fixture) verifies(payload []byte, a *plan.Announcement, secret shares.Secret) error {
	f.Helper()
	round := must(shares.NewRound(a, digestOf(a)))
	message, _, err := must(round.NewLeader(secret)).Prepare(nil, payload)
	if err != nil {
		return err
	}
	by := channel.NewVerifier(wire.Party{Deployment: deployment, Key: f.registrar.Public()})
	_, err = must(round.NewHelper(secret, f.analyzerKey, by)).Verify(message)
	return err
}

// A reply that gives a slot says of the channel what it must: a commitment in shares, and none in any other. Another
// one is no answer: it promises nothing, and the device asks on.
func TestRepliesOfAnotherChannelAreNoAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range served() {
		f := newFixture(t)
		a := through(f.announcement(glm.Practical), c)
		d := f.opened(f.everywhere())
		must(d.Follow(f.announce(a), start))
		request := must(d.Enrol(start))
		right, wrong := f.committed(a), f.committed(a)
		if wrong.Commitment != nil {
			wrong.Commitment = nil
		} else {
			wrong.Commitment = bytes.Repeat([]byte{1}, 32)
		}
		if got, err := d.Answer(f.reply(request, wrong), start); !errors.Is(err, ErrCommitment) || got.Enrolled {
			t.Errorf("%s: %+v %v", c, got, err)
		}
		if s := d.Status(); s.Ledger.State(1) != privacy.Asked || s.ReportAt != nil || d.state.Enrolment != nil {
			t.Errorf("%s: a wrong reply changes the state: %+v", c, s)
		}
		right.Held = true // the shuffler has given the slot; that this device knows no such answer proves nothing
		if got, err := d.Answer(f.reply(must(d.Enrol(start)), right), start); err != nil || !got.Enrolled {
			t.Errorf("%s: %+v %v", c, got, err)
		}
	}
}

// What the shuffler committed to at enrolment is kept with the promise: a device that is restarted, before the first
// report and before a later one, makes reports that both servers accept with the secret of that commitment and with no
// other, of its record and of the null record.
func TestTheCommitmentSurvivesRestarts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := through(f.announcement(glm.Paper), plan.Shares)
	d := f.opened(f.config())
	must(d.Follow(f.announce(a), start))
	if err := d.Keys(f.keys(1, f.shufflerKey)); err != nil {
		t.Fatal(err)
	}
	must(d.Answer(f.reply(must(d.Enrol(start)), f.committed(a)), start))
	must(d.Decide([][]float64{{0.6, 0.2}}, source(1)))
	must(d.Reward(decision(d), 1, start))
	secret, other := shares.NewSecret(f.shuffler, digestOf(a)), shares.NewSecret(f.analyzer, digestOf(a))
	saved := must(d.Save())
	now := start.Add(time.Minute)
	for name, d := range map[string]*Device{"in one life": d, "restarted": must(Open(f.config(), 3, saved))} {
		first := f.unsealed(must(d.Report(now)), a)
		if err := f.verifies(first.Payload, a, secret); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f.verifies(first.Payload, a, other) == nil {
			t.Errorf("%s: the report verifies under another key", name)
		}
		next := through(f.second(f.announcement(glm.Paper)), plan.Shares)
		digest := digestOf(a)
		next.Previous = digest[:]
		d = f.restart(d)
		if fresh, err := d.Follow(f.announce(next), now); !fresh || err != nil {
			t.Fatal(name, fresh, err)
		}
		second := f.unsealed(must(d.Report(now.Add(time.Hour))), next)
		if err := f.verifies(second.Payload, next, secret); err != nil {
			t.Errorf("%s, second round: %v", name, err)
		}
	}
}

// Nobody can move people to another channel: not from epoch to epoch or round to round, not over a restart, not from
// a channel that the device refuses, and not over the final announcement.
func TestTheChannelNeverChanges(t *testing.T) {
	if testing.Short() {
		t.Skip("one device after another, each in this goroutine")
	}
	t.Parallel()
	f := newFixture(t)
	honest := f.announcement(glm.Practical)
	after := func(a, before *plan.Announcement) *plan.Announcement {
		next, digest := a.Clone(), digestOf(before)
		next.Epoch, next.Previous = before.Epoch+1, digest[:]
		return next
	}
	for _, from := range served() {
		for _, to := range plan.Channels() {
			if to != plan.Central && !registry.Known(to) { // a device refuses central before it looks further
				continue
			}
			first := through(honest, from)
			next := after(through(honest, to), first)
			same := func(d *Device) *Device { return d }
			for how, again := range map[string]func(*Device) *Device{"at once": same, "after a restart": f.restart} {
				d := f.opened(f.config())
				must(d.Follow(f.announce(first), start))
				fresh, err := again(d).Follow(f.announce(next), start)
				if from == to && (!fresh || err != nil) {
					t.Errorf("%s stays, %s: %v", from, how, err)
				}
				if from != to && (fresh || !errors.Is(err, ErrRewound) ||
					!strings.Contains(err.Error(), "takes the channel")) {
					t.Errorf("%s to %s, %s: %v", from, to, how, err)
				}
			}
		}
	}
	refusing := f.config()
	refusing.Limits.Trust = []plan.Channel{plan.Local}
	d := must(Open(refusing, 3, nil))
	first := through(honest, plan.Shares)
	must(d.Follow(f.announce(first), start))
	if fresh, err := d.Follow(f.announce(after(honest, first)), start); fresh || !errors.Is(err, ErrRewound) {
		t.Errorf("from a channel that is refused: %v", err)
	}

	d, _ = f.device(glm.Practical)
	final := after(&plan.Announcement{Deployment: deployment, Policy: honest.Policy, Final: true}, honest)
	must(d.Follow(f.announce(final), start))
	for _, c := range served() {
		for _, d := range []*Device{d, f.restart(d)} {
			_, err := d.Follow(f.announce(after(through(honest, c), final)), start)
			if !errors.Is(err, ErrRewound) || !strings.Contains(err.Error(), "after the final announcement") {
				t.Errorf("%s after the final announcement: %v", c, err)
			}
		}
	}
	fresh := f.opened(f.config())
	if _, err := fresh.Follow(f.announce(after(through(honest, plan.Shares), honest)), start); !errors.Is(err,
		ErrRewound) {
		t.Errorf("a later announcement as the first one: %v", err)
	}
}

// A channel that these people do not trust is refused by name, whatever its plan says, even if this build could not
// carry it; central is by default. The refusal says on whom the channel rests.
func TestTrustIsTheDevices(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range plan.Channels() {
		core := must(New(f.config()))
		a, err := core.Judge(f.announce(through(f.announcement(glm.Practical), c)), 1, 0)
		if registry.Known(c) && c != plan.Central && (err != nil || a.Weak() != nil) {
			t.Errorf("%s by default: %v %v", c, err, a)
		}
		if c == plan.Central && (err != nil || a.Weak() == nil) {
			t.Errorf("central is not refused by default: %v", err)
		}
		others := f.config()
		for _, o := range plan.Channels() {
			if o != c {
				others.Limits.Trust = append(others.Limits.Trust, o)
			}
		}
		a, err = must(New(others)).Judge(f.announce(through(f.announcement(glm.Practical), c)), 1, 0)
		if err != nil {
			t.Fatal(c, err)
		}
		var weak *WeakPlan
		if !errors.As(a.Weak(), &weak) || weak.Limit != "trust" || !strings.Contains(weak.Reason, c.RestsOn()) {
			t.Errorf("%s: %v", c, a.Weak())
		}
	}
}

// In every channel each record gives a payload of the same length and draws the same number of random words
// (condition 3).
func TestEveryRecordIsTheSameWorkInEveryChannel(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, c := range served() {
		announced := through(f.announcement(glm.Practical), c)
		a := must(must(New(f.everywhere())).Judge(f.announce(announced), 1, 0))
		if a.Weak() != nil {
			t.Fatal(c, a.Weak())
		}
		by := channel.Sender{
			Identity: f.identity, Credential: f.config().Credential, Number: 3,
			Commitment: f.committed(announced).Commitment,
		}
		words := -1
		for _, name := range slices.Sorted(maps.Keys(records)) {
			src := &counting{Source: source(5)}
			made, err := a.payload(decided(records[name]), by, from(src))
			if err != nil || len(made) != a.channel.Size() || len(made) != registry.PayloadSize(c, a.Encodings) {
				t.Errorf("%s, %s: %d bytes, %v", c, name, len(made), err)
			}
			if words >= 0 && src.words != words {
				t.Errorf("%s, %s: %d words are drawn, of another record %d", c, name, src.words, words)
			}
			words = src.words
		}
		if words <= 0 {
			t.Errorf("%s draws no random word", c)
		}
	}
}
