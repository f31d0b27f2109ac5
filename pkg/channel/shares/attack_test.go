package shares

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"testing"

	"github.com/cloudflare/circl/vdaf/prio3/arith/fp128"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// another is the round with another announcement or number.
func (f *fixture) another(digest [32]byte, number uint32) *Round {
	r := *f.round
	r.digest, r.number = digest, number
	return &r
}

// What a dishonest shuffler or device can put into a prepare message is refused, each with its own reason.
func TestTheAnalyzerRefusesWhatIsNotOneHonestReport(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	a, _ := f.message(f.payload(1, 2, 3, 4, 5))
	b, _ := f.message(f.payload(1, 2, 3, 4, 5))
	if _, err := f.helper.Verify(a); err != nil {
		t.Fatal(err)
	}
	const envelope = NonceSize + publicSize + hashSize
	cut := func(from, to int) []byte { // a, with bytes of b
		return slices.Concat(a[:from], b[from:to], a[to:])
	}
	change := func(at int) []byte {
		c := slices.Clone(a)
		c[at] ^= 1
		return c
	}
	for what, c := range map[string]struct {
		message []byte
		want    wire.Refusal
	}{
		"a copy under another nonce":           {cut(0, NonceSize), wire.RefusalUndecryptable},
		"another public share":                 {cut(NonceSize, NonceSize+publicSize), wire.RefusalUndecryptable},
		"the hash of another leader's share":   {cut(NonceSize+publicSize, envelope), wire.RefusalUndecryptable},
		"the envelope of another report":       {cut(envelope, envelope+envelopeSize), wire.RefusalUndecryptable},
		"a changed envelope":                   {change(envelope + 40), wire.RefusalUndecryptable},
		"another report's preparation share":   {cut(envelope+envelopeSize, len(a)), wire.RefusalBadProof},
		"a changed circuit output":             {change(envelope + envelopeSize), wire.RefusalBadProof},
		"a changed point of a wire":            {change(envelope + envelopeSize + 16), wire.RefusalBadProof},
		"another part of the joint randomness": {change(len(a) - 1), wire.RefusalBadShare},
		"an element that is not in the field": {
			slices.Concat(a[:envelope+envelopeSize], bytes.Repeat([]byte{255}, 16), a[envelope+envelopeSize+16:]),
			wire.RefusalBadShare,
		},
		"one byte less": {a[:len(a)-1], wire.RefusalWrongSize},
		"one byte more": {append(slices.Clone(a), 0), wire.RefusalWrongSize},
		"nothing":       {nil, wire.RefusalWrongSize},
	} {
		v, err := f.helper.Verify(c.message)
		f.refused(what, err, c.want)
		if v.once != nil || v.Answer != [32]byte{} {
			t.Errorf("%s: there is an answer", what)
		}
	}
	for what, h := range map[string]*Helper{
		"a share of another round's announcement": must(f.another([32]byte{4}, 0).NewHelper(f.secret, f.analyzer,
			f.verifier)),
		"a prepare message under another secret": must(f.round.NewHelper(Secret{}, f.analyzer, f.verifier)),
		"a prepare message to another analyzer": must(f.round.NewHelper(f.secret,
			must(seal.NewHPKEKey(bytes.Repeat([]byte{50}, 32))), f.verifier)),
	} {
		_, err := h.Verify(a)
		f.refused(what, err, wire.RefusalUndecryptable)
	}
	// The announcement's digest differs between rounds; were it not so, the shares would not fit.
	_, err := must(f.another(f.digest, 1).NewHelper(f.secret, f.analyzer, f.verifier)).Verify(a)
	f.refused("a prepare message of another round", err, wire.RefusalBadShare)
}

