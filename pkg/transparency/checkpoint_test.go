package transparency_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	formats "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/transparency"

	_ "github.com/riffle-dp/riffle/internal/testing/fixedseed"
)

var update = flag.Bool("update", false, "write the golden vectors anew; a changed vector is a changed format")

// The tests' log, witness and time.
var (
	origin = transparency.Origin("trial", "shuffler")
	first  = time.Unix(1_700_000_000, 0).UTC()
)

const witness = "witness.example.org"

// identity is the identity whose seed's bytes are all b.
func identity(t testing.TB, b byte) *seal.Identity {
	t.Helper()
	id, err := seal.NewIdentity(bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// checkpoint is one of seven leaves.
func checkpoint() transparency.Checkpoint {
	var tree transparency.Tree
	for _, h := range hashes(7) {
		tree.AppendHash(h)
	}
	return transparency.Checkpoint{Origin: origin, Size: tree.Size(), Root: tree.Root()}
}

// signed is that checkpoint, signed by identity 1.
func signed(t testing.TB) []byte {
	t.Helper()
	b, err := transparency.Sign(checkpoint(), identity(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cosigned is that one, co-signed by identity 2.
func cosigned(t testing.TB, at time.Time) []byte {
	t.Helper()
	b, err := transparency.Cosign(signed(t), witness, identity(t, 2), at)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The formats do not change, and a checkpoint opens as what was signed.
func TestGoldenNotes(t *testing.T) {
	golden(t, "checkpoint.note", signed(t))
	golden(t, "cosigned.note", cosigned(t, first))
	for _, b := range [][]byte{signed(t), cosigned(t, first)} {
		if c, err := transparency.Open(b, origin, identity(t, 1).Public()); err != nil || c != checkpoint() {
			t.Errorf("%v, %v", c, err)
		}
	}
	c, at, err := transparency.OpenCosigned(cosigned(t, first.Add(999*time.Millisecond)), origin,
		identity(t, 1).Public(),
		witness, identity(t, 2).Public())
	if err != nil || c != checkpoint() || !at.Equal(first) {
		t.Errorf("%v at %v, %v", c, at, err)
	}
}

// Others' programs verify what is signed here: package note of the Go project, and transparency-dev's cosignatures.
func TestOthersVerify(t *testing.T) {
	key, err := note.NewEd25519VerifierKey(origin, ed25519.PublicKey(identity(t, 1).Public()))
	if err != nil {
		t.Fatal(err)
	}
	role, err := note.NewVerifier(key)
	if err != nil {
		t.Fatal(err)
	}
	other, err := formats.NewVerifierForCosignatureV1(fmt.Sprintf("%s+%08x+%s", witness, 0,
		base64.StdEncoding.EncodeToString(append([]byte{4}, identity(t, 2).Public()...))))
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(cosigned(t, first), note.VerifierList(role, other))
	if err != nil || len(n.Sigs) != 2 {
		t.Fatalf("%v, %v", n, err)
	}
	at, err := formats.CoSigV1Timestamp(n.Sigs[1])
	if err != nil || !at.Equal(first) {
		t.Errorf("the other reads the time %v, %v", at, err)
	}
}

// What is not a checkpoint of this log, under this key, as Sign writes it, does not open.
func TestWhatIsNotThisLogsDoesNotOpen(t *testing.T) {
	good, key := signed(t), identity(t, 1).Public()
	text, _, _ := bytes.Cut(good, []byte("\n\n"))
	resigned := func(text string) []byte {
		role := roleSigner(t, identity(t, 1))
		b, err := note.Sign(&note.Note{Text: text}, role)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if _, err := transparency.Open(resigned(string(text)+"\n"), origin, key); err != nil {
		t.Fatalf("the tests' own signer: %v", err)
	}
	elsewhere := checkpoint()
	elsewhere.Origin = transparency.Origin("trial", "analyzer")
	of, err := transparency.Sign(elsewhere, identity(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int) []byte { b := bytes.Clone(good); b[at] ^= 1; return b }
	lines := strings.SplitAfter(string(text)+"\n", "\n")
	for name, bad := range map[string]struct {
		note []byte
		want error
	}{
		"nothing":                  {nil, transparency.ErrCheckpoint},
		"another log's":            {of, transparency.ErrUnsigned},
		"a changed size":           {flip(len(lines[0])), transparency.ErrUnsigned},
		"a changed root":           {flip(len(lines[0]) + len(lines[1]) + 3), transparency.ErrUnsigned},
		"a changed signature":      {flip(len(good) - 10), transparency.ErrUnsigned},
		"cut off":                  {good[:len(good)-1], transparency.ErrCheckpoint},
		"unsigned":                 {append(bytes.Clone(text), "\n\n"...), transparency.ErrCheckpoint},
		"a further line":           {resigned(string(text) + "\nmore\n"), transparency.ErrCheckpoint},
		"a size with a zero ahead": {resigned(lines[0] + "0" + lines[1] + lines[2]), transparency.ErrCheckpoint},
		"a root of 31 bytes": {resigned(lines[0] + lines[1] + base64.StdEncoding.EncodeToString(make([]byte, 31)) +
			"\n"),
			transparency.ErrCheckpoint},
		"another origin inside": {resigned("riffle/trial/analyzer\n" + lines[1] + lines[2]),
			transparency.ErrCheckpoint},
		"too long": {append(bytes.Clone(good), strings.Repeat("— other AAAAAAAA\n", transparency.MaxCheckpoint/15)...),
			transparency.ErrCheckpoint},
		"with a long signature": {append(bytes.Clone(good), "— other "+strings.Repeat("AAAA",
			transparency.MaxCheckpoint/4)+
			"\n"...), transparency.ErrCheckpoint},
	} {
		if c, err := transparency.Open(bad.note, origin, key); !errors.Is(err, bad.want) {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	for name, k := range map[string][]byte{
		"another key": identity(t, 3).Public(), "no key": nil, "a long key": append(key, 0),
	} {
		if _, err := transparency.Open(good, origin, k); !errors.Is(err, transparency.ErrUnsigned) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []string{"", "riffle/a b/shuffler", "riffle/a+b/shuffler", "riffle/\n/x", "riffle/\x00/x"} {
		if _, err := transparency.Sign(transparency.Checkpoint{Origin: bad}, identity(t, 1)); err == nil {
			t.Errorf("signed for the origin %q", bad)
		}
	}
}

// roleSigner signs any text as the role's key in a note.
func roleSigner(t *testing.T, id *seal.Identity) note.Signer {
	t.Helper()
	key, err := note.NewEd25519VerifierKey(origin, ed25519.PublicKey(id.Public()))
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner("PRIVATE+KEY+" + strings.Join([]string{origin, strings.Split(key, "+")[1],
		base64.StdEncoding.EncodeToString(append([]byte{1}, id.Bytes()...))}, "+"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A cosignature belongs to a witness, a time and a checkpoint.
func TestACosignatureIsTheWitnesss(t *testing.T) {
	role, key := identity(t, 1).Public(), identity(t, 2).Public()
	both := cosigned(t, first)
	open := func(b []byte, name string, key []byte) error {
		_, _, err := transparency.OpenCosigned(b, origin, role, name, key)
		return err
	}
	cut := bytes.LastIndex(both, []byte("— "))
	parts := strings.Fields(string(both[cut:]))
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		t.Fatal(err)
	}
	raw[11]++ // a second later
	later := append(bytes.Clone(both[:cut]), "— "+witness+" "+base64.StdEncoding.EncodeToString(raw)+"\n"...)
	short := append(bytes.Clone(both[:cut]), "— "+witness+" "+base64.StdEncoding.EncodeToString(raw[:8])+"\n"...)
	for name, err := range map[string]error{
		"no cosignature": open(signed(t), witness, key), "another witness": open(both, "other", key),
		"another key": open(both, witness, identity(t, 3).Public()), "another time": open(later, witness, key),
		"not even a time in it": open(short, witness, key), "no key": open(both, witness, nil),
	} {
		if !errors.Is(err, transparency.ErrUnsigned) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := open(both[:cut], witness, key); err == nil {
		t.Error("opened without a cosignature")
	}
	_, _, err = transparency.OpenCosigned(both, origin, identity(t, 3).Public(), witness, key)
	if !errors.Is(err, transparency.ErrUnsigned) {
		t.Errorf("a cosignature below another role's key: %v", err)
	}
	for _, name := range []string{"", ".", "-a", "a b", "a+b", "a/b", "a\nb", "ä", strings.Repeat("a", 64)} {
		_, err := transparency.Cosign(signed(t), name, identity(t, 2), first)
		if !errors.Is(err, transparency.ErrName) || !errors.Is(open(both, name, key), transparency.ErrName) {
			t.Errorf("%q is a name: %v", name, err)
		}
	}
	if _, err := transparency.Cosign(signed(t), witness, identity(t, 2), time.Unix(-1, 0)); err == nil {
		t.Error("co-signed before 1970")
	}
	for _, bad := range [][]byte{nil, []byte("hello\n"), signed(t)[len(origin):],
		bytes.Replace(signed(t), []byte("\n7\n"), []byte("\n+7\n"), 1)} {
		if _, err := transparency.Cosign(bad, witness, identity(t, 2), first); !errors.Is(err,
			transparency.ErrCheckpoint) {
			t.Errorf("co-signed %q: %v", bad, err)
		}
	}
}

// Several witnesses sign one checkpoint; who signs again replaces the first signature.
func TestWitnessesSignBesideEachOther(t *testing.T) {
	b := cosigned(t, first)
	b, err := transparency.Cosign(b, "second", identity(t, 3), first.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	b, err = transparency.Cosign(b, witness, identity(t, 2), first.Add(time.Minute))
	if err != nil || bytes.Count(b, []byte("— ")) != 3 {
		t.Fatalf("%s, %v", b, err)
	}
	for name, want := range map[string]time.Time{witness: first.Add(time.Minute), "second": first.Add(time.Hour)} {
		key := identity(t, map[string]byte{witness: 2, "second": 3}[name]).Public()
		_, at, err := transparency.OpenCosigned(b, origin, identity(t, 1).Public(), name, key)
		if err != nil || !at.Equal(want) {
			t.Errorf("%s: %v, %v", name, at, err)
		}
	}
	for i := range 97 { // a note takes 100 signatures
		if b, err = transparency.Cosign(b, fmt.Sprint("w", i), identity(t, 4), first); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err = transparency.Cosign(b, "one.more", identity(t, 4), first); !errors.Is(err, transparency.ErrCheckpoint) {
		t.Errorf("signature 101: %v", err)
	}
}

// No checkpoint, whatever deployment and role are called, is what any kind of statement signs, and no cosignature is a
// checkpoint: all domains hold a zero byte, and nothing with a zero byte is signed as a text.
func TestNoCheckpointIsAStatement(t *testing.T) {
	id := identity(t, 1)
	for kind := seal.Kind(1); !strings.HasPrefix(kind.String(), "kind("); kind++ {
		domain := kind.Domain()
		if !strings.Contains(domain, "\x00") {
			t.Errorf("the domain %q has no zero byte", domain)
		}
		if _, err := seal.SignText([]byte(domain+"body\n"), id); !errors.Is(err, seal.ErrText) {
			t.Errorf("a statement %v is signed as a text: %v", kind, err)
		}
		for _, name := range []string{kind.String(), kind.String() + "\x00"} {
			c := checkpoint()
			c.Origin = transparency.Origin("v1", name)
			b, err := transparency.Sign(c, id)
			if err != nil {
				continue
			}
			text, _, _ := bytes.Cut(b, []byte("\n\n"))
			fields := bytes.Fields(b)
			raw, err := base64.StdEncoding.DecodeString(string(fields[len(fields)-1]))
			if err != nil {
				t.Fatal(err)
			}
			body, ok := bytes.CutPrefix(append(text, '\n'), []byte(domain[:len(domain)-1]))
			if !ok {
				t.Fatalf("%q does not begin as %q: the test is wrong", text, domain)
			}
			signature := raw[4:]
			if seal.Verify(kind, body, id.Public(), signature) == nil ||
				seal.Verify(kind, body[1:], id.Public(), signature) == nil {
				t.Errorf("a checkpoint of %q verifies as %v", c.Origin, kind)
			}
		}
	}
	if strings.HasPrefix(transparency.Origin("cosignature", "v1"), "cosignature/") {
		t.Error("an origin can begin as a cosignature does")
	}
}

// A witness's public line is read as it was written, and as transparency-dev's programs read it.
func TestAVerifierKeyIsOneLine(t *testing.T) {
	for b := range byte(40) { // base64 has a + in some of these
		line, err := transparency.VerifierKey(witness, identity(t, b).Public())
		if err != nil {
			t.Fatal(err)
		}
		name, key, err := transparency.ParseVerifierKey(line + "\n")
		if err != nil || name != witness || !bytes.Equal(key, identity(t, b).Public()) {
			t.Fatalf("%q: %q, %v", line, name, err)
		}
		other, err := formats.NewVerifierForCosignatureV1(line)
		if err != nil || other.Name() != witness || !strings.Contains(line, fmt.Sprintf("+%08x+", other.KeyHash())) {
			t.Fatalf("%q: %v", line, err)
		}
		for _, bad := range []string{"", "a", "a+b", "a+b+c", line[1:], line[:len(line)-1], line + line, line + "\nx",
			strings.Replace(line, "+", "+0", 1), "a b" + line[len(witness):]} {
			if _, _, err := transparency.ParseVerifierKey(bad); !errors.Is(err, transparency.ErrName) {
				t.Fatalf("%q: %v", bad, err)
			}
		}
	}
	if _, err := transparency.VerifierKey("a+b", make([]byte, 32)); !errors.Is(err, transparency.ErrName) {
		t.Error(err)
	}
	if _, err := transparency.VerifierKey("a", make([]byte, 31)); !errors.Is(err, transparency.ErrName) {
		t.Error(err)
	}
}
