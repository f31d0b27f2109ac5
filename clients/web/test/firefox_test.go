package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// In Firefox 20 people take part, each at an origin of their own, so that nothing of their storage is shared; two in
// five close the page before the reward.
func TestFirefox(t *testing.T) {
	const n = 20
	d := startDeployment(t, people{cohort: n, window: 40 * time.Second, mailbox: true})
	var urls []string
	visitors := make([]*page, n)
	for i := range visitors {
		name := fmt.Sprintf("f%d", i)
		visitors[i] = d.make(name)
		base := strings.Replace(d.app, "127.0.0.1", name+".localhost", 1)
		urls = append(urls, visitors[i].address(base, name, ""))
	}
	openFirefox(t, urls...)
	visitors[0].noWorker(t)
	all := make([]visit, n)
	var g errgroup.Group
	g.SetLimit(atATime)
	for i, p := range visitors {
		g.Go(func() error {
			stays := i%5 > 1
			if err := p.visits(t.Context(), &all[i], stays); err != nil || stays {
				return err
			}
			return p.leave(t.Context())
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	d.complete(t, n)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range all {
		if at, came := d.arrivals[v.Slot]; !came || float64(at.UnixMilli()) < v.Due {
			t.Errorf("slot %d, due at %.0f, came at %v", v.Slot, v.Due, at)
		}
	}
	if len(d.arrivals) != n {
		t.Errorf("%d people enrolled and %d reports came", n, len(d.arrivals))
	}
}
