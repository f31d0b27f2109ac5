package device

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// ErrRewound says that an announcement does not continue the chain of those seen before, or that a key set is older
// than one seen before: the device is shown another past.
var ErrRewound = errors.New("the announcement does not follow the ones seen before")

// Config is what the devices of one identity share.
type Config struct {
	Deployment string
	Analyzer   []byte         // Ed25519 public key that announcements must be signed with
	Shuffler   []byte         // Ed25519 public key that enrolment replies and key sets must be signed with
	Identity   *seal.Identity // signs enrolment requests and reports
	Credential []byte         // signed by the registrar: it admits the identity's devices
	Limits     Limits
	Channels   []string // names of the channels that reports may take; empty: every channel of this package
}

// Core judges and makes statements for the devices of one identity. It does not change and is safe for concurrent use.
type Core struct{ c Config }

// channels are the known channels by name.
var channels = map[string]func(a *plan.Announcement, digest [32]byte) (channel.Device, error){
	shuffle.Name: func(a *plan.Announcement, digest [32]byte) (channel.Device, error) {
		return shuffle.NewDevice(a.Encodings, a.AnalyzerKey, digest)
	},
}

// New refuses limits that have faults, and channels that it does not know.
func New(c Config) (*Core, error) {
	var all []error
	for _, f := range c.Limits.Faults() {
		all = append(all, f)
	}
	for _, name := range c.Channels {
		if channels[name] == nil {
			all = append(all, fmt.Errorf("channels: %q is not known", name))
		}
	}
	if err := errors.Join(all...); err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	return &Core{c}, nil
}

// Judge opens the announcement that is stored under a round of an epoch and checks it against the limits.
// wire.ErrForeign means that the bytes are no statement of the analyzer; another error means that the analyzer signed
// what no device may follow. A plan that the limits rule out is no error: see Announced.Weak.
func (c *Core) Judge(signed []byte, epoch uint64, round uint32) (*Announced, error) {
	a, digest, err := wire.OpenAnnouncement(signed, epoch, round, c.party(c.c.Analyzer))
	if err != nil {
		return nil, err
	}
	return c.judge(a, digest)
}

func (c *Core) judge(a *plan.Announcement, digest [32]byte) (out *Announced, err error) {
	out = &Announced{Announcement: a, Digest: digest}
	if a.Final {
		return out, nil
	}
	for _, r := range a.Plan.Rounds {
		out.Releases += len(r.Releases)
	}
	name := shuffle.Name // announcements name no channel yet
	if out.channel, err = channels[name](a, digest); err != nil {
		return nil, err
	}
	if len(c.c.Channels) > 0 && !slices.Contains(c.c.Channels, name) {
		out.Weak = &WeakPlan{"channels", fmt.Sprintf("its reports take the channel %q, this device allows %q", name,
			c.c.Channels)}
		return out, nil
	}
	if out.Guarantee, out.Weak = c.c.Limits.check(a); out.Weak == nil {
		out.round, out.Weak = c.c.Limits.round(a)
	}
	return out, nil
}

func (c *Core) party(key []byte) wire.Party { return wire.Party{Deployment: c.c.Deployment, Key: key} }

// Request is the signed request of a device for a slot in the announced cohort. Its bytes are the same at every call.
// It may leave once the state that State.Ask returned is durable.
func (c *Core) Request(a *Announced, number uint32) ([]byte, error) {
	request, _, err := wire.Sign(&wire.EnrolRequest{
		Deployment: c.c.Deployment, Epoch: a.Epoch, Announcement: a.Digest[:], Device: number,
		Credential: c.c.Credential,
	}, c.c.Identity)
	return request, err
}

// Reply reads the shuffler's reply to a request. RefusalWrongEpoch in it is no answer: the shuffler is not in this
// epoch yet, or not any more.
func (c *Core) Reply(request, reply []byte) (*wire.EnrolReply, error) {
	return wire.OpenEnrolReply(reply, c.c.Shuffler, wire.RequestDigest(request))
}

// Keys opens a signed set of the shuffler's keys. Reports are sealed to its first key.
func (c *Core) Keys(signed []byte) (*wire.KeySet, error) {
	set, _, err := wire.Open[wire.KeySet](signed, c.party(c.c.Shuffler))
	return set, err
}

// Newer tells whether a set of the shuffler's keys comes after the one kept, which is nil before the first. An earlier
// set, and another one of the same number, are ErrRewound: a key that was retired may be in the wrong hands by now.
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
