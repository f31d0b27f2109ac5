package demo

import (
	"context"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Elimination with layered regression runs end to end through the real processes: every report is counted, the audit
// (in run) recomputes every tree, and with an epsilon of 40 devices are asked about the second layer of a tree. Six
// questions of 64 and 128 people leave 24 of the 600, who are too few for another epoch, to the last cohort. In shares
// the analyzer is killed in three epochs, and replays its log.
func TestRegCBRunsEndToEnd(t *testing.T) {
	for _, channel := range []plan.Channel{plan.Local, plan.Shares} {
		t.Run(string(channel), func(t *testing.T) {
			slow(t)
			r, dir := run(t, Options{Population: linear(t, 600, 7), Hosts: 2, Profile: string(glm.RegCB),
				Trust: channel, Epsilon: 40, Delta: 1e-6, Disturb: func(c *cluster.Cluster, epoch uint64) error {
					if channel != plan.Shares || epoch > 3 {
						return nil
					}
					return restarted(c, cluster.Analyzer)
				}})
			if r.Users != 600 || r.Reports != 600 || r.Lost != 0 || r.Epochs != 6 ||
				!(r.Epsilon > 0 && r.Epsilon <= 40) {
				t.Errorf("%d reports of %d people in %d epochs, %d rounds lost, epsilon %v", r.Reports, r.Users,
					r.Epochs, r.Lost, r.Epsilon)
			}
			asked, trees := announcedTrees(t, filepath.Join(filepath.Dir(dir), "export"))
			if asked < 2 || trees < 1 {
				t.Errorf("%d rounds ask about a second layer, and a policy has %d trees", asked, trees)
			}
		})
	}
}

// announcedTrees is how many rounds asked about bins below others, and the most trees that a policy had.
func announcedTrees(t *testing.T, folder string) (asked, trees int) {
	t.Helper()
	export, err := audit.OpenFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	err = export.Certificates(context.Background(), func(_ string, b []byte) error {
		f, err := certificate.Decode(b)
		if err != nil {
			return err
		}
		for _, s := range f.Analyzer.Statements {
			if s.Kind != "announcement" {
				continue
			}
			var signed rifflev1.Signed
			var a rifflev1.Announcement
			if err := proto.Unmarshal(s.Signed, &signed); err != nil {
				return err
			}
			if err := proto.Unmarshal(signed.Body, &a); err != nil {
				return err
			}
			if len(a.GetTree().GetParents()) > 0 {
				asked++
			}
			trees = max(trees, len(a.GetPolicy().GetTrees()))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return asked, trees
}
