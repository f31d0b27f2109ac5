package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The ticket of a slot is what every client and server of this version makes of it; each part of it counts.
func TestTicketsAreOfOneSlot(t *testing.T) {
	key := [32]byte{1, 2, 3}
	ticket := wire.NewTicket(key, "clinic", 7, 3)
	// As openssl dgst -sha256 -mac HMAC computes it.
	if got, want := hex.EncodeToString(ticket[:]), "d73d2a5150b7dd43fa19a947ddf0dedb"; got != want {
		t.Errorf("the ticket is %s, was %s", got, want)
	}
	if got, want := wire.TicketHeader(ticket, 3), "1z0qUVC33UP6GalH3fDe2w.3"; got != want {
		t.Errorf("the header is %s, was %s", got, want)
	}
	other := key
	other[31] = 1
	for what, another := range map[string]wire.Ticket{
		"key": wire.NewTicket(other, "clinic", 7, 3), "deployment": wire.NewTicket(key, "clinics", 7, 3),
		"epoch": wire.NewTicket(key, "clinic", 8, 3), "slot": wire.NewTicket(key, "clinic", 7, 4),
	} {
		if another == ticket {
			t.Errorf("the ticket does not depend on the %s", what)
		}
	}
}

func TestTicketHeadersAreReadOneWay(t *testing.T) {
	want := wire.NewTicket([32]byte{9}, "clinic", 1, 12)
	header := wire.TicketHeader(want, 12)
	if got, slot, err := wire.ParseTicketHeader(header); got != want || slot != 12 || err != nil {
		t.Errorf("%x of slot %d, %v", got, slot, err)
	}
	text, _, _ := strings.Cut(header, ".")
	for _, bad := range []string{"", ".", text, text + ".", "." + "12", text + ".012", text + ".+12", text + ".-1",
		text + ".4294967296", text + "=.12", text[1:] + ".12", text + "A.12", text + ".12.1", " " + header,
		text + ". 12", text[:21] + "_.12"} {
		if _, _, err := wire.ParseTicketHeader(bad); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzTicketHeader(f *testing.F) {
	f.Add(wire.TicketHeader(wire.Ticket{1}, 7))
	f.Add("AAAAAAAAAAAAAAAAAAAAAA.0")
	f.Add("x.1")
	f.Fuzz(func(t *testing.T, header string) {
		ticket, slot, err := wire.ParseTicketHeader(header)
		if err == nil && wire.TicketHeader(ticket, slot) != header {
			t.Errorf("%q is read as slot %d", header, slot)
		}
	})
}

// frames are what is read of bytes.
func frames(r io.Reader) (all [][]byte, err error) {
	err = wire.ReadFrames(r, func(signed []byte) error { all = append(all, signed); return nil })
	return all, err
}

func TestFramesComeBackAsTheyWent(t *testing.T) {
	want := [][]byte{{1}, bytes.Repeat([]byte{2}, 70_000), {3, 4}}
	var sent []byte
	for _, f := range want {
		sent = wire.AppendFrame(sent, f)
	}
	if !bytes.HasPrefix(sent, []byte{0, 0, 0, 1, 1, 0, 1, 0x11, 0x70, 2}) {
		t.Errorf("another layout: %x", sent[:10])
	}
	got, err := frames(iotest.OneByteReader(bytes.NewReader(sent)))
	if err != nil || !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%d frames, %v", len(got), err)
	}
	own := errors.New("own")
	if err := wire.ReadFrames(bytes.NewReader(sent), func([]byte) error { return own }); err != own {
		t.Error(err)
	}
	for cut := 1; cut < len(sent); cut++ {
		if cut == 5 || cut == 5+4+70_000 {
			continue // between two
		}
		if _, err := frames(bytes.NewReader(sent[:cut])); !errors.Is(err, wire.ErrMalformed) {
			t.Fatalf("cut after %d bytes: %v", cut, err)
		}
	}
	many := bytes.Repeat(wire.AppendFrame(nil, []byte{1}), wire.MaxFrames+1)
	if got, err := frames(bytes.NewReader(many)); len(got) != wire.MaxFrames || !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("%d frames, %v", len(got), err)
	}
	if _, err := frames(strings.NewReader("\x00\x80\x00\x00")); !errors.Is(err, wire.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := frames(strings.NewReader("\x00\x00\x00\x00")); !errors.Is(err, wire.ErrMalformed) {
		t.Error(err)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(wire.AppendFrame(wire.AppendFrame(nil, []byte("one")), []byte("two")))
	f.Add([]byte("\x00\x7f\xef\xffx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got [][]byte
		var err error
		allocated.ForInput(t, len(data), func() { got, err = frames(bytes.NewReader(data)) })
		var again []byte
		for _, signed := range got {
			again = wire.AppendFrame(again, signed)
		}
		if err == nil && !bytes.Equal(again, data) || !bytes.HasPrefix(data, again) {
			t.Error("what was read is not what was there")
		}
	})
}
