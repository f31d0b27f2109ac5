package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestMessagesAreRead reads the protocol of NATS byte by byte: subjects, where an answer goes, and nothing is changed.
func TestMessagesAreRead(t *testing.T) {
	all := []struct{ text, subject, reply, header, payload string }{
		{"CONNECT {}\r\n", "", "", "", ""},
		{"PING\r\n", "", "", "", ""},
		{"PUB a.b 2\r\n\r\n\r\n", "a.b", "", "", "\r\n"},
		{"PUB a.b to.me 0\r\n\r\n", "a.b", "to.me", "", ""},
		{"HPUB a to 3 5\r\nH:1xy\r\n", "a", "to", "H:1", "xy"},
		{"MSG a 7 1\r\nx\r\n", "a", "", "", "x"},
		{"MSG a 7 to 1\r\nx\r\n", "a", "to", "", "x"},
		{"HMSG a 7 to 1 2\r\nhx\r\n", "a", "to", "h", "x"},
	}
	var text strings.Builder
	for _, one := range all {
		text.WriteString(one.text)
	}
	r := bufio.NewReader(iotest.OneByteReader(strings.NewReader(text.String())))
	for _, one := range all {
		f, err := read(r)
		if err != nil {
			t.Fatal(err)
		}
		if string(f.all) != one.text || f.subject != one.subject || f.reply != one.reply {
			t.Errorf("%q is read as %q, subject %q, reply %q", one.text, f.all, f.subject, f.reply)
		}
		if one.subject == "" {
			continue
		}
		if header, payload := f.parts(); header != one.header || string(payload) != one.payload {
			t.Errorf("%q has the headers %q and the payload %q", one.text, header, payload)
		}
	}
}

// TestStopsAreBeforeAndAfter sees that a stop before a message keeps it from the broker, and that one after it lets it
// through and keeps the answer from the role.
func TestStopsAreBeforeAndAfter(t *testing.T) {
	for _, answered := range []bool{false, true} {
		tap := newTap("", nil, nil)
		l := tap.add("host1")
		c := &connection{closed: make(chan struct{}), waiting: map[string]*Stop{}}
		s := &Stop{ID: "1", Link: "host1", Subject: "a.", Nth: 2, Answered: answered}
		tap.arm(s)
		var broker, role bytes.Buffer
		carry := func(text string, to io.Writer, toRole bool) error {
			f, err := read(bufio.NewReader(strings.NewReader(text)))
			if err != nil {
				t.Fatal(err)
			}
			return l.carry(c, f, to, toRole)
		}
		if err := carry("PUB a.1 me.1 1\r\nx\r\n", &broker, false); err != nil {
			t.Fatal(err)
		}
		tap.release(s, true, false) // beforehand, so that nothing waits here
		s.done = false
		sent := carry("PUB a.2 me.2 1\r\ny\r\n", &broker, false)
		heard := carry("MSG me.2 7 1\r\nz\r\n", &role, true)
		if got := strings.Contains(broker.String(), "a.2"); got != answered || answered != (sent == nil) {
			t.Errorf("answered %v: the message reached the broker: %v, %v", answered, got, sent)
		}
		if answered && (!errors.Is(heard, errDropped) || role.Len() > 0) {
			t.Errorf("the answer reached the role: %v", heard)
		}
		select {
		case <-s.hit:
		default:
			t.Errorf("answered %v: the stop was not met", answered)
		}
	}
}

// TestAMessageGoesTwice sees that a message that is to come twice does, in either direction, and every other one once.
func TestAMessageGoesTwice(t *testing.T) {
	for _, toRole := range []bool{false, true} {
		for _, twice := range []bool{false, true} {
			tap := newTap("", nil, nil)
			l := tap.add("host1")
			c := &connection{closed: make(chan struct{}), waiting: map[string]*Stop{}}
			s := &Stop{ID: "1", Link: "host1", Subject: "a.", ToRole: toRole}
			tap.arm(s)
			tap.release(s, false, twice) // beforehand, so that nothing waits here
			s.done = false
			var to bytes.Buffer
			one, two := "MSG a.1 7 1\r\nx\r\n", "MSG a.2 7 1\r\ny\r\n"
			for _, text := range []string{one, two} {
				f, err := read(bufio.NewReader(strings.NewReader(text)))
				if err != nil {
					t.Fatal(err)
				}
				if err := l.carry(c, f, &to, toRole); err != nil {
					t.Fatal(err)
				}
			}
			want := one + two
			if twice {
				want = one + one + two
			}
			if got := to.String(); got != want {
				t.Errorf("to the role: %v, twice: %v: %q passed", toRole, twice, got)
			}
		}
	}
}
