package device

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math"

	"golang.org/x/crypto/chacha20"

	"github.com/riffle-dp/riffle/pkg/protocol"
)

// noise gives the random words with which vectors are rounded and noised.
type noise func(vectors [][]float64) protocol.Source

// from is noise whose words are the next ones of a source.
func from(src protocol.Source) noise {
	return func([][]float64) protocol.Source { return src }
}

// noise is that of the promise's reports: a ChaCha20 stream whose key is HMAC-SHA-256 of the announcement and of what
// is reported, under the promise's secret. A report of other vectors thus has independent noise, and one that is made
// again, from an older copy of what Save returned, has the same: two draws for one record would tell more than one.
//
// first says that it is the first report for a mailbox, which is of the null record, and has noise of its own: beside
// that, a later report would show by the same noise that it is of the null record too.
func (d *Device) noise(first bool) noise {
	return func(vectors [][]float64) protocol.Source {
		text := append([]byte("riffle noise"), d.last.Digest[:]...)
		if first {
			text = append(text, "first"...)
		}
		for _, v := range vectors {
			text = binary.BigEndian.AppendUint64(text, uint64(len(v)))
			for _, x := range v {
				text = binary.BigEndian.AppendUint64(text, math.Float64bits(x))
			}
		}
		defer clear(text)
		mac := hmac.New(sha256.New, d.kept.Secret)
		mac.Write(text)
		stream, err := chacha20.NewUnauthenticatedCipher(mac.Sum(nil), make([]byte, chacha20.NonceSize))
		if err != nil {
			panic(err) // a size is wrong
		}
		return &words{stream: stream, next: len(words{}.buffer)}
	}
}

// words are those of a stream, each given out once.
type words struct {
	stream *chacha20.Cipher
	buffer [512]byte
	next   int
}

// Uint64 implements protocol.Source.
func (w *words) Uint64() uint64 {
	if w.next == len(w.buffer) {
		clear(w.buffer[:])
		w.stream.XORKeyStream(w.buffer[:], w.buffer[:])
		w.next = 0
	}
	b := w.buffer[w.next : w.next+8]
	w.next += 8
	v := binary.LittleEndian.Uint64(b)
	clear(b)
	return v
}
