package load

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/crowd"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// hostile is a host with its own keys that talks to the broker directly. Each device that it enrols
// sends one null report as any device may, so that its cohort can be compared, and then everything that must be
// refused.
type hostile struct {
	o      Hostile
	keys   *keyring.HostKeys
	conn   *bus.Conn
	gate   *crowd.Gate
	truth  *truth
	reader *reader

	mu       sync.Mutex
	number   uint32
	held     bool // a report is, or was, held back
	lateSent int
	sent     map[string]int // by the reason for which it must be refused
}

func newHostile(ctx context.Context, o Options, g *crowd.Gate, t *truth, r *reader) (*hostile, error) {
	keys, err := keyring.LoadRandomizer(o.Keys, o.Hostile.Host)
	if err != nil {
		return nil, fmt.Errorf("load: keys of the hostile host: %w", err)
	}
	broker := o.Broker
	broker.Role, broker.Seed, broker.Name = bus.Randomizer, keys.Seed, "riffle-load-hostile"
	conn, err := bus.Connect(ctx, broker)
	if err != nil {
		return nil, err
	}
	return &hostile{o: o.Hostile, keys: keys, conn: conn, gate: g, truth: t, reader: r, sent: map[string]int{}}, nil
}

// run misbehaves in every cohort until the context ends.
func (h *hostile) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return h.conn.Announcements.WatchAnnouncements(ctx, func(stored bus.Announcement) error {
			analyzer := h.keys.Bundle.AnalyzerParty()
			a, digest, err := wire.OpenAnnouncement(stored.Payload, stored.Epoch, stored.Round, analyzer)
			if errors.Is(err, wire.ErrForeign) {
				return nil
			}
			if err != nil || a.Final || a.Round != 0 {
				return err
			}
			g.Go(func() error { return h.epoch(ctx, a, digest) })
			return nil
		})
	})
	err := g.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// epoch misbehaves in one cohort. Epochs that were over before this process came are passed by.
func (h *hostile) epoch(ctx context.Context, a *plan.Announcement, digest [32]byte) error {
	for {
		switch now, final := h.gate.Now(); {
		case now == a.Epoch && !final:
		case now > a.Epoch || final:
			return nil
		default:
			if !crowd.Pause(ctx, crowd.Look) {
				return nil
			}
			continue
		}
		break
	}
	round, err := plan.CheckRound(a)
	if err != nil {
		return err
	}
	device, err := registry.NewDevice(a, digest)
	if err != nil {
		return fmt.Errorf("load: hostile host: %w", err)
	}
	c := &craft{h: h, a: a, digest: digest, round: round, device: device}
	for range max(1, h.o.Devices) {
		if !h.gate.Try() {
			return nil
		}
		number, reply, err := h.enrol(ctx, a, digest)
		if err != nil {
			return err
		}
		if reply == nil {
			return nil
		}
		h.truth.silent(a.Epoch)
		c.commitment = reply.Commitment
		if err := c.misbehave(ctx, number, reply.Slot); err != nil {
			return err
		}
	}
	return nil
}

// enrol takes a slot for the next device that never had one. The reply is nil where none is to be had.
func (h *hostile) enrol(ctx context.Context, a *plan.Announcement, digest [32]byte) (
	number uint32, reply *wire.EnrolReply, err error,
) {
	ask := func(number uint32) (*wire.EnrolReply, error) {
		request, _, err := wire.Sign(&wire.EnrolRequest{
			Deployment: h.keys.Bundle.Deployment, Epoch: a.Epoch, Announcement: digest[:], Device: number,
			Credential: h.keys.Credential, Nonces: []uint32{seal.Nonce()},
		}, h.keys.Identity)
		if err != nil {
			return nil, err
		}
		key, err := h.shufflerKey(ctx)
		if err != nil {
			return nil, err
		}
		sealed, err := wire.SealRequest(request, key, h.keys.Bundle.Deployment)
		if err != nil {
			return nil, err
		}
		reply, err := h.conn.Enrolment.Enrol(ctx, sealed.Sealed)
		if err != nil {
			return nil, err
		}
		return sealed.Answer(reply, h.keys.Bundle.Shuffler)
	}
	for {
		h.mu.Lock()
		number = h.number
		h.number++
		h.mu.Unlock()
		if number >= h.keys.Devices {
			return 0, nil, nil
		}
		reply, err := ask(number)
		switch {
		case err != nil:
			return 0, nil, fmt.Errorf("load: hostile host: %w", err)
		case reply.Enrolled:
			return number, reply, nil
		case reply.Refusal != wire.RefusalAlreadyEnrolled:
			return 0, nil, nil
		}
	}
}

// craft makes reports, good and bad ones, for one round.
type craft struct {
	h      *hostile
	a      *plan.Announcement
	digest [32]byte
	round  *plan.Encoder
	device channel.Device // the channel's
	// of the channel, in the reply to the device's enrolment
	commitment []byte
}

// delivery is how long the good report gets to be admitted before its copies are sent.
const delivery = time.Second

