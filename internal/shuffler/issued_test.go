package shuffler

import (
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// certify lets an issuer let in so many installations in epochs first to last.
func (s *scene) certify(issuer *seal.Identity, first, last uint64, installations uint32) []byte {
	s.t.Helper()
	signed, _ := s.Sign(&wire.IssuerCertificate{
		Deployment: testbed.Deployment, Key: issuer.Public(), First: first, Last: last, Installations: installations,
	}, s.Registrar)
	return signed
}

// installs asks as an installation with a credential that an issuer signs, changed.
func (s *scene) installs(key, issuer *seal.Identity, certificate []byte, end uint64) *wire.EnrolReply {
	s.t.Helper()
	credential, _ := s.Sign(&wire.Credential{
		Deployment: testbed.Deployment, HostKey: key.Public(), Devices: 1, NotAfter: end, Issuer: certificate,
	}, issuer)
	r := s.request(0)
	r.Credential = credential
	signed, _ := s.Sign(r, key)
	return s.askRaw(signed)
}

// The shuffler lets in the installations of an issuer, as many as its certificate says, in the epochs of both, also
// across a restart; what an issuer may not sign is refused; one that was withdrawn lets nobody in.
func TestAnIssuersInstallationsTakePart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	s.open(s.announcement())
	issuer, other := testbed.NewIdentity(t), testbed.NewIdentity(t)
	certificate := s.certify(issuer, 1, 5, 2)
	first, second, third := testbed.NewIdentity(t), testbed.NewIdentity(t), testbed.NewIdentity(t)
	expect := func(what string, r *wire.EnrolReply, slot uint32, why wire.Refusal) {
		t.Helper()
		if r.Enrolled != (why == wire.NoRefusal) || r.Refusal != why || r.Slot != slot {
			t.Errorf("%s: %+v", what, r)
		}
	}
	no := wire.RefusalNoCredential
	expect("the first", s.installs(first, issuer, certificate, 5), 0, wire.NoRefusal)
	expect("the first again", s.installs(first, issuer, certificate, 4), 0, wire.NoRefusal)
	expect("of a wrong issuer", s.installs(second, other, certificate, 5), 0, no)
	expect("before the certificate", s.installs(second, issuer, s.certify(issuer, 2, 5, 2), 5), 0, no)
	own, _ := s.Sign(&wire.IssuerCertificate{
		Deployment: testbed.Deployment, Key: issuer.Public(), First: 1, Last: 5, Installations: 99,
	}, issuer)
	expect("of a certificate of its own making", s.installs(second, issuer, own, 5), 0, no)
	expect("the second", s.installs(second, issuer, certificate, 5), 1, wire.NoRefusal)
	expect("the third of two", s.installs(third, issuer, certificate, 5), 0, wire.RefusalIssuerFull)
	s.must(s.stop())
	s.start()
	expect("after a restart, the third of two", s.installs(third, issuer, certificate, 5), 0, wire.RefusalIssuerFull)
	if r := s.installs(second, issuer, certificate, 5); !r.Enrolled || r.Slot != 1 {
		t.Errorf("the second after a restart: %+v", r)
	}
	expect("of a larger certificate", s.installs(third, issuer, s.certify(issuer, 1, 5, 3), 5), 2, wire.NoRefusal)
	s.must(s.stop())
	var err error
	s.config.Hosts, err = wire.NewHosts([]wire.HostKeys{{First: [32]byte(issuer.Public()), Withdrawn: true}})
	s.must(err)
	s.start()
	expect("of an issuer that was withdrawn", s.installs(first, issuer, certificate, 5), 0, no)
}

// A credential whose end has passed lets nobody in, whoever signed it, and one that was renewed gives the same device
// its same place.
func TestACredentialEnds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.announcement()
	s.open(a)
	issuer, key := testbed.NewIdentity(t), testbed.NewIdentity(t)
	certificate := s.certify(issuer, 1, 9, 5)
	if r := s.installs(key, issuer, certificate, 1); !r.Enrolled || r.Slot != 0 {
		t.Fatalf("%+v", r)
	}
	if r := s.ask(1); !r.Enrolled || r.Slot != 1 {
		t.Fatalf("%+v", r)
	}
	host := s.host
	ends := func(end uint64) {
		s.host = host
		s.credential, _ = s.Sign(&wire.Credential{
			Deployment: testbed.Deployment, HostKey: host.Public(), Devices: capacity, NotAfter: end,
		}, s.Registrar)
	}
	ends(1)
	if r := s.ask(1); !r.Enrolled || r.Slot != 1 {
		t.Errorf("in the last epoch: %+v", r)
	}
	request := s.request(0)
	request.Epoch = 2 // not open; the credential is judged first
	for end, want := range map[uint64]wire.Refusal{1: wire.RefusalNoCredential, 2: wire.RefusalWrongEpoch} {
		ends(end)
		request.Credential = s.credential
		signed, _ := s.Sign(request, s.host)
		if r := s.askRaw(signed); r.Refusal != want {
			t.Errorf("asks for epoch 2 with a credential up to %d: %+v", end, r)
		}
		renewed, _ := s.Sign(&wire.Credential{
			Deployment: testbed.Deployment, HostKey: key.Public(), Devices: 1, NotAfter: end, Issuer: certificate,
		}, issuer)
		r := *request
		r.Credential = renewed
		signed, _ = s.Sign(&r, key)
		if r := s.askRaw(signed); r.Refusal != want {
			t.Errorf("an installation asks for epoch 2 with a credential up to %d: %+v", end, r)
		}
	}
	if r := s.installs(key, issuer, certificate, 9); !r.Enrolled || r.Slot != 0 {
		t.Errorf("renewed: %+v", r)
	}
}