// Nobody takes part whom the registrar did not admit, and nobody with another's proof of participation.
func TestNobodyIsInvented(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	entries := []uint64{1, 2, 3, 4, 5}
	honest := f.by
	verify := func(by channel.Sender) (Verified, error) {
		f.by = by
		message, _ := f.message(f.payload(entries...))
		return f.helper.Verify(message)
	}
	v, err := verify(honest)
	if want := (channel.Participant{Host: [32]byte(honest.Identity.Public()), Number: 1}); err != nil ||
		v.Participant != want {
		t.Errorf("an honest device: %v, %v", v.Participant, err)
	}
	registrar := f.registrar
	f.registrar = f.shuffler
	self := f.host(20, 4)
	f.registrar = registrar
	_, err = verify(self)
	f.refused("a host that the shuffler admitted itself", err, wire.RefusalNoCredential)
	outside := honest
	outside.Number = 4
	_, err = verify(outside)
	f.refused("a device that the credential does not cover", err, wire.RefusalNoCredential)
	borrowed := honest
	borrowed.Identity = must(seal.NewIdentity(bytes.Repeat([]byte{20}, 32)))
	_, err = verify(borrowed)
	f.refused("a host with another's credential", err, wire.RefusalNoCredential)

	// Someone who knows a proof of participation, as the analyzer does, makes a report of his own around it.
	payload := f.payloadBy(honest, entries)
	message, _ := f.message(payload)
	const envelope = NonceSize + publicSize + hashSize
	plain := must(f.helper.opener.Open(message[envelope:envelope+envelopeSize],
		bound(nil, message[:NonceSize], message[NonceSize:NonceSize+publicSize], message[NonceSize+publicSize:envelope],
			f.secret.Commitment())))
	rest := payload[NonceSize+publicSize:]
	first, second := rest[:f.round.shape.leader], plain[:helperSize]
	second[0] ^= 1 // another helper's share: a malicious shuffler would give a victim other entries
	hash := sha256.Sum256(first)
	forged := slices.Clone(payload[:NonceSize+publicSize+len(first)])
	forged = must(f.device.sealer.AppendSeal(forged, plain, bound(nil, payload[:NonceSize],
		payload[NonceSize:NonceSize+publicSize], hash[:], f.secret.Commitment())))
	message, _ = f.message(forged)
	_, err = f.helper.Verify(message)
	f.refused("a share under a proof for another one", err, wire.RefusalBadSignature)
}

// The attack on the shuffle in which one person's bits are forwarded many times has no counterpart: a second prepare
// message of a person names the same participant, whatever else is in it, and a copy has the same nonce. The analyzer
// counts neither twice.
func TestEveryPrepareMessageOfAPersonNamesThePerson(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	payload := f.payload(1, 2, 3, 4, 5)
	message, _ := f.message(payload)
	again, _ := f.message(payload)
	second, _ := f.message(f.payload(31, 31, 31, 31, 31))
	a, b, c := must(f.helper.Verify(message)), must(f.helper.Verify(again)), must(f.helper.Verify(second))
	if a.Participant != b.Participant || a.Nonce != b.Nonce || a.Participant != c.Participant || a.Nonce == c.Nonce {
		t.Errorf("copies are %x of %v and %x of %v, and another report of the device is %x of %v",
			a.Nonce, a.Participant, b.Nonce, b.Participant, c.Nonce, c.Participant)
	}
}

func (f *fixture) payloadBy(by channel.Sender, entries []uint64) []byte {
	f.by = by
	return f.payload(entries...)
}

// An entry is at most what its bits can say: an element that is no bit has no proof, however honestly one is computed
// for it. Without the analyzer's check, one device could add any number to the sums.
func TestAnEntryOutOfRangeHasNoProof(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	for name, c := range map[string]struct {
		change func(elements fp128.Vec)
		want   wire.Refusal
	}{
		"in range":                   {func(fp128.Vec) {}, wire.NoRefusal},
		"2^5 in an entry of 5 bits":  {func(v fp128.Vec) { clear(v[:5]); v[4] = number(2) }, wire.RefusalBadProof},
		"minus one":                  {func(v fp128.Vec) { v[5] = negative(1) }, wire.RefusalBadProof},
		"a large number":             {func(v fp128.Vec) { v[7] = number(1 << 60) }, wire.RefusalBadProof},
		"the last element":           {func(v fp128.Vec) { v[len(v)-1] = number(3) }, wire.RefusalBadProof},
		"two that cancel in the sum": {func(v fp128.Vec) { v[0], v[1] = number(2), negative(1) }, wire.RefusalBadProof},
	} {
		elements := elementsOf(f.round, []uint64{3, 0, 31, 17, 4})
		c.change(elements)
		var drawn [NonceSize + 128]byte
		random(2)(drawn[:])
		nonce := drawn[:NonceSize]
		public, first, second := forge(f.round, f.by.Commitment, [16]byte(nonce), drawn[NonceSize:], elements)
		payload := must(f.device.pack(nil, f.by, nonce, public, first, second))
		message, _ := f.message(payload) // the leader cannot tell
		_, err := f.helper.Verify(message)
		if wire.Reason(err) != c.want {
			t.Errorf("%s: %v (%v), want %v", name, err, wire.Reason(err), c.want)
		}
	}
	if _, err := f.device.share(nil, f.by, []uint64{32, 0, 0, 0, 0}); err == nil {
		t.Error("a device shares an entry that is too large")
	}
}

