package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// listed starts both servers again with a bundle that lists the host's keys: a new one behind the first, or none.
func (d *world) listed(withdrawn bool) {
	d.t.Helper()
	first := d.identity
	list := wire.HostKeys{First: [32]byte(first.Public()), Withdrawn: withdrawn}
	if !withdrawn {
		order := keyring.OrderOf(first)
		d.order, d.identity = &order, testbed.NewIdentity(d.t)
		d.signed, _ = d.Sign(&wire.Credential{
			Deployment: testbed.Deployment, HostKey: d.identity.Public(), Devices: 10_000, FirstKey: first.Public(),
		}, d.Registrar)
		list.Then = [][32]byte{[32]byte(d.identity.Public())}
	}
	hosts, err := wire.NewHosts([]wire.HostKeys{list})
	d.must(err)
	d.stopServers()
	d.mixes.Hosts, d.counts.Hosts = hosts, hosts
	d.startServers()
}

// another starts a further host, to which the broker has a layer of its own.
func (d *world) another(conn *bus.Conn, f faults) *party {
	d.t.Helper()
	l := d.l.beside()
	l.set(f)
	p := d.newParty(l)
	d.start(p, conn)
	return p
}

// withheld is a request that a host signed and that the broker kept.
func (d *world) withheld() []byte {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.Context())
	defer cancel()
	var mu sync.Mutex
	var request []byte
	d.l.set(faults{enrol: func(_ context.Context, signed []byte, _ asking) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		request = signed
		cancel()
		return nil, bus.ErrNoShuffler
	}})
	_, err := d.host.Decide(ctx, "withheld", func(int) ([][]float64, error) { return [][]float64{{0.6}, {-0.3}}, nil })
	if err != nil && !errors.Is(err, context.Canceled) {
		d.t.Fatal(err)
	}
	d.stopHost()
	d.l.set(faults{})
	mu.Lock()
	defer mu.Unlock()
	return request
}

// answer delivers a request and says what the shuffler answers.
func (d *world) answer(request []byte) *wire.EnrolReply {
	d.t.Helper()
	conn := d.Connect(bus.Randomizer)
	var reply []byte
	testbed.Eventually(d.t, "answered", func() bool {
		var err error
		// not started again yet
		if reply, err = conn.Enrolment.EnrolOnce(d.Context(), request); !errors.Is(err, bus.ErrNoShuffler) {
			d.must(err)
		}
		return err == nil
	})
	opener, err := seal.NewRequestOpener(testbed.Deployment, d.ShufflerKey)
	d.must(err)
	opened, err := wire.OpenSealedRequest(request, opener)
	d.must(err)
	signed, err := opened.OpenReply(reply)
	d.must(err)
	answer, err := wire.OpenEnrolReply(signed, d.Shuffler.Public(), wire.RequestDigest(opened.Signed))
	d.must(err)
	return answer
}

// late delivers a request that was withheld until the host's key was replaced or withdrawn. A host whose key is in
// force must then be able to fill the cohort.
func late(withdrawn bool) func(d *world) string {
	return func(d *world) string {
		r := d.next()
		old := d.withheld()
		d.listed(withdrawn)
		by := d.party
		if withdrawn {
			by = d.another(d.ConnectHost(), faults{})
		} else {
			d.startHost()
		}
		testbed.Eventually(d.t, "in the epoch", func() bool {
			s := by.host.Status()
			return s.Epoch == r.Epoch && s.Enrolling
		})
		answer := d.answer(old)
		n, _ := d.decideAt(by, size)
		d.clock.Pass(r.Timing.RewardWindow + r.Timing.Jitter)
		d.sent(by)
		v := d.verdict(r)
		if answer.Enrolled {
			return fmt.Sprintf("**the old key gets a slot**, and %d people of another; %s", n, v)
		}
		return fmt.Sprintf("refused by the shuffler: `%s`; %s", answer.Refusal, v)
	}
}

