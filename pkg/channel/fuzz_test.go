package channel_test

import (
	"bytes"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// FuzzProof shows any bytes as a proof of participation, with any content, to a verifier that knows the host and to one
// that does not. Only the one proof that was signed holds, and only for its content; whatever else is refused has a
// reason and names nobody.
func FuzzProof(f *testing.F) {
	registrar, signed, digest := identity(f, 1), []byte("content"), [32]byte{3}
	proof, err := sender(f, registrar, deployment, 3).AppendProof(nil, digest, signed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(proof, signed)
	f.Add(proof[:channel.ProofSize-1], signed)
	f.Add(append(bytes.Clone(proof), 0), []byte{})
	party := wire.Party{Deployment: deployment, Key: registrar.Public()}
	known := channel.NewVerifier(party)
	if _, err := known.Check(proof, epoch, digest, signed); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data, content []byte) {
		good := bytes.Equal(data, proof) && bytes.Equal(content, signed)
		for _, v := range []*channel.Verifier{known, channel.NewVerifier(party)} {
			p, err := v.Check(data, epoch, digest, content)
			if (err == nil) != good || err != nil && wire.Reason(err) == wire.NoRefusal {
				t.Fatalf("the signed proof: %v, %v (%v)", good, err, wire.Reason(err))
			}
			if good && p.Number != 3 {
				t.Fatalf("it names device %d", p.Number)
			}
		}
	})
}
