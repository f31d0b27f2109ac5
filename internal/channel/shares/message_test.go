package shares

import (
	"bytes"
	"testing"
)

// What another server sends either splits into exactly the bytes that it was made of, or is refused.
func FuzzMessages(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 7, 7, 7}, 3, 2)
	f.Add(header{1, 2, make([]byte, secretSize)}.encode(), 3, 2)
	f.Add(sum{set{Reports: 3}, make([]byte, 3)}.encode(), 3, 2)
	f.Add(make([]byte, 2*verdictSize), 3, 2)
	f.Fuzz(func(t *testing.T, b []byte, size, most int) {
		if size < 1 || size > 1<<20 || most < 0 || most > 1<<20 {
			return
		}
		if h, err := parseHeader(b); err == nil && !bytes.Equal(h.encode(), b) {
			t.Error("a header encodes otherwise")
		}
		if s, err := parseSum(b, size); err == nil && !bytes.Equal(s.encode(), b) {
			t.Error("a sum encodes otherwise")
		}
		if verdicts, err := parseAnswer(b, most); err == nil &&
			(len(verdicts) != most || !bytes.Equal(bytes.Join(verdicts, nil), b)) {
			t.Error("an answer has other verdicts")
		}
		messages, err := parseMessages(b, size, most)
		if err == nil && (len(messages) > most || !bytes.Equal(bytes.Join(messages, nil), b[countSize:])) {
			t.Error("other prepare messages")
		}
	})
}
