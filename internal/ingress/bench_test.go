//go:build unix

package ingress

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// benchSize is the bytes of a report in the channel shares at dimension 5.
const benchSize = 4096

// benchScene is a broker that syncs always, and an ingress with a round that takes any number of reports.
func benchScene(b *testing.B) *scene {
	s := newScene(b, func(o *broker.Options, p *bus.ProvisionOptions) {
		o.SyncAlways, p.HostReports, p.MaxReportBytes = true, 1<<24, -1
	})
	s.doc = nil
	s.start()
	s.in.chain.links = []link{{at: place{1, 0}, size: benchSize, slots: math.MaxUint32}}
	return s
}

// measured runs send for b.N reports on so many goroutines, and tells reports a second and processor time, of broker,
// ingress and clients together.
func measured(b *testing.B, senders, together int, send func(worker, first, n int) error) (rate, µs float64) {
	cpu := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	begin := cpu()
	for w := range senders {
		wg.Go(func() {
			for {
				first := int(next.Add(int64(together))) - together
				if first >= b.N {
					return
				}
				if err := send(w, first, min(together, b.N-first)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	rate, µs = float64(b.N)/b.Elapsed().Seconds(), float64((cpu()-begin).Microseconds())/float64(b.N)
	b.ReportMetric(rate, "reports/s")
	b.ReportMetric(µs, "cpu-µs/report")
	return rate, µs
}

// handed are the reports of slots.
func handed(first, n int) []bus.Ticketed {
	all := make([]bus.Ticketed, n)
	for i := range all {
		ticket := binary.BigEndian.AppendUint32(make([]byte, 12), uint32(first+i))
		all[i] = bus.Ticketed{Epoch: 1, Ticket: ticket, Payload: make([]byte, benchSize)}
	}
	return all
}

// BenchmarkReports compares what reports over HTTP take with what the broker takes alone, in batches as an ingress
// hands them in (the bound), and one by one as a host does. All are stored and synced. What is over HTTP is told as a
// share of the bound's rate and a multiple of its processor time too, of which other work on the machine disturbs the
// second less.
func BenchmarkReports(b *testing.B) {
	var rate, cpu float64 // of the bound
	for _, way := range []struct {
		name              string
		senders, together int
	}{{"jetstream_single", 64, 1}, {"jetstream_batches", storers, bus.MaxBatch}} {
		b.Run(way.name, func(b *testing.B) {
			s := benchScene(b)
			r := s.Connect(bus.Ingress).Reports
			rate, cpu = measured(b, way.senders, way.together, func(_, first, n int) error {
				return errors.Join(r.PublishTicketed(context.Background(), handed(first, n))...)
			})
		})
	}
	b.Run("http", func(b *testing.B) {
		s := benchScene(b)
		const senders = 512
		conns := make([]*sender, senders)
		for i := range conns {
			conns[i] = dial(b, s.url)
		}
		r, c := measured(b, senders, 1, func(w, slot, _ int) error { return conns[w].put(s, uint32(slot)) })
		if rate > 0 { // the bound is measured in the same run
			b.ReportMetric(r/rate, "of-the-bound")
			b.ReportMetric(c/cpu, "cpu-of-the-bound")
		}
		b.ReportMetric(float64(conns[0].bytes)/float64(conns[0].sent), "bytes/report")
	})
}

// sender is a connection that sends one report after another, with as little work as may be.
type sender struct {
	net.Conn
	answers     *bufio.Reader
	bytes, sent int
}

func dial(b *testing.B, url string) *sender {
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return &sender{Conn: c, answers: bufio.NewReader(c)}
}

func (c *sender) put(s *scene, slot uint32) error {
	body := make([]byte, benchSize)
	binary.BigEndian.PutUint32(body, slot)
	ticket := wire.NewTicket(s.c.Ticket, testbed.Deployment, 1, slot)
	request := fmt.Appendf(nil, "PUT /v1/reports/1.0/%x HTTP/1.1\r\nHost: ingress\r\nRiffle-Ticket: %s\r\n"+
		"Content-Length: %d\r\n\r\n", sha256.Sum256(body), wire.TicketHeader(ticket, slot), len(body))
	if _, err := c.Write(append(request, body...)); err != nil {
		return err
	}
	answer, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if why, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%d %s %v", answer.StatusCode, why, err)
	}
	c.bytes, c.sent = c.bytes+len(request)+len(body)+headBytes(answer), c.sent+1
	return nil
}

// headBytes is about what the header of an answer has.
func headBytes(r *http.Response) int {
	n := len("HTTP/1.1 204 No Content\r\n\r\n")
	for name, values := range r.Header {
		n += len(name) + len(values[0]) + 4
	}
	return n
}
