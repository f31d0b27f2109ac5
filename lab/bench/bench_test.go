package bench_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/lab/bench"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// TestMain makes this program run a role where it is given one's name: what is measured are processes of their own.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 || !slices.Contains([]string{"shuffler", "analyzer", "randomizer", "broker"}, os.Args[1]) {
		os.Exit(m.Run())
	}
	cmd := &cobra.Command{Use: "role", SilenceErrors: true, SilenceUsage: true}
	cmd.AddCommand(cluster.Commands()...)
	os.Exit(role.Main(cmd))
}

// A small run has a whole row for every role. Their sums are those of the whole deployment, and no role moved fewer
// bytes than its reports have; the broker counted no others than the roles'.
func TestASmallRunIsWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("what runs at the same time here, the tests of the roles and of the load test cover")
	}
	t.Parallel()
	const users = 70
	o := bench.QuickOptions()
	o.Setup, o.Channels, o.Users, o.Junk, o.Mixed = bench.SetupOfTest(t), []plan.Channel{plan.Shuffle}, []int{users},
		[]int{users}, nil
	o.Workers, o.WorkUsers, o.Kill, o.Measure = []int{0}, users, false, 5*time.Millisecond
	ballast := make([]byte, 300<<20) // what this process has is not what a role has that it starts
	for i := 0; i < len(ballast); i += 4096 {
		ballast[i] = 1
	}
	r, err := bench.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(ballast)
	by := map[string]bench.Row{}
	for _, row := range r.Rows {
		if err := row.Check(); err != nil {
			t.Error(err)
		}
		// The broker's bound is of so few messages here that they may take less than a tick of the processor's time.
		if row.Users != users || row.PerSecond == 0 || row.RatioToBound == 0 && row.Role != bench.RoleBroker {
			t.Errorf("%+v", row)
		}
		alone := row.Role == bench.RoleBroker || row.Role == bench.RoleShuffler || row.Role == bench.RoleAnalyzer
		if r.Machine.Proc && (row.ResidentBytes < 1<<20 || alone && row.ResidentBytes > int64(len(ballast))) {
			t.Errorf("%s: %d bytes of memory", row.Role, row.ResidentBytes)
		}
		by[row.Source+" "+row.Role] = row
	}
	all, sum, bytes := by["devices end_to_end"], 0.0, 0.0
	for _, name := range []string{bench.RoleDevice, bench.RoleBroker, bench.RoleShuffler, bench.RoleAnalyzer} {
		row, ok := by["devices "+name]
		if !ok {
			t.Fatalf("no row of the %s", name)
		}
		sum += row.CPUSecondsPerUser
		if name != bench.RoleBroker {
			bytes += row.BytesPerUser
		}
	}
	if math.Abs(sum-all.CPUSecondsPerUser) > 1e-9 || math.Abs(bytes-all.BytesPerUser) > 1e-6 ||
		math.Abs(bytes-by["devices broker"].BytesPerUser) > 1e-6 {
		t.Errorf("the roles' %v s and %v bytes are not the deployment's %v s and %v bytes", sum, bytes,
			all.CPUSecondsPerUser, all.BytesPerUser)
	}
	payload := float64(all.Messages * seal.BitSize)
	for name, moved := range map[string]float64{
		"devices send":      by["devices device"].SentPerUser,
		"shuffler receives": by["devices shuffler"].ReceivedPerUser,
		"shuffler sends":    by["devices shuffler"].SentPerUser,
		"analyzer receives": by["devices analyzer"].ReceivedPerUser,
		"of junk too":       by["junk shuffler"].ReceivedPerUser,
	} {
		if moved < payload || moved > 4*payload {
			t.Errorf("%s %v bytes for each report of %v", name, moved, payload)
		}
	}
	if len(r.Workers) != 1 || len(r.Costs) != 2 || len(r.Mixed) != 1 || len(r.Comparison) != 3 {
		t.Errorf("%d runs with workers, %d costs, %d of junk, %d comparisons", len(r.Workers), len(r.Costs),
			len(r.Mixed), len(r.Comparison))
	}
	folder := t.TempDir()
	if err := r.WritePage(folder, "riffle-lab bench"); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(folder, "benchmarks.md"))
	if err != nil || !strings.Contains(string(page), r.Machine.Processor) {
		t.Errorf("the page does not name the machine: %v", err)
	}
	if err := r.Draw(filepath.Join(folder, "all.png")); err != nil {
		t.Error(err)
	}
}

// The keys of a row are a stable interface.
func TestARowHasItsShape(t *testing.T) {
	got, err := json.MarshalIndent(bench.Row{
		Role: bench.RoleShuffler, Channel: "shuffle", Users: 1000, PerSecond: 2500, CPUSecondsPerUser: 4e-4,
		BytesPerUser: 24500, ResidentBytes: 1 << 26, RatioToBound: 0.5, Bound: "what it is made of", Dimension: 5,
		Messages: 150, MessagesPerSecond: 375000, SentPerUser: 8000, ReceivedPerUser: 16500, ResidentPerUser: 100,
		WallSeconds: 3.5, Source: bench.FromJunk, Workers: 2,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/row.golden.json")
	if err != nil || string(want) != string(got)+"\n" {
		t.Errorf("%v; a row is\n%s", err, got)
	}
}

// A row with a number that no run can have is refused, and so are sums that differ.
func TestImpossibleRowsAreRefused(t *testing.T) {
	good := bench.Row{Role: bench.RoleDevice, Users: 10, Dimension: 2, Messages: 5}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*bench.Row){
		"nobody":          func(r *bench.Row) { r.Users = 0 },
		"no messages":     func(r *bench.Row) { r.Messages = 0 },
		"NaN":             func(r *bench.Row) { r.PerSecond = math.NaN() },
		"infinite":        func(r *bench.Row) { r.CPUSecondsPerUser = math.Inf(1) },
		"negative":        func(r *bench.Row) { r.BytesPerUser = -1 },
		"unnamed bound":   func(r *bench.Row) { r.RatioToBound = 0.5 },
		"bound unreached": func(r *bench.Row) { r.Bound = "something" },
	} {
		row := good
		change(&row)
		if err := row.Check(); !errors.Is(err, bench.ErrRow) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := bench.Result{Workers: []bench.Working{{Workers: 2}}}
	if err := r.Check(); !errors.Is(err, bench.ErrRow) {
		t.Errorf("other sums: %v", err)
	}
}

// Options that cannot be run are refused before anything starts.
func TestBadOptionsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*bench.Options){
		"channel":    func(o *bench.Options) { o.Channels = []plan.Channel{"shufle"} },
		"few people": func(o *bench.Options) { o.Users = []int{10} },
		"descending": func(o *bench.Options) { o.Junk = []int{2000, 1000} },
		"messages":   func(o *bench.Options) { o.Mixed = []int{1} },
		"dimension":  func(o *bench.Options) { o.Dimensions = []int{51} },
		"none":       func(o *bench.Options) { o.Dimensions = nil },
		"workers":    func(o *bench.Options) { o.Workers = []int{-1} },
		"time":       func(o *bench.Options) { o.Measure = 0 },
	} {
		o := bench.DefaultOptions()
		if faults := o.Faults(); len(faults) > 0 {
			t.Fatal(faults)
		}
		change(&o)
		if len(o.Faults()) != 1 {
			t.Errorf("%s: %v", name, o.Faults())
		}
	}
}
