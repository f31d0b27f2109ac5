package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func requestOpener(t testing.TB, keys ...*seal.HPKEKey) *seal.RequestOpener {
	t.Helper()
	o, err := seal.NewRequestOpener(deployment, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// sealed is a request on its way, and as the shuffler opens it.
func sealed(t testing.TB, signed []byte) (*wire.SealedRequest, *wire.OpenedRequest) {
	t.Helper()
	key := hpkeKey(t, goldenShuffler)
	r, err := wire.SealRequest(signed, key.Public(), deployment)
	if err != nil {
		t.Fatal(err)
	}
	o, err := wire.OpenSealedRequest(r.Sealed, requestOpener(t, key))
	if err != nil {
		t.Fatal(err)
	}
	return r, o
}

// Whatever is asked and answered, the sealed bytes have one size each, and are never the same twice.
func TestSealedEnrolmentHasOneSize(t *testing.T) {
	good := accepted(t)
	requests := append(append(good["enrol-request"], good["enrol-requests"]...), good["registration"]...)
	requests = append(append(requests, good["nonced-request"]...), nil, []byte("not even a statement"))
	replies := append(append(good["enrol-reply"], good["enrol-replies"]...), good["panel-reply"]...)
	seen := map[string]bool{}
	for _, request := range requests {
		for _, reply := range replies {
			r, o := sealed(t, request)
			if len(r.Sealed) != wire.SealedRequestSize || !bytes.Equal(o.Signed, request) {
				t.Fatalf("%d bytes, %x opens as %x", len(r.Sealed), request, o.Signed)
			}
			b, err := o.SealReply(reply)
			if err != nil || len(b) != wire.SealedReplySize {
				t.Fatalf("%d bytes, %v", len(b), err)
			}
			got, err := r.OpenReply(b, signer(t, goldenSigner).Public())
			if err != nil || !bytes.Equal(got, reply) {
				t.Fatalf("%x, %v", got, err)
			}
			if got, err := o.OpenReply(b); err != nil || !bytes.Equal(got, reply) {
				t.Fatalf("%x, %v", got, err)
			}
			if seen[string(r.Sealed)] || seen[string(b)] {
				t.Fatal("the same bytes were sealed twice")
			}
			seen[string(r.Sealed)], seen[string(b)] = true, true
		}
		opener := requestOpener(t, hpkeKey(t, goldenShuffler))
		if o, err := wire.OpenSealedRequest(request, opener); o != nil || wire.Reason(err) != wire.RefusalMalformed {
			t.Errorf("%x in the clear: %v, %v", request, o, err)
		}
	}
}

// Bytes of any other length than SealedRequestSize are no sealed request, so that the shuffler opens none of them and
// answers none sealed.
func TestNothingStandsBehindASealedRequest(t *testing.T) {
	r, _ := sealed(t, []byte("request"))
	opener := requestOpener(t, hpkeKey(t, goldenShuffler))
	for name, b := range map[string][]byte{
		"a byte more": append(bytes.Clone(r.Sealed), 0), "twice": append(bytes.Clone(r.Sealed), r.Sealed...),
		"a byte less": r.Sealed[:len(r.Sealed)-1], "nothing": nil,
	} {
		if o, err := wire.OpenSealedRequest(b, opener); o != nil || wire.Reason(err) != wire.RefusalMalformed {
			t.Errorf("%s opens: %v, %v", name, o, err)
		}
	}
}

// The largest request and the largest reply that can be signed are sealed; the rooms are not much larger.
func TestTheLargestRequestAndReplyFit(t *testing.T) {
	host, registrar, by := signer(t, goldenHost), signer(t, goldenRegistry), signer(t, goldenSigner)
	name := strings.Repeat("n", wire.MaxDeployment)
	credential, _, err := wire.Sign(&wire.Credential{
		Deployment: name, HostKey: host.Public(), Devices: math.MaxUint32, FirstKey: registrar.Public(),
		NotAfter: math.MaxInt64,
	}, registrar)
	if err != nil {
		t.Fatal(err)
	}
	request := &wire.EnrolRequest{
		Deployment: name, Epoch: math.MaxInt64, Announcement: digestOf(2), Device: math.MaxUint32 - 1 - wire.MaxFurther,
		Credential: credential, Nonces: []uint32{math.MaxUint32},
	}
	reply := &wire.EnrolReply{
		Request: digestOf(7), Enrolled: true, Slot: math.MaxUint32, ReportAfter: math.MaxUint32 * time.Millisecond,
		Held:       true,
		Commitment: digestOf(8),
	}
	one := *reply
	for i := range uint32(wire.MaxFurther) {
		request.Further = append(request.Further, request.Device+1+i)
		request.Nonces = append(request.Nonces, math.MaxUint32)
		reply.Add(&one)
	}
	drawn := one
	drawn.Ticket = make([]byte, wire.TicketSize)
	drawn.Pool, drawn.Draw = make([]byte, wire.MaxContribution), make([]byte, wire.MaxContribution)
	signedRequest, _, err := wire.Sign(request, host)
	if err != nil {
		t.Fatal(err)
	}
	_, o := sealed(t, signedRequest)
	most := 0
	for _, r := range []*wire.EnrolReply{reply, &drawn} {
		signed, _, err := wire.Sign(r, by)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.SealReply(signed); err != nil {
			t.Error(err)
		}
		most = max(most, len(signed))
	}
	t.Logf("the largest request has %d bytes, the largest reply %d; sealed %d and %d", len(signedRequest), most,
		wire.SealedRequestSize, wire.SealedReplySize)
	const waste = 128
	if wire.SealedRequestSize-len(signedRequest) > 2*waste || wire.SealedReplySize-most > 2*waste {
		t.Error("the rooms are much larger than they must be")
	}
	if _, err := wire.SealRequest(make([]byte, wire.SealedRequestSize), hpkeKey(t, 5).Public(), name); !errors.Is(err,
		wire.ErrTooLarge) {
		t.Errorf("a larger request: %v", err)
	}
	if _, err := o.SealReply(make([]byte, wire.SealedReplySize)); !errors.Is(err, wire.ErrTooLarge) {
		t.Errorf("a larger reply: %v", err)
	}
}

// An answer in the clear is none about a device, and only where the shuffler signed it for these very bytes does it
// tell that they were not opened.
func TestAnswersInTheClear(t *testing.T) {
	by, signed := signer(t, goldenSigner), accepted(t)["enrol-request"][0]
	r, _ := sealed(t, signed)
	clear := func(to []byte, reply wire.EnrolReply, as *seal.Identity) error {
		digest := wire.RequestDigest(to)
		reply.Request = digest[:]
		b, _, err := wire.Sign(&reply, as)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.OpenReply(b, by.Public())
		if err == nil || got != nil {
			t.Fatalf("%+v in the clear is taken for an answer", reply)
		}
		return err
	}
	undecryptable := wire.EnrolReply{Refusal: wire.RefusalUndecryptable}
	if err := clear(r.Sealed, undecryptable, by); !errors.Is(err, wire.ErrUnopened) {
		t.Errorf("not opened: %v", err)
	}
	if err := clear(r.Sealed, wire.EnrolReply{Enrolled: true}, by); !errors.Is(err, wire.ErrUnopened) {
		t.Errorf("a slot: %v", err)
	}
	for name, err := range map[string]error{
		"signed by another":      clear(r.Sealed, undecryptable, signer(t, goldenHost)),
		"to another request":     clear([]byte("another"), undecryptable, by),
		"to what was sealed":     clear(signed, undecryptable, by),
		"a slot, by the request": clear(signed, wire.EnrolReply{Enrolled: true}, by),
	} {
		if errors.Is(err, wire.ErrUnopened) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const sealedGolden = "testdata/sealed.golden"

// goldenSealed are the stored request and reply.
func goldenSealed(t testing.TB) (stored [2][]byte) {
	t.Helper()
	text, err := os.ReadFile(sealedGolden)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Fields(string(text)) {
		if stored[i], err = hex.DecodeString(line); err != nil {
			t.Fatal(err)
		}
	}
	return stored
}

// TestGoldenSealedEnrolmentOpens opens a stored request, which is sealed to the X25519 key of 32 bytes 5, and the
// stored reply to it: the golden enrol-requests and enrol-replies.
func TestGoldenSealedEnrolmentOpens(t *testing.T) {
	request, reply := accepted(t)["enrol-requests"][0], accepted(t)["enrol-replies"][0]
	if *update {
		r, o := sealed(t, request)
		b, err := o.SealReply(reply)
		if err != nil {
			t.Fatal(err)
		}
		text := hex.EncodeToString(r.Sealed) + "\n" + hex.EncodeToString(b) + "\n"
		if err := os.WriteFile(sealedGolden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored := goldenSealed(t)
	o, err := wire.OpenSealedRequest(stored[0], requestOpener(t, hpkeKey(t, goldenShuffler)))
	if err != nil || !bytes.Equal(o.Signed, request) {
		t.Fatalf("%v", err)
	}
	if got, err := o.OpenReply(stored[1]); err != nil || !bytes.Equal(got, reply) {
		t.Errorf("%x, %v", got, err)
	}
}

// FuzzPaddedEnrolment seals any bytes as a request, and feeds them to the opener as they are: only padded requests
// open, and they are padded as the same bytes again.
func FuzzPaddedEnrolment(f *testing.F) {
	key := hpkeKey(f, goldenShuffler)
	opener := requestOpener(f, key)
	one := goldenSealed(f)[0] // not a fresh one: each process that fuzzes would have another, and take this for forged
	f.Add(one)
	f.Add([]byte{0, 1, 9})
	f.Add([]byte{0xff, 0xff})
	f.Add([]byte{0, 1, 9, 9})
	const room = 1152
	f.Fuzz(func(t *testing.T, data []byte) {
		var err error
		allocated.ForInput(t, len(data), func() { _, err = wire.OpenSealedRequest(data, opener) })
		if err == nil && !bytes.Equal(data, one) {
			t.Fatal("something opens that was never sealed")
		}
		plain := make([]byte, room)
		copy(plain, data)
		e, _, err := seal.SealRequest(key.Public(), deployment, plain)
		if err != nil {
			t.Fatal(err)
		}
		o, err := wire.OpenSealedRequest(envelope(t, e), opener)
		if err != nil {
			if wire.Reason(err) != wire.RefusalMalformed || o == nil {
				t.Fatalf("%v, and no way to answer", err)
			}
			return
		}
		again, err := wire.SealRequest(o.Signed, key.Public(), deployment)
		if err != nil || len(again.Sealed) != wire.SealedRequestSize {
			t.Fatalf("%d bytes, %v", len(again.Sealed), err)
		}
		if n := len(o.Signed); n != int(plain[0])<<8+int(plain[1]) || !bytes.Equal(plain[2:2+n], o.Signed) ||
			len(bytes.Trim(plain[2+n:], "\x00")) > 0 {
			t.Fatalf("%x opens as %x", plain, o.Signed)
		}
	})
}
