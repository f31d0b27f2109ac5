package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// executable is riffle itself: the test binary under its name, as TestMain lays it in the PATH.
func executable(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("riffle")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// demoUsers are the fewest people who make two cohorts: the second decides with a policy that was learned.
const demoUsers = 100

// Each channel runs end to end as processes, and its result says what it cost in the same words. With all of the
// servers' noise, which shares has here, there is a guarantee that needs no other device.
func TestDemoOfEachTrust(t *testing.T) {
	if testing.Short() {
		t.Skip("runs deployments")
	}
	t.Parallel()
	for _, trust := range plan.Channels() {
		t.Run(string(trust), func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(executable(t), "demo", "--trust", string(trust), "--users", fmt.Sprint(demoUsers),
				"--json", "--out", t.TempDir())
			if trust == plan.Shares {
				cmd.Args = append(cmd.Args, "--server-noise", "1")
			}
			var said bytes.Buffer
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, &said)
			}
			var fields map[string]json.RawMessage
			var r chart.Result
			if json.Unmarshal(out, &fields) != nil || json.Unmarshal(out, &r) != nil {
				t.Fatalf("%s", out)
			}
			for _, name := range []string{"trust", "epsilon", "epsilon_alone", "variance_ratio", "messages_per_user",
				"bytes_per_user", "cpu_seconds_per_user", "device_cpu_seconds_per_user", "server_cpu_seconds_per_user",
				"wall_seconds"} {
				if fields[name] == nil {
					t.Errorf("no field %s", name)
				}
			}
			if r.Trust != string(trust) || r.Reports != demoUsers || r.Epochs != 2 || r.Lost != 0 ||
				!(r.Epsilon > 0 && r.Epsilon <= 1) || !(r.VarianceRatio > 0) ||
				!(r.DeviceCPUSecondsPerUser > 0) || !(r.ServerCPUSecondsPerUser > 0) {
				t.Errorf("%s", out)
			}
			// Without server noise, one device's noise bounds nothing worth the name in shuffle; in local it is the
			// whole protection, and in central the analyzer's noise is. With it, the guarantee of shares without other
			// devices is the weaker one of two.
			alone := r.EpsilonAlone
			if trust != plan.Shuffle && (alone == nil || *alone > 1) || trust == plan.Shares && *alone <= r.Epsilon {
				t.Errorf("epsilon_alone of %s: %s; epsilon is %v", trust, fields["epsilon_alone"], r.Epsilon)
			}
		})
	}
}

// The load test of a deployment of its own holds the sums of each channel against the truth.
func TestLoadOfEachTrust(t *testing.T) {
	if testing.Short() {
		t.Skip("runs deployments")
	}
	t.Parallel()
	for _, trust := range plan.Channels() {
		t.Run(string(trust), func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command(executable(t), "load", "--trust", string(trust), "--users", "100", "--json",
				"--hostile-host", "enemy", "--hostile-devices", "1",
				"--goal", "lost=0", "--goal", "anomalies=0", "--goal", "unexpected=0").CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{`"compared": 2`, `"trust": "` + string(trust) + `"`, `"peak_bytes"`} {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %s in\n%s", want, out)
				}
			}
		})
	}
}

// The broker's process of a cluster ends when the process that started it does, however that ends: its standard input
// is all that ties them where the kernel cannot.
func TestBrokerEndsWithItsParent(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a broker")
	}
	t.Parallel()
	dir := t.TempDir()
	riffle := executable(t)
	keygen := exec.Command(riffle, "keygen", "--out", filepath.Join(dir, "keys"), "--no-tls")
	if out, err := keygen.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(riffle, "broker", "run", "--keys", filepath.Join(dir, "keys"), "--dir", filepath.Join(dir, "b"))
	tie, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	if cmd.Stderr, err = os.Create(log); err != nil {
		t.Fatal(err)
	}
	said := func() string {
		b, err := os.ReadFile(log)
		return fmt.Sprintf("%s%v", b, err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	testbed.Eventually(t, "a broker that listens", func() bool { return strings.Contains(said(), "listening") })
	select {
	case err := <-over:
		t.Fatalf("it ended by itself: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := tie.Close(); err != nil { // as the kernel does when the parent is gone
		t.Fatal(err)
	}
	select {
	case err := <-over:
		if err != nil || !strings.Contains(said(), "stopped") {
			t.Errorf("%v\n%s", err, said())
		}
	case <-time.After(testbed.Patience):
		_ = cmd.Process.Kill()
		t.Error("the broker outlived its parent")
	}
}
