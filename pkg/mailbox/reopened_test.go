package mailbox_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What leaves for the shuffler is the same to the byte, but for what is encrypted, whether pages stay until the reward,
// are closed after the decision, or are opened again from what they kept and told the reward then. What they keep has
// one length from the first deposit to the second.
func TestAKeptRecordChangesNoSchedule(t *testing.T) {
	w := newWorld(t)
	var want []string
	for _, p := range []struct {
		name            string
		reward, reopens bool
		deposits        int
	}{{"closed", false, false, 1}, {"stays", true, false, 2}, {"opened again", true, true, 2}} {
		var got []string
		const people = 4
		deposits := 0
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.restart()
			defer f.run()()
			var pages sync.WaitGroup
			for slot := range uint32(people) {
				pages.Go(func() {
					n := w.reopened(f, slot, p.reward, p.reopens)
					f.mu.Lock()
					defer f.mu.Unlock()
					deposits += n
				})
			}
			pages.Wait()
			time.Sleep(time.Hour)
			for _, s := range f.ingress.got() {
				got = append(got, s.seen())
			}
		})
		slices.SortFunc(got, strings.Compare)
		if want == nil {
			want = got
		}
		if deposits != people*p.deposits || len(got) != people || !slices.Equal(got, want) {
			t.Errorf("%s: %d deposits, and another schedule leaves:\n%q, want\n%q", p.name, deposits, got, want)
		}
	}
}

// reopened is a page that decides, and is perhaps told a reward, in the same page or in another one; it returns how
// many deposits it made.
func (w *world) reopened(f *fixture, slot uint32, reward, reopens bool) (deposits int) {
	time.Sleep(time.Duration(slot) * time.Second)
	d := must(device.Open(w.config, slot, nil))
	must(d.Follow(w.signed, time.Now()))
	set := &wire.KeySet{Deployment: "fixture", Number: 1, Keys: [][]byte{w.shuffler.Public()}}
	keys, _, err := wire.Sign(set, w.enrols)
	if err == nil {
		err = d.Keys(keys)
	}
	if err != nil {
		panic(err)
	}
	request := must(d.Enrol(time.Now()))
	asked := must(wire.OpenSealedRequest(request, must(seal.NewRequestOpener("fixture", w.shuffler))))
	digest, ticket := wire.RequestDigest(asked.Signed), ticketOf(1, slot)
	reply, _, err := wire.Sign(&wire.EnrolReply{
		Request: digest[:], Enrolled: true, Slot: slot, ReportAfter: time.Minute, Ticket: ticket[:],
	}, w.enrols)
	due := must(d.Answer(must(asked.SealReply(must(reply, err))), time.Now())).ReportAt
	put := func(envelope []byte) {
		deposits++
		f.must(http.StatusNoContent, deposit{
			account: fmt.Sprint(slot), epoch: 1, slot: slot, due: due.Sub(f.start), body: string(envelope),
		})
	}
	put(must(d.Deposit(time.Now())))
	d.Deposited()
	size := len(must(d.Save()))
	made := must(d.Decide([][]float64{{0.6, 0.2}, {-0.3, 0.5}}, rand.NewChaCha8([32]byte{byte(slot)})))
	saved := must(d.Save())
	if !reward {
		return deposits
	}
	if reopens {
		d.Close()
		d = must(device.Open(w.config, slot, saved))
	}
	time.Sleep(30 * time.Second)
	must(d.Reward(made.Handle, 1, time.Now()))
	if rewarded := must(d.Save()); len(saved) != size || len(rewarded) != size {
		f.Errorf("%d bytes are kept before the decision, %d after it, %d with the reward", size, len(saved),
			len(rewarded))
	}
	put(must(d.Deposit(time.Now())))
	return deposits
}
