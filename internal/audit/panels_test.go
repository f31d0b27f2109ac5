package audit_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// panels and twice are the deployments in which frauds with panels are planted: the channel central, one epoch or two,
// with a control group. The analyzer's entries of epoch e are 4e-3 to 4e: announcement, draw, counts, learned; the
// shuffler's 2e-2 and 2e-1: pool and manifest.
const (
	panels = "panels"
	twice  = "twice"
)

func poolAt(epoch uint64, f func(*wire.Pool)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Pool = at(epoch, 0, func(p *wire.Pool) (uint64, uint32) { return p.Epoch, 0 }, f)
	}
}

func drawAt(epoch uint64, f func(*wire.Draw)) func(*ledger.Options) {
	return func(o *ledger.Options) {
		o.Tamper.Draw = at(epoch, 0, func(d *wire.Draw) (uint64, uint32) { return d.Epoch, 0 }, f)
	}
}

// repeated has the second epoch's statements give away what those of the first did.
func repeated(o *ledger.Options) {
	var committed, revealed []byte
	o.Tamper.Announcement = func(a *plan.Announcement) {
		switch a.Epoch {
		case 1:
			committed = a.Commitment
		case 2:
			a.Commitment = committed
		}
	}
	o.Tamper.Draw = func(d *wire.Draw) {
		switch d.Epoch {
		case 1:
			revealed = d.Contribution
		case 2:
			d.Contribution = revealed
		}
	}
}

// moved puts a copy of an entry of one deployment into the log of another, of which it says that it is.
func moved[T wire.Pool | wire.Draw](
	role bus.Role,
	from, to int,
	f func(*T),
) func(*ledger.Ledger, *audit.Options) error {
	return func(l *ledger.Ledger, _ *audit.Options) error {
		other, err := ledger.Make(configuration(panels))
		if err != nil {
			return err
		}
		s, err := ledger.Open[T](other, role, from)
		if err != nil {
			return err
		}
		f(s)
		return ledger.Append(l, role, to, other.Logs[role][from].Kind, s)
	}
}

