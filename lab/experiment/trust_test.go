package experiment_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/lab/experiment"
	"github.com/riffle-dp/riffle/pkg/plan"
)

const channels = `
name: channels
title: a test
about: a test
environments: [{kind: ball, dimension: 3, arms: 4, norm: 2}]
horizons: [600]
epsilons: [4]
seeds: 2
algorithms:
  - name: riffle
  - name: shuffle
  - name: shares
  - {name: half, kind: shares, terms: {server_noise: 0.5}}
  - {name: servers, kind: riffle, trust: shares, terms: {server_noise: 1, device_noise: false}}
  - name: local
  - name: central
  - name: local-dp
  - name: central-dp
  - name: nonprivate-batched
`

// An algorithm can be named after its channel. Shuffle is riffle to the last digit; rows of named channels say what
// they cost, others are as before.
func TestChannelsAreNamedAndPriced(t *testing.T) {
	if testing.Short() {
		t.Skip("TestRunIsRepeatable has the same goroutines")
	}
	rows, _ := run(t, channels, "")
	named := map[string]experiment.Row{}
	for _, r := range rows {
		named[r.Algorithm] = r
	}
	if named["riffle"].Regret != named["shuffle"].Regret || named["riffle"].Messages != named["shuffle"].Messages {
		t.Errorf("riffle %+v, shuffle %+v", named["riffle"], named["shuffle"])
	}
	for name, trust := range map[string]plan.Channel{"riffle": "", "shuffle": plan.Shuffle, "shares": plan.Shares,
		"half": plan.Shares, "servers": plan.Shares, "local": plan.Local, "central": plan.Central, "local-dp": "",
		"central-dp": "", "nonprivate-batched": ""} {
		r := named[name]
		if r.Trust != trust || (trust != "") != (r.Bytes > 0) || (trust != "") != (r.VarianceRatio > 0) ||
			(trust != "") != (r.OverCentral > 0) {
			t.Errorf("%s: %+v", name, r)
		}
		if trust != "" && trust != plan.Shuffle && r.Messages != 1 {
			t.Errorf("%s: %v messages", name, r.Messages)
		}
	}
	if c := named["central"]; c.OverCentral != 1 || c.OverCentralSE != 0 {
		t.Errorf("central over itself: %v, %v", c.OverCentral, c.OverCentralSE)
	}
	if s := named["shares"]; math.Abs(s.OverCentral-s.Regret/named["central"].Regret) > 1e-9 {
		t.Errorf("shares over central: %v", s.OverCentral)
	}
	if named["local"].VarianceRatio < 10*named["shares"].VarianceRatio ||
		named["half"].VarianceRatio <= named["shares"].VarianceRatio {
		t.Errorf("noise ratios: %v", named)
	}
	if err := experiment.Price(rows, func(w play.Work) (device, servers float64, err error) {
		return float64(w.Rounds), float64(w.Coordinates), nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		device, servers := 0.0, 0.0
		if r.Trust != "" {
			device, servers = 1, 9
		}
		if math.Abs(r.DeviceCPU-device) > 1e-9 || math.Abs(r.ServerCPU-servers) > 1e-9 {
			t.Errorf("%s: %v and %v seconds", r.Algorithm, r.DeviceCPU, r.ServerCPU)
		}
	}
	var table, text bytes.Buffer
	if err := experiment.WriteTable(&table, rows, true); err != nil || !strings.Contains(table.String(),
		"regret over central's") {
		t.Error(err, table.String())
	}
	if err := experiment.WriteCSV(&text, rows); err != nil || !strings.Contains(text.String(), ",shares,") {
		t.Error(err, text.String())
	}
}

// A change of trust is for riffle alone, and the contradictions of a file are refused.
func TestTrustIsChangedForRiffle(t *testing.T) {
	e, err := experiment.Parse([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	half, no := 0.5, false
	if err := e.Change(experiment.Changes{Trust: plan.Shares, ServerNoise: &half, DeviceNoise: &no}); err != nil {
		t.Fatal(err)
	}
	for _, a := range e.Algorithms {
		if changed := a.Trust == plan.Shares && *a.Terms.ServerNoise == half && !*a.Terms.DeviceNoise; changed !=
			(a.Name == "riffle") {
			t.Errorf("%+v", a)
		}
	}
	if err := e.Change(experiment.Changes{Trust: "pigeon"}); err == nil {
		t.Error("an unknown channel is taken")
	}
	for _, wrong := range []string{"{name: shares, trust: local}", "{name: uniform, trust: local}",
		"{name: riffle, trust: pigeon}"} {
		if _, err := experiment.Parse([]byte(strings.Replace(small, "{name: riffle}", wrong, 1))); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}
