package wire_test

import (
	"errors"
	"reflect"
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

// A credential that was laid out and put together again is the one that it was, or refused.
func TestACredentialIsPutTogether(t *testing.T) {
	registrar, issuer, host := signer(t, 2), signer(t, 5), signer(t, 3)
	ends := credential(t, host)
	ends.NotAfter = 7
	for kind, signed := range map[string][]byte{
		"the registrar's": forge(t, seal.Credential, ends, registrar),
		"an issuer's":     forge(t, seal.Credential, issued(t, host, issuer, registrar), issuer),
	} {
		want, err := wire.OpenCredential(signed, party(registrar))
		if err != nil {
			t.Fatal(err)
		}
		layout, err := wire.AppendLayout(nil, signed)
		if err != nil || len(layout) != wire.LayoutSize {
			t.Fatalf("%d bytes, %v", len(layout), err)
		}
		whole := [wire.LayoutSize]byte(layout)
		known := wire.NewCredentials(party(registrar))
		for range 2 {
			got, err := known.OpenLayout([32]byte(host.Public()), whole)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, %v, want %+v", kind, got, err, want)
			}
		}
		if _, err := known.OpenLayout([32]byte(digestOf(9)), whole); !errors.Is(err, wire.ErrCredential) {
			t.Errorf("%s, of another host: %v", kind, err)
		}
		for i := range whole { // also the zeros in place of an issuer
			changed := whole
			changed[i] ^= 1
			if _, err := known.OpenLayout([32]byte(host.Public()), changed); !errors.Is(err, wire.ErrCredential) {
				t.Errorf("%s, byte %d: %v", kind, i, err)
			}
		}
		for name, from := range map[string]wire.Party{
			"another deployment": {Deployment: "other", Key: registrar.Public()},
			"another registrar":  party(signer(t, 4)),
			"no registrar":       {Deployment: deployment},
		} {
			if _, err := wire.NewCredentials(from).OpenLayout([32]byte(host.Public()), whole); !errors.Is(err,
				wire.ErrCredential) {
				t.Errorf("%s, %s: %v", kind, name, err)
			}
		}
	}
}
