package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Mixing is the mixing side of a channel. Layout, Commitment and Parse are pure and safe for concurrent use, and Take
// is too; the other methods are called by one goroutine, and for one release at a time.
type Mixing interface {
	// Layout is what the reports of an announced round look like. It depends on the announcement alone. Its error says
	// why the channel cannot carry such a round: the announcement is refused.
	Layout(a *plan.Announcement) (Layout, error)
	// Commitment is what the shuffler's replies to the enrolments of an epoch say of the channel, for the devices to
	// bind their reports to; nil where the channel says nothing. first is the digest of the epoch's first announcement.
	Commitment(first [32]byte) []byte
	// Parse decodes an opened report, verifies its signature by the host key that it names, and checks all that can be
	// seen of its payload alone. The digest is wire.ReportDigest's. Its errors are those of package wire.
	Parse(report []byte, l Layout) (r *wire.Report, digest [32]byte, err error)
	// Take keeps the payload of a report that was admitted, for the release, so that it is not read again. Nothing
	// rests on it: the members of a release say whose reports it has, and what was not kept is read from the broker. It
	// may be called by many goroutines, and while a release is under way. The error is the disk's.
	Take(epoch uint64, round uint32, m Member, payload []byte) error
	// Repeated returns the slots of the members of whose payloads any part is in the release twice, in ascending
	// order and each once. The shuffler asks before it commits the release, and excludes them. What it excludes must
	// not depend on a record: an honest device's payload is never repeated.
	//
	// Errors: ErrImpossible where a member's report is gone; or those of reading, and the question can be repeated.
	Repeated(ctx context.Context, r *Release) (slots []uint32, err error)
	// Release makes durable what leaves of a committed release, sends it, and completes the manifest with what was
	// sent: numbers, digest and the messages' root. It does not send the manifest. It is called again after any other
	// error than ErrImpossible, and by the next process after a crash, and then sends the same bytes and says the same
	// of them. No byte that leaves, and none of the manifest, tells in which order reports came.
	//
	// rejected are the members whose reports are not part of what left, by slot: the shuffler takes them out of the
	// release, whose other members are at least the minimum. It may call Release once more without them.
	//
	// Errors: ErrImpossible, which is ErrLeft where something may have left; or those of broker and disk, which can be
	// matched with errors.Is.
	Release(ctx context.Context, r *Release, m *wire.Manifest) (rejected []Rejected, err error)
	// Forget removes what Release made durable, what an attempt that was cut short left behind, and what was taken of
	// this round and of those before it. It can be repeated.
	Forget(epoch uint64, round uint32) error
}

var (
	// ErrImpossible says that a release cannot leave as it was admitted, and that no later attempt can change that. The
	// shuffler destroys the release. Unless it is ErrLeft, too, nothing of it has left.
	ErrImpossible = errors.New("channel: the release cannot leave")
	// ErrLeft is an ErrImpossible of a release of which something may have left before. Several processes send bucket
	// by bucket, and what the broker loses of one bucket ends a release of which others have left; a state folder that
	// was set back finds what a later state had sent. What left is a part of the release in its random order, so that
	// it shows no more than all would have. It is spent like all, and the shuffler's manifest says so.
	ErrLeft = fmt.Errorf("%w whole, and a part of it may have left", ErrImpossible)
)

// Layout is what the shuffler's journal keeps of how a round's reports look, so that it can judge them after a restart.
// The zero Layout is that of a round that is not open. Layouts are compared with ==.
type Layout struct {
	// Messages is how many messages one report holds; above 0. Accounts and people are told of messages in this
	// measure.
	Messages int `json:"messages"`
	// Channel is the plan's; empty for plan.Shuffle.
	Channel plan.Channel `json:"channel,omitempty"`
	// Payload is the length in bytes of a report's payload; 0 where it is as many bit messages.
	Payload int `json:"payload,omitempty"`
	// Labels is the digest of the labels of a report's bit messages (shuffle.LabelsOf); empty in other channels.
	Labels string `json:"labels,omitempty"`
}

// Size is the length in bytes of the payload of every report.
func (l Layout) Size() int {
	if l.Payload > 0 {
		return l.Payload
	}
	return l.Messages * seal.BitSize
}

// Of is the channel.
func (l Layout) Of() plan.Channel { return cmp.Or(l.Channel, plan.Shuffle) }

// Release is what a channel knows of a round that is released.
type Release struct {
	Epoch        uint64
	Round        uint32
	Announcement [32]byte // digest of the round's announcement
	Layout       Layout
	Minimum      uint32   // fewest members
	Members      []Member // by slot
	// Announced is the round's announcement, whose digest Announcement is.
	Announced *plan.Announcement
	// First is the digest of the epoch's first announcement.
	First [32]byte
}

// Rejected is a member of a release whose report is not part of what left.
type Rejected struct {
	Slot   uint32
	Reason wire.Refusal
}

// Messages is how many messages the members' reports hold together.
func (r *Release) Messages() int { return r.Layout.Messages * len(r.Members) }

// Member is one admitted report of a release.
type Member struct {
	Slot     uint32
	Sequence uint64   // the report's place in the stream of reports
	Digest   [32]byte // wire.ReportDigest's
}

// Reports reads the report of a release's member again, as it was admitted.
//
// Errors: ErrImpossible where it is gone or another one is in its place; or those of the broker.
type Reports func(ctx context.Context, r *Release, m Member) (*wire.Report, error)