// panelFrauds are frauds with panels, and with what the control group says.
var panelFrauds = []fraud{
	{
		name: "the shuffler fixes no pool", of: panels,
		after: one(func(l *ledger.Ledger) { drop(l, bus.Shuffler, 0, 1) }),
		want:  []audit.What{audit.PoolMissing}, entry: "analyzer/2 draw",
	},
	{
		name: "the analyzer contributes nothing", of: panels,
		after: one(func(l *ledger.Ledger) { drop(l, bus.Analyzer, 2, 1) }),
		want:  []audit.What{audit.DrawMissing}, entry: "shuffler/1 manifest",
	},
	{
		name: "nothing says who was drawn", of: panels,
		after: one(func(l *ledger.Ledger) {
			drop(l, bus.Analyzer, 2, 1)
			drop(l, bus.Shuffler, 0, 1)
		}),
		want: []audit.What{audit.PoolMissing, audit.DrawMissing}, entry: "shuffler/0 manifest",
	},
	{
		name: "the shuffler fixes a second pool", of: panels,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return again(l, bus.Shuffler, 0, func(p *wire.Pool) { p.Registered++ })
		},
		want: []audit.What{audit.SecondPool}, entry: "shuffler/1 pool",
	},
	{
		name: "a pool is fixed after its cohort was released", of: twice,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			l.Logs[bus.Shuffler] = append(l.Logs[bus.Shuffler], l.Logs[bus.Shuffler][0])
			return change(l, bus.Shuffler, end(l, bus.Shuffler)-1, func(p *wire.Pool) { p.Registered++ })
		},
		want: []audit.What{audit.SecondPool}, entry: "shuffler/4 pool",
	},
	{
		name: "an earlier epoch's pool is fixed again in a later one", of: twice,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			l.Logs[bus.Shuffler] = slices.Insert(l.Logs[bus.Shuffler], 2, l.Logs[bus.Shuffler][0])
			return change(l, bus.Shuffler, 2, func(p *wire.Pool) { p.Registered++ })
		},
		want: []audit.What{audit.SecondPool}, entry: "shuffler/2 pool",
	},
	{
		name: "a panel is drawn from too few", of: panels,
		plant: poolAt(1, func(p *wire.Pool) { p.Registered = 59 }),
		want:  []audit.What{audit.PoolTooSmall}, entry: "shuffler/0 pool",
	},
	{
		name: "a panel has more devices than were registered", of: panels,
		plant: poolAt(1, func(p *wire.Pool) { p.Registered = 9 }),
		want:  []audit.What{audit.PoolTooSmall, audit.CohortExceeded}, entry: "shuffler/0 pool",
	},
	{
		name: "the pool is exchanged afterwards", of: panels,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return change(l, bus.Shuffler, 0, func(p *wire.Pool) { p.Root = flip(p.Root) })
		},
		want: []audit.What{audit.PoolReplaced}, entry: "shuffler/0 pool",
	},
	{
		name: "the pool is of another announcement", of: panels,
		plant: poolAt(1, func(p *wire.Pool) { p.Announcement = flip(p.Announcement) }),
		want:  []audit.What{audit.WrongAnnouncement}, entry: "shuffler/0 pool",
	},
	{
		name: "the analyzer draws twice", of: panels,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			return again(l, bus.Analyzer, 2, func(d *wire.Draw) { d.Contribution = flip(d.Contribution) })
		},
		want: []audit.What{audit.SecondDraw}, entry: "analyzer/3 draw",
	},
	{
		name: "an earlier epoch is drawn again", of: twice,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			l.Logs[bus.Analyzer] = slices.Insert(l.Logs[bus.Analyzer], 6, l.Logs[bus.Analyzer][2])
			return change(l, bus.Analyzer, 6, func(d *wire.Draw) { d.Contribution = flip(d.Contribution) })
		},
		want: []audit.What{audit.SecondDraw}, entry: "analyzer/6 draw",
	},
	{
		name: "the analyzer reveals something else", of: panels,
		plant: drawAt(1, func(d *wire.Draw) { d.Contribution = flip(d.Contribution) }),
		want:  []audit.What{audit.CommitmentBroken}, entry: "analyzer/2 draw",
	},
	{
		name: "the draw is of another announcement", of: panels,
		plant: drawAt(1, func(d *wire.Draw) { d.Announcement = flip(d.Announcement) }),
		want:  []audit.What{audit.WrongAnnouncement}, entry: "analyzer/2 draw",
	},
	{
		name: "the analyzer commits to what is known", of: twice,
		plant: repeated,
		want:  []audit.What{audit.ContributionRepeated}, entry: "analyzer/5 announcement",
	},
	{
		name: "the shuffler contributes what is known", of: twice,
		plant: func(o *ledger.Options) {
			var first []byte
			o.Tamper.Pool = func(p *wire.Pool) {
				if p.Epoch == 1 {
					first = p.Contribution
				}
				p.Contribution = first
			}
		},
		want: []audit.What{audit.ContributionRepeated}, entry: "shuffler/2 pool",
	},
	{
		name: "the draw comes after the counts", of: panels,
		after: one(func(l *ledger.Ledger) {
			log := l.Logs[bus.Analyzer]
			log[2], log[3] = log[3], log[2]
		}),
		want: []audit.What{audit.DrawMissing, audit.OutOfOrder}, entry: "shuffler/1 manifest",
	},
	{
		name: "a draw of an epoch that is not announced", of: twice,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			l.Logs[bus.Analyzer] = slices.Insert(l.Logs[bus.Analyzer], 5, l.Logs[bus.Analyzer][6])
			drop(l, bus.Analyzer, 7, 1)
			return nil
		},
		want: []audit.What{audit.DrawMissing, audit.OutOfOrder}, entry: "analyzer/5 draw",
	},
	{
		name: "a pool of an epoch that is not announced", of: twice,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			l.Logs[bus.Shuffler] = append(l.Logs[bus.Shuffler], l.Logs[bus.Shuffler][0])
			return change(l, bus.Shuffler, end(l, bus.Shuffler)-1, func(p *wire.Pool) { p.Epoch = 9 })
		},
		want: []audit.What{audit.OutOfOrder}, entry: "shuffler/4 pool",
	},
	{
		name: "a pool where no panel is drawn", of: joint,
		after: moved(bus.Shuffler, 0, 0, func(*wire.Pool) {}),
		want:  []audit.What{audit.OutOfOrder}, entry: "shuffler/0 pool",
	},
	{
		name: "a draw where no panel is drawn", of: joint,
		after: moved(bus.Analyzer, 2, 2, func(*wire.Draw) {}),
		want:  []audit.What{audit.OutOfOrder}, entry: "analyzer/2 draw",
	},
	{
		name: "a person reports in more epochs", of: panels,
		plant: announcementAt(1, 0, func(a *plan.Announcement) { a.Plan.Records = 3 }),
		want:  []audit.What{audit.PlanChanged, audit.WeakPlan}, entry: "analyzer/1 announcement",
	},
	{
		name: "the lift is made larger", of: panels,
		plant: learnedAt(1, 0, func(v *wire.Learned) { v.Lift.Low, v.Lift.High = 1, 2 }),
		want:  []audit.What{audit.LiftWrong}, entry: "analyzer/4 learned",
	},
	{
		name: "the lift of all epochs is made larger", of: panels,
		plant: learnedAt(1, 0, func(v *wire.Learned) { v.Total.Lift++ }),
		want:  []audit.What{audit.LiftWrong}, entry: "analyzer/4 learned",
	},
	{
		name: "the lift is left out", of: panels,
		plant: learnedAt(1, 0, func(v *wire.Learned) { v.Lift = nil }),
		want:  []audit.What{audit.LiftWrong}, entry: "analyzer/4 learned",
	},
	{
		name: "a change of the world is hidden", of: panels,
		plant: learnedAt(1, 0, func(v *wire.Learned) { v.Unchanged = 0.987 }),
		want:  []audit.What{audit.ChangeWrong}, entry: "analyzer/4 learned",
	},
	{
		name: "a policy is said to be taken back", of: panels,
		plant: learnedAt(1, 0, func(v *wire.Learned) { v.Action = wire.ActionStop }),
		want:  []audit.What{audit.ActionWrong}, entry: "analyzer/4 learned",
	},
}

