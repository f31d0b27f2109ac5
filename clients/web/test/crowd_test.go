package web

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// visit is one person's: what the page did, and what the ingress saw of it.
type visit struct {
	Slot    uint32
	Due     float64 // of the report, in milliseconds since 1970
	Sampled bool
	Detail  string
	Opened  float64 // milliseconds from navigation to an open device
	Decided float64 // and to a decision
	stays   bool    // until the reward, which is 1; who leaves has 0
}

// decides opens a device, decides, and reads from the browser's store which place the device has.
const decides = `globalThis.riffle = await Riffle.open(options);
const opened = performance.now();
let asked = false;
for (let i = 0; i < 20; i++) { // the shuffler may not be in the epoch yet
	globalThis.decision = await riffle.decide(() => (asked = true, { arms: [[1, 0], [0, 1]] }));
	if (decision.sampled || decision.reason !== "refused") break;
}
const decided = performance.now();
const db = await new Promise((done) => {
	const r = indexedDB.open("riffle/clinic/");
	r.onsuccess = () => done(r.result);
});
const state = await new Promise((done) => {
	const r = db.transaction("device").objectStore("device").get("state");
	r.onsuccess = () => done(JSON.parse(new TextDecoder().decode(r.result)));
});
db.close();
const place = state.state.enrolment ?? {};
return {
	slot: place.slot ?? 0, due: Date.parse(place.report_at), sampled: decision.sampled, detail: decision.detail ?? "",
	opened, decided,
}`

