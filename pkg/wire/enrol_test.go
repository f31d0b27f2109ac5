package wire_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
	"google.golang.org/protobuf/proto"
)

func TestEnrolRequestOpensAsSigned(t *testing.T) {
	host, registrar := signer(t, 2), signer(t, 3)
	signed, _, err := wire.SignMessage(enrolRequest(t, host, registrar), host)
	if err != nil {
		t.Fatal(err)
	}
	e, err := wire.OpenEnrolRequest(signed, party(registrar))
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(wire.Message(e.Request), enrolRequest(t, host, registrar)) ||
		string(e.HostKey[:]) != string(host.Public()) || e.Digest != sha256.Sum256(signed) {
		t.Error("request changed on its way")
	}
	if e.Digest != wire.RequestDigest(signed) {
		t.Error("two digests of one request")
	}
}

func TestEnrolRequestWithoutCredentialIsRefused(t *testing.T) {
	host, registrar, unknown := signer(t, 2), signer(t, 3), signer(t, 4)
	type r = rifflev1.EnrolRequest
	change := func(f func(*r)) []byte {
		m := enrolRequest(t, host, registrar)
		f(m)
		return forge(t, seal.EnrolRequest, m, host)
	}
	none := func(*r) {}
	const (
		malformed = wire.RefusalMalformed
		signature = wire.RefusalBadSignature
		noCred    = wire.RefusalNoCredential
	)
	for name, c := range map[string]struct {
		signed []byte
		want   error
		reason wire.Refusal
	}{
		"garbage":   {[]byte{1, 2, 3}, wire.ErrMalformed, malformed},
		"too large": {make([]byte, wire.MaxEnrolment+1), wire.ErrTooLarge, malformed},
		"short key": {encode(t,
			&rifflev1.Signed{Body: []byte{1}, Key: []byte{1},
				Signature: make([]byte, 64)}), wire.ErrMalformed, malformed},
		"not a request":   {forge(t, seal.Manifest, manifest(), host), wire.ErrSignature, signature},
		"epoch 0":         {change(func(m *r) { m.Epoch = 0 }), nil, malformed},
		"no announcement": {change(func(m *r) { m.Announcement = nil }), nil, malformed},
		"no credential":   {change(func(m *r) { m.Credential = nil }), nil, malformed},
		"bad deployment":  {change(func(m *r) { m.Deployment = "A" }), nil, malformed},
		"other deployment": {change(func(m *r) { m.Deployment = "other" }), wire.ErrDeployment,
			wire.RefusalWrongDeployment},
		"other deployment, no signed credential": {change(func(m *r) {
			m.Deployment, m.Credential = "other", &rifflev1.Signed{Key: []byte{1}}
		}), wire.ErrDeployment, wire.RefusalWrongDeployment},
		"device past the last": {change(func(m *r) { m.Device = 10 }), wire.ErrCredential, noCred},
		"empty credential": {change(func(m *r) { m.Credential = &rifflev1.Signed{} }),
			wire.ErrMalformed, malformed},
		"no signed credential": {change(func(m *r) { m.Credential = &rifflev1.Signed{Key: []byte{1}} }),
			wire.ErrCredential, noCred},
		"self-made credential": {change(func(m *r) { m.Credential = signedCredential(t, host, host) }),
			wire.ErrCredential, noCred},
		"unknown registrar's credential": {change(func(m *r) { m.Credential = signedCredential(t, host, unknown) }),
			wire.ErrCredential, noCred},
		"another host's": {change(func(m *r) { m.Credential = signedCredential(t, unknown, registrar) }),
			wire.ErrCredential, noCred},
		"stolen, signed by thief": {forge(t, seal.EnrolRequest, enrolRequest(t, host, registrar), unknown),
			wire.ErrCredential, noCred},
		"credential as of a later": {change(func(m *r) { m.Credential.Body = append(m.Credential.Body, 0) }),
			wire.ErrCredential, noCred},
		"credential of another deployment": {change(func(m *r) {
			other := credential(t, host)
			other.Deployment = "other"
			m.Credential = forgeSigned(t, seal.Credential, other, registrar)
		}), wire.ErrCredential, wire.RefusalWrongDeployment},
		"registrar's other statement": {change(func(m *r) {
			m.Credential = forgeSigned(t, seal.KeySet, credential(t, host), registrar)
		}), wire.ErrCredential, noCred},
		"signature of another body": {func() []byte {
			s := forgeSigned(t, seal.EnrolRequest, enrolRequest(t, host, registrar), host)
			m := enrolRequest(t, host, registrar)
			m.Device = 3
			s.Body = encode(t, m)
			return encode(t, s)
		}(), wire.ErrSignature, signature},
	} {
		e, err := wire.OpenEnrolRequest(c.signed, party(registrar))
		if err == nil || c.want != nil && !errors.Is(err, c.want) || wire.Reason(err) != c.reason {
			t.Errorf("%s: %v (%v), want %v (%v)", name, err, wire.Reason(err), c.want, c.reason)
		}
		if e.Request != nil || e.Digest != sha256.Sum256(c.signed) {
			t.Errorf("%s: returned %+v", name, e)
		}
	}
	if _, err := wire.OpenEnrolRequest(change(none), party(registrar)); err != nil {
		t.Error(err)
	}
}