func number(n uint64) (x fp128.Fp) {
	_ = x.SetUint64(n) // always nil
	return x
}

func negative(n uint64) (x fp128.Fp) {
	y := number(n)
	x.SubAssign(&y)
	return x
}

// What the shuffler is sent by devices is refused before there is a preparation share.
func TestTheShufflerRefusesWhatIsNoShare(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	a, b := f.payload(1, 2, 3, 4, 5), f.payload(1, 2, 3, 4, 5)
	const share = NonceSize + publicSize
	for what, c := range map[string]struct {
		payload []byte
		want    wire.Refusal
	}{
		"another nonce":        {slices.Concat(b[:NonceSize], a[NonceSize:]), wire.RefusalBadShare},
		"another public share": {slices.Concat(a[:16], b[16:share], a[share:]), wire.RefusalBadShare},
		"another share":        {slices.Concat(a[:share], b[share:]), wire.RefusalBadShare},
		"another blind":        {change(a, share+f.round.shape.leader-1), wire.RefusalBadShare},
		"a changed element":    {change(a, share), wire.RefusalBadShare},
		"an element that is not in the field": {slices.Concat(a[:share], bytes.Repeat([]byte{255}, 16), a[share+16:]),
			wire.RefusalBadShare},
		"one byte less": {a[:len(a)-1], wire.RefusalWrongSize},
		"one byte more": {append(slices.Clone(a), 0), wire.RefusalWrongSize},
		"nothing":       {nil, wire.RefusalWrongSize},
	} {
		message, pending, err := f.leader.Prepare(nil, c.payload)
		f.refused(what, err, c.want)
		if len(message) != 0 || pending.once != nil {
			t.Errorf("%s: something is prepared", what)
		}
	}
	// The joint randomness covers the measurement's share only; a changed proof shows at the analyzer.
	message, _ := f.message(change(a, share+16*int(f.round.entries*f.round.bits)))
	_, err := f.helper.Verify(message)
	// the envelope is bound to all of the share
	f.refused("a changed share of the proof", err, wire.RefusalUndecryptable)
	// A device that makes its envelope for the changed share:
	var drawn [NonceSize + 128]byte
	random(2)(drawn[:])
	public, first, second := forge(f.round, f.by.Commitment, [16]byte(drawn[:]), drawn[NonceSize:],
		elementsOf(f.round, []uint64{1, 2, 3, 4, 5}))
	first[16*int(f.round.entries*f.round.bits)] ^= 1
	message, _ = f.message(must(f.device.pack(nil, f.by, drawn[:NonceSize], public, first, second)))
	_, err = f.helper.Verify(message)
	f.refused("a proof that was changed by its device", err, wire.RefusalBadProof)
}

func change(b []byte, at int) []byte {
	c := slices.Clone(b)
	c[at] ^= 1
	return c
}

// The hash that the analyzer is told of the leader's share covers the blind. Were it over the measurement's share
// alone, the analyzer, which can compute its own share, could try entries until the hash fits; this runs that search.
func TestTheHashOfTheLeadersShareCannotBeSearched(t *testing.T) {
	encodings, releases := two()
	f := newFixture(t, encodings, releases)
	entries := []uint64{1, 2, 3, 4, 5}
	payload := f.payload(entries...)
	message, _ := f.message(payload)
	const envelope = NonceSize + publicSize + hashSize
	hash := message[NonceSize+publicSize : envelope]
	plain := must(f.helper.opener.Open(message[envelope:envelope+envelopeSize],
		bound(nil, message[:NonceSize], message[NonceSize:NonceSize+publicSize], hash, f.secret.Commitment())))
	length := f.round.entries * f.round.bits
	guess := elementsOf(f.round, entries) // the right one: the analyzer would come to it among others
	guess.SubAssign(deriveElements(f.round.context(f.secret.Commitment()), useMeasurement, plain[:32], []byte{1},
		length))
	share := must(guess.MarshalBinary())
	rest := payload[NonceSize+publicSize:]
	if !bytes.Equal(rest[:len(share)], share) {
		t.Fatal("the analyzer's guess is not the leader's share: the test is wrong")
	}
	whole := sha256.Sum256(rest[:f.round.shape.leader])
	if !bytes.Equal(hash, whole[:]) {
		t.Error("the hash is not over the leader's share with its blind")
	}
	for _, known := range [][]byte{share, rest[:f.round.shape.leader-32]} {
		if sum := sha256.Sum256(known); bytes.Equal(hash, sum[:]) {
			t.Error("the analyzer can confirm guessed entries by the hash")
		}
	}
}
