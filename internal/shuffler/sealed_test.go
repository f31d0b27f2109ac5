package shuffler

import (
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What comes twice, in one process and over a restart, was given to the same request: nothing is held. Another request
// of the device, as an older copy of its state has it, is told so.
func TestARequestThatComesTwiceIsNotHeld(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	by := func(nonces ...uint32) func(*wire.EnrolRequest) {
		return func(r *wire.EnrolRequest) {
			r.Nonces = nonces
			for i := 1; i < len(nonces); i++ {
				r.Further = append(r.Further, r.Device+uint32(i))
			}
		}
	}
	check := func(when string) {
		t.Helper()
		for nonce, held := range map[uint32]bool{7: false, 8: true} {
			all := s.ask(3, by(nonce, 9))
			if r := all.Of(0); !r.Enrolled || r.Slot != 0 || r.Held != held {
				t.Errorf("%s, request %d: %+v", when, nonce, r)
			}
			if r := all.Of(1); !r.Enrolled || r.Slot != 1 || r.Held {
				t.Errorf("%s, the second device: %+v", when, r)
			}
		}
	}
	if r := s.ask(3, by(7, 9)); !r.Enrolled || r.Held || r.Of(1).Held {
		t.Fatalf("first: %+v", r)
	}
	check("again")
	s.must(s.stop())
	s.start()
	check("after a restart")
}

// The same of registrations, of which the requests of the open epoch and the one before are known.
func TestARegistrationThatComesTwiceIsNotHeld(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.opened = s.announcement()
	s.open(panelled(s.opened))
	by := func(nonce uint32) func(*wire.EnrolRequest) {
		return func(r *wire.EnrolRequest) { toRegister(r); r.Nonces = []uint32{nonce} }
	}
	if r := s.ask(3, by(7)); !r.Enrolled || r.Held {
		t.Fatalf("first: %+v", r)
	}
	for _, restarted := range []bool{false, true} {
		for nonce, held := range map[uint32]bool{7: false, 8: true} {
			if r := s.ask(3, by(nonce)); !r.Enrolled || r.Held != held {
				t.Errorf("restarted %v, request %d: %+v", restarted, nonce, r)
			}
		}
		s.must(s.stop())
		s.start()
		s.eventually("held against the broker", func() bool {
			s.shuffler.mu.Lock()
			defer s.shuffler.mu.Unlock()
			return s.shuffler.recalled
		})
	}
}

// Whatever a sealed request is for and whatever the answer is, the broker sees one size of each. What is sealed to a
// key that is kept is opened. What is sealed to no key of this shuffler is refused in the clear, and gives nothing.
func TestSealedRequestsAreAnsweredAtOneSize(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	retired := testbed.NewKey(t)
	s.config.Keys = append(s.config.Keys, retired)
	s.start()
	s.open(s.announcement())
	sign := func(change func(*wire.EnrolRequest)) []byte {
		r := s.request(0)
		change(r)
		signed, _ := s.Sign(r, s.host)
		return signed
	}
	put := func(signed []byte, key *seal.HPKEKey) (*wire.EnrolReply, error) {
		r, err := wire.SealRequest(signed, key.Public(), testbed.Deployment)
		s.must(err)
		b, err := s.devices.Enrolment.Enrol(s.Context(), r.Sealed)
		s.must(err)
		if sealed := len(b) == wire.SealedReplySize; sealed != (key == retired || key == s.ShufflerKey) {
			t.Errorf("an answer of %d bytes", len(b))
		}
		return r.Answer(b, s.Shuffler.Public())
	}
	for name, signed := range map[string][]byte{
		"one":           sign(func(*wire.EnrolRequest) {}),
		"several":       sign(further(1, 2, 3)),
		"another epoch": sign(func(r *wire.EnrolRequest) { r.Epoch = 9 }),
		"registration":  sign(toRegister),
		"junk":          []byte("junk"), "nothing": nil,
	} {
		for _, key := range []*seal.HPKEKey{s.ShufflerKey, retired} {
			if r, err := put(signed, key); err != nil || r.Enrolled != (name == "one" || name == "several") {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
	}
	before, _ := s.shuffler.Filling()
	if _, err := put(sign(func(r *wire.EnrolRequest) { r.Device = 9 }), testbed.NewKey(t)); err == nil ||
		!strings.Contains(err.Error(), "undecryptable") {
		t.Errorf("sealed to another key: %v", err)
	}
	if after, _ := s.shuffler.Filling(); after.Enrolled != before.Enrolled {
		t.Error("a request that was not opened is given a slot")
	}
}

// A request in the clear is refused, whoever signed it: the broker would read the devices' numbers in it.
func TestRequestsInTheClearAreRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	for device := range uint32(3) {
		signed, _ := s.Sign(s.request(device), s.host)
		b, err := s.devices.Enrolment.Enrol(s.Context(), signed)
		s.must(err)
		r, err := wire.OpenEnrolReply(b, s.Shuffler.Public(), wire.RequestDigest(signed))
		if err != nil || r.Enrolled || r.Refusal != wire.RefusalMalformed {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if f, _ := s.shuffler.Filling(); f.Enrolled != 0 {
		t.Errorf("%d devices are enrolled", f.Enrolled)
	}
}

// A slot or a registration is given to a request with a nonce only.
func TestAWishWithoutANonceIsRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	none := func(r *wire.EnrolRequest) { r.Nonces = nil }
	for what, r := range map[string]*wire.EnrolReply{
		"a slot": s.ask(3, none), "a registration": s.ask(3, toRegister, none),
	} {
		if r.Enrolled || r.Refusal != wire.RefusalMalformed {
			t.Errorf("%s: %+v", what, r)
		}
	}
}