func TestEnrolReplyAnswersItsRequestOnly(t *testing.T) {
	shuffler := signer(t, 5)
	for _, m := range []*rifflev1.EnrolReply{enrolReply(), refusal(), {Request: digestOf(7), Enrolled: true}} {
		signed, _, err := wire.SignMessage(m, shuffler)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.OpenEnrolReply(signed, shuffler.Public(), [32]byte(digestOf(7)))
		if err != nil || !proto.Equal(wire.Message(got), m) {
			t.Errorf("%v, %v", got, err)
		}
		if _, err := wire.OpenEnrolReply(signed, shuffler.Public(), [32]byte(digestOf(8))); err == nil {
			t.Error("a reply to another request opens")
		}
		if _, err := wire.OpenEnrolReply(signed, signer(t, 6).Public(), [32]byte(digestOf(7))); !errors.Is(err,
			wire.ErrSigner) {
			t.Error(err)
		}
		if _, err := wire.OpenEnrolReply(signed, nil, [32]byte(digestOf(7))); !errors.Is(err, wire.ErrSigner) {
			t.Errorf("no key expected: %v", err)
		}
	}
	for fieldName, m := range map[string]*rifflev1.EnrolReply{
		"request": {Request: digestOf(7)[1:], Enrolled: true},
		"refusal": {Request: digestOf(7), Enrolled: true, Refusal: rifflev1.Refusal_REFUSAL_LATE},
		"slot":    {Request: digestOf(7), Refusal: rifflev1.Refusal_REFUSAL_LATE, Slot: 1},
		"held":    {Request: digestOf(7), Refusal: rifflev1.Refusal_REFUSAL_LATE, Held: true},
		"commitment": {Request: digestOf(7), Refusal: rifflev1.Refusal_REFUSAL_LATE,
			Commitment: digestOf(1)},
	} {
		for _, m := range []*rifflev1.EnrolReply{m, {Request: digestOf(7)}, {Request: digestOf(7), Refusal: 1000}} {
			_, err := wire.OpenEnrolReply(forge(t, seal.EnrolReply, m, shuffler), shuffler.Public(),
				[32]byte(digestOf(7)))
			var f *wire.FieldError
			if !errors.As(err, &f) || f.Field != fieldName && f.Field != "refusal" {
				t.Errorf("%s: %v", fieldName, err)
			}
		}
	}
}

