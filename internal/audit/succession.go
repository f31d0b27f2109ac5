package audit

import (
	"bytes"

	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// succession is how announcements follow each other: each names the one before it, and no encryption key of the
// analyzer comes back after another one took its place.
type succession struct {
	*findings
	previous []byte // digest of the last announcement; nil before the first
	key      []byte // HPKE key of the last announcement
	keys     map[[seal.HPKEKeySize]byte]bool
}

// add holds an announcement to those before it.
func (su *succession) add(s *statement, a *plan.Announcement) {
	if !bytes.Equal(a.Previous, su.previous) {
		su.wrong(Unchained, s, "it names %x as the announcement before it, which is %x", short(a.Previous),
			short(su.previous))
	}
	su.previous = s.digest[:]
	if !a.Final && !bytes.Equal(a.AnalyzerKey, su.key) {
		su.rotate(s, a.AnalyzerKey)
	}
}

// rotate refuses a key that was rotated away: whoever has it can open what was sealed to it before.
func (su *succession) rotate(s *statement, key []byte) {
	su.key = key
	at := [seal.HPKEKeySize]byte(key)
	if su.keys[at] {
		su.wrong(KeyReturned, s, "the analyzer's encryption key %x was announced before, and another one since",
			short(key))
	}
	su.keys[at] = true
}
