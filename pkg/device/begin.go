package device

import (
	"errors"
	"fmt"

	"github.com/riffle-dp/riffle/pkg/transparency"
)

// ErrBegin says that an announcement cannot be the first that a device follows.
var ErrBegin = errors.New("the device cannot begin with this announcement")

// Begin takes a signed announcement of any epoch as the first that the device follows, in place of the chain from
// round 0 of epoch 1: proof (transparency.Proof, encoded) shows that it is in the analyzer's transparency log, under a
// checkpoint that a quorum of Config.Witnesses co-signed. From here on Follow is as ever, and what Save returns needs
// no proof. ErrBegin says why not, also where the device follows the chain already.
//
// # What the device gives up
//
// A device that walks the chain compares each announcement with the first: channel, schema of features, panels,
// decisions of a report, epochs of a device, times. One that begins later takes these from the announcement that it
// begins with, and holds all later ones to them: Follow compares each with the one before, so that what held at the
// first that was seen holds for ever. What it cannot see is whether they held before. An analyzer that turns to another
// channel on the way loses who was there, and may gain who begins afterwards.
//
// Such an announcement is in the log for good, and whoever reads the log sees the break: riffle audit names it. That
// everybody is shown the same log is the witnesses' word. Two quorums share witnesses, and an honest one gives no two
// logs its word, so a log of one's own takes as many dishonest witnesses as two quorums share. The device thus relies
// on these, and on somebody who audits. Witnesses read no announcement.
//
// It gives up nothing else. Its limits judge the plan that it begins with, and Limits.Trust the channel, as in epoch 1;
// its ledger is its own. What came before used records of others. An old proof begins earlier, and Follow goes on from
// there; to show less than there is, is in the broker's power either way.
func (d *Device) Begin(proof, signed []byte) error {
	c := d.core.c
	p, err := transparency.DecodeProof(proof)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBegin, err)
	}
	checkpoint, err := c.Witnesses.Open(p.Checkpoint, transparency.Origin(c.Deployment, "analyzer"), c.Analyzer)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBegin, err)
	}
	if err := transparency.CheckInclusion(signed, p.Index, p.Hashes, checkpoint); err != nil {
		return fmt.Errorf("%w: %w", ErrBegin, err)
	}
	a, err := d.judge(signed)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBegin, err)
	case d.last != nil:
		return fmt.Errorf("%w: it follows the chain already, up to round %d of epoch %d; call Follow", ErrBegin,
			d.last.Round, d.last.Epoch)
	}
	d.last, d.kept.Announcement = a, signed
	return nil
}
