package bench

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"filippo.io/edwards25519"
	"github.com/cloudflare/circl/dh/x25519"
	"github.com/cloudflare/circl/hpke"
	"github.com/cloudflare/circl/vdaf/prio3/sumvec"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Bound is what one step costs without anything around it.
type Bound struct {
	Name string `json:"name"`
	What string `json:"what"` // one step
	// Seconds of one core's processor time a step; of Wall bounds, wall time of all cores together. Of bits_all_cores
	// it is the wall time that idle cores would take: their processor time over their number.
	Seconds float64 `json:"seconds"`
	Wall    bool    `json:"wall,omitempty"`
}

// Bounds are all that were measured, by name.
type Bounds []Bound

// Names of bounds.
const (
	boundX25519      = "x25519"
	boundBase        = "x25519_base"
	boundHPKESeal    = "hpke_seal"
	boundHPKEOpen    = "hpke_open"
	boundBitSeal     = "bit_seal"
	boundBitOpen     = "bit_open"
	boundBothCores   = "bits_all_cores"
	boundSign        = "ed25519_sign"
	boundVerify      = "ed25519_verify"
	boundAEAD        = "chacha20poly1305_byte"
	boundCopy        = "copy_byte"
	boundShard       = "prio3_shard"
	boundPrepare     = "prio3_prepare_one"
	boundPublish     = "jetstream_publish"
	boundPublishWall = "jetstream_publish_wall"
	boundConsume     = "jetstream_consume"
	boundConsumeWall = "jetstream_consume_wall"
)

// Of is the seconds of a step, 0 for one that was not measured.
func (b Bounds) Of(name string) float64 {
	for _, one := range b {
		if one.Name == name {
			return one.Seconds
		}
	}
	return 0
}

// batches is how many times a bound is measured. The least counts: other work on the machine only ever adds.
const batches = 5

// cost is the processor time of one step, in seconds. f does n steps. Where the system does not tell processor time it
// is wall time.
func cost(d time.Duration, f func(n int)) float64 {
	n, each := 1, d/batches
	for begin := time.Now(); ; begin = time.Now() {
		f(n)
		took := time.Since(begin)
		if took >= each/4 || n >= 1<<40 {
			n = max(1, int(float64(n)*float64(each)/float64(max(took, 1))))
			break
		}
		n *= 2
	}
	least := math.Inf(1)
	for range batches {
		begin, before := time.Now(), cluster.Own().CPU
		f(n)
		took := cluster.Own().CPU - before
		if took == 0 {
			took = time.Since(begin)
		}
		least = math.Min(least, took.Seconds()/float64(n))
	}
	return least
}

// measureBounds measures what needs no broker, each bound for about d.
func measureBounds(d time.Duration) (all Bounds, err error) {
	add := func(name, what string, f func(n int)) {
		all = append(all, Bound{Name: name, What: what, Seconds: cost(d, f)})
	}
	var private, public, shared x25519.Key
	rand.Read(private[:])
	x25519.KeyGen(&public, &private)
	add(boundX25519, "one X25519 multiplication (circl)", each(func() { x25519.Shared(&shared, &private, &public) }))

	var clamped [64]byte
	copy(clamped[:], private[:])
	scalar, err := edwards25519.NewScalar().SetUniformBytes(clamped[:])
	if err != nil {
		return nil, err
	}
	var point edwards25519.Point
	base := math.Min(cost(d, each(func() { x25519.KeyGen(&public, &private) })),
		cost(d, each(func() { point.ScalarBaseMult(scalar).BytesMontgomery() })))
	all = append(all, Bound{Name: boundBase, Seconds: base,
		What: "one multiplication of the base point (the faster of circl and edwards25519)"})

	if err := addHPKE(add); err != nil {
		return nil, err
	}
	sealer, opener, message, err := bitPair()
	if err != nil {
		return nil, err
	}
	buffer := make([]byte, 0, seal.BitSize)
	add(boundBitSeal, "one bit message sealed by pkg/seal", each(func() {
		buffer, _ = sealer.AppendSeal(buffer[:0], 0, 1, true)
	}))
	add(boundBitOpen, "one bit message opened by pkg/seal", each(func() { _, _, _, _ = opener.Open(message) }))
	all = append(all, Bound{
		Name: boundBothCores, Wall: true, Seconds: allCores(d, sealer, opener, message),
		What: "one bit message sealed and opened by pkg/seal, all cores at work: their processor time over their " +
			"number",
	})

	const report = 8192
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	text := make([]byte, report)
	signature := ed25519.Sign(key, text)
	add(boundSign, "one Ed25519 signature under 8 KiB", each(func() { ed25519.Sign(key, text) }))
	public25519 := key.Public().(ed25519.PublicKey)
	add(boundVerify, "its verification", each(func() { ed25519.Verify(public25519, text, signature) }))

	aead, err := chacha20poly1305.New(make([]byte, chacha20poly1305.KeySize))
	if err != nil {
		return nil, err
	}
	out, nonce := make([]byte, 0, report+aead.Overhead()), make([]byte, aead.NonceSize())
	add(boundAEAD, "one byte through ChaCha20-Poly1305, 8 KiB at a time", func(n int) {
		for range (n + report - 1) / report {
			out = aead.Seal(out[:0], nonce, text, nil)
		}
	})
	const block = 64 << 20 // larger than caches
	from, to := make([]byte, block), make([]byte, block)
	add(boundCopy, "one byte copied in memory, 64 MiB at a time", func(n int) {
		for done := 0; done < n; done += block {
			copy(to[:min(block, n-done)], from)
		}
	})
	return all, nil
}

