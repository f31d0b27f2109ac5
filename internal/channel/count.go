package channel

import (
	"context"

	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Counting is the analyzer's side of a channel: it turns what the shuffler sends of a round into counts. Take is called
// by one goroutine and Count by another, for one round at a time; the other methods are safe for concurrent use.
//
// What every counting side guarantees:
//   - What Count returns depends on the sums over the members alone, with all the noise that the plan promises: a
//     server's noise is added before anything is returned or checked against a range. Of pairs, which are in the
//     channel local alone, it is the members' entries in an order of their own: a report of that channel is protected
//     by its device's noise, whoever sees it.
//   - A round whose manifest, members or messages are not what its announcement allows is refused as a whole. So is one
//     in which a person's part is multiplied.
//   - Until Forget, a later process that counts the same round comes to the same result: from what the broker holds, or
//     from a journal that the channel keeps on a Disk.
//   - What Count returns does not depend on who opened or verified what came: this process or workers, and how often.
//     Each part counts once. Workers get no say in who is counted, and nothing that they answer is stored unsealed.
//
// It does not guarantee that the sums are right if the mixing side is malicious.
type Counting interface {
	// Take takes in what the shuffler sent, if it belongs to the round that Count works on. Other parts stay where they
	// are stored: Count finds those that came too early or to an earlier process.
	Take(p Part)
	// Count receives, and answers where the channel has the two servers talk, until the round is over, and returns the
	// counts of ones of each release. manifest waits for the end of the round. A channel calls it once, when its own
	// exchanges can wait, and returns an error of it unchanged.
	//
	// Errors: one that wraps an outcome.Reason where the round is refused for good, after manifest has returned; the
	// context's cause; or those of the broker.
	Count(ctx context.Context, r *Round, manifest Manifest) ([]wire.ReleaseCounts, error)
	// Forget drops what is stored of a round whose counts are in the audit log, except what was published of it where
	// it would be drawn anew if the broker's data were set back. It can be repeated.
	Forget(ctx context.Context, epoch uint64, round uint32) error
	// Taken is how many messages of the round that Count works on were taken in so far; 0 between rounds.
	Taken() int
}

// Round is an announced round that is counted.
type Round struct {
	*plan.Announcement
	Digest [32]byte      // of the announcement
	Key    *seal.HPKEKey // the private key to the announcement's AnalyzerKey
	Drawn  *Drawn        // of whom the cohort was drawn; nil where there are no panels
}

// SponsorQuota is how many reports of one sponsor are counted at most: its share of the cohort, where 0 means 1. Of a
// panel the share is of the devices that it was drawn from, as the shuffler takes it, and chance gives a sponsor more
// in about half of all draws: it is then what one of an honest pool exceeds with a probability below panel.Doubt.
func (r *Round) SponsorQuota(share float64) int {
	most := SponsorQuota(share, r.Cohort.Size)
	if r.Drawn == nil || share == 0 || share >= 1 {
		return most
	}
	return max(most, privacy.PanelDishonest(share, int(r.Cohort.Size), panel.Doubt))
}

// Part is something that the shuffler sent before a round's manifest. Nothing of it has been checked.
type Part struct {
	Epoch   uint64
	Round   uint32
	Payload []byte
}

// Manifest waits until the manifest of the round under way is in the audit log, signed by the shuffler. The round
// is released: if the shuffler destroyed it, the error wraps an outcome.Reason.
type Manifest func(ctx context.Context) (*wire.Manifest, error)
