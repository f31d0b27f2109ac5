package channel_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const (
	deployment = "fixture"
	epoch      = 4
)

func identity(t testing.TB, n byte) *seal.Identity {
	id, err := seal.NewIdentity(bytes.Repeat([]byte{n}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// sender is device number of host 2 with four devices, admitted by the registrar for a deployment.
func sender(t testing.TB, registrar *seal.Identity, deployment string, number uint32) channel.Sender {
	host := identity(t, 2)
	credential, _, err := wire.Sign(&wire.Credential{Deployment: deployment, HostKey: host.Public(), Devices: 4},
		registrar)
	if err != nil {
		t.Fatal(err)
	}
	return channel.Sender{Identity: host, Credential: credential, Number: number}
}

// A proof of participation names an admitted device, and holds for one content of one round: whatever else is presented
// with it is refused with its reason, also by a verifier that knows the host already.
func TestProofsOfParticipation(t *testing.T) {
	registrar, content, digest := identity(t, 1), []byte("content"), [32]byte{3}
	by := sender(t, registrar, deployment, 3)
	proof, err := by.AppendProof([]byte("before"), digest, content)
	if err != nil || len(proof) != len("before")+channel.ProofSize {
		t.Fatalf("%d bytes, %v", len(proof), err)
	}
	proof = proof[len("before"):]
	make := func(by channel.Sender) []byte {
		p, err := by.AppendProof(nil, digest, content)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	change := func(at int) []byte {
		p := slices.Clone(proof)
		p[at] ^= 1
		return p
	}
	other := by
	other.Identity = identity(t, 4)
	for _, known := range []bool{false, true} {
		v := channel.NewVerifier(wire.Party{Deployment: deployment, Key: registrar.Public()})
		if known {
			p, err := v.Check(proof, epoch, digest, content)
			want := channel.Participant{Host: [32]byte(by.Identity.Public()), Number: 3}
			if err != nil || p.Participant != want {
				t.Fatalf("%v, %v", p, err)
			}
		}
		for what, c := range map[string]struct {
			proof   []byte
			digest  [32]byte
			content string
			want    wire.Refusal
		}{
			"the proof":                  {proof, digest, "content", wire.NoRefusal},
			"another content":            {proof, digest, "contents", wire.RefusalBadSignature},
			"another round":              {proof, [32]byte{4}, "content", wire.RefusalBadSignature},
			"another device of the host": {change(35), digest, "content", wire.RefusalBadSignature},
			"more devices":               {change(38), digest, "content", wire.RefusalNoCredential},
			"a changed signature of the host": {change(channel.ProofSize - 1), digest, "content",
				wire.RefusalBadSignature},
			"a changed host":                   {change(0), digest, "content", wire.RefusalNoCredential},
			"a host with another's credential": {make(other), digest, "content", wire.RefusalNoCredential},
			"a device that is not covered": {make(sender(t, registrar, deployment, 4)), digest, "content",
				wire.RefusalNoCredential},
			"a host that another registrar admits": {make(otherHost(t, identity(t, 9), deployment)), digest, "content",
				wire.RefusalNoCredential},
			"a host of another deployment": {make(otherHost(t, registrar, "other")), digest, "content",
				wire.RefusalNoCredential},
			"short": {proof[1:], digest, "content", wire.RefusalWrongSize},
			"long": {append(slices.Clone(proof), 0), digest, "content",
				wire.RefusalWrongSize},
			"nothing": {nil, digest, "content", wire.RefusalWrongSize},
		} {
			if _, err := v.Check(c.proof, epoch, c.digest, []byte(c.content)); wire.Reason(err) != c.want {
				t.Errorf("known host %v, %s: %v (%v), want %v", known, what, err, wire.Reason(err), c.want)
			}
		}
	}
	by.Credential = nil
	if b, err := by.AppendProof([]byte{1}, digest, content); err == nil || len(b) != 1 {
		t.Error("a sender without a credential proves something")
	}
}

// otherHost is a device of host 6, which no verifier has seen.
func otherHost(t testing.TB, registrar *seal.Identity, deployment string) channel.Sender {
	host := identity(t, 6)
	credential, _, err := wire.Sign(&wire.Credential{Deployment: deployment, HostKey: host.Public(), Devices: 4},
		registrar)
	if err != nil {
		t.Fatal(err)
	}
	return channel.Sender{Identity: host, Credential: credential}
}

// A proof by a host's new key names the device that the old key's proofs named, so that it is counted once. The old key
// proves nothing any more, but to those who judge the past; and the new one nothing to those who do not know it.
func TestAHostsNewKeyProvesTheSameDevices(t *testing.T) {
	registrar, content, digest := identity(t, 1), []byte("content"), [32]byte{3}
	old := sender(t, registrar, deployment, 3)
	key := identity(t, 7)
	credential, _, err := wire.Sign(&wire.Credential{Deployment: deployment, HostKey: key.Public(), Devices: 4,
		FirstKey: old.Identity.Public()}, registrar)
	if err != nil {
		t.Fatal(err)
	}
	list := []wire.HostKeys{{First: [32]byte(old.Identity.Public()), Then: [][32]byte{[32]byte(key.Public())}}}
	replaced, err := wire.NewHosts(list)
	if err != nil {
		t.Fatal(err)
	}
	list[0].Withdrawn = true
	withdrawn, err := wire.NewHosts(list)
	if err != nil {
		t.Fatal(err)
	}
	want := channel.Participant{Host: [32]byte(old.Identity.Public()), Number: 3}
	for name, c := range map[string]struct {
		by    channel.Sender
		hosts *wire.Hosts
		ok    bool
	}{
		"the new key": {channel.Sender{Identity: key, Credential: credential, Number: 3}, replaced,
			true},
		"the old key":              {old, replaced, false},
		"the old key, in the past": {old, replaced.Past(), true},
		"the new key, in the past": {channel.Sender{Identity: key, Credential: credential, Number: 3},
			withdrawn.Past(), true},
		"the new key, withdrawn": {channel.Sender{Identity: key, Credential: credential, Number: 3}, withdrawn,
			false},
		"the new key, which is unknown": {channel.Sender{Identity: key, Credential: credential, Number: 3}, nil, false},
		"the old key, before":           {old, nil, true},
	} {
		proof, err := c.by.AppendProof(nil, digest, content)
		if err != nil {
			t.Fatal(err)
		}
		v := channel.NewVerifier(wire.Party{Deployment: deployment, Key: registrar.Public(), Hosts: c.hosts})
		p, err := v.Check(proof, epoch, digest, content)
		if c.ok && (err != nil || p.Participant != want) || !c.ok && wire.Reason(err) != wire.RefusalNoCredential {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
}

// An installation proves its participation as a host does, in as many bytes, in the epochs of its credential.
func TestAnInstallationProvesItsParticipation(t *testing.T) {
	registrar, issuer, host := identity(t, 1), identity(t, 8), identity(t, 2)
	content, digest := []byte("content"), [32]byte{3}
	certificate, _, err := wire.Sign(&wire.IssuerCertificate{
		Deployment: deployment, Key: issuer.Public(), First: 3, Last: 9, Installations: 5,
	}, registrar)
	if err != nil {
		t.Fatal(err)
	}
	credential, _, err := wire.Sign(&wire.Credential{
		Deployment: deployment, HostKey: host.Public(), Devices: 1, NotAfter: 6, Issuer: certificate,
	}, issuer)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := channel.Sender{Identity: host, Credential: credential}.AppendProof(nil, digest, content)
	if err != nil || len(proof) != channel.ProofSize {
		t.Fatalf("%d bytes, %v", len(proof), err)
	}
	for _, last := range []bool{false, true} {
		v := channel.NewVerifier(wire.Party{Deployment: deployment, Key: registrar.Public()})
		for epoch := range uint64(9) {
			if last {
				epoch = 8 - epoch
			}
			p, err := v.Check(proof, epoch, digest, content)
			ok := epoch >= 3 && epoch <= 6
			if ok != (err == nil) || !ok && wire.Reason(err) != wire.RefusalNoCredential ||
				ok && (p != channel.Present{Participant: channel.Participant{Host: [32]byte(host.Public())},
					Issuer: [32]byte(issuer.Public()), Installations: 5} || p.Sponsor() != p.Issuer ||
					channel.ParsePresent([channel.PresentSize]byte(p.Append(nil))) != p) {
				t.Errorf("epoch %d: %v, %v", epoch, p, err)
			}
		}
	}
}
