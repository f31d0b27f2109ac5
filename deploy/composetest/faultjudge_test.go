package composetest

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// found is what the log says of an epoch.
type found struct {
	manifests, counts [][]byte
	m                 *wire.Manifest
	c                 *wire.Counts
}

func (x *faulty) found(epoch uint64) (f found, err error) {
	ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
	defer cancel()
	err = x.auditor.Audit.ReadAudit(ctx, bus.AuditFilter{}, func(st bus.Statement) error {
		switch {
		case st.Role == bus.Shuffler && st.Kind == wire.KindManifest:
			m, _, err := wire.Open[wire.Manifest](st.Payload, x.bundle.ShufflerParty())
			if err != nil || m.Epoch != epoch {
				return err
			}
			f.m, f.manifests = m, append(f.manifests, st.Payload)
		case st.Role == bus.Analyzer && st.Kind == wire.KindCounts:
			c, _, err := wire.Open[wire.Counts](st.Payload, x.bundle.AnalyzerParty())
			if err != nil || c.Epoch != epoch {
				return err
			}
			f.c, f.counts = c, append(f.counts, st.Payload)
		}
		return nil
	})
	return f, err
}

// over waits until the epoch is counted, or destroyed, and the next one is announced. After a loss that roles may
// refuse to go on with, it ends when one has said for a while that it does not.
func (x *faulty) over(c *faultCase) error {
	refused := time.Time{} // since when
	for until := time.Now().Add(faultPatience); ; time.Sleep(200 * time.Millisecond) {
		f, err := x.found(x.epoch)
		if err == nil && f.m != nil && f.c != nil {
			ctx, cancel := context.WithTimeout(x.ctx, time.Second)
			_, err = x.crowd.next(ctx, x.epoch)
			cancel()
			if err == nil {
				return nil
			}
		}
		if len(x.watch.lately(x.roles())) == 0 {
			refused = time.Time{}
		} else if refused.IsZero() {
			refused = time.Now()
		}
		loss := len(x.newer) > 0 || c.first.mayEnd
		if time.Now().After(until) || loss && !refused.IsZero() && time.Since(refused) > refuses {
			return fmt.Errorf("epoch %d: manifest %v, counts %v, %v", x.epoch, f.m != nil, f.c != nil, err)
		}
	}
}

// judge says what came of the epoch, and holds it against what the devices sent.
func (x *faulty) judge(c *faultCase) {
	kept, err := x.tap.kept(x.record.read)
	if err != nil {
		c.violation("the tap: %v", err)
		return
	}
	if err := x.record.take(kept); err != nil {
		c.violation("%v", err)
	}
	f, err := x.found(x.epoch)
	if err != nil {
		c.violation("the log: %v", err)
		return
	}
	for what, all := range map[string][][]byte{"manifests": f.manifests, "counts": f.counts} {
		for _, b := range all {
			if !bytes.Equal(b, all[0]) {
				c.violation("two different %s of epoch %d", what, x.epoch)
			}
		}
	}
	if f.m == nil || f.c == nil {
		return
	}
	c.ends(f, x.crowd.reporters(x.epoch))
	if f.m.Outcome == wire.Destroyed {
		return
	}
	a, digest, err := x.announcement(x.epoch)
	if err == nil && !f.c.Destroyed {
		err = x.record.blind(f.m, f.c, a, digest, false)
	}
	if err == nil {
		err = x.record.checkRelease(f.m, f.c, a, digest)
	}
	if err == nil && !f.c.Destroyed {
		err = x.record.blind(f.m, f.c, a, digest, true)
	}
	if err != nil {
		c.violation("%v", err)
	}
	if f.c.Reports != f.m.Reports && !f.c.Destroyed {
		c.violation("%d reports are counted, the manifest says %d", f.c.Reports, f.m.Reports)
	}
}

// returning is how many of an epoch's people come again in the next one.
const returning = 6

