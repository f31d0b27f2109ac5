package worker

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
)

func fuzzSealer(f *testing.F) *Sealer {
	b, err := NewSealer(bus.Shuffler, [][]byte{[]byte("the shuffler's HPKE key")})
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// FuzzLetter reads any bytes as a letter between lead and workers. A head is written as the same bytes, and what nobody
// of the role sealed opens for neither of them.
func FuzzLetter(f *testing.F) {
	sealer := fuzzSealer(f)
	const sealedBody = "body" // each process of the fuzzer seals it anew, with the same key
	letter := sealer.seal(head{kind: callHello}, toLead, []byte(sealedBody))
	f.Add(letter)
	f.Add(letter[:40])
	f.Add(sealer.seal(head{kind: "mix"}, toWorker, nil))
	f.Add(bytes.Repeat([]byte{1}, 100))
	f.Add(head{kind: strings.Repeat("k", maxKind+1)}.bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		h, sealed, err := parseHead(b)
		if err != nil {
			return
		}
		if again := append(h.bytes(), sealed...); !bytes.Equal(again, b) || len(h.kind) > maxKind {
			t.Fatalf("%x is written as %x", b, again)
		}
		for _, d := range []direction{toLead, back} {
			if body, err := sealer.open(h, d, sealed); err == nil && (d != toLead || string(body) != sealedBody) {
				t.Fatalf("%q opens as %s, and nobody sealed it", body, d)
			}
		}
	})
}

// FuzzOpenedLetter seals any plain text, so that the fuzzer gets past the seal: its body is what it says of its length,
// or it is refused.
func FuzzOpenedLetter(f *testing.F) {
	sealer, h := fuzzSealer(f), head{kind: callDone}
	f.Add([]byte{4, 0, 0, 0, 'b', 'o', 'd', 'y'})
	f.Add([]byte{255, 255, 255, 255})
	f.Add([]byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, plain []byte) {
		body, err := sealer.open(h, toLead, sealer.Seal(nil, h.place(toLead), plain))
		if err != nil && body != nil ||
			err == nil && (len(plain) < 4+len(body) || !bytes.Equal(plain[4:4+len(body)], body)) {
			t.Fatalf("%x is opened as %x, %v", plain, body, err)
		}
	})
}

// FuzzLeadHears has a lead hear any body of every call and of a question, sealed by a process of its role. Each is
// answered once, with a letter that opens for whoever asked; a task that is unknown is unwanted.
func FuzzLeadHears(f *testing.F) {
	sealer := fuzzSealer(f)
	f.Add([]byte{}, byte(0), false)
	f.Add(make([]byte, 20), byte(1), true)
	f.Add(make([]byte, 36), byte(0), true)
	f.Add(make([]byte, 17), byte(2), true)
	kinds := []string{callHello, callBegin, callDone, "question", "unknown"}
	f.Fuzz(func(t *testing.T, body []byte, kind byte, mine bool) {
		l := NewLead(Config{Sealer: sealer, Log: zerolog.Nop()})
		l.Answer("question", func(_ context.Context, b []byte) ([]byte, error) { return b, nil })
		h := head{id: sealer.newID(), kind: kinds[int(kind)%len(kinds)]}
		if mine {
			h.incarnation = l.incarnation
		}
		reply := l.handle(t.Context(), sealer.seal(h, toLead, body))
		plain, err := sealer.open(h, back, reply)
		if err != nil || len(plain) == 0 || status(plain[0]) > statusNo {
			t.Fatalf("%s is answered %x, %v", h.kind, plain, err)
		}
		s := status(plain[0])
		switch {
		case h.kind == callHello && s != statusOK, h.kind != callHello && !mine && s != statusMoved,
			mine && h.kind == "question" && !bytes.Equal(plain[1:], body),
			mine && h.kind == "unknown" && s != statusKind,
			mine && (h.kind == callBegin || h.kind == callDone) && s != statusNo:
			t.Fatalf("%s with %x is answered %x", h.kind, body, plain)
		}
		if l.Places() < 1 {
			t.Fatalf("%d places", l.Places())
		}
	})
}
