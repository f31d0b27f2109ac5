package bus_test

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/seal"
	messages "github.com/riffle-dp/riffle/pkg/wire"
)

// relay passes connections on to the broker and counts the bytes in both directions.
type relay struct {
	listener           net.Listener
	toBroker, toClient atomic.Int64
}

func (b *bed) connectCounted(r bus.Role) (*bus.Conn, *relay) {
	b.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	l := &relay{listener: listener}
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return // closed
			}
			out, err := net.Dial("tcp", strings.TrimPrefix(b.server.URL(), "nats://"))
			if err != nil {
				_ = in.Close()
				continue
			}
			go pass(out, in, &l.toBroker)
			go pass(in, out, &l.toClient)
		}
	}()
	c, err := bus.Connect(b.ctx(), bus.Options{URL: "nats://" + listener.Addr().String(), Role: r, Seed: b.seeds[r]})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close(); _ = listener.Close() })
	return c, l
}

type counter struct {
	to io.Writer
	n  *atomic.Int64
}

func (c counter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.to.Write(p)
}

// pass copies until either end closes.
func pass(to, from net.Conn, n *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	_, _ = io.Copy(counter{to, n}, from)
}

// What is around the bit messages of the default plan (150 in a report, 16,384 in a chunk), for each of them, of a
// report and its envelope, of what the broker gets and of what it stores.
func TestBytesAroundABitMessage(t *testing.T) {
	b := newBroker(t)
	const inReport, inChunk, reports = 150, 16384, 20
	stored := func(stream string) int64 {
		admin := b.connect(bus.Admin)
		defer admin.Close()
		s, err := admin.JetStream().Stream(b.ctx(), stream)
		if err != nil {
			t.Fatal(err)
		}
		return int64(s.CachedInfo().State.Bytes)
	}
	around := func(what string, most float64, total int64, inOne, times int) {
		t.Helper()
		each := (float64(total)/float64(times) - float64(inOne*seal.BitSize)) / float64(inOne)
		t.Logf("%s: %.2f bytes around a bit message", what, each)
		if each > most {
			t.Errorf("%s: %.2f bytes around a bit message, at most %v", what, each, most)
		}
	}
	host, counted := b.connectCounted(bus.Randomizer)
	around("a report and its envelope", 1.7, int64(messages.EnvelopeSize(inReport*seal.BitSize)), inReport, 1)
	for i := range reports {
		report := bytes.Repeat([]byte{byte(i)}, messages.EnvelopeSize(inReport*seal.BitSize))
		before := counted.toBroker.Load()
		if err := host.Reports.PublishReport(b.ctx(), 12, 0, "an-id-of-a-report-"+strconv.Itoa(i), report); err != nil {
			t.Fatal(err)
		}
		if i == reports-1 { // the connection is warm
			// The broker's protocol has 1.8 of these bytes. 0.7 of them name where it answers, which only this host may
			// hear.
			around("a report on its way", 3.5, counted.toBroker.Load()-before, inReport, 1)
		}
	}
	around("reports at the broker", 3, stored(bus.StreamReports), inReport, reports)

	shuffler, counted := b.connectCounted(bus.Shuffler)
	chunk, err := messages.BuildChunk(messages.Chunk{Epoch: 12, Index: 3, Payload: make([]byte, inChunk*seal.BitSize)})
	if err != nil {
		t.Fatal(err)
	}
	before := counted.toBroker.Load()
	if err := shuffler.Mixed.PublishChunk(b.ctx(), 12, 0, 3, chunk); err != nil {
		t.Fatal(err)
	}
	around("a chunk on its way", 0.03, counted.toBroker.Load()-before, inChunk, 1)
	around("a chunk at the broker", 0.03, stored(bus.StreamMixed), inChunk, 1)
}
