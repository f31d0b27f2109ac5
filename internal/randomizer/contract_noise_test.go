package randomizer

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// counting counts the words that are drawn.
type counting struct {
	protocol.Source
	words int
}

func (c *counting) Uint64() uint64 {
	c.words++
	return c.Source.Uint64()
}

// Every coordinate of every release has rounding and noise of its own (condition 20): a report draws exactly the words that its
// encodings draw one by one, whatever the record, so that none is kept for a second use; and a second report of the same record draws
// as many again. Their independence over coordinates is tested in pkg/protocol.
func TestNoRandomWordIsUsedTwice(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	payload, _ := s.Sign(s.Announcement(glm.Practical, 12), s.Analyzer)
	s.config.Reports = testbed.Account(t, "report", nil, Reasons())
	h, err := New(s.config)
	s.must(err)
	defer h.Close()
	a, err := h.judge(bus.Announcement{Epoch: 1, Payload: payload})
	s.must(err)
	alone := &counting{Source: testbed.Source()}
	for i, e := range a.round.Encodings {
		_, err := e.Encode(nil, make([]float64, a.round.Statistics[i].Dim()), alone)
		s.must(err)
	}
	if alone.words == 0 {
		t.Fatal("encoding draws nothing")
	}
	src := &counting{Source: testbed.Source()}
	for n, r := range []glm.Record{{Null: true}, {Arm: []float64{0.6, 0.2}, Reward: 1, Weight: 1}, {Arm: []float64{0.6, 0.2}, Reward: 1, Weight: 1}, {Arm: []float64{1}}} {
		before := src.words
		_, err := sealBits(a, r, src)
		s.must(err)
		if drawn := src.words - before; drawn != alone.words {
			t.Errorf("report %d draws %d words, its encodings %d", n, drawn, alone.words)
		}
	}
}
