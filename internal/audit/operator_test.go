package audit_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// firstDestroyed has the first cohort destroyed.
func firstDestroyed(o *ledger.Options) {
	o.Destroyed = func(epoch uint64, round uint32) bool { return epoch == 1 && round == 0 }
}

// exchanged enters the sets that both servers sign of the first round: the analyzer's of so many reports, and the
// shuffler's of its reports and digest.
func exchanged(l *ledger.Ledger, accepted, summed uint32, digest byte) error {
	_, announcement, err := wire.Open[plan.Announcement](l.Logs[bus.Analyzer][1].Signed, l.Bundle.AnalyzerParty())
	if err != nil {
		return err
	}
	set := bytes.Repeat([]byte{1}, 32)
	if err := ledger.Append(l, bus.Analyzer, 2, wire.AcceptedKind(1, 0), &wire.Accepted{
		Deployment: l.Bundle.Deployment, Epoch: 1, Announcement: announcement[:], Reports: accepted, Set: set,
	}); err != nil {
		return err
	}
	return ledger.Append(l, bus.Shuffler, 0, wire.SummedKind(1, 0), &wire.Summed{
		Deployment: l.Bundle.Deployment, Epoch: 1, Announcement: announcement[:], Reports: summed,
		Set: bytes.Repeat([]byte{digest}, 32), Share: set,
	})
}

// operatorFrauds are frauds of an operator who signs whatever he likes with a role's own key.
var operatorFrauds = []fraud{
	{
		name: "a release too few is counted", of: two,
		plant: countsAt(1, 0, func(c *wire.Counts) { c.Releases = c.Releases[:1] }),
		want:  []audit.What{audit.CountsShape}, entry: "analyzer/2 counts",
	},
	{
		name: "the sums of a few people leave a cohort that is said to be destroyed", of: shares,
		plant: firstDestroyed,
		after: func(l *ledger.Ledger, _ *audit.Options) error { return exchanged(l, 2, 2, 1) },
		want:  []audit.What{audit.BelowMinimum, audit.PromiseExceeded}, entry: "shuffler/0 summed-1-0",
	},
	{
		name: "another set's sums leave a cohort that is said to be destroyed", of: shares,
		plant: firstDestroyed,
		after: func(l *ledger.Ledger, _ *audit.Options) error { return exchanged(l, 11, 11, 2) },
		want:  []audit.What{audit.SetsDiffer}, entry: "shuffler/1 manifest",
	},
	{
		name: "sums leave a cohort that is said to be destroyed, of a set that the analyzer did not sign", of: shares,
		plant: firstDestroyed,
		after: func(l *ledger.Ledger, _ *audit.Options) error {
			err := exchanged(l, 11, 11, 1)
			drop(l, bus.Analyzer, 2, 1)
			return err
		},
		want: []audit.What{audit.SetMissing}, entry: "shuffler/1 manifest",
	},
	{
		name: "shares are signed for in a channel without any", of: sums,
		plant: firstDestroyed,
		after: func(l *ledger.Ledger, _ *audit.Options) error { return exchanged(l, 11, 11, 1) },
		want:  []audit.What{audit.OutOfOrder}, entry: "analyzer/2 accepted-1-0",
	},
}

// folder exports logs, and opens the export.
func folder(t *testing.T, l *ledger.Ledger) (*audit.Folder, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "export")
	if _, err := audit.WriteFolder(context.Background(), dir, l, l.Bundle); err != nil {
		t.Fatal(err)
	}
	d, err := audit.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d, dir
}

// An export may be made between a manifest and the counts: what is retained of the round is covered, and checked.
func TestWhatIsRetainedOfTheRoundUnderWayIsChecked(t *testing.T) {
	honest := made(t, configuration(bits))
	swapped := made(t, planted(configuration(bits), func(o *ledger.Options) {
		o.Tamper.Messages = func(_ uint64, _ uint32, m [][]byte) [][]byte { m[5] = flip(m[5]); return m }
	}))
	for name, x := range map[string]struct {
		l    *ledger.Ledger
		want []audit.What
	}{"honest": {honest, nil}, "swapped": {swapped, []audit.What{audit.MessageSwapped}}} {
		counts := x.l.Find(bus.Analyzer, wire.KindCounts, 0)
		x.l.Logs[bus.Analyzer], x.l.Logs[bus.Shuffler] = x.l.Logs[bus.Analyzer][:counts], x.l.Logs[bus.Shuffler][:1]
		if err := x.l.Seal(); err != nil {
			t.Fatal(err)
		}
		d, _ := folder(t, x.l)
		r, err := audit.Check(context.Background(), d, audit.Options{Trust: x.l.Bundle,
			Auditor: []*seal.HPKEKey{x.l.Auditor}, AnalyzerKeys: x.l.HPKE})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(whats(r), x.want) || r.OK && r.Opened != 1 {
			t.Errorf("%s: %d opened%s", name, r.Opened, list(r))
		}
	}
}

// A view that shows nothing of what the roles signed is refused: logs are not called clean because of it.
func TestViewsThatShowNothingAreRefused(t *testing.T) {
	l, other := made(t, configuration(joint)), made(t, configuration(joint))
	if err := ledger.Append(other, bus.Shuffler, 3, wire.KindManifest, &wire.Manifest{
		Deployment: l.Bundle.Deployment, Epoch: 9, Announcement: make([]byte, 32), Outcome: wire.Destroyed, Enrolled: 1,
	}); err != nil {
		t.Fatal(err)
	}
	if err := other.Seal(); err != nil {
		t.Fatal(err)
	}
	longer := *l // than its checkpoint, and beginning with what is audited
	longer.Logs = map[bus.Role][]audit.Entry{bus.Analyzer: l.Logs[bus.Analyzer],
		bus.Shuffler: slices.Concat(l.Logs[bus.Shuffler], other.Logs[bus.Shuffler])}
	for want, v := range map[string]audit.View{
		"theirs: its log of the shuffler is not": {Source: &longer, Checkpoints: other.Checkpoints},
		"no checkpoint of the analyzer's log":    {Source: l},
		"no checkpoint of the shuffler's log": {Source: l,
			Checkpoints: map[bus.Role][]byte{bus.Analyzer: l.Checkpoints[bus.Analyzer]}},
		"not the one that its checkpoint is of": {Source: l, Checkpoints: other.Checkpoints},
	} {
		v.Name = "theirs"
		r, err := audit.Check(context.Background(), l, audit.Options{Trust: l.Bundle, Views: []audit.View{v}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q: %+v", err, want, r)
		}
	}
}

// The name of a file in an export cannot move the cursor of who reads the report, or look like another line of it.
func TestNamesOfFilesStayInTheirLine(t *testing.T) {
	l := made(t, configuration(joint))
	d, dir := folder(t, l)
	if err := os.WriteFile(filepath.Join(dir, "x\x1b[2J\nNo breach\t"), nil, 0o644); err != nil {
		t.Skip(err)
	}
	r, err := audit.Check(context.Background(), d, audit.Options{Trust: l.Bundle})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	if s := text.String(); r.OK || strings.ContainsAny(s, "\x1b\t") || strings.Contains(s, "\nNo breach") {
		t.Errorf("%q", s)
	}
}
