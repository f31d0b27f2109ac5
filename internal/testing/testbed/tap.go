package testbed

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Sent is one message of the protocol of NATS that a role sent, as whoever is between it and the broker sees it.
// Whatever is drawn at random for each run, and has the same length in each (inboxes, names of consumers), is a star.
type Sent struct {
	At      time.Time // by the clock of the tap
	Line    string    // PUB, SUB and so on, with the subjects
	Headers int       // bytes of headers of what is published
	Payload int       // bytes of what is published, without headers
}

// Tap is between one role and the broker, and writes down what the role sends, but for the PING and PONG with which
// both ask whether the other is there.
type Tap struct {
	URL string // where the role finds the broker

	mu   sync.Mutex
	sent []Sent
}

// Tap listens for a role's connection until the test ends. now is the time of what is sent.
func (b *Bed) Tap(now func() time.Time) *Tap {
	b.tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	b.must(err)
	t := &Tap{URL: "nats://" + listener.Addr().String()}
	var running sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	running.Go(func() {
		for {
			role, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				b.tb.Error(err)
				return
			}
			server, err := net.DialTimeout("tcp", strings.TrimPrefix(b.server.URL(), "nats://"), Patience)
			if err != nil {
				_ = role.Close() // the broker is down: so the role sees it
				continue
			}
			mu.Lock()
			open = append(open, role, server)
			mu.Unlock()
			running.Go(func() { defer role.Close(); _, _ = io.Copy(role, server) }) // ends with either connection
			running.Go(func() { defer server.Close(); t.carry(server, role, now) })
		}
	})
	b.tb.Cleanup(func() {
		b.must(listener.Close())
		mu.Lock()
		for _, c := range open {
			_ = c.Close() // closed already, maybe
		}
		mu.Unlock()
		running.Wait()
	})
	return t
}

// carry passes on what a role sends, message by message, until either end closes.
func (t *Tap) carry(to io.Writer, from io.Reader, now func() time.Time) {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		words := bytes.Fields(line)
		all, headers, payload := line, 0, 0
		if verb := strings.ToUpper(string(words[0])); verb == "PUB" || verb == "HPUB" {
			whole, _ := strconv.Atoi(string(words[len(words)-1])) // the broker refuses what is no number
			if verb == "HPUB" {
				headers, _ = strconv.Atoi(string(words[len(words)-2]))
			}
			payload = whole - headers
			all = append(all, make([]byte, whole+2)...)
			if _, err := io.ReadFull(in, all[len(line):]); err != nil {
				return
			}
		}
		if said := drawn.ReplaceAllString(string(bytes.TrimSpace(line)), "*"); said != "PING" && said != "PONG" {
			switch verb, rest, _ := strings.Cut(said, " "); verb {
			case "CONNECT": // it signs what the broker draws
				said = verb
			case "SUB", "UNSUB": // with the number of the subscription
				said = verb + " " + strings.TrimRight(rest, "0123456789")
			}
			t.mu.Lock()
			t.sent = append(t.sent, Sent{At: now(), Line: said, Headers: headers, Payload: payload})
			t.mu.Unlock()
		}
		if _, err := to.Write(all); err != nil {
			return
		}
	}
}

// drawn is what is drawn at random for each run in a line of the protocol: what follows an inbox, and names of
// consumers.
var drawn = regexp.MustCompile(`\b[0-9A-Za-z]{22}(\.[0-9A-Za-z]+)?\b|\b[0-9A-Za-z]{8}_[0-9]+\b`)

// Take returns what was sent since the last call, in order.
func (t *Tap) Take() []Sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	sent := t.sent
	t.sent = nil
	return sent
}
