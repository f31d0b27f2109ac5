package bench

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/load"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// runDevices takes cohorts through whole deployments, each channel at every size.
func runDevices(ctx context.Context, o Options, r *Result) error {
	for _, c := range o.Channels {
		for i, dim := range o.Dimensions {
			for j, users := range o.Users {
				if i > 0 && j > 0 {
					continue // the cost of a person hardly depends on the cohort
				}
				o.Progress.Note("%s, %d people, dimension %d", c, users, dim)
				if err := runDeployment(ctx, o, r, c, dim, users); err != nil {
					return fmt.Errorf("%s, %d people in %d dimensions: %w", c, users, dim, err)
				}
			}
		}
	}
	growth(r.Rows)
	return nil
}

// runDeployment takes one cohort through a deployment of its own, checks its sums against the truth, and enters a row
// for each role.
func runDeployment(ctx context.Context, o Options, r *Result, c plan.Channel, dim, users int) error {
	s, _, err := shapeOf(c, dim, users)
	if err != nil {
		return err
	}
	people, err := population.Synthetic(population.SyntheticOptions{Users: users, Dim: dim, Seed: 1})
	if err != nil {
		return err
	}
	folder, err := o.folderOf("deployment")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	o.Progress.Update(func(p *progress.State) { *p = progress.State{} })
	debug.FreeOSMemory()
	cluster.ForgetPeak()
	res, err := load.RunOwn(ctx, load.Own{
		Trust: c, Epsilon: plan.DefaultEpsilon, Delta: plan.DefaultDelta, Executable: o.Executable, Dir: folder,
		Sync: o.Sync,
	}, load.Options{Population: people, Seed: 1, Progress: o.Progress})
	switch {
	case err != nil:
		return err
	case res.Unsettled != "":
		return fmt.Errorf("not everything was released: %s", res.Unsettled)
	case !res.Sound() || res.Reports != users || res.Compared == 0:
		return fmt.Errorf("%d of %d reports were released, and %d sums compared with the truth, not all as they "+
			"should be",
			res.Reports, users, res.Compared)
	case c == plan.Shuffle && res.Messages != uint64(users*s.messages):
		return fmt.Errorf("%d messages were released, %d reports of %d are expected", res.Messages, users, s.messages)
	}
	bounds := r.bounds(s)
	base := Row{Channel: string(c), Users: users, Dimension: dim, Messages: s.messages, Source: FromDevices,
		WallSeconds: res.WorkSeconds}
	var servers, carried int64
	for _, p := range res.Processes {
		row, t := base, broker.Traffic{}
		switch role, _, _ := strings.Cut(p.Name, "-"); role {
		case cluster.Shuffler:
			row.Role, t = RoleShuffler, res.Traffic[bus.Shuffler]
		case cluster.Analyzer:
			row.Role, t = RoleAnalyzer, res.Traffic[bus.Analyzer]
		case cluster.Broker:
			row.Role = RoleBroker
		default:
			row.Role, t = RoleDevice, res.Traffic[bus.Randomizer]
		}
		row.ResidentBytes = p.PeakBytes
		row.traffic(t)
		row.Bound = bounds[row.Role].what
		r.Rows = append(r.Rows, row.of(p.CPUSeconds, bounds[row.Role].seconds))
		carried += t.Sent + t.Received
		if row.Role != RoleDevice {
			servers += p.PeakBytes
		}
	}
	all := base
	all.Role, all.ResidentBytes, all.Bound = RoleAll, servers, bounds[RoleAll].what
	cpu := 0.0
	for i := len(r.Rows) - len(res.Processes); i < len(r.Rows); i++ {
		if r.Rows[i].Role == RoleBroker {
			r.Rows[i].BytesPerUser = float64(carried) / float64(users)
		}
		cpu += r.Rows[i].CPUSecondsPerUser
	}
	all = all.of(res.WorkSeconds, bounds[RoleAll].seconds)
	all.CPUSecondsPerUser, all.BytesPerUser = cpu, float64(carried)/float64(users)
	r.Rows = append(r.Rows, all)
	return nil
}

// traffic fills in what a role sent and received.
func (r *Row) traffic(t broker.Traffic) {
	n := float64(r.Users)
	r.SentPerUser, r.ReceivedPerUser = float64(t.Sent)/n, float64(t.Received)/n
	r.BytesPerUser = r.SentPerUser + r.ReceivedPerUser
}
