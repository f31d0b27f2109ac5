package ingress

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A network has its rate in the long run, and what it did not use for ten seconds at once. Others are not hindered, and
// what is remembered is bounded.
func TestRatesAreOfNetworks(t *testing.T) {
	t.Parallel()
	r := newRates(2)
	now := time.Unix(1e9, 0)
	a, b := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/64")
	burst := 0
	for r.take(a, now) == 0 {
		burst++
	}
	if burst != 20 {
		t.Errorf("%d requests at once, want 20", burst)
	}
	if wait := r.take(a, now); wait != time.Second/2 {
		t.Errorf("told to wait %v", wait)
	}
	if r.take(b, now) != 0 {
		t.Error("another network waits, too")
	}
	passed := 0
	for range 100 {
		now = now.Add(100 * time.Millisecond)
		if r.take(a, now) == 0 {
			passed++
		}
	}
	if passed != 20 {
		t.Errorf("%d requests in ten seconds, want 20", passed)
	}
	for i := range 2 * maxNetworks {
		from := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if r.take(netip.PrefixFrom(from, 32), now) != 0 {
			t.Fatal("a network that is new waits")
		}
	}
	if len(r.until) > maxNetworks {
		t.Errorf("%d networks are remembered", len(r.until))
	}
	for i := range 5 * maxNetworks { // with time, quiet ones are forgotten
		now = now.Add(time.Millisecond)
		from := netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})
		r.take(netip.PrefixFrom(from, 32), now)
	}
	if len(r.until) > maxNetworks {
		t.Errorf("%d networks are remembered", len(r.until))
	}
	if slow := newRates(0.001); slow.take(a, now) != 0 || slow.take(a, now) != 1000*time.Second {
		t.Error("of a slow rate the first request passes, and the next one waits")
	}
}

// What a client writes into X-Forwarded-For counts for nothing: only what a proxy of ours appended.
func TestOnlyProxiesSayWhereRequestsComeFrom(t *testing.T) {
	t.Parallel()
	proxies, err := parseNetworks([]string{"10.0.0.0/8", "::1"})
	if err != nil {
		t.Fatal(err)
	}
	relays, _ := parseNetworks([]string{"198.51.100.7"})
	n := networks{proxies, relays}
	for _, c := range []struct {
		peer  string
		said  []string
		from  string
		relay bool
	}{
		{"203.0.113.9:1", nil, "203.0.113.0/24", false},
		{"203.0.113.9:1", []string{"192.0.2.1"}, "203.0.113.0/24", false},
		{"10.1.1.1:1", []string{"192.0.2.1"}, "192.0.2.0/24", false},
		{"10.1.1.1:1", []string{"1.1.1.1, 192.0.2.1"}, "192.0.2.0/24", false},
		{"10.1.1.1:1", []string{"1.1.1.1", "192.0.2.1, 10.2.2.2"}, "192.0.2.0/24", false},
		{"10.1.1.1:1", []string{"1.1.1.1, junk"}, "10.1.1.0/24", false},
		{"10.1.1.1:1", nil, "10.1.1.0/24", false},
		{"[::1]:1", []string{"2001:db8:1:2:3::4"}, "2001:db8:1:2::/64", false},
		{"[::ffff:203.0.113.9]:1", nil, "203.0.113.0/24", false},
		{"198.51.100.7:1", nil, "198.51.100.0/24", true},
		{"198.51.100.8:1", nil, "198.51.100.0/24", false},
		{"10.1.1.1:1", []string{"198.51.100.7"}, "198.51.100.0/24", true},
		{"@", nil, "invalid Prefix", false},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.said}}
		if from, relay := n.of(r); from.String() != c.from || relay != c.relay {
			t.Errorf("%+v: %s, relay %v", c, from, relay)
		}
	}
	if _, err := parseNetworks([]string{"example.org"}); err == nil {
		t.Error("a name is taken for a network")
	}
}

// One network holds a part of the connections, and all networks together no more than there may be.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	l := &listener{most: 16, open: map[netip.Prefix]int{}}
	networkOf := func(i int) netip.Prefix { return network(netip.AddrFrom4([4]byte{10, 0, byte(i), 1})) }
	for i := range 3 {
		if l.take(networkOf(1), false) != (i < 2) {
			t.Errorf("connection %d of one network", i)
		}
	}
	if !l.take(networkOf(1), true) {
		t.Error("a proxy is held to the share of one network")
	}
	for i := range 13 {
		if !l.take(networkOf(10+i), false) {
			t.Errorf("connection %d of all", i+3)
		}
	}
	if l.take(networkOf(99), true) || l.take(networkOf(99), false) {
		t.Error("there is no bound")
	}
	for i := range 13 {
		l.release(networkOf(10 + i))
	}
	for range 3 {
		l.release(networkOf(1))
	}
	if l.all != 0 || len(l.open) != 0 {
		t.Errorf("%d connections are left, %v", l.all, l.open)
	}
}

