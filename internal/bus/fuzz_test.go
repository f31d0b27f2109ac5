package bus

import (
	"errors"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
)

// FuzzMessageHeader reads any headers as those with which a replica sends a stored message, and any text as the status
// of an answer. What is read has the sequence and the time that are there; anything else is an odd answer.
func FuzzMessageHeader(f *testing.F) {
	f.Add([]byte("NATS/1.0\r\nNats-Subject: riffle.v1.x\r\nNats-Sequence: 7\r\n" +
		"Nats-Time-Stamp: 2026-01-01T00:00:00Z\r\n\r\n"))
	f.Add([]byte("NATS/1.0 404 Message Not Found\r\n\r\n"))
	f.Add([]byte("NATS/1.0\r\nNats-Sequence: -1\r\n\r\n"))
	f.Add([]byte("NATS/1.0\r\nNats-Sequence: 18446744073709551616\r\nNats-Time-Stamp: x\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		header, err := nats.DecodeHeadersMsg(text)
		if err != nil {
			return
		}
		m := &nats.Msg{Header: header, Data: text}
		r, err := decode(m)
		if err != nil {
			if !errors.Is(err, errOddAnswer) || r.Subject != "" || r.Data != nil || r.Sequence != 0 {
				t.Fatalf("%+v, %v", r, err)
			}
		} else if n, err := strconv.ParseUint(header.Get("Nats-Sequence"), 10, 64); err != nil || n != r.Sequence ||
			r.Subject != header.Get("Nats-Subject") || r.Time.IsZero() && header.Get("Nats-Time-Stamp")[:4] != "0001" {
			t.Fatalf("%q is read as %+v", text, r)
		}
		if code := header.Get("Status"); (code != "") != (status(m) != nil) {
			t.Fatalf("status %q: %v", code, status(m))
		}
	})
}