// keyReplays are what a malicious broker does with what an old key signed or opens, in the order of the table.
func keyReplays() []trick {
	return []trick{
		{name: "enrolment request: withholds one until the host's key is replaced, and then delivers it", always: true,
			last: true, run: late(false)},
		{name: "enrolment request: withholds one until the host is withdrawn, and then delivers it", last: true,
			run: late(true)},
		{name: "report: withholds some until the host's key is replaced, and then delivers them", always: true,
			last: true, run: func(d *world) string {
				var mu sync.Mutex
				var held [][]byte
				n := 0
				d.l.set(faults{report: func(envelope []byte, publish func([]byte) error) error {
					mu.Lock()
					defer mu.Unlock()
					if n++; n%6 == 1 { // few enough for the cohort to be released without them
						held = append(held, envelope)
						return nil // stored, it says
					}
					return publish(envelope)
				}})
				r := d.cohort()
				d.l.set(faults{})
				testbed.Eventually(d.t, "the others taken", func() bool {
					return d.accounts["received"].Balance().Received >= uint64(len(d.l.reports(r.Epoch)))
				})
				d.stopHost()
				d.listed(false)
				d.startHost()
				conn := d.ConnectHost()
				for i, e := range held {
					d.must(conn.Reports.PublishReport(d.Context(), r.Epoch, r.Round, fmt.Sprintf("late-%d", i), e))
				}
				why := outcome.Reason(wire.RefusalNoCredential.String())
				testbed.Eventually(d.t, "the late ones judged", func() bool {
					b := d.accounts["received"].Balance()
					return b.Received >= uint64(len(held))
				})
				refused := testbed.Refused(d.accounts["received"], why)
				return fmt.Sprintf("refused by the shuffler: `%s`, %d of %d; %s", why, refused, len(held), d.verdict(r))
			}},
		{name: "key set: shows one host the new one and another only the one before, and then the one before again",
			always: true, last: true, run: func(d *world) string {
				ahead := d.another(d.ConnectHost(), faults{})
				var shut atomic.Bool
				behind := d.another(d.Connect(bus.Randomizer),
					faults{keys: func(b []byte, show func([]byte) error) error {
						if shut.Load() {
							return nil
						}
						return show(b)
					}})
				d.verdict(d.cohort()) // by when all have the first set
				shut.Store(true)
				before, earlier := d.ShufflerKey, d.keySet()
				d.stopServers()
				d.ShufflerKey = testbed.NewKey(d.t)
				d.opening = []*seal.HPKEKey{d.ShufflerKey, before}
				d.mixes.Keys = d.opening
				var again atomic.Bool
				ahead.l.set(faults{
					latest: func([]byte) []byte { return earlier },
					keys: func(b []byte, show func([]byte) error) error {
						err := errors.Join(show(b), show(earlier))
						again.Store(true)
						return err
					},
				})
				d.startServers()
				r := d.next()
				testbed.Eventually(d.t, "shown the earlier set", again.Load)
				for _, p := range []*party{ahead, behind} {
					testbed.Eventually(d.t, "in the epoch", func() bool {
						s := p.host.Status()
						return s.Epoch == r.Epoch && s.Enrolling
					})
					d.decideAt(p, size/2)
				}
				d.clock.Pass(r.Timing.RewardWindow + r.Timing.Jitter)
				d.sent(ahead)
				d.sent(behind)
				n := d.opens(r, before)
				v := d.verdict(r)
				refused := "refused by the first: `rewound`"
				if testbed.Refused(ahead.accounts["keys"], api.Rewound) == 0 {
					refused = "**the first takes the earlier one**"
				}
				return fmt.Sprintf("%s; %d of %d reports are sealed to the earlier key, those of the host that sees "+
					"no other, "+"and the shuffler opens them while it keeps that key; %s", refused, n, size, v)
			}},
	}
}

// keySet is the shuffler's own at the broker.
func (d *world) keySet() []byte {
	d.t.Helper()
	set, err := d.auditor.Keys.ReadKeys(d.Context(), bus.Shuffler)
	d.must(err)
	return set
}

// opens is how many reports of a round a key of the shuffler's opens.
func (d *world) opens(r *round, key *seal.HPKEKey) (n int) {
	d.t.Helper()
	opener, err := seal.NewReportOpener(key)
	d.must(err)
	for _, e := range d.l.reports(r.Epoch) {
		_, err := wire.OpenEnvelope(e, opener,
			seal.ReportContext{Deployment: testbed.Deployment, Epoch: r.Epoch, Round: r.Round})
		if err == nil {
			n++
		}
	}
	return n
}
