package work

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// FuzzClaims reads any bytes as a batch of claims, and any bytes as the lead's answer to one. A batch is whole claims
// and no more of them than may travel together; what is read of a claim is written as the same, but for flags that have
// no meaning.
func FuzzClaims(f *testing.F) {
	f.Add(Batch(BatchID{1}, []Claim{{Epoch: 1, Redelivered: true, Refused: wire.RefusalLate}, {Unopened: true}}))
	f.Add([]byte(`{"verdicts":"AAEC","rounds":[{"epoch":1,"round":0,"layout":{"messages":3}}]}`))
	f.Add(make([]byte, len(BatchID{})-1))
	f.Fuzz(func(t *testing.T, body []byte) {
		id, all, err := ReadBatch(body)
		if err == nil {
			again := append([]byte(nil), id[:]...)
			for i := range all {
				again = all[i].Append(again)
			}
			if len(all) > MaxBatch || !bytes.Equal(again, body) {
				t.Fatalf("%d claims of %d bytes are others when they are written", len(all), len(body))
			}
		}
		var reply Answer
		if json.Unmarshal(body, &reply) != nil {
			return
		}
		w := &rounds{}
		w.learn(reply.Rounds)
		for _, r := range reply.Rounds {
			if l := w.layout(r.Epoch, r.Round); l.Size() < 0 {
				t.Fatalf("round %d of epoch %d has reports of %d bytes", r.Round, r.Epoch, l.Size())
			}
		}
	})
}
