package mailbox_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/pkg/mailbox"
)

// times are when reports were sent, since the first deposit.
func (i *ingress) times() (all []time.Duration) {
	for _, s := range i.got() {
		all = append(all, s.at)
	}
	return all
}

// got are the reports so far, in the order in which they came.
func (i *ingress) got() []sent {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.all)
}

// A report is tried again until the ingress has it, says for good that it takes none, or the mailbox gives up. What
// somebody else answers in the ingress's place is no answer.
func TestAReportIsTriedUntilThereIsAnAnswer(t *testing.T) {
	wait := problems()
	wait.Set("Retry-After", "90")
	type answer struct {
		status int
		header http.Header
		err    error
	}
	for name, c := range map[string]struct {
		answers []answer // the last one for ever
		want    []time.Duration
		counts  mailbox.Counts
	}{
		"taken": {[]answer{{204, nil, nil}}, []time.Duration{60e9}, mailbox.Counts{Forwarded: 1}},
		"away, then taken": {[]answer{{0, nil, errAway}, {0, nil, errAway}, {502, nil, nil}, {204, nil, nil}},
			[]time.Duration{60e9, 61e9, 63e9, 67e9}, mailbox.Counts{Forwarded: 1}},
		"full, then taken": {[]answer{{503, wait, nil}, {429, wait, nil}, {204, nil, nil}},
			[]time.Duration{60e9, 150e9, 240e9}, mailbox.Counts{Forwarded: 1}},
		"over":     {[]answer{{410, problems(), nil}}, []time.Duration{60e9}, mailbox.Counts{Refused: 1}},
		"repeated": {[]answer{{409, problems(), nil}}, []time.Duration{60e9}, mailbox.Counts{Refused: 1}},
		"another server's 410, then a wrong path, then a page, then taken": {
			[]answer{{410, nil, nil}, {404, problems(), nil}, {200, nil, nil}, {307, nil, nil}, {204, nil, nil}},
			[]time.Duration{60e9, 61e9, 63e9, 67e9, 75e9}, mailbox.Counts{Forwarded: 1}},
		"never": {[]answer{{503, nil, nil}}, []time.Duration{60e9, 61e9, 63e9, 67e9, 75e9, 91e9, 123e9, 183e9, 243e9},
			mailbox.Counts{GivenUp: 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t)
			f.config.Keep = 4 * time.Minute
			f.ingress.answers = func(n int, _ sent) (int, http.Header, error) {
				a := c.answers[min(n, len(c.answers))-1]
				return a.status, a.header, a.err
			}
			f.restart()
			defer f.run()()
			f.must(http.StatusNoContent, deposit{account: "ada", epoch: 1, slot: 7, due: time.Minute, body: "null"})
			if got := f.Counts(); got.Waiting != 1 {
				t.Errorf("%s: %+v before", name, got)
			}
			time.Sleep(4*time.Minute + 59*time.Second)
			if got := f.ingress.times(); !slices.Equal(got, c.want) || f.Counts() != c.counts {
				t.Errorf("%s: sent at %v, want %v; %+v", name, got, c.want, f.Counts())
			}
			time.Sleep(2 * time.Second)
			if len(f.store.kept()) != 0 || len(f.ingress.got()) != len(c.want) {
				t.Errorf("%s: left %q", name, f.store.kept())
			}
		})
	}
}

