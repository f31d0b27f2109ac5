package wire_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What the analyzer signed for another round is skipped like what it did not sign, wherever it is stored.
func TestAnAnnouncementIsOfItsPlace(t *testing.T) {
	id := signer(t, 1)
	m := announcement(t)
	signed, digest, err := wire.SignMessage(m, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		epochs uint64 // beyond its own
		rounds uint32
		want   error
	}{{0, 0, nil}, {1, 0, wire.ErrPlace}, {0, 1, wire.ErrPlace}, {1, 1, wire.ErrPlace}} {
		a, got, err := wire.OpenAnnouncement(signed, m.Epoch+at.epochs, m.Round+at.rounds, party(id))
		if !errors.Is(err, at.want) || (at.want != nil) != errors.Is(err, wire.ErrForeign) {
			t.Errorf("%+v: %v", at, err)
		}
		if (a != nil) != (err == nil) || err == nil && got != digest {
			t.Errorf("%+v: opened as %+v, %x", at, a, got)
		}
	}
}

// A credential that was taken apart and put together is the registrar's for its deployment, or refused.
func TestACredentialIsPutTogether(t *testing.T) {
	registrar := signer(t, 2)
	signed := forge(t, seal.Credential, credential(t, signer(t, 3)), registrar)
	whole, signature, err := wire.SplitCredential(signed)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(c *wire.Credential, signature []byte, from *wire.Party)
		want   error
	}{
		"as it was": {func(*wire.Credential, []byte, *wire.Party) {}, nil},
		"for another deployment, by the same registrar": {
			func(_ *wire.Credential, _ []byte, from *wire.Party) { from.Deployment = "other" }, wire.ErrDeployment},
		"moved to another deployment": {func(c *wire.Credential, _ []byte, from *wire.Party) {
			c.Deployment, from.Deployment = "other", "other"
		}, seal.ErrSignature},
		"more devices": {
			func(c *wire.Credential, _ []byte, _ *wire.Party) { c.Devices++ }, seal.ErrSignature},
		"another host": {
			func(c *wire.Credential, _ []byte, _ *wire.Party) { c.HostKey = digestOf(9) }, seal.ErrSignature},
		"another signature": {
			func(_ *wire.Credential, b []byte, _ *wire.Party) { b[0] ^= 1 }, seal.ErrSignature},
		"another registrar": {
			func(_ *wire.Credential, _ []byte, p *wire.Party) { *p = party(signer(t, 4)) }, seal.ErrSignature},
	} {
		one, by, from := whole, bytes.Clone(signature[:]), party(registrar)
		c.change(&one, by, &from)
		if err := wire.CheckCredential(one, by, from); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
