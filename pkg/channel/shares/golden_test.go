package shares

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/pkg/channel"
)

var update = flag.Bool("update", false, "rewrite testdata/shares.json (only after a deliberate change of the format)")

const goldenPath = "testdata/shares.json"

// golden is one round of three reports, byte for byte, with the fixture's keys. Envelopes have fresh ephemeral keys, so
// those of the file are opened and not made again.
type golden struct {
	Commitment, Secret hexadecimal
	Context            hexadecimal   // of the vector sum
	Key                hexadecimal   // verification key of the round
	Payloads           []hexadecimal // of the devices
	Messages           []hexadecimal `json:"Rows"` // prepare messages, from the shuffler
	Answers            []hexadecimal // from the analyzer
	Share              hexadecimal   // the shuffler's, noised
	Counts             [][]uint64
}

type hexadecimal []byte

func (h hexadecimal) MarshalText() ([]byte, error) { return []byte(hexOf(h)), nil }

func (h *hexadecimal) UnmarshalText(text []byte) error {
	b, err := bytesOf(string(text))
	*h = b
	return err
}

// goldenRound takes payloads, or new ones where there are none, through both servers.
func goldenRound(t testing.TB, payloads []hexadecimal) (g golden, f *fixture) {
	encodings, releases := two()
	f = newFixture(t, encodings, releases)
	f.device.random = random(4)
	g.Secret, g.Commitment = f.secret.Bytes(), f.secret.Commitment()
	g.Context = f.round.context(g.Commitment)
	key := f.secret.key(f.round)
	g.Key = key[:]
	for i, vectors := range [][][]float64{{{0, 0, 0}, {0, 0}}, {{0.6, 0.2, 3}, {-1.5, 2}}, {{1, 0.75, 1}, {2, -2}}} {
		p := must(f.device.Append(nil, f.by, vectors, source(byte(i))))
		if payloads != nil { // all but the sealed envelope follows from the inputs
			if same := len(p) - envelopeSize; len(payloads[i]) != len(p) || !bytes.Equal(p[:same], payloads[i][:same]) {
				t.Errorf("report %d: the payload differs from the golden one", i)
			}
			p = payloads[i]
		}
		message, pending := f.message(p)
		v, err := f.helper.Verify(message)
		if err != nil {
			t.Fatalf("report %d: %v", i, err)
		}
		if want := (channel.Participant{Host: [32]byte(f.by.Identity.Public()), Number: 1}); v.Participant != want ||
			v.Nonce != Nonce(p) || v.Nonce != Nonce(message) {
			t.Errorf("report %d: participant %v, nonce %x", i, v.Participant, v.Nonce)
		}
		if err := f.helper.Add(f.helperSum, v); err != nil {
			t.Fatal(err)
		}
		if err := f.leader.Finish(f.leaderSum, pending, v.Answer[:]); err != nil {
			t.Fatal(err)
		}
		g.Payloads, g.Messages = append(g.Payloads, p), append(g.Messages, message)
		g.Answers = append(g.Answers, v.Answer[:])
	}
	share := must(f.leaderSum.Noise(source(10)))
	g.Share = share.Bytes()
	g.Counts = must(f.helperSum.Counts(share, source(11)))
	return g, f
}

func readGolden(t testing.TB) (g golden) {
	b, err := os.ReadFile(goldenPath)
	if err == nil {
		err = json.Unmarshal(b, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Every byte of payloads, prepare messages, answers and the noised share is as it always was: another version of the
// library that computes anything else fails here before it fails between two servers.
func TestGoldenRound(t *testing.T) {
	if *update {
		g, _ := goldenRound(t, nil)
		b, err := json.MarshalIndent(g, "", "\t")
		if err == nil {
			err = os.WriteFile(goldenPath, append(b, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want := readGolden(t)
	if got, _ := goldenRound(t, want.Payloads); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}
