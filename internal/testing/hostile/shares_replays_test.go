package hostile_test

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The chunks of a round of so few reports in the channel of shares.
const (
	keyChunk = 0 // holds the shuffler's verification key, sealed to the analyzer
	sumChunk = 2 // holds the shuffler's share of the sum
)

// sharesReplays are what a malicious broker does with the servers' keys and sums in the channel of shares, in the order
// of the table.
func sharesReplays() []trick {
	in := []plan.Channel{plan.Shares}
	// A key of the broker's own: whoever knows the announcement can seal one to the analyzer.
	ownKey := func(d *world, c *wire.Chunk) {
		r := d.announced(c.Epoch)
		sealer, err := seal.NewEnvelopeSealer(r.AnalyzerKey, seal.SecretEnvelope, r.digest)
		d.must(err)
		secret, err := shares.ParseSecret(bytes.Repeat([]byte{7}, shares.SecretSize))
		d.must(err)
		c.Payload, err = sealer.AppendSeal(slices.Clone(c.Payload[:8]), secret.Bytes(), nil)
		d.must(err)
	}
	ownSum := func(_ *world, c *wire.Chunk) {
		c.Payload = slices.Clone(c.Payload)
		c.Payload[len(c.Payload)-1] ^= 1
	}
	changed := func(d *world, payload []byte, index uint32, change func(*world, *wire.Chunk)) []byte {
		c, err := wire.ParseChunk(payload)
		d.must(err)
		if c.Index != index {
			return payload
		}
		change(d, c)
		payload, err = wire.BuildChunk(*c)
		d.must(err)
		return payload
	}
	inPlace := func(name string, index uint32, change func(*world, *wire.Chunk)) trick {
		return trick{name: name, channels: in, always: true, run: func(d *world) string {
			d.l.set(faults{chunk: func(_ uint32, payload []byte, publish func([]byte) error) error {
				return publish(changed(d, payload, index, change))
			}})
			r := d.cohort()
			v := d.verdict(r)
			d.l.set(faults{})
			return d.why(r, v)
		}}
	}
	behind := func(name string, index uint32, change func(*world, *wire.Chunk)) trick {
		return trick{name: name, channels: in, always: true, run: func(d *world) string {
			d.l.set(faults{mixed: func(m *bus.Mixed, hand func(*bus.Mixed)) {
				hand(m)
				if !m.Manifest && m.Index == index {
					second := *m
					second.Payload = changed(d, m.Payload, index, change)
					hand(&second)
				}
			}})
			r := d.cohort()
			v := d.verdict(r)
			d.l.set(faults{})
			return d.why(r, v)
		}}
	}
	return []trick{
		inPlace("verification key: in the place of the shuffler's one of the broker's own", keyChunk, ownKey),
		behind("verification key: behind the shuffler's one of the broker's own", keyChunk, ownKey),
		inPlace("sum: in the place of the shuffler's share another", sumChunk, ownSum),
		behind("sum: behind the shuffler's share another", sumChunk, ownSum),
		{name: "accepted set: shows the shuffler that of an earlier epoch in the place of this one's", channels: in,
			always: true, run: func(d *world) string {
				var mu sync.Mutex
				var old []byte
				d.l.set(faults{prepared: func(index uint32, answer []byte) []byte {
					mu.Lock()
					defer mu.Unlock()
					if index == 0 {
						old = answer
					}
					return answer
				}})
				d.verdict(d.cohort())
				d.l.set(faults{prepared: func(index uint32, answer []byte) []byte {
					mu.Lock()
					defer mu.Unlock()
					if index == 0 {
						return old
					}
					return answer
				}})
				r := d.cohort()
				v := d.verdict(r)
				d.l.set(faults{})
				return d.why(r, v)
			}},
	}
}

// why is a verdict with what the servers say of a round of which nothing counts.
func (d *world) why(r *round, verdict string) string {
	var all []string
	for _, s := range []struct {
		who     string
		log     *record
		message string
	}{
		{"analyzer", d.said, "no report of the round is accepted"}, {"shuffler", d.told, "release is destroyed"},
	} {
		for _, text := range s.log.of(r.Epoch, s.message) {
			all = append(all, "the "+s.who+" says `"+numbers.ReplaceAllString(text, "…")+"`")
		}
	}
	if all == nil {
		return verdict
	}
	return "succeeds in ending the epoch, and in nothing else: " + verdict + "; " + strings.Join(all, "; ")
}
