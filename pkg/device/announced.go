package device

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/feature"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// Announced is one announcement as a device judges it. It does not change, and many devices may share it.
type Announced struct {
	*plan.Announcement
	Digest   [32]byte
	Releases int // that use one record, over all rounds
	// Span is the time, by the device's own clock, after which a budget per period begins anew at the earliest; 0 where
	// the plan's is for the whole deployment.
	Span     time.Duration
	Features *feature.Schema // the announced schema; nil where apps send vectors
	channel  channel.Device
	judged   func() *judgement // computes it once, when it is first asked for
}

// judgement is what the plan of an announcement comes to, by the device's own computation and limits. It takes nearly
// all the time that a device spends on an announcement, so that it is made only of one that somebody asks about: that
// in force, when the device would register, enrol, report or show its promise. A device that joins in epoch 100 follows
// the 99 announcements before and judges none of their plans.
//
// Nothing is lost by that. A judgement decides one thing: whether this device's record may be used under that very
// announcement. Every step that uses a record, or sets a budget aside for one, asks for the judgement of the
// announcement that it names, and after a later one was followed no step takes the earlier one. A record that was never
// used is protected whatever the plan was. What one announcement binds later ones to (Follows) is compared number by
// number, link by link, and needs no judgement: that of the first reaches the last, whether or not the limits allow any
// of them. What epochs reveal together is added up in the ledger, of those epochs that the device asked for, and where
// panels are drawn the judgement of each counts all the epochs that its plan allows one device.
type judgement struct {
	weak             error
	guarantee, alone privacy.Guarantee
	round            *plan.Encoder // nil where weak is not
}

// refused is the judgement of a plan under which nobody takes part.
func refused(why error) *judgement {
	return &judgement{weak: why, guarantee: privacy.NoGuarantee(), alone: privacy.NoGuarantee()}
}

// Weak says why the device takes no part under the announcement; its policy decides all the same. Nil where it does.
// The first call computes the guarantees, which takes up to some seconds.
func (a *Announced) Weak() error { return a.judged().weak }

// Guarantee is of the whole epoch, computed here; of nothing where Weak is not nil.
func (a *Announced) Guarantee() privacy.Guarantee { return a.judged().guarantee }

// Alone is the same if no other device is honest; of nothing where there is none.
func (a *Announced) Alone() privacy.Guarantee { return a.judged().alone }

// Follows holds an announcement against the last one that was followed, nil before the first. ErrRewound wraps every
// reason not to.
//
// The chain begins with round 0 of epoch 1 and keeps the channel of that announcement, whether or not the limits allow
// it, so that nobody can move people to a channel of other trust; and so it keeps the schema of features, whether
// panels are drawn and from whom, what one device reports, and all times. Within an epoch plan, cohort, dimension and
// structure stay, from which its guarantee follows. Nothing follows the final announcement, which names no channel. A
// device that was restarted either kept the last announcement, or reads the chain again and finds each digest as it was
// before.
func (a *Announced) Follows(last *Announced) error {
	if last == nil {
		if a.Epoch != 1 || a.Round != 0 {
			return fmt.Errorf("%w: the first one seen is round %d of epoch %d", ErrRewound, a.Round, a.Epoch)
		}
		return nil
	}
	next := a.Epoch == last.Epoch+1 && a.Round == 0
	if !bytes.Equal(a.Previous, last.Digest[:]) || !next && !(a.Epoch == last.Epoch && a.Round == last.Round+1) {
		return fmt.Errorf("%w: round %d of epoch %d names %x as its predecessor, "+
			"the last one seen is round %d of epoch %d with digest %x",
			ErrRewound, a.Round, a.Epoch, a.Previous[:min(8, len(a.Previous))], last.Round, last.Epoch, last.Digest[:8])
	}
	changed := ""
	lasting := a.changes(last)
	switch {
	case last.Final:
		return fmt.Errorf("%w: round %d of epoch %d comes after the final announcement, of epoch %d",
			ErrRewound, a.Round, a.Epoch, last.Epoch)
	case !a.Final && a.Plan.Channel != last.Plan.Channel:
		return fmt.Errorf("%w: round %d of epoch %d takes the channel %s, and the deployment's is %s since its first "+
			"epoch: another channel needs a new deployment", ErrRewound, a.Round, a.Epoch, a.Plan.Channel,
			last.Plan.Channel)
	case !a.Final && !a.Plan.Curator.Equal(last.Plan.Curator):
		return fmt.Errorf("%w: round %d of epoch %d changes what the analyzer may release of the records that it "+
			"holds, which was promised to those who reported before", ErrRewound, a.Round, a.Epoch)
	case lasting != "":
		return fmt.Errorf("%w: round %d of epoch %d changes %s, which must be the same in all epochs: another one "+
			"needs a new deployment", ErrRewound, a.Round, a.Epoch, lasting)
	case next:
		return nil
	case !a.Plan.Equal(last.Plan):
		changed = "plan"
	case a.Cohort != last.Cohort:
		changed = "cohort"
	case a.Policy.Dimension != last.Policy.Dimension || !slices.Equal(a.Policy.Structure, last.Policy.Structure):
		// More numbers in a later round's report reveal more than what was set aside as the epoch began.
		changed = "arms"
	default:
		return nil
	}
	return fmt.Errorf("%w: round %d of epoch %d changes the epoch's %s", ErrRewound, a.Round, a.Epoch, changed)
}

// changes names what a deployment keeps for its life and the announcement changes, "" where there is nothing. How often
// a device reports, on how much, how long epochs are and from whom panels are drawn was promised to those who
// registered.
func (a *Announced) changes(last *Announced) string {
	p, q := a.Plan, last.Plan
	switch {
	case !bytes.Equal(a.Schema, last.Schema):
		return "the schema of features"
	case a.Final: // which has no plan
	case !p.Panel.Equal(q.Panel):
		return "from whom panels are drawn"
	case p.Decisions != q.Decisions:
		return "the decisions of a report"
	case p.Records != q.Records || p.Period != q.Period:
		return "how many epochs one device reports in"
	case a.Timing != last.Timing:
		return "its timing"
	}
	return ""
}

// After reports whether the announcement is about a later round or epoch than another one.
func (a *Announced) After(last *Announced) bool {
	return last == nil || a.Epoch > last.Epoch || a.Epoch == last.Epoch && a.Round > last.Round
}

// Jitter spreads the reports of a later round over its window by public randomness, as enrolment does for the first: a
// slot's time from the announcement to its report.
func (a *Announced) Jitter(slot uint32) time.Duration {
	spread := uint64(min(a.Timing.Jitter, a.Timing.RoundWindow) / time.Millisecond)
	d := sha256.Sum256(binary.BigEndian.AppendUint32(slices.Clone(a.Digest[:]), slot))
	return time.Duration(binary.BigEndian.Uint64(d[:8])%(spread+1)) * time.Millisecond
}

// AskAfter spreads over Timing.Jitter, by public randomness, when the devices of panels first ask whether they were
// drawn: the time of the device with that number, from the announcement on.
func (a *Announced) AskAfter(number uint32) time.Duration {
	spread := uint64(a.Timing.Jitter / time.Millisecond)
	d := sha256.Sum256(append(binary.BigEndian.AppendUint32(slices.Clone(a.Digest[:]), number), "ask"...))
	return time.Duration(binary.BigEndian.Uint64(d[:8])%(spread+1)) * time.Millisecond
}