// 64 connections that begin bodies of 4 MB, slow bodies and 100 000 junk bodies cost a bounded memory, and reports get
// through meanwhile and afterwards.
func TestJunkCostsLittle(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.c.Limits.Memory = 8 << 20
	s.start()
	s.announce(64)
	request := make([]byte, wire.SealedRequestSize)
	junk := 20_000
	if testing.Short() {
		junk = 2_000
	}
	if os.Getenv("RIFFLE_LONG") != "" {
		junk = 100_000
	}
	grown := allocated.Peak(func() {
		var slow []net.Conn
		open := func(method, path string, length int, ticket string) {
			c, err := net.Dial("tcp", s.url[len("http://"):])
			s.must(err)
			_, err = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n", method, path, length,
				ticket)
			s.must(err)
			slow = append(slow, c)
		}
		for range 64 { // they are told so before they have sent any of it
			open("PUT", s.reportPath(nil), 4<<20, "")
			open("POST", "/v1/enrolments", 4<<20, "")
		}
		for _, c := range slow {
			_, _ = c.Write(make([]byte, 1<<20))
		}
		for i := range 64 { // these hold room for a body each
			open("POST", "/v1/enrolments", len(request), "")
			body := s.envelope(i)
			open("PUT", s.reportPath(body), len(body), "Riffle-Ticket: "+s.header(uint32(i%32))+"\r\n")
		}
		s.want(s.report(40, s.envelope(40)), 204, "")
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				body := s.envelope(w)
				path, good := s.reportPath(body), s.header(50)
				for i := w; i < junk; i += 8 {
					r, err := http.NewRequest("PUT", s.url+path, bytes.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					if i%2 == 0 { // of a device that sends other bodies with its ticket
						r.Header.Set("Riffle-Ticket", good)
					} else {
						r.Header.Set("Riffle-Ticket", wire.TicketHeader(wire.Ticket{byte(i), byte(i >> 8), 9}, 50))
					}
					got, err := client.Do(r)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, got.Body)
					_ = got.Body.Close()
					if got.StatusCode != 403 && got.StatusCode != 409 && got.StatusCode != 204 {
						t.Errorf("junk is answered with %d", got.StatusCode)
						return
					}
				}
			})
		}
		wg.Wait()
		s.want(s.report(41, s.envelope(41)), 204, "")
		for _, c := range slow {
			_ = c.Close()
		}
	})
	t.Logf("%d junk bodies and 256 open ones: the heap of ingress, clients and broker grew by %d MB at most", junk,
		grown>>20)
	if grown > 96<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
	for slot := range uint32(32) {
		s.want(s.report(slot, s.envelope(100+int(slot))), 204, "")
	}
	if n := len(s.stored()); n != 32+3 { // and one of the many with the good ticket
		t.Errorf("%d reports are stored, want %d", n, 32+3)
	}
}

// Only the slot's own ticket of this deployment and epoch lets a report pass.
func TestAForgedTicketStoresNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.announce(12)
	report, other, flipped := s.envelope(0), s.c.Ticket, wire.NewTicket(s.c.Ticket, s.c.Deployment, 1, 3)
	other[0]++
	flipped[wire.TicketSize-1] ^= 1
	for name, forged := range map[string]wire.Ticket{
		"nothing": {}, "one bit": flipped, "another slot's": wire.NewTicket(s.c.Ticket, s.c.Deployment, 1, 2),
		"another epoch's":      wire.NewTicket(s.c.Ticket, s.c.Deployment, 2, 3),
		"another deployment's": wire.NewTicket(s.c.Ticket, s.c.Deployment+"x", 1, 3),
		"under another key":    wire.NewTicket(other, s.c.Deployment, 1, 3),
	} {
		a := s.do(http.MethodPut, s.reportPath(report), report, func(r *http.Request) {
			r.Header.Set("Riffle-Ticket", wire.TicketHeader(forged, 3))
		})
		if a.status != 403 || a.reason != "no_ticket" {
			t.Errorf("%s: %d %s", name, a.status, a.reason)
		}
	}
	if n := len(s.stored()); n != 0 {
		t.Errorf("%d reports are stored", n)
	}
	s.want(s.report(3, report), 204, "")
}