// misbehave sends one report that is as it should be, and then those that are not.
func (c *craft) misbehave(ctx context.Context, number, slot uint32) error {
	h := c.h
	host := h.keys.Identity
	good, err := c.report(c.digest, number, slot, 0, host)
	if err != nil {
		return err
	}
	h.mu.Lock()
	hold := h.o.Late && !h.held
	h.held = h.held || hold
	h.mu.Unlock()
	if hold {
		return c.afterwards(ctx, good)
	}
	err = c.send(ctx, "", func() ([]byte, error) { return c.seal(ctx, good) })
	if err != nil || !crowd.Pause(ctx, delivery) {
		return err
	}
	unknown, err := seal.GenerateIdentity()
	if err != nil {
		return err
	}
	other := c.digest
	other[0] ^= 1
	report := func(slot uint32, short int, signer *seal.Identity) ([]byte, error) {
		return c.report(c.digest, number, slot, short, signer)
	}
	bad := []struct {
		reason string
		make   func() ([]byte, error)
	}{
		{"duplicate", func() ([]byte, error) { return good, nil }}, // the same report in a new envelope
		{"already_reported", func() ([]byte, error) { return report(slot, 0, host) }},
		{"wrong_size", func() ([]byte, error) { return report(slot, 1, host) }},
		{"wrong_announcement", func() ([]byte, error) { return c.report(other, number, slot, 0, host) }},
		{"not_enrolled", func() ([]byte, error) { return report(slot+1, 0, host) }},
		{"not_enrolled", func() ([]byte, error) { return report(slot, 0, unknown) }},
		{"bad_signature", func() ([]byte, error) {
			b, err := report(slot, 0, host)
			b[len(b)-1] ^= 1
			return b, err
		}},
	}
	for _, b := range bad {
		err := c.send(ctx, b.reason, func() ([]byte, error) {
			report, err := b.make()
			if err != nil {
				return nil, err
			}
			return c.seal(ctx, report)
		})
		if err != nil {
			return err
		}
	}
	size := wire.EnvelopeSize(c.device.Size())
	if err := c.send(ctx, "malformed", func() ([]byte, error) { return junk(size), nil }); err != nil {
		return err
	}
	return c.send(ctx, "undecryptable", func() ([]byte, error) {
		key, err := seal.GenerateHPKE()
		if err != nil {
			return nil, err
		}
		return wire.SealReport(good, key.Public(), c.context())
	})
}

// afterwards holds a good report back until its round is over.
func (c *craft) afterwards(ctx context.Context, good []byte) error {
	for {
		l, err := c.h.reader.read(ctx)
		if err != nil {
			return err
		}
		if l.manifests[roundID{c.a.Epoch, 0}] != nil {
			break
		}
		if !crowd.Pause(ctx, delivery) {
			return nil
		}
	}
	c.h.mu.Lock()
	c.h.lateSent++
	c.h.mu.Unlock()
	return c.send(ctx, "late", func() ([]byte, error) { return c.seal(ctx, good) })
}

// report makes a signed report of the null record whose payload lacks its last bytes.
func (c *craft) report(digest [32]byte, number, slot uint32, short int, signer *seal.Identity) ([]byte, error) {
	var vectors [][]float64
	for _, s := range c.round.Statistics {
		zero, err := s.Vector(nil, statistic.Record{Null: true})
		if err != nil {
			return nil, err
		}
		vectors = append(vectors, zero)
	}
	payload, err := c.device.Append(nil, channel.Sender{
		Identity: c.h.keys.Identity, Credential: c.h.keys.Credential, Number: number, Commitment: c.commitment,
	}, vectors, entropy.New())
	if err != nil {
		return nil, err
	}
	return wire.BuildReport(wire.Report{
		Announcement: digest, Epoch: c.a.Epoch, Round: c.a.Round, Slot: slot, Device: number,
		Payload: payload[:len(payload)-short],
	}, signer)
}

func (c *craft) context() seal.ReportContext {
	return seal.ReportContext{Deployment: c.h.keys.Bundle.Deployment, Epoch: c.a.Epoch, Round: c.a.Round}
}

// shufflerKey is the shuffler's newest HPKE key, once there is one.
func (h *hostile) shufflerKey(ctx context.Context) ([]byte, error) {
	payload, err := h.conn.Keys.ReadKeys(ctx, bus.Shuffler)
	for errors.Is(err, bus.ErrGone) && crowd.Pause(ctx, crowd.Look) {
		payload, err = h.conn.Keys.ReadKeys(ctx, bus.Shuffler)
	}
	if err != nil {
		return nil, err
	}
	set, _, err := wire.Open[wire.KeySet](payload, h.keys.Bundle.ShufflerParty())
	if err != nil {
		return nil, err
	}
	return set.Keys[0], nil
}

// seal puts a report into an envelope for the shuffler.
func (c *craft) seal(ctx context.Context, report []byte) ([]byte, error) {
	key, err := c.h.shufflerKey(ctx)
	if err != nil {
		return nil, err
	}
	return wire.SealReport(report, key, c.context())
}

// send publishes what make makes; reason is why it must be refused, empty if it must be accepted.
func (c *craft) send(ctx context.Context, reason string, make func() ([]byte, error)) error {
	payload, err := make()
	if err != nil {
		return fmt.Errorf("load: hostile host: %w", err)
	}
	if err := c.h.conn.Reports.PublishReport(ctx, c.a.Epoch, c.a.Round, hex.EncodeToString(junk(16)),
		payload); err != nil {
		return fmt.Errorf("load: hostile host: %w", err)
	}
	if reason != "" {
		c.h.mu.Lock()
		c.h.sent[reason]++
		c.h.mu.Unlock()
	}
	return nil
}

func junk(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// Provocation is what a hostile host sent that must be refused, and what the shuffler says that it refused.
type Provocation struct {
	Reason  string `json:"reason"`
	Sent    int    `json:"sent"`
	Refused *int   `json:"refused"` // null: no shuffler's ops listener was given
}
