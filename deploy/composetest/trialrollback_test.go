package composetest

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

// rolledBack brings a cohort through, puts an older copy of a service's volume in the place of the newer one, and looks
// what becomes of it. Where a role says that it does not go on, the newer copy is brought back, as an operator would.
func rolledBack(x *trial, service, volume string) error {
	older := x.copyOf(service, volume)
	if err := x.steady(60 * time.Second); err != nil {
		return fmt.Errorf("after a copy was taken: %w", err)
	}
	before := x.handedIn()
	if err := x.fill(nil); err != nil {
		return err
	}
	if err := x.close(before); err != nil {
		return err
	}
	if _, err := x.next(x.epoch); err != nil {
		return err
	}
	newer := x.bringBack(service, volume, older)
	if service == "nats" { // and no role remembers what the copy lacks
		for _, role := range x.roles() {
			x.must("docker", "restart", "-t", "15", x.id(role))
		}
	}
	time.Sleep(5 * time.Second) // until it has started
	x.wayBack(service, volume, newer)
	return nil
}

// wayBack waits for a role to say that something is wrong. Where one does, it brings the newer copy back and starts
// those roles anew that do not come back by themselves.
func (x *trial) wayBack(service, volume, newer string) {
	begin := time.Now()
	why, said := x.settledTrouble(30 * time.Second)
	if !said { // the next cohort shows whether it goes on
		if warnings := x.warnings(service); len(warnings) > 0 {
			x.note("%s warns: %q", service, warnings[0])
		} else {
			x.fault("no role says that anything is wrong")
		}
		return
	}
	for _, w := range why {
		x.say(w.who, w.why, time.Since(begin))
	}
	x.stop(service)
	x.load(volume, newer)
	x.start(service)
	if x.steady(20*time.Second) == nil {
		return
	}
	for _, role := range x.roles() {
		if !x.watch.last(role).ready {
			x.must("docker", "restart", "-t", "15", x.id(role))
			x.note("%s was started anew", role)
		}
	}
	if err := x.steady(40 * time.Second); err != nil {
		x.fault("not ready with the newer copy: %v", err)
	}
}

// warnings are what a role shows at the head of its status page; none where the service is no role.
func (x *trial) warnings(service string) []string {
	var page struct{ Warnings []string }
	if err := x.crowd.call(x.ctx, http.MethodGet, x.ops[service]+"/status.json", nil, &page); err != nil {
		return nil
	}
	return page.Warnings
}

// settledTrouble waits until some role has said for five seconds that it is not ready.
func (x *trial) settledTrouble(within time.Duration) ([]saying, bool) {
	since := time.Time{}
	for until := time.Now().Add(within); time.Now().Before(until); time.Sleep(watchEvery) {
		why := x.watch.lately(x.roles())
		switch {
		case len(why) == 0:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > 5*time.Second:
			return why, true
		}
	}
	return nil, false
}

func olderShuffler(x *trial) error { return rolledBack(x, "shuffler", "shuffler") }
func olderBroker(x *trial) error   { return rolledBack(x, "nats", "nats") }

func olderHost(x *trial) error {
	older := x.copyOf("host1", "host1")
	if err := x.steady(60 * time.Second); err != nil {
		return err
	}
	before := x.handedIn()
	five := func() (sampled int, reasons []string) {
		for i := range 5 {
			var d struct {
				Sampled bool
				Reason  string
				Token   string
			}
			err := x.crowd.call(x.ctx, http.MethodPost,
				fmt.Sprintf("%s/v1/devices/%s-twice-%d/decisions", x.apis[0], x.crowd.name, i),
				map[string]any{"arms": [][]float64{{.1, .1, .1, .1, .1}, {.2, 0, 0, 0, 0}}}, &d)
			switch {
			case err != nil:
				reasons = append(reasons, fmt.Sprintf("%.120v", err))
			case d.Sampled:
				sampled++
			case !slices.Contains(reasons, d.Reason):
				reasons = append(reasons, d.Reason)
			}
		}
		return sampled, reasons
	}
	if n, why := five(); n != 5 {
		return fmt.Errorf("of five people %d were sampled the first time: %v", n, why)
	}
	if err := x.handIn(20 * time.Second); err != nil {
		return err
	}
	handed := x.handedIn() - before
	newer := x.bringBack("host1", "host1", older)
	if err := x.steady(20 * time.Second); err != nil {
		x.note("with the older store, before any device came: %v", err)
	}
	// its API opens after its container
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(watchEvery) {
		if x.crowd.call(x.ctx, http.MethodGet, x.apis[0]+"/v1/status", nil, new(status)) == nil {
			break
		}
	}
	n, why := five()
	if n > 0 {
		x.fault("of the same five people %d were sampled a second time in one epoch", n)
	}
	x.note("the five, the second time: %d sampled, %v", n, why)
	x.wayBack("host1", "host1", newer)
	if len(x.row.notReady) == 0 {
		x.fault("host1 does not say that its store is an older one")
	}
	if err := x.fill(nil); err != nil {
		return err
	}
	err := x.close(0)
	x.row.reported = max(x.row.reported, handed)
	return err
}