// Honest panels have no breach, with RIFFLE_LONG=1 in any channel, while they run and after their end, with a destroyed
// cohort, which is told.
func TestHonestPanelsPass(t *testing.T) {
	channels := []plan.Channel{plan.Shuffle, plan.Central}
	if os.Getenv("RIFFLE_LONG") != "" {
		channels = plan.Channels()
	}
	for _, channel := range channels {
		o := ledger.Options{Configuration: ledger.Living(channel, 4), Seed: 11}
		o.Destroyed = func(epoch uint64, _ uint32) bool { return epoch == 2 }
		l := made(t, o)
		var rows []audit.Row
		r := check(t, l, audit.Options{Row: func(r audit.Row) { rows = append(rows, r) }})
		if !r.OK || r.PoliciesRecomputed != len(rows) || len(rows) != r.Releases+r.Destroyed || r.Destroyed != 1 {
			t.Errorf("%s: %d of %d%s", channel, r.PoliciesRecomputed, len(rows), list(r))
			continue
		}
		q := r.Panel
		if q == nil || q.Registered != 60 || q.Records != 2 || q.Decisions != 3 || q.Drawn != len(rows) ||
			q.Undone != 1 {
			t.Errorf("%s: %+v", channel, q)
		}
		if notes := strings.Join(r.Notes, " "); !strings.Contains(notes, "Of 1 of 4 panels") ||
			!strings.Contains(notes, "is in no log") {
			t.Errorf("%s: %q", channel, r.Notes)
		}
		// After one release one epoch is spent, from the second on two: a device is in two at most.
		first, last := rows[0], rows[len(rows)-1]
		if !(first.SoFar > 0 && first.SoFar <= first.Epsilon && last.SoFar > first.SoFar && last.SoFar <= r.Epsilon) ||
			rows[1].SoFar != first.SoFar || !(r.Epsilon <= 4) || r.EpsilonSoFar != last.SoFar {
			t.Errorf(
				"%s: so far %v, %v and %v of %v, an epoch %v",
				channel,
				first.SoFar,
				rows[1].SoFar,
				last.SoFar,
				r.Epsilon,
				first.Epsilon,
			)
		}
		if first.Lift == nil || last.Total == nil || rows[1].Lift != nil || first.Registered != 61 ||
			last.Total.Reports <= first.Lift.Reports || *r.Lift != *last.Total {
			t.Errorf("%s: %+v, %+v", channel, first.Lift, last.Total)
		}
	}
}

// While a panel is drawn, a log can end after any of the statements.
func TestADrawUnderWayIsNoBreach(t *testing.T) {
	whole := made(t, configuration(panels))
	for _, x := range []struct{ analyzer, shuffler int }{{2, 0}, {2, 1}, {3, 1}, {3, 2}, {4, 2}} {
		l := *whole
		l.Logs = map[bus.Role][]audit.Entry{
			bus.Analyzer: whole.Logs[bus.Analyzer][:x.analyzer], bus.Shuffler: whole.Logs[bus.Shuffler][:x.shuffler]}
		l.Checkpoints = map[bus.Role][]byte{}
		if err := l.Seal(); err != nil {
			t.Fatal(err)
		}
		if r := check(t, &l, audit.Options{}); !r.OK || !r.Running {
			t.Errorf("%d entries of the analyzer and %d of the shuffler: %s", x.analyzer, x.shuffler, list(r))
		}
	}
}
