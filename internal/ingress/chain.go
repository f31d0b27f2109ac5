package ingress

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// chain is what the deployment shows to everybody: the analyzer's announcements, each of which follows the one before
// it, and the shuffler's newest keys. Devices verify all of it themselves; what is not the analyzer's or the shuffler's
// is left out so that nobody else's bytes are handed out.
type chain struct {
	analyzer, shuffler wire.Party
	log                zerolog.Logger

	mu     sync.Mutex
	links  []link
	keys   *published
	number uint64        // of the key set
	news   chan struct{} // closed when there is another link
}

// place is a round of an epoch.
type place struct {
	epoch uint64
	round uint32
}

// before reports whether p comes before q in the chain.
func (p place) before(q place) bool {
	return p.epoch < q.epoch || p.epoch == q.epoch && p.round < q.round
}

// published is a signed statement and the tag that names its bytes.
type published struct {
	signed []byte
	tag    string // of HTTP, with its quotes
}

// link is one announcement of the chain.
type link struct {
	published
	at    place
	size  int    // bytes of each report of the round; 0: there are none
	slots uint32 // of the cohort
	final bool   // no device is enrolled any more
}

func newChain(analyzer, shuffler wire.Party, log zerolog.Logger) *chain {
	return &chain{analyzer: analyzer, shuffler: shuffler, log: log, news: make(chan struct{})}
}

// follow takes announcements and key sets as the broker shows them, until the context ends.
func (c *chain) follow(ctx context.Context, b Broker) error {
	return b.WatchAnnouncements(ctx, func(a bus.Announcement) error { c.announced(a); return nil })
}

// announced takes the next announcement, if it is the analyzer's and continues the chain.
func (c *chain) announced(stored bus.Announcement) {
	a, digest, err := wire.OpenAnnouncement(stored.Payload, stored.Epoch, stored.Round, c.analyzer)
	if err != nil {
		c.log.Warn().Err(err).Uint64("epoch", stored.Epoch).Uint32("round", stored.Round).
			Msg("an announcement that is not the analyzer's is left out: another party has its broker credential")
		return
	}
	next := link{published: tagged(stored.Payload, digest), at: place{a.Epoch, a.Round}, slots: a.Cohort.Size,
		final: a.Final}
	if !a.Final {
		next.size = reportSize(a)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.continues(a, next.at) {
		c.log.Error().Uint64("epoch", a.Epoch).Uint32("round", a.Round).
			Msg("an announcement that does not follow the one before it is left out")
		return
	}
	c.links = append(c.links, next)
	close(c.news)
	c.news = make(chan struct{})
}

// continues reports whether an announcement comes right after the last link.
func (c *chain) continues(a *plan.Announcement, at place) bool {
	if len(c.links) == 0 {
		return at == place{1, 0} && len(a.Previous) == 0
	}
	last := c.links[len(c.links)-1]
	return last.at.before(at) && last.tag == tagged(nil, [32]byte(slices.Grow(a.Previous, 32)[:32])).tag
}

func tagged(signed []byte, digest [32]byte) published {
	return published{signed, `"` + hex.EncodeToString(digest[:]) + `"`}
}

// reportSize is the bytes of each sealed report of a round.
func reportSize(a *plan.Announcement) int {
	if payload := registry.PayloadSize(a.Plan.Channel, a.Encodings); payload > 0 {
		return wire.EnvelopeSize(payload)
	}
	return 0
}

// showKeys takes a key set, if it is the shuffler's and newer than the one that is shown.
func (c *chain) showKeys(payload []byte) {
	set, _, err := wire.Open[wire.KeySet](payload, c.shuffler)
	if err != nil {
		c.log.Warn().Err(err).Msg("a key set that is not the shuffler's is left out")
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil || set.Number >= c.number {
		shown := tagged(payload, sha256.Sum256(payload))
		c.keys, c.number = &shown, set.Number
	}
}

// keySet is the newest signed set of the shuffler's keys; nil before there is one.
func (c *chain) keySet() *published {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keys
}

// find is the link at a place.
func (c *chain) find(at place) (link, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, found := slices.BinarySearchFunc(c.links, at, compare)
	if !found {
		return link{}, false
	}
	return c.links[i], true
}

func compare(l link, at place) int {
	switch {
	case l.at.before(at):
		return -1
	case at.before(l.at):
		return 1
	}
	return 0
}

// last is the newest link.
func (c *chain) last() (link, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.links) == 0 {
		return link{}, false
	}
	return c.links[len(c.links)-1], true
}

// maxFrameBytes bounds one answer of announcements, which has one at least.
const maxFrameBytes = 1 << 20

// after is the chain from a place on, without the link at it, as frames; none where there is nothing yet. news is
// closed once there is more.
func (c *chain) after(at place) (frames []byte, news <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, found := slices.BinarySearchFunc(c.links, at, compare)
	if found {
		i++
	}
	var b bytes.Buffer
	for n := 0; i+n < len(c.links) && n < wire.MaxFrames; n++ {
		signed := c.links[i+n].signed
		if n > 0 && b.Len()+len(signed) > maxFrameBytes {
			break
		}
		b.Write(wire.AppendFrame(b.AvailableBuffer(), signed))
	}
	return b.Bytes(), c.news
}