// Everybody who enrols is counted once, at the time that was fixed when they enrolled, though two in five close the
// page before the reward, and do so because of it. RIFFLE_CONTEXTS says how many people come, each with a browser
// context of their own.
func TestWhoClosesThePageStaysInTheCohort(t *testing.T) {
	n := 20
	if text := os.Getenv("RIFFLE_CONTEXTS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	d := startDeployment(t, people{cohort: n, window: 40 * time.Second, mailbox: true})
	all := d.crowd(t, n)
	d.complete(t, n)
	d.mu.Lock()
	defer d.mu.Unlock()
	var late []float64
	for _, v := range all {
		at, came := d.arrivals[v.Slot]
		if !came || float64(at.UnixMilli()) < v.Due {
			t.Errorf("slot %d, due at %.0f, came at %v", v.Slot, v.Due, at)
		}
		late = append(late, float64(at.UnixMilli())-v.Due)
	}
	if len(d.arrivals) != n {
		t.Errorf("%d people enrolled and %d reports came", n, len(d.arrivals))
	}
	presence, times := tells(all, d.arrivals)
	t.Logf("%d people: presence p = %.2g, times z = %.2f, reports %.0f ms after their time at the median, %.0f at most",
		n, presence, times, median(late), slices.Max(late))
	if presence < limitP || math.Abs(times) > limitZ {
		t.Errorf("presence tells the reward with p = %g, times with z = %g", presence, times)
	}
	var opened, decided []float64
	for _, v := range all {
		opened, decided = append(opened, v.Opened), append(decided, v.Decided)
	}
	t.Logf("cold pages, %d at a time: device open after %.0f ms, decision after %.0f ms at the median", atATime,
		median(opened), median(decided))
}

// Without the mailbox the same test finds who stayed: whose page was closed has no report.
func TestWithoutAMailboxPresenceTells(t *testing.T) {
	const n = 20
	d := startDeployment(t, people{cohort: n, window: 40 * time.Second})
	all := d.crowd(t, n)
	stayed := 0
	for _, v := range all {
		if v.stays {
			stayed++
		}
	}
	d.arrive(t, stayed)
	d.mu.Lock()
	defer d.mu.Unlock()
	if presence, _ := tells(all, d.arrivals); presence >= limitP {
		t.Errorf("presence tells nothing without a mailbox: p = %g", presence)
	}
}

// The tests' limits. p is exact: with a mailbox all reports come and it is 1, without one of 20 people, of whom 8
// leave, it is 1 in 125970. z is about normal: a false alarm in 1.7 million runs.
const (
	limitP = 1e-3
	limitZ = 5
)

// tells holds presence and times of reports against who stayed: the exact probability that as many of those who stayed
// have a report if it did not matter, or more (Fisher), and the rank sum of how late their reports came, in standard
// deviations.
func tells(all []visit, arrivals map[uint32]time.Time) (p, z float64) {
	type came struct {
		late  float64
		stays bool
	}
	var reports []came
	stay, both := 0, 0
	for _, v := range all {
		at, ok := arrivals[v.Slot]
		if v.stays {
			stay++
		}
		if ok {
			reports = append(reports, came{float64(at.UnixMilli()) - v.Due, v.stays})
			if v.stays {
				both++
			}
		}
	}
	choose := func(n, k int) float64 {
		if k < 0 || k > n {
			return math.Inf(-1)
		}
		a, _ := math.Lgamma(float64(n + 1))
		b, _ := math.Lgamma(float64(k + 1))
		c, _ := math.Lgamma(float64(n - k + 1))
		return a - b - c
	}
	n, r := len(all), len(reports)
	for k := both; k <= min(stay, r); k++ {
		p += math.Exp(choose(stay, k) + choose(n-stay, r-k) - choose(n, r))
	}
	slices.SortFunc(reports, func(a, b came) int { return int(math.Copysign(1, a.late-b.late)) })
	sum, m := 0., float64(both)
	for rank, v := range reports {
		if v.stays {
			sum += float64(rank + 1)
		}
	}
	other := float64(r) - m
	if m > 0 && other > 0 {
		z = (sum - m*(m+other+1)/2) / math.Sqrt(m*other*(m+other+1)/12)
	}
	return p, z
}

// atATime is how many people are at their pages at the same time.
const atATime = 4

// crowd has people come, each with a browser context of their own, two in five of whom close it before the reward.
func (d *deployment) crowd(t *testing.T, n int) []visit {
	t.Helper()
	c := openChromium(t)
	stays := make([]bool, n)
	for i := range stays {
		stays[i] = i >= n*2/5
	}
	r := rand.New(rand.NewPCG(28, 5))
	r.Shuffle(n, func(i, j int) { stays[i], stays[j] = stays[j], stays[i] })
	all := make([]visit, n)
	var g errgroup.Group
	g.SetLimit(atATime)
	for i := range n {
		g.Go(func() error {
			w, err := c.window()
			if err != nil {
				return err
			}
			name := fmt.Sprintf("p%d", i)
			p := d.make(name)
			if _, err := w.open(p.address(d.app, name, "")); err != nil {
				return err
			}
			if err := p.visits(t.Context(), &all[i], stays[i]); err != nil {
				return err
			}
			if d.boxed || !stays[i] {
				return w.close()
			}
			return nil // the page stays open until it has sent its report
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return all
}

// visits decides at a page, and tells the reward where the person stays for it.
func (p *page) visits(ctx context.Context, v *visit, stays bool) error {
	if err := p.ask(ctx, decides, v); err != nil {
		return err
	}
	if v.stays = stays; !v.Sampled {
		return fmt.Errorf("page %s is not sampled: %s", p.id, v.Detail)
	}
	if !stays {
		return nil
	}
	var taken struct{ Accepted bool }
	err := p.ask(ctx, `return riffle.reward(decision, 1)`, &taken)
	if err == nil && !taken.Accepted {
		err = fmt.Errorf("page %s: the reward is not taken", p.id)
	}
	return err
}

// arrive waits until so many reports came.
func (d *deployment) arrive(t *testing.T, n int) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		d.mu.Lock()
		came := len(d.arrivals)
		d.mu.Unlock()
		if came >= n {
			return
		}
		if time.Since(begin) > longest {
			t.Fatalf("%d reports came of %d", came, n)
		}
	}
}

// complete waits until the reports of all have been counted: the analyzer announces the next epoch then.
func (d *deployment) complete(t *testing.T, n int) {
	t.Helper()
	d.arrive(t, n)
	for begin := time.Now(); !d.announced(t, 2); time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > longest {
			t.Fatalf("the cohort was not counted:\n%s", d.cluster.LastWords("shuffler"))
		}
	}
}

func median(of []float64) float64 {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}