// each does a step n times.
func each(f func()) func(n int) {
	return func(n int) {
		for range n {
			f()
		}
	}
}

func addHPKE(add func(name, what string, f func(n int))) error {
	suite := hpke.NewSuite(hpke.KEM_X25519_HKDF_SHA256, hpke.KDF_HKDF_SHA256, hpke.AEAD_ChaCha20Poly1305)
	public, private, err := hpke.KEM_X25519_HKDF_SHA256.Scheme().GenerateKeyPair()
	if err != nil {
		return err
	}
	info, plain := make([]byte, 45), make([]byte, 4)
	sender, err := suite.NewSender(public, info)
	if err != nil {
		return err
	}
	var encapsulated, sealed []byte
	one := func() {
		s := *sender // circl notes the mode in the sender
		var sealer hpke.Sealer
		if encapsulated, sealer, err = s.Setup(nil); err == nil {
			sealed, err = sealer.Seal(plain, nil)
		}
	}
	if one(); err != nil {
		return err
	}
	add(boundHPKESeal, "4 bytes sealed by circl's HPKE, base mode", each(one))
	add(boundHPKEOpen, "the same opened", each(func() {
		receiver, err := suite.NewReceiver(private, info)
		if err != nil {
			return
		}
		if opener, err := receiver.Setup(encapsulated); err == nil {
			_, _ = opener.Open(sealed, nil)
		}
	}))
	return nil
}

func bitPair() (*seal.BitSealer, *seal.BitOpener, []byte, error) {
	key, err := seal.GenerateHPKE()
	if err != nil {
		return nil, nil, nil, err
	}
	sealer, err := seal.NewBitSealer(key.Public(), [32]byte{})
	if err != nil {
		return nil, nil, nil, err
	}
	message, err := sealer.AppendSeal(nil, 0, 1, true)
	return sealer, seal.NewBitOpener(key, [32]byte{}), message, err
}

// allCores is the wall time that the machine takes for sealing and opening one bit message when all cores do nothing
// else: cores that share parts of a processor are slower together than each alone. It is the processor time of all
// cores together, divided by their number, so that other work on the machine does not count.
func allCores(d time.Duration, sealer *seal.BitSealer, opener *seal.BitOpener, message []byte) float64 {
	least := math.Inf(1)
	cores := runtime.GOMAXPROCS(0)
	for range batches {
		var wg sync.WaitGroup
		done := make([]int, cores)
		begin, before := time.Now(), cluster.Own().CPU
		for core := range cores {
			wg.Go(func() {
				buffer := make([]byte, 0, seal.BitSize)
				for time.Since(begin) < d/batches {
					for range 16 {
						buffer, _ = sealer.AppendSeal(buffer[:0], 0, 1, true)
						_, _, _, _ = opener.Open(message)
					}
					done[core] += 16
				}
			})
		}
		wg.Wait()
		took := (cluster.Own().CPU - before) / time.Duration(cores)
		if took == 0 { // the system does not tell
			took = time.Since(begin)
		}
		sum := 0
		for _, n := range done {
			sum += n
		}
		least = math.Min(least, took.Seconds()/float64(sum))
	}
	return least
}

// measurePrio3 measures the vector sum of two servers alone: circl's Prio3SumVec, for vectors of so many entries of so
// many bits.
func measurePrio3(d time.Duration, dim int, entries, width uint) (Bounds, error) {
	v, err := newPrio3(entries, width)
	if err != nil {
		return nil, err
	}
	drawn, nonce, key := make([]byte, 128), sumvec.Nonce{}, sumvec.VerifyKey{}
	values := make([]uint64, entries)
	public, split, err := v.Shard(values, &nonce, drawn)
	if err != nil {
		return nil, err
	}
	shape := fmt.Sprintf("%d entries of %d bits", entries, width)
	return Bounds{{
		Name: prio3(boundShard, dim), What: "one vector of " + shape + " shared by Prio3SumVec (circl)",
		Seconds: cost(d, each(func() { _, _, _ = v.Shard(values, &nonce, drawn) })),
	}, {
		Name: prio3(boundPrepare, dim), What: "its preparation at one of the two servers",
		Seconds: cost(d, each(func() { _, _, _ = v.PrepInit(&key, &nonce, 1, public, split[1]) })),
	}}, nil
}

// newPrio3 is the vector sum whose proof has chunks near the square root of its elements, as the
// channel shares has.
func newPrio3(entries, width uint) (*sumvec.SumVec, error) {
	elements := entries * width
	return sumvec.New(2, entries, width, uint(math.Ceil(math.Sqrt(float64(elements)))), nil)
}