// A process may end, and its store fail, at any step of every deposit and every report: the ingress gets one body for
// each ticket, the last that was answered with 204 or a later one, and nothing else is ever sent for it.
func TestAProcessMayEndAtAnyStep(t *testing.T) {
	for step := range 12 {
		for _, how := range []string{"before", "after", "sent"} {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				f.restart()
				stop := f.run()
				// From a step on the store does nothing more, as it is when the process is killed: before the step's
				// own change, or after it. "sent": the answer of the ingress does not come.
				var calls atomic.Int64
				dead := func() bool { return calls.Load() > int64(step) }
				count := func() { calls.Add(1) }
				f.store.fails = func(call string, _ []byte) bool {
					was := dead()
					if call != "get" && how != "sent" {
						count()
					}
					return was || dead() && how == "before"
				}
				f.ingress.answers = func(int, sent) (int, http.Header, error) {
					if dead() && how != "sent" {
						return 0, nil, errAway
					}
					return 0, http.Header{}, nil
				}
				f.ingress.lost = func() bool {
					if how == "sent" {
						count()
					}
					return dead() && how == "sent"
				}
				acknowledged, offered := map[uint32]string{}, map[uint32][]string{}
				put := func(slot uint32, body string) {
					if dead() {
						return
					}
					offered[slot] = append(offered[slot], body)
					w := f.put(deposit{account: fmt.Sprint(slot), epoch: 1, slot: slot, due: time.Minute, body: body})
					if w.Code == http.StatusNoContent {
						acknowledged[slot] = body
					}
				}
				for slot := range uint32(3) {
					put(slot, "null")
				}
				put(0, "true")
				put(2, "good")
				time.Sleep(time.Minute)
				synctest.Wait()
				stop()
				f.mend()
				f.restart()
				defer f.run()()
				time.Sleep(time.Hour)
				synctest.Wait()
				for slot, last := range acknowledged {
					ticket := ticketHeader(1, slot)
					got := f.ingress.has[ticket]
					all := offered[slot]
					if at := slices.Index(all, got); at < slices.Index(all, last) {
						t.Errorf("%s step %d: slot %d has %q of %q, after %q", how, step, slot, got, all, last)
					}
				}
				bodies := map[string]string{}
				for _, s := range f.ingress.got() {
					if first, any := bodies[s.ticket]; any && first != s.body {
						t.Errorf("%s step %d: two bodies for %s", how, step, s.ticket)
					}
					bodies[s.ticket] = s.body
				}
			})
		}
	}
}

// A deposit that is being stored when its report is due makes it neither late nor another one.
func TestASlowStoreDelaysNoReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.restart()
		defer f.run()()
		d := deposit{account: "ada", epoch: 1, slot: 7, due: time.Minute, body: "null"}
		f.must(http.StatusNoContent, d)
		f.store.slow = 700 * time.Millisecond
		time.Sleep(time.Minute - 1001*time.Millisecond)
		d.body = "true"
		go f.must(http.StatusNoContent, d)
		synctest.Wait()
		d.body = "late"
		f.must(http.StatusConflict, d) // it waited for the other
		time.Sleep(time.Second)
		if got := f.ingress.got(); len(got) != 1 || got[0].at != time.Minute || got[0].body != "true" {
			t.Errorf("%+v", got)
		}
	})
}

// A browser that two people share may send what one left after the other has logged in. That is not a deposit of the
// other's: the ingress would get two bodies with one ticket, which tells that there was a reward.
func TestATicketIsOfOneAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.restart()
		ada := deposit{account: "ada", epoch: 1, slot: 7, due: time.Minute, body: "null"}
		f.must(http.StatusNoContent, ada)
		left := ada
		left.account, left.body = "bob", "true"
		f.must(http.StatusConflict, left)
		f.restart()
		f.must(http.StatusConflict, left)
		defer f.run()()
		bob := deposit{account: "bob", epoch: 1, slot: 8, due: 2 * time.Minute, body: "null"}
		f.must(http.StatusNoContent, bob)
		time.Sleep(3 * time.Minute)
		f.must(http.StatusConflict, left)
		for i, s := range f.ingress.got() {
			if s.body != "null" || s.ticket != ticketHeader(1, uint32(7+i)) {
				t.Errorf("%+v", s)
			}
		}
		time.Sleep(25 * time.Hour)
		left.due = 26 * time.Hour
		f.must(http.StatusNoContent, left) // nothing is kept of the first
	})
}

// A first deposit that the store refuses leaves nothing behind: one that waited for it is not taken as the second of
// what is not there, and would never be sent, and the same request does when the store is back.
func TestAFirstDepositThatIsNotStoredLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.restart()
		defer f.run()()
		d := deposit{account: "ada", epoch: 1, slot: 7, due: time.Minute, body: "null"}
		fails := 1
		f.store.slow, f.store.fails = time.Second, func(string, []byte) bool { fails--; return fails >= 0 }
		go f.must(http.StatusServiceUnavailable, d)
		synctest.Wait()
		f.must(http.StatusServiceUnavailable, d) // which waits for the other
		synctest.Wait()
		if f.Counts() != (mailbox.Counts{}) {
			t.Errorf("left: %+v", f.Counts())
		}
		f.must(http.StatusNoContent, d)
		time.Sleep(2 * time.Minute)
		if got := f.ingress.times(); !slices.Equal(got, []time.Duration{time.Minute}) {
			t.Errorf("sent at %v", got)
		}
	})
}

