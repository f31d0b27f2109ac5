package composetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// run runs one case. It reports whether the deployment is stuck.
func (x *faulty) run(c *faultCase) (stuck bool) {
	ctx, cancel := context.WithTimeout(x.ctx, 4*faultPatience)
	defer cancel()
	defer func() {
		if why := recover(); why != nil {
			c.Violations = append(c.Violations, fmt.Sprint(why))
			stuck = true
		}
	}()
	before := x.restarts()["nats"]
	defer func() {
		if n := x.restarts()["nats"] - before; n > 0 {
			c.note("Docker started the broker anew %d times, which its health check had ended", n)
		}
	}()
	x.watch = x.stack.watch()
	defer x.watch.stop()
	x.cases++
	x.c = c
	x.crowd.name = fmt.Sprintf("case%d", x.cases)
	now, err := x.next(x.epoch)
	if err != nil {
		c.violation("no epoch to begin with: %v; %s", err, tell(x.watch.lately(x.roles())))
		return true
	}
	x.epoch = now.Epoch
	x.older = nil
	for _, f := range []fault{c.first, c.then} {
		if f.prepare != nil {
			f.prepare(x, f.target(c.At))
		}
	}
	stop := c.At.stop
	stop.Link, stop.ID = c.At.role, fmt.Sprintf("%d", x.cases)
	x.tap.arm(stop)
	filled := make(chan error, 1)
	fillCtx, enough := context.WithTimeout(ctx, faultPatience)
	defer enough()
	clear(x.crowd.missed)
	go func() {
		filled <- x.crowd.fill(fillCtx, status{Epoch: x.epoch, Cohort: faultCohort}, nil)
	}()
	if err := x.tap.wait(ctx, stop.ID, faultPatience); err != nil {
		c.violation("the step was not met: %v; %s", err, tell(x.watch.lately(x.roles())))
		x.tap.release(stop.ID, false, false)
	} else {
		x.strike(c, stop.ID)
	}
	if err := <-filled; err != nil {
		c.note("people came until the cohort's time was over: %v", err)
	}
	return x.conclude(c)
}

// strike does to the deployment what the case says. The message at which the link stopped waits meanwhile.
func (x *faulty) strike(c *faultCase, id string) {
	from := time.Now()
	drop := c.first.drop || c.then.drop
	c.first.begin(x, c.first.target(c.At))
	if c.then.begin != nil {
		c.then.begin(x, c.then.target(c.At))
	}
	x.tap.release(id, drop, c.first.twice || c.then.twice)
	time.Sleep(max(c.first.lasts, c.then.lasts))
	x.mustSay(c, from)
	for role, why := range x.watch.since(from) {
		c.Said = append(c.Said, role+": "+why)
	}
	slices.Sort(c.Said)
	c.first.end(x, c.first.target(c.At))
	if c.then.end != nil {
		c.then.end(x, c.then.target(c.At))
	}
}

// mustSay waits until all that are cut off from the broker have said so since the fault began, a little longer than it
// lasts if need be, and shorter than a cohort's grace.
func (x *faulty) mustSay(c *faultCase, from time.Time) {
	until := time.Now().Add(saysWithin - lasts)
	for len(x.unsaid(c, from)) > 0 && time.Now().Before(until) {
		time.Sleep(watchEvery)
	}
	for _, role := range x.unsaid(c, from) {
		c.violation("%s is cut off from the broker, and said for %.0f s that it is ready", role,
			time.Since(from).Seconds())
	}
}

// unsaid lists the roles that are cut off from the broker and have not said since then that they are not ready.
func (x *faulty) unsaid(c *faultCase, from time.Time) (silent []string) {
	said := x.watch.since(from)
	for _, role := range slices.Sorted(slices.Values(x.roles())) {
		deaf := false
		for _, f := range []fault{c.first, c.then} {
			target := f.target(c.At)
			deaf = deaf || f.deaf && (target == role || target == "nats")
		}
		if _, ok := said[role]; deaf && !ok {
			silent = append(silent, role)
		}
	}
	return silent
}

// conclude waits for what comes of the epoch, and judges it.
func (x *faulty) conclude(c *faultCase) (stuck bool) {
	from := time.Now()
	err := x.over(c)
	if err != nil && len(x.newer) > 0 { // an operator reads what the roles say, and brings the newer copy back
		why := x.watch.lately(x.roles())
		if len(why) == 0 {
			c.violation("an older state stops the deployment, and every role says that it is ready: %v", err)
		} else if x.newer["shuffler"] != "" && !strings.Contains(tell(why), restoreNewest) {
			c.violation("an older state of the shuffler stops the deployment, and no role says %q: %s", restoreNewest,
				tell(why))
		}
		c.Outcome = "stopped and said so; went on with the newer state"
		for _, w := range why {
			c.Said = append(c.Said, w.who+": "+first(w.why))
		}
		x.bringNewer()
		err = x.over(c)
	}
	x.newer = nil
	if err != nil {
		why := x.watch.lately(x.roles())
		c.note("stuck for %.0f s: %v", time.Since(from).Seconds(), err)
		if len(why) == 0 {
			c.violation("stuck, and every role says that it is ready: %v", err)
		} else {
			for _, w := range why {
				c.Said = append(c.Said, w.who+": "+first(w.why))
			}
			c.Outcome = "stops and says why"
			if !c.mayStop() {
				c.violation("stuck: %v; %s", err, tell(why))
			}
		}
		x.judge(c)
		return true
	}
	x.judge(c)
	x.again(c)
	if !c.forgets() && !c.first.mayEnd {
		if err := x.steady(faultPatience); err != nil {
			c.violation("the fault is over, the next epoch has begun, and there are roles that are not ready: %v", err)
		}
	}
	return false
}

func (c *faultCase) violation(format string, v ...any) {
	c.Violations = append(c.Violations, fmt.Sprintf(format, v...))
}
func (c *faultCase) note(format string, v ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, v...))
}

// first is the first line of what a role says.
func first(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return text
}
