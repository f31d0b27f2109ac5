package shares

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Everything follows from the announcement: sizes, and what is not a round.
func TestTheSizesFollowFromTheAnnouncement(t *testing.T) {
	for _, c := range []struct {
		coordinates               int
		bits                      uint
		chunk                     uint
		payload, message, allowed int
	}{
		{20, 4, 12, 2420, 964, 4015}, {20, 6, 8, 3188, 836, 4015}, {20, 9, 12, 4276, 964, 0},
		{20, 12, 16, 5364, 1092, 0},
		{230, 6, 45, 25044, 2020, 30000},
	} {
		encodings, releases := wide(c.coordinates, c.bits)
		f := newFixture(t, encodings, releases)
		payload := f.payload(make([]uint64, c.coordinates)...)
		message, _ := f.message(payload)
		if f.round.chunk != c.chunk || len(payload) != c.payload || len(message) != c.message ||
			f.round.PayloadSize() != c.payload || f.device.Size() != c.payload ||
			f.round.PrepareMessageSize() != c.message || PayloadSize(encodings) != c.payload ||
			f.round.AggregateSize() != 16*c.coordinates {
			t.Errorf("%d entries of %d bits: chunk %d, payload %d, prepare message %d", c.coordinates, c.bits,
				f.round.chunk, len(payload), len(message))
		}
		if c.allowed > 0 && len(payload) > c.allowed {
			t.Errorf("%d entries of %d bits take %d bytes, more than %d", c.coordinates, c.bits, len(payload),
				c.allowed)
		}
	}
	encodings, releases := two()
	for what, a := range map[string]*plan.Announcement{
		"a final announcement with encodings": {Final: true, Encodings: make([]protocol.Encoding, 1)},
		"an encoding too few": {
			Encodings: encodings[:1], Plan: plan.Plan{Rounds: []plan.Round{{Releases: releases}}},
		},
		"no encoding": {Plan: plan.Plan{Rounds: []plan.Round{{}}}},
		"too many bytes": func() *plan.Announcement {
			encodings, releases := wide(1<<16, 7)
			return &plan.Announcement{Encodings: encodings, Plan: plan.Plan{Rounds: []plan.Round{{Releases: releases}}}}
		}(),
	} {
		if _, err := NewRound(a, [32]byte{}); !errors.Is(err, ErrRound) {
			t.Errorf("%s: %v", what, err)
		}
		if what == "too many bytes" && PayloadSize(a.Encodings) != 0 {
			t.Errorf("%s: there is a size", what)
		}
	}
}

// What a device is given is checked: vectors, and the commitment that came with its enrolment.
func TestADeviceRefusesWhatItCannotReport(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	good := [][]float64{{0, 0, 0}, {0, 0}}
	for _, vectors := range [][][]float64{nil, good[:1], {{0, 0, 0}, {0, 0}, {0}}, {{0, 0}, {0, 0}},
		{{0, 0, math.NaN()}, {0, 0}}} {
		if b, err := f.device.Append([]byte{1}, f.by, vectors, source(1)); err == nil || len(b) != 1 {
			t.Errorf("vectors %v are taken", vectors)
		}
	}
	for _, commitment := range [][]byte{nil, make([]byte, 31), make([]byte, 33)} {
		by := f.by
		by.Commitment = commitment
		if _, err := f.device.Append(nil, by, good, source(1)); err == nil {
			t.Errorf("a commitment of %d bytes is taken", len(commitment))
		}
	}
	by := f.by
	by.Credential = nil
	if b, err := f.device.Append([]byte{1}, by, good, source(1)); err == nil || len(b) != 1 {
		t.Error("a sender without a credential is taken")
	}
}

// A secret prints as the start of its commitment, and reads back.
func TestASecretIsNotPrinted(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	if s := must(ParseSecret(f.secret.Bytes())); s != f.secret {
		t.Error("a secret does not read back")
	}
	_, err := ParseSecret(make([]byte, 31))
	f.refused("a short secret", err, wire.RefusalWrongSize)
	want := fmt.Sprintf("secret:%x..", f.secret.Commitment()[:6])
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if s := fmt.Sprintf(verb, f.secret); s != want {
			t.Errorf("%s prints %s", verb, s)
		}
	}
}