// again has people of the case's epoch come again in the next one. Each of them has one record for life, so none may be
// sampled a second time.
func (x *faulty) again(c *faultCase) {
	ctx, cancel := context.WithTimeout(x.ctx, faultPatience)
	defer cancel()
	people := x.crowd.who(x.epoch)
	if len(people) < returning {
		c.violation("%d people were told that they are sampled", len(people))
	}
	said := map[string]int{}
	for _, url := range people[:min(returning, len(people))] {
		d, err := x.crowd.decide(ctx, url, 0)
		switch {
		case err != nil:
			said["error"]++
		case d.Sampled:
			c.violation("%s was sampled in epoch %d and is sampled again in epoch %d", path.Base(path.Dir(url)),
				x.epoch, d.Epoch)
		case d.Epoch <= x.epoch:
			said["earlier epoch"]++
		default:
			said[d.Reason]++
		}
	}
	if said["record_used"] < returning && !c.forgets() {
		c.violation("of %d people who came a second time not all were told that their record is used: %v", returning,
			said)
	}
	c.note("a second time: %v", said)
}

// ends says what both servers made of the epoch, in which so many people were told that they are sampled. No fault but
// those that take something away for good may cost a report: they are over before the cohort's time is.
func (c *faultCase) ends(f found, sampled int) {
	c.Enrolled, c.Reports = int(f.m.Enrolled), int(f.m.Reports)
	missing := c.Enrolled - c.Reports
	outcome := ""
	switch {
	case f.m.Outcome == wire.Destroyed:
		outcome = fmt.Sprintf("destroyed: %d of %d reports came", c.Reports, c.Enrolled)
		if !f.c.Destroyed {
			c.violation("the epoch was destroyed, and the analyzer counts it")
		}
		if !c.mayLack() {
			c.violation("the epoch was destroyed, with %d of %d reports", c.Reports, c.Enrolled)
		}
	case f.c.Destroyed:
		outcome = "not counted"
		c.violation("the epoch was released, and the analyzer does not count it")
	case missing > 0:
		outcome = "released without some reports"
		c.note("%d of %d reports are missing", missing, c.Enrolled)
		if !c.mayLack() {
			c.violation("%d of %d reports are missing", missing, c.Enrolled)
		}
	default:
		outcome = "all reports counted"
	}
	if c.first.late && missing == 0 {
		c.violation("no report came late, so nothing was tried")
	}
	if sampled > c.Enrolled {
		c.violation("%d people were told that they are sampled, and %d are enrolled", sampled, c.Enrolled)
	}
	if c.Outcome == "" {
		c.Outcome = outcome
	} else {
		c.Outcome += "; " + outcome
	}
}

func (x *faulty) announcement(epoch uint64) (*plan.Announcement, [32]byte, error) {
	ctx, cancel := context.WithTimeout(x.ctx, 5*time.Second)
	defer cancel()
	all, err := x.auditor.Announcements.ReadAnnouncementsAt(ctx, epoch, 0)
	if err != nil {
		return nil, [32]byte{}, err
	}
	for _, one := range all {
		if a, digest, err := wire.Open[plan.Announcement](one.Payload, x.bundle.AnalyzerParty()); err == nil {
			return a, digest, nil
		}
	}
	return nil, [32]byte{}, fmt.Errorf("epoch %d is not announced", epoch)
}

// runAudit holds both logs of the deployment against each other, as riffle audit does: all that was learnt is computed
// again.
func (x *faulty) mustAudit(t *testing.T) {
	if err := x.runAudit(); err != nil {
		t.Error(err)
	}
}

func (x *faulty) runAudit() error {
	ctx, cancel := context.WithTimeout(x.ctx, stuck)
	defer cancel()
	live, err := audit.NewLive(ctx, audit.Over(x.auditor.Streams), x.bundle)
	if err != nil {
		return err
	}
	report, err := audit.Check(ctx, live, audit.Options{Trust: x.bundle})
	if err != nil {
		return err
	}
	if !report.OK {
		return fmt.Errorf("the audit finds %v", report.Breaches)
	}
	return nil
}