// A report is due after the reward window and the jitter: the longest of each together.
func TestEnrolReplyCarriesTheSumOfTheLongestWindowAndJitter(t *testing.T) {
	shuffler, longest := signer(t, 5), 2*wire.MaxTiming*time.Millisecond
	signed, _, err := wire.Sign(&wire.EnrolReply{Request: digestOf(7), Enrolled: true, ReportAfter: longest}, shuffler)
	if err != nil {
		t.Fatal(err)
	}
	got, err := wire.OpenEnrolReply(signed, shuffler.Public(), [32]byte(digestOf(7)))
	if err != nil || got.ReportAfter != longest {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range []time.Duration{-time.Millisecond, time.Microsecond, (1 << 32) * time.Millisecond} {
		reply := &wire.EnrolReply{Request: digestOf(7), Enrolled: true, ReportAfter: wrong}
		if _, _, err := wire.Sign(reply, shuffler); err == nil {
			t.Errorf("a report after %v is signed", wrong)
		}
	}
}

// A credential that was verified once is known by all its bytes: with it, no other one passes.
func TestKnownCredentialsAdmitNoOthers(t *testing.T) {
	host, registrar, unknown := signer(t, 2), signer(t, 3), signer(t, 4)
	known := wire.NewCredentials(party(registrar))
	request := func(by *seal.Identity, change func(*rifflev1.EnrolRequest)) []byte {
		m := enrolRequest(t, host, registrar)
		change(m)
		return forge(t, seal.EnrolRequest, m, by)
	}
	for range 2 {
		if _, err := known.OpenEnrolRequest(request(host, func(*rifflev1.EnrolRequest) {})); err != nil {
			t.Fatal(err)
		}
	}
	for name, signed := range map[string][]byte{
		"shown by an unknown host": request(unknown, func(*rifflev1.EnrolRequest) {}),
		"past its devices":         request(host, func(m *rifflev1.EnrolRequest) { m.Device = 10 }),
		"more devices": request(host, func(m *rifflev1.EnrolRequest) {
			var c rifflev1.Credential
			if err := proto.Unmarshal(m.Credential.Body, &c); err != nil {
				t.Fatal(err)
			}
			c.Devices = 1000
			body, err := proto.MarshalOptions{Deterministic: true}.Marshal(&c)
			if err != nil {
				t.Fatal(err)
			}
			m.Credential = &rifflev1.Signed{Body: body, Key: m.Credential.Key, Signature: m.Credential.Signature}
			m.Device = 11
		}),
		"self-made": request(host, func(m *rifflev1.EnrolRequest) { m.Credential = signedCredential(t, host, host) }),
	} {
		if _, err := known.OpenEnrolRequest(signed); !errors.Is(err, wire.ErrCredential) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The longest reply to as many devices as one request may be for can be sent: a shuffler that cannot sign a reply ends.
// So can the longest request.
func TestTheLongestEnrolmentsFit(t *testing.T) {
	host, registrar, shuffler := signer(t, 2), signer(t, 3), signer(t, 4)
	digest := bytes.Repeat([]byte{255}, 32)
	longest := func() *wire.EnrolReply {
		return &wire.EnrolReply{
			Request: digest, Enrolled: true, Held: true, Slot: math.MaxUint32, Commitment: digest,
			ReportAfter: math.MaxUint32 * time.Millisecond,
		}
	}
	reply, credential := longest(), &wire.Credential{
		Deployment: strings.Repeat("d", wire.MaxDeployment), HostKey: host.Public(), Devices: math.MaxUint32,
	}
	var further []uint32
	for i := range uint32(wire.MaxFurther) {
		reply.Add(longest())
		further = append(further, math.MaxUint32-wire.MaxFurther+i)
	}
	signed, _, err := wire.Sign(reply, shuffler)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := wire.OpenEnrolReply(signed, shuffler.Public(), [32]byte(digest)); err != nil ||
		len(r.Further) != wire.MaxFurther {
		t.Error(err)
	}
	admitted, _, err := wire.Sign(credential, registrar)
	if err != nil {
		t.Fatal(err)
	}
	request := &wire.EnrolRequest{
		Deployment: credential.Deployment, Epoch: math.MaxUint32, Announcement: digest, Device: 7, Further: further,
		Credential: admitted,
	}
	if signed, _, err = wire.Sign(request, host); err != nil {
		t.Fatal(err)
	}
	if _, err := wire.OpenEnrolRequest(signed, wire.Party{
		Deployment: credential.Deployment, Key: registrar.Public(),
	}); err != nil {
		t.Error(err)
	}
}

// However many hosts show a credential, only so many are kept, and those that are not are admitted all the same.
func TestVerifiedCredentialsAreBounded(t *testing.T) {
	registrar := signer(t, 3)
	known := wire.NewCredentials(party(registrar))
	const most = 3
	known.Keep(most)
	for i := range 3 * most {
		host := signer(t, byte(10+i))
		for range 2 {
			signed := forge(t, seal.EnrolRequest, enrolRequest(t, host, registrar), host)
			if _, err := known.OpenEnrolRequest(signed); err != nil {
				t.Fatal(err)
			}
			if n := known.Kept(); n > most {
				t.Fatalf("%d credentials are kept, %d may be", n, most)
			}
		}
	}
}

// A host's first key has the length of a key.
func TestACredentialWithHalfAFirstKeyIsRefused(t *testing.T) {
	host, registrar := signer(t, 2), signer(t, 3)
	for _, length := range []int{1, 31, 33} {
		c := wire.Credential{Deployment: "d", HostKey: host.Public(), Devices: 1, FirstKey: make([]byte, length)}
		if _, _, err := wire.Sign(&c, registrar); err == nil {
			t.Errorf("a first key of %d bytes", length)
		}
	}
}
