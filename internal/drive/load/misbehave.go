package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/crowd"
	"github.com/riffle-dp/riffle/pkg/client"
)

// decideAgain asks for a decision that was made already. A device has one record: the answer must not sample it again.
func (c *session) decideAgain(ctx context.Context, v crowd.Visit) {
	d, calls, err := c.Decide(ctx, v)
	c.tally.calls(calls)
	switch {
	case err != nil:
		c.tally.refusal("repeated decision", err, false)
	case d.Sampled:
		c.tally.anomaly("a device was sampled twice")
		c.truth.doubt(d.Epoch, "a device was sampled twice")
	default:
		c.tally.countProvoked("repeated decision", string(d.Reason))
	}
}

// rewardAgain tells a reward that was told already, and then another one for the same decision.
func (c *session) rewardAgain(ctx context.Context, v crowd.Visit, d *client.Decision, reward float64) {
	calls, err := c.Reward(ctx, v, d, reward)
	c.tally.calls(calls)
	switch {
	case err == nil:
		c.tally.countProvoked("repeated reward", "accepted")
	default:
		c.tally.refusal("repeated reward", err, errors.Is(err, client.ExpiredToken))
	}
	if !d.Sampled {
		return // its reward is forgotten, so no other one contradicts it
	}
	calls, err = c.Reward(ctx, v, d, reward+1)
	c.tally.calls(calls)
	if err == nil {
		c.tally.anomaly("a second, different reward was accepted")
		c.truth.doubt(d.Epoch, "a second, different reward was accepted")
		return
	}
	c.tally.refusal("contradicted reward", err, errors.Is(err, client.BadReward) || errors.Is(err, client.ExpiredToken))
}

// lateBy is how long after the window a late reward comes: more than two clocks on one machine differ.
const lateBy = time.Second

// rewardTooLate tells a reward after its window. The device has sent, or is about to send, its null record.
func (c *session) rewardTooLate(v crowd.Visit, d *client.Decision, reward float64) {
	if !crowd.Pause(c.lateContext, time.Until(*d.RewardBy)+lateBy) {
		return
	}
	_, err := c.Reward(c.lateContext, v, d, reward)
	if err == nil {
		c.tally.anomaly("a reward was accepted after its window")
		c.truth.doubt(d.Epoch, "a reward was accepted after its window")
		return
	}
	c.tally.refusal("late reward", err, errors.Is(err, client.ExpiredToken))
}

// nonsense is one malformed request and the answer that it must get.
type nonsense struct {
	what   string
	device bool   // a decision, else a reward
	body   string // of the request
	long   bool   // under a device's name that is too long
	want   string // reason
}

// kinds lists the malformed requests. Those with bad arms enrol their device like any other decision, and it reports
// the null record: who takes part must not depend on what is decided about.
var kinds = []nonsense{
	{what: "decision: not JSON", device: true, body: `{"arms": [[0.1`, want: "bad_arms"},
	{what: "decision: unknown field", device: true, body: `{"arm": [[0.1, 0.2]]}`, want: "bad_arms"},
	{what: "decision: no arms", device: true, body: `{"arms": []}`, want: "bad_arms"},
	{what: "decision: wrong dimension", device: true, want: "bad_arms",
		body: `{"arms": [[` + strings.Repeat("0.001, ", 700) + `0]]}`},
	{what: "decision: not a number", device: true, body: `{"arms": [["NaN"]]}`, want: "bad_arms"},
	{what: "decision: device name too long", device: true, body: `{"arms": []}`, long: true, want: "bad_device"},
	{what: "reward: unknown token", body: `{"token": "unknown", "reward": 1}`, want: "expired_token"},
	{what: "reward: no number", body: `{"token": "unknown", "reward": "much"}`, want: "bad_request"},
	{what: "reward: beyond any float", body: `{"token": "unknown", "reward": 1e999}`, want: "bad_request"},
	{what: "reward: empty body", want: "bad_request"},
}

// nonsense sends the i-th malformed request.
func (c *session) nonsense(ctx context.Context, i int) {
	k := kinds[c.tally.next()%len(kinds)]
	var err error
	if !k.device {
		_, _, err = c.Client.RewardRaw(ctx, c.At(i), []byte(k.body))
	} else {
		device := c.Device(i) + "-nonsense"
		if k.long {
			device = strings.Repeat("x", 200)
			// it takes a slot like any other person; while there is none the next kind has its turn
		} else if !c.Gate.Try() {
			return
		}
		epoch, _ := c.Gate.Now()
		_, _, err = c.Client.DecideRaw(ctx, c.At(i), device, []byte(k.body))
		if !k.long {
			// An epoch can have begun in between; the device is in one of the two.
			c.truth.silent(epoch)
			if later, _ := c.Gate.Now(); later != epoch {
				c.truth.silent(later)
			}
		}
	}
	if err == nil {
		c.tally.anomaly("accepted: " + k.what)
		return
	}
	c.tally.refusal(k.what, err, reasonOf(err) == k.want)
}

// reasonOf is what the API gave as its reason.
func reasonOf(err error) string {
	var r *client.Refusal
	switch {
	case errors.As(err, &r) && r.Reason != "":
		return string(r.Reason)
	case errors.As(err, &r):
		return fmt.Sprintf("status_%d", r.Status)
	}
	return "unreachable"
}
