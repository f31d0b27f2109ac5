package analyzer

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// Settings that do not go with the channel stop the start, by their keys and with what to do instead; a channel by
// itself is a whole configuration.
func TestSettingsFollowTheChannel(t *testing.T) {
	if testing.Short() {
		t.Skip("nothing of it runs at the same time as anything else")
	}
	t.Parallel()
	for _, c := range []struct {
		args string
		want string // part of the only fault besides the missing keys; "" for none
	}{
		{"", ""},
		{"--privacy-channel=shares", ""},
		{"--privacy-channel=local", ""},
		{"--privacy-channel=central", ""},
		{"--privacy-channel=smoke", "must be one of shuffle, shares, local and central"},
		{"--state=", "state is required"}, // in every channel: what the analyzer released must outlive it
		{"--privacy-channel=local --state=", "state is required"},
		{"--privacy-server-noise=1.5", "privacy.server_noise = 1.5 (--privacy-server-noise) must be a share in [0, 1]"},
		{"--privacy-server-noise=NaN", "must be a"},
		{"--privacy-server-noise=1", ""},
		{"--privacy-channel=local --privacy-server-noise=1",
			`must be 0 with privacy.channel = "local"`},
		{"--privacy-channel=local --privacy-device-noise=false", "the devices' noise is the whole protection"},
		{"--privacy-channel=central --privacy-server-noise=0.5", "always adds all of the noise"},
		{"--privacy-channel=central --privacy-server-noise=1", ""},
		{"--privacy-device-noise=false", "set server_noise to 1"},
		{"--privacy-device-noise=false --privacy-server-noise=0.5", "set server_noise to 1"},
		{"--privacy-channel=shares --privacy-device-noise=false --privacy-server-noise=1", ""},
		{"--privacy-channel=shares --privacy-max-messages=150", "only the channel shuffle sends bit messages"},
		{"--privacy-channel=shares --privacy-max-messages=0", ""},
		{"--learner-anytime", ""},
		{"--learner-anytime --learner-profile=paper --privacy-max-messages=0 --learner-horizon=9000",
			"are made for one horizon"},
		{"--learner-profile=joint", "the analyzer reads each person's record in this profile"},
		{"--learner-profile=joint --privacy-channel=local", `cannot go with privacy.channel = "local"`},
		{"--learner-profile=joint --privacy-channel=central", ""},
		{"--learner-profile=joint --privacy-channel=central --learner-anytime", "are made for one horizon"},
		{"--learner-profile=joint --privacy-channel=central --learner-batch=10", "must be at least 50"},
		{"--admission-sponsor-share=0.5", "the shuffler's setting admission.sponsor_share is the one that holds"},
		{"--privacy-channel=shares --admission-sponsor-share=0.5", ""},
		{"--privacy-channel=shares --admission-sponsor-share=0", "must be above 0 and at most 1"},
	} {
		cmd := role.Command(Role())
		cmd.SetArgs(append([]string{"--keys=nowhere", "--state=folder", "--check-config", "--learner-dimension=2",
			"--learner-horizon=200"},
			strings.Fields(c.args)...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		err := fmt.Sprint(cmd.Execute())
		faults := strings.Count(err, "\n")
		switch {
		case !strings.Contains(err, "cannot be used: open nowhere"):
			t.Errorf("%s: %s", c.args, err)
		case c.want == "" && faults != 1:
			t.Errorf("%s is refused: %s", c.args, err)
		case c.want != "" && (!strings.Contains(err, c.want) || faults != 2): // a headline and two faults
			t.Errorf("%s: want only %q in %s", c.args, c.want, err)
		}
	}
}

// Limits that nobody sets are the channel's, and those that somebody sets hold in every channel.
func TestTermsFollowTheChannel(t *testing.T) {
	t.Parallel()
	for _, c := range plan.Channels() {
		s := DefaultSettings()
		s.Privacy.Channel = string(c)
		if got, want := s.terms(), plan.DefaultTermsFor(c); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, want %+v", c, got, want)
		}
		s.Privacy.MaxShift, s.Privacy.Epsilon, s.Privacy.ServerNoise = 7, 2, 1
		got := s.terms()
		if got.MaxShift != 7 || got.Epsilon != 2 || (got.ServerNoise == 1) != (c != plan.Central) {
			t.Errorf("%s: %+v", c, got)
		}
	}
}

// Process metrics move with all that a process does. An analyzer that reads what devices send has none, nor has a
// worker of one; in the other channels the guarantee covers all that comes to it, and what follows from that.
func TestNoProcessIsShownWhereRecordsAreRead(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "keys")
	if err := keyring.Generate(root, keyring.Options{Name: "clinic",
		Hosts: []keyring.HostOptions{{Name: "main", Devices: 600}}}); err != nil {
		t.Fatal(err)
	}
	shown := func(prepare func(env *role.Env) error) (process bool) {
		t.Helper()
		env, err := role.NewEnv("analyzer", role.DefaultSettings("127.0.0.1:0"), io.Discard)
		if err == nil {
			err = prepare(env)
		}
		if err != nil {
			t.Fatal(err)
		}
		families, err := env.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			process = process || strings.HasPrefix(f.GetName(), "process_") || strings.HasPrefix(f.GetName(), "go_")
		}
		return process
	}
	for _, c := range plan.Channels() {
		s := DefaultSettings()
		s.Keys, s.State, s.Privacy.Channel = root, t.TempDir(), string(c)
		s.Learner.Dimension, s.Learner.Horizon = 2, 600
		got := shown(func(env *role.Env) error { _, err := Role().Prepare(env, s); return err })
		if got != (c != plan.Central) {
			t.Errorf("%s: process metrics: %v", c, got)
		}
	}
	to := filepath.Join(t.TempDir(), "worker")
	if err := keyring.MakeWorker(root, keyring.Analyzer, to); err != nil {
		t.Fatal(err)
	}
	w := WorkerRole()
	w.Defaults.Keys = to
	if shown(func(env *role.Env) error { _, err := w.Prepare(env, w.Defaults); return err }) {
		t.Error("a worker shows its process")
	}
}
