package device

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrRewound says that an announcement does not continue the chain of those seen before, or that a key set is older
// than one seen before: the device is shown another past.
var ErrRewound = errors.New("the announcement does not follow the ones seen before")

// Config is what the devices of one identity share.
type Config struct {
	Deployment string
	Analyzer   []byte      // Ed25519 public key that announcements must be signed with
	Shuffler   []byte      // Ed25519 public key that enrolment replies and key sets must be signed with
	Identity   seal.Signer // signs enrolment requests and reports
	Credential []byte      // signed by the registrar: it admits the identity's devices
	Limits     Limits
	// Who must have seen the log that Device.Begin believes; none: a device begins with the first announcement only.
	Witnesses transparency.Witnesses
}

// Core judges and makes statements for the devices of one identity. It does not change and is safe for concurrent use.
type Core struct{ c Config }

// New refuses limits that have faults, and witnesses of whom no quorum can be had.
func New(c Config) (*Core, error) {
	var all []error
	for _, f := range c.Limits.Faults() {
		all = append(all, f)
	}
	all = append(all, c.Witnesses.Check())
	if err := errors.Join(all...); err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	return &Core{c}, nil
}

// first is the identity's first key, by which the shuffler knows its devices.
func (c *Core) first() [seal.IdentitySize]byte {
	if credential, err := wire.ReadCredential(c.c.Credential); err == nil && len(credential.FirstKey) > 0 {
		return [seal.IdentitySize]byte(credential.FirstKey)
	}
	return [seal.IdentitySize]byte(c.c.Identity.Public())
}

// Judge opens the announcement that is stored under a round of an epoch and checks it against the limits.
// wire.ErrForeign means that the bytes are no statement of the analyzer; another error means that the analyzer signed
// what no device may follow. A plan that the limits rule out is no error: see Announced.Weak, which computes what the
// plan reveals.
func (c *Core) Judge(signed []byte, epoch uint64, round uint32) (*Announced, error) {
	a, digest, err := wire.OpenAnnouncement(signed, epoch, round, c.party(c.c.Analyzer))
	if err != nil {
		return nil, err
	}
	return c.judge(a, digest)
}

func (c *Core) judge(a *plan.Announcement, digest [32]byte) (out *Announced, err error) {
	out = &Announced{Announcement: a, Digest: digest}
	out.judged = sync.OnceValue(func() *judgement { return refused(nil) }) // the final one has no plan
	if out.Features, err = schema(a); err != nil {
		return nil, err
	}
	if a.Final {
		return out, nil
	}
	for _, r := range a.Plan.Rounds {
		out.Releases += len(r.Releases)
	}
	if a.Plan.Period > 0 {
		out.Span = c.c.Limits.span()
	}
	if weak := c.c.Limits.trusted(a.Plan.Channel); weak != nil {
		// It is followed all the same, so that the deployment keeps this channel.
		out.judged = sync.OnceValue(func() *judgement { return refused(weak) })
		return out, nil
	}
	if out.channel, err = registry.NewDevice(a, digest); err != nil {
		return nil, err
	}
	out.judged = sync.OnceValue(func() *judgement { return c.c.Limits.judge(a, out.channel.Size()) })
	return out, nil
}

func (c *Core) party(key []byte) wire.Party { return wire.Party{Deployment: c.c.Deployment, Key: key} }

// Request is the signed request of a device that asks whether it is in the announced panel. Its bytes are the same at
// every call. It may leave, sealed, once the state that State.Ask returned is durable.
func (c *Core) Request(a *Announced, number uint32) ([]byte, error) {
	request, _, err := wire.Sign(&wire.EnrolRequest{
		Deployment: c.c.Deployment, Epoch: a.Epoch, Announcement: a.Digest[:], Device: number,
		Credential: c.c.Credential,
	}, c.c.Identity)
	return request, err
}

// Requests is the signed request of devices for slots in the announced cohort, where no panels are drawn: of 1 to
// wire.MaxFurther+1 devices, in ascending order of their numbers. It may leave, sealed, once the states, which
// State.Ask returned, are durable.
func (c *Core) Requests(a *Announced, asking ...State) ([]byte, error) {
	r := &wire.EnrolRequest{
		Deployment: c.c.Deployment, Epoch: a.Epoch, Announcement: a.Digest[:], Device: asking[0].Number,
		Credential: c.c.Credential,
	}
	for i, s := range asking {
		if i > 0 {
			r.Further = append(r.Further, s.Number)
		}
		r.Nonces = append(r.Nonces, s.nonce(a.Epoch))
	}
	request, _, err := wire.Sign(r, c.c.Identity)
	return request, err
}