// shifted is a clock that was set.
type shifted struct{ by atomic.Int64 }

func (c *shifted) Now() time.Time                       { return time.Now().Add(time.Duration(c.by.Load())) }
func (*shifted) After(d time.Duration) <-chan time.Time { return time.After(d) }

// What was sent stays sent, also to a mailbox whose clock was set back.
func TestAClockThatIsSetBackOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		clock := new(shifted)
		f.config.Clock = clock
		f.restart()
		defer f.run()()
		d := deposit{account: "ada", epoch: 1, slot: 7, due: time.Minute, body: "null"}
		f.must(http.StatusNoContent, d)
		time.Sleep(time.Minute + time.Second)
		clock.by.Store(int64(-time.Minute))
		d.body = "true"
		f.must(http.StatusConflict, d)
		time.Sleep(time.Hour)
		if len(f.ingress.got()) != 1 || f.ingress.got()[0].body != "null" {
			t.Errorf("%+v", f.ingress.got())
		}
	})
}

// What an account may have is counted over restarts.
func TestAnAccountsDepositsAreCountedOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for epoch := uint64(1); epoch <= 9; epoch++ {
			f.restart()
			status := http.StatusNoContent
			if epoch == 9 {
				status = http.StatusTooManyRequests
			}
			f.must(status, deposit{account: "ada", epoch: epoch, slot: 7, due: time.Minute, body: "null"})
		}
		time.Sleep(time.Hour)
		stop := f.run()
		synctest.Wait()
		stop()
		f.restart()
		f.must(http.StatusTooManyRequests, deposit{account: "ada", epoch: 9, slot: 7, due: time.Hour, body: "null"})
		defer f.run()()
		time.Sleep(24 * time.Hour)
		f.must(http.StatusNoContent, deposit{account: "ada", epoch: 9, slot: 7, due: 25 * time.Hour, body: "null"})
	})
}

// A store with something else in it, and a configuration that lacks something, are refused.
func TestWhatCannotBeOpened(t *testing.T) {
	for name, change := range map[string]func(*mailbox.Config){
		"no account": func(c *mailbox.Config) { c.Account = nil },
		"no store":   func(c *mailbox.Config) { c.Store = nil },
		"short key":  func(c *mailbox.Config) { c.Key = c.Key[1:] },
		"no ingress": func(c *mailbox.Config) { c.Ingress = nil },
		"no address": func(c *mailbox.Config) { c.Ingress = &url.URL{Path: "/riffle"} },
		"ftp":        func(c *mailbox.Config) { c.Ingress = &url.URL{Scheme: "ftp", Host: "x"} },
		"negative":   func(c *mailbox.Config) { c.Keep = -1 },
		"a foreign name": func(c *mailbox.Config) {
			c.Store = &memory{values: map[string]string{"x": strings.Repeat("x", 40)}}
		},
		"a foreign value": func(c *mailbox.Config) {
			c.Store = &memory{values: map[string]string{strings.Repeat("x", 44): "x"}}
		},
		"a foreign time": func(c *mailbox.Config) {
			c.Store = &memory{values: map[string]string{strings.Repeat("x", 44): strings.Repeat("\xff", 40)}}
		},
	} {
		f := newFixture(t)
		change(&f.config)
		if _, err := mailbox.New(f.config); err == nil {
			t.Errorf("%s is opened", name)
		}
	}
}

// FuzzDepositStore opens stores with any entry: no panic, and what is taken is given back as it was, or sent.
func FuzzDepositStore(f *testing.F) {
	start := time.Now()
	seed := newFixture(f)
	seed.restart()
	seed.must(http.StatusNoContent, deposit{account: "ada", epoch: 1, slot: 7, due: time.Minute, body: "null"})
	for name, value := range seed.store.values {
		f.Add([]byte(name), []byte(value))
		f.Add([]byte(name), []byte(value)[:28])
	}
	f.Add([]byte("x"), []byte(nil))
	f.Fuzz(func(t *testing.T, name, value []byte) {
		x := newFixture(t)
		x.start = start
		x.store.values = map[string]string{string(name): string(value)}
		before := maps.Clone(x.store.values)
		m, err := mailbox.New(x.config)
		if err != nil {
			return
		}
		if waiting := m.Counts().Waiting; (waiting == 1) != (len(value) > 28) || !maps.Equal(x.store.values, before) {
			t.Errorf("%d waiting for %q", waiting, value)
		}
	})
}
