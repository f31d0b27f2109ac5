package wire_test

import (
	"errors"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// An issuer's credential admits one installation, by its key, in the epochs of both; whatever else is shown in its
// place is refused.
func TestAnIssuersCredentialAdmitsOneInstallation(t *testing.T) {
	host, issuer, registrar, other := signer(t, 2), signer(t, 5), signer(t, 3), signer(t, 4)
	type (
		c = rifflev1.Credential
		i = rifflev1.IssuerCertificate
		r = rifflev1.EnrolRequest
	)
	credential := func(change func(*c), by *seal.Identity) *rifflev1.Signed {
		m := issued(t, host, issuer, registrar)
		change(m)
		return forgeSigned(t, seal.Credential, m, by)
	}
	request := func(credential *rifflev1.Signed, change func(*r), by *seal.Identity) []byte {
		m := enrolRequest(t, host, registrar)
		m.Device, m.Credential = 0, credential
		change(m)
		return forge(t, seal.EnrolRequest, m, by)
	}
	certified := func(change func(*i), by *seal.Identity) func(*c) {
		return func(m *c) {
			x := certificate(issuer)
			change(x)
			m.Issuer = forgeSigned(t, seal.IssuerCertificate, x, by)
		}
	}
	good := credential(func(*c) {}, issuer)
	as := func(*r) {}
	in := func(epoch uint64) func(*r) { return func(m *r) { m.Epoch = epoch } }
	by := func(issuer *seal.Identity, change func(*c)) []byte {
		return request(credential(change, issuer), as, host)
	}
	for name, one := range map[string]struct {
		signed []byte
		ok     bool
	}{
		"as it was":               {request(good, as, host), true},
		"in its last epoch":       {request(good, in(8), host), true},
		"not_after passed":        {request(good, in(9), host), false},
		"before the certificate":  {request(good, in(1), host), false},
		"under another key":       {request(good, as, other), false},
		"device 1":                {request(good, func(m *r) { m.Device = 1 }, host), false},
		"by a wrong issuer":       {by(other, func(*c) {}), false},
		"by the registrar itself": {by(registrar, func(*c) {}), false},
		"by itself":               {by(host, func(*c) {}), false},
		"without the certificate": {by(issuer, func(m *c) { m.Issuer = nil }), false},
		"with two devices":        {by(issuer, func(m *c) { m.Devices = 2 }), false},
		"without an end":          {by(issuer, func(m *c) { m.NotAfter = 0 }), false},
		"beyond the certificate":  {by(issuer, func(m *c) { m.NotAfter = 10 }), false},
		"with a first key":        {by(issuer, func(m *c) { m.FirstKey = digestOf(4) }), false},
		"certified by another":    {by(issuer, certified(func(*i) {}, other)), false},
		"certified by the issuer": {by(issuer, certified(func(*i) {}, issuer)), false},
		"of another deployment":   {by(issuer, certified(func(x *i) { x.Deployment = "other" }, registrar)), false},
		"certified for nobody":    {by(issuer, certified(func(x *i) { x.Installations = 0 }, registrar)), false},
		"a certificate": {request(forgeSigned(t, seal.IssuerCertificate, certificate(issuer), registrar), as, host),
			false},
		"with a host's credential as certificate": {by(issuer, func(m *c) {
			m.Issuer = signedCredential(t, issuer, registrar)
		}), false},
	} {
		for _, known := range []bool{false, true} {
			admitted := wire.NewCredentials(party(registrar))
			if known {
				if _, err := admitted.OpenEnrolRequest(request(good, as, host)); err != nil {
					t.Fatal(err)
				}
			}
			e, err := admitted.OpenEnrolRequest(one.signed)
			if one.ok != (err == nil) || !one.ok && !errors.Is(err, wire.ErrCredential) {
				t.Errorf("%s, known %v: %v", name, known, err)
			}
			if one.ok && (e.HostKey != [32]byte(host.Public()) || e.Covers != 1 || e.NotAfter != 8 ||
				e.Issuer.Installations != 5) {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
	for name, withdrawn := range map[string]*seal.Identity{"issuer": issuer, "installation": host} {
		hosts, err := wire.NewHosts([]wire.HostKeys{{First: [32]byte(withdrawn.Public()), Withdrawn: true}})
		if err != nil {
			t.Fatal(err)
		}
		from := party(registrar)
		from.Hosts = hosts
		if _, err := wire.OpenEnrolRequest(request(good, as, host), from); !errors.Is(err, wire.ErrCredential) {
			t.Errorf("withdrawn %s: %v", name, err)
		}
		from.Hosts = hosts.Past()
		if _, err := wire.OpenEnrolRequest(request(good, as, host), from); err != nil {
			t.Errorf("withdrawn %s, in the past: %v", name, err)
		}
	}
}

// A registration names no epoch: whoever knows it asks the admission.
func TestAnAdmissionEnds(t *testing.T) {
	issuer := &wire.IssuerCertificate{First: 2, Last: 9}
	for _, c := range []struct {
		a           wire.Admission
		first, last uint64 // 0: no end
	}{
		{wire.Admission{}, 1, 0}, {wire.Admission{NotAfter: 7}, 1, 7},
		{wire.Admission{NotAfter: 9, Issuer: issuer}, 2, 9},
		{wire.Admission{NotAfter: 3, Issuer: issuer}, 2, 3},
	} {
		for epoch := range uint64(12) {
			ok := epoch >= c.first && (c.last == 0 || epoch <= c.last) || epoch == 0 && c.first == 1
			if ok != (c.a.In(epoch) == nil) {
				t.Errorf("%+v in epoch %d: %v", c.a, epoch, c.a.In(epoch))
			}
		}
	}
}

// A ticket is for one device that is enrolled.
func TestATicketIsForOneDevice(t *testing.T) {
	by := signer(t, goldenSigner)
	for name, change := range map[string]func(*rifflev1.EnrolReply){
		"short": func(m *rifflev1.EnrolReply) { m.Ticket = m.Ticket[1:] },
		"refused": func(m *rifflev1.EnrolReply) {
			*m = rifflev1.EnrolReply{Request: m.Request, Refusal: 7, Ticket: m.Ticket}
		},
		"further": func(m *rifflev1.EnrolReply) { m.Further = enrolReplies().Further },
	} {
		m := ticketReply()
		change(m)
		signed := forge(t, seal.EnrolReply, m, by)
		if _, err := wire.OpenEnrolReply(signed, by.Public(), [32]byte(digestOf(7))); err == nil {
			t.Errorf("%s opens", name)
		}
	}
}