// Seal seals a signed request to the shuffler's newest key, anew at every call: no request leaves a device otherwise.
func (c *Core) Seal(request, shuffler []byte) (*wire.SealedRequest, error) {
	return wire.SealRequest(request, shuffler, c.c.Deployment)
}

// Unseal returns the signed reply to a sealed request. wire.ErrUnopened says that the shuffler did not open it, which
// is no answer.
func (c *Core) Unseal(r *wire.SealedRequest, reply []byte) ([]byte, error) {
	return r.OpenReply(reply, c.c.Shuffler)
}

// ErrCommitment says that a reply does not say of the channel what it must, or speaks of a panel where there is none:
// it is no answer.
var ErrCommitment = errors.New("the shuffler's reply is not one of the deployment's channel")

// Reply reads the shuffler's reply to a request that was made under the announcement. RefusalWrongEpoch in it is no
// answer: the shuffler is not in this epoch yet, or not any more. A reply that gives a slot holds a commitment to the
// epoch's verification keys in the channel Shares, and in no other; else it is ErrCommitment.
func (c *Core) Reply(a *Announced, request, reply []byte) (*wire.EnrolReply, error) {
	all, err := c.Replies(a, request, reply, 1)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Replies is Reply for a request of Requests for n devices: it returns as many answers, in the order of their numbers.
// A refusal of the whole request answers each.
func (c *Core) Replies(a *Announced, request, reply []byte, n int) (all []*wire.EnrolReply, err error) {
	r, err := wire.OpenEnrolReply(reply, c.c.Shuffler, wire.RequestDigest(request))
	if err != nil {
		return nil, err
	}
	if more := len(r.Further); more != n-1 && (more != 0 || r.Enrolled) {
		return nil, fmt.Errorf("%w: it answers %d devices, and %d asked", ErrCommitment, more+1, n)
	}
	for i := range n {
		one, err := c.answer(a, r.Of(i))
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// answer refuses an answer to one device that says of the channel what it must not.
func (c *Core) answer(a *Announced, r *wire.EnrolReply) (*wire.EnrolReply, error) {
	if !r.Enrolled {
		return r, nil
	}
	switch committed := len(r.Commitment) > 0; {
	case a.Plan.Channel == plan.Shares && !committed:
		return nil, fmt.Errorf("%w: it gives a slot without a commitment to the epoch's verification keys, so that "+
			"reports could be opened with other keys later; nothing is promised under it", ErrCommitment)
	case a.Plan.Channel != plan.Shares && committed:
		return nil, fmt.Errorf("%w: it holds a commitment to verification keys, and the channel %s has none",
			ErrCommitment,
			a.Plan.Channel)
	case !a.Panels() && len(r.Pool) > 0:
		return nil, fmt.Errorf("%w: it gives a place in a panel, and devices enrol as they arrive", ErrCommitment)
	}
	return r, nil
}

// Keys opens a signed set of the shuffler's keys. Reports are sealed to its first key.
func (c *Core) Keys(signed []byte) (*wire.KeySet, error) {
	set, _, err := wire.Open[wire.KeySet](signed, c.party(c.c.Shuffler))
	return set, err
}

// Newer reports whether a set of the shuffler's keys comes after the one kept, which is nil before the first. An
// earlier set, and another one of the same number, are ErrRewound: a key that was retired may be in the wrong hands by
// now.
func Newer(set, kept *wire.KeySet) (bool, error) {
	switch {
	case kept == nil || set.Number > kept.Number:
		return true, nil
	case set.Number < kept.Number:
		return false, fmt.Errorf("%w: set %d of the shuffler's keys is shown, set %d was seen before",
			ErrRewound, set.Number, kept.Number)
	case !slices.EqualFunc(set.Keys, kept.Keys, bytes.Equal):
		return false, fmt.Errorf("%w: set %d of the shuffler's keys had other keys before", ErrRewound, set.Number)
	}
	return false, nil
}
