package planner

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/internal/play"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// fixed is a machine whose times are the same everywhere.
func fixed() *Machine {
	return &Machine{SealBit: 50e-6, OpenBit: 60e-6, SealEnvelope: 150e-6, OpenEnvelope: 160e-6,
		Send: 90e-6, Receive: 110e-6,
		NoiseWord: 2e-9,
		Shares: func(entries, width int) (device, shuffler, analyzer float64, err error) {
			bits := float64(entries * width)
			return 1e-4 + 2e-6*bits, 1e-4 + 1e-6*bits, 2e-4 + 1e-6*bits, nil
		},
	}
}

func beside(t *testing.T, o Options) map[plan.Channel]Channel {
	t.Helper()
	o.Machine = fixed()
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return byName(t, r)
}

func byName(t *testing.T, r *Result) map[plan.Channel]Channel {
	t.Helper()
	all := map[plan.Channel]Channel{}
	for _, c := range r.Channels {
		all[c.Trust] = c
	}
	if len(all) != len(plan.Channels()) || len(r.Channels) != len(all) {
		t.Fatalf("%d channels", len(r.Channels))
	}
	return all
}

// The array of channels of the default deployment, as programs read it.
func TestChannelsAreTheGoldenOnes(t *testing.T) {
	r := byDefault(t)
	text, err := json.Marshal(r.Channels)
	if err != nil {
		t.Fatal(err)
	}
	var rounded []map[string]any // the last digits of numbers may differ between architectures
	if err := json.Unmarshal(text, &rounded); err != nil {
		t.Fatal(err)
	}
	for _, c := range rounded {
		for key, value := range c {
			if v, ok := value.(float64); ok {
				c[key] = json.Number(strconv.FormatFloat(v, 'g', 5, 64))
			}
		}
	}
	if text, err = json.MarshalIndent(rounded, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "channels.json", append(text, '\n'))
	var table bytes.Buffer
	table.WriteString(r.channelTable().Render() + "\n")
	table.WriteString(chart.Notes(r.channelNotes()))
	golden(t, "channels.txt", table.Bytes())
}

// Every channel keeps to the epsilon asked for; only local and central, and server noise, leave a guarantee of the same
// size if no other device is honest; shares costs a person less than shuffle, and its noise is nearer to a curator's.
func TestChannelsBuyWhatTheyShould(t *testing.T) {
	serial(t)
	all := byName(t, byDefault(t))
	for name, c := range all {
		if c.Infeasible != "" || c.Epsilon == nil || !(*c.Epsilon <= 1) || c.Whom == "" {
			t.Fatalf("%s: %+v", name, c)
		}
		if c.OptIn != (name == plan.Central) {
			t.Errorf("%s: opt-in is %v", name, c.OptIn)
		}
	}
	for _, c := range []plan.Channel{plan.Local, plan.Central} {
		if alone := all[c].EpsilonAlone; alone == nil || *alone > 1 {
			t.Errorf("%s alone: %v", c, alone)
		}
	}
	shuffle, shares := all[plan.Shuffle], all[plan.Shares]
	if shares.Bytes*2 > shuffle.Bytes || shares.Messages != 1 || *shares.VarianceRatio > 1.25 {
		t.Errorf("shares %+v, shuffle %+v", shares, shuffle)
	}
	o := defaults()
	o.ServerNoise = 1
	served := beside(t, o)
	for _, c := range []plan.Channel{plan.Shuffle, plan.Shares} {
		noisy := served[c]
		if noisy.EpsilonAlone == nil || *noisy.EpsilonAlone > 1.001 || noisy.ServerNoise == 0 ||
			!(*noisy.Epsilon < *all[c].Epsilon) {
			t.Errorf("%s with server noise: %+v", c, noisy)
		}
	}
}

// Large dimensions have a plan by default, and the planner says that shares carries them.
func TestLargeDimensionsAreCarriedByShares(t *testing.T) {
	serial(t)
	o := defaults()
	o.Dimension = 50
	if s := beside(t, o)[plan.Shares]; !s.Recommended || s.Infeasible != "" {
		t.Errorf("50 dimensions: %+v", s)
	}
}

// The channel that rests on least trust is recommended, and the reasons say what the numbers say.
func TestTheReasonsFollowFromTheNumbers(t *testing.T) {
	channel := func(name plan.Channel, noise float64, bytes int, infeasible string) Channel {
		return Channel{Trust: name, VarianceRatio: &noise, Bytes: bytes, Infeasible: infeasible}
	}
	const cheap, dear = 1000, 2000
	for _, c := range []struct {
		channels   []Channel
		want       plan.Channel
		says, dont string
	}{
		{[]Channel{channel(plan.Shuffle, 1.2, dear, ""), channel(plan.Shares, 0.9, cheap, "")}, plan.Shares,
			"smaller: the noise (variance 0.900 of a curator's, against 1.200), what a person sends (1,000 bytes, " +
				"against " + "2,000).", "Larger"},
		{[]Channel{channel(plan.Shuffle, 0.8, dear, ""), channel(plan.Shares, 0.9, cheap, "")}, plan.Shares,
			"Larger: the noise (variance 0.900 of a curator's, against 0.800).", "smaller: the noise"},
		{[]Channel{channel(plan.Shuffle, 1, dear, ""), channel(plan.Shares, 0, 0, "no")}, plan.Shuffle, "has no plan",
			"Larger"},
		{[]Channel{channel(plan.Shuffle, 0, 0, "no"), channel(plan.Shares, 1, dear, "")}, plan.Shares,
			"shuffle has no plan", "Compared"},
		{[]Channel{channel(plan.Shuffle, 0, 0, "no"), channel(plan.Shares, 0, 0, "no"), channel(plan.Local, 9, 1, "")},
			plan.Local, "neither shuffle nor shares", "Compared"},
		{[]Channel{channel(plan.Shuffle, 0, 0, "no"), channel(plan.Central, 1, 1, "")}, "", "No channel",
			"Recommended:"},
		{nil, "", "No channel", "Recommended:"},
	} {
		reasons := strings.Join(recommend(c.channels), " ")
		var got plan.Channel
		for _, one := range c.channels {
			if one.Recommended {
				got += one.Trust
			}
		}
		if got != c.want || !strings.Contains(reasons, c.says) || strings.Contains(reasons, c.dont) {
			t.Errorf("%q is recommended, want %q: %s", got, c.want, reasons)
		}
	}
}

// The time of each role follows from its steps.
func TestCPUAddsUpTheSteps(t *testing.T) {
	m := fixed()
	for _, c := range []struct {
		work play.Work
		want CPU
	}{
		{play.Work{Channel: plan.Shuffle, Rounds: 1, BitMessages: 100, NoiseBits: 640, Dummies: 10},
			CPU{Device: 90e-6 + 5e-3 + 20e-9, Shuffler: 110e-6 + 5e-4, Analyzer: 110 * 60e-6}},
		{play.Work{Channel: plan.Shares, Rounds: 2, Coordinates: 20, Width: 5},
			CPU{Device: 2 * (90e-6 + 3e-4), Shuffler: 2 * (110e-6 + 2e-4), Analyzer: 2 * 3e-4}},
		{play.Work{Channel: plan.Local, Rounds: 1, NoiseBits: 64e6},
			CPU{Device: 90e-6 + 150e-6 + 2e-3, Shuffler: 110e-6, Analyzer: 160e-6}},
		{play.Work{Channel: plan.Central, Rounds: 1}, CPU{Device: 240e-6, Shuffler: 110e-6, Analyzer: 160e-6}},
	} {
		got, err := m.CPU(c.work)
		if err != nil || math.Abs(got.Device-c.want.Device) > 1e-12 ||
			math.Abs(got.Shuffler-c.want.Shuffler) > 1e-12 || math.Abs(got.Analyzer-c.want.Analyzer) > 1e-12 {
			t.Errorf("%+v: %+v, %v; want %+v", c.work, got, err, c.want)
		}
	}
	if _, err := m.CPU(play.Work{Channel: "pigeon"}); err == nil {
		t.Error("a channel that nobody knows is priced")
	}
}

// Every step of this machine takes some time. How much is not compared: the machine may do other work meanwhile.
func TestTheMachineIsMeasured(t *testing.T) {
	serial(t)
	m, err := Measure()
	if err != nil {
		t.Fatal(err)
	}
	for name, seconds := range map[string]float64{
		"seal bit": m.SealBit, "open bit": m.OpenBit, "seal envelope": m.SealEnvelope,
		"open envelope": m.OpenEnvelope, "send": m.Send, "receive": m.Receive, "noise": m.NoiseWord} {
		if !(seconds > 1e-11 && seconds < 60) {
			t.Errorf("%s takes %v s", name, seconds)
		}
	}
	for _, entries := range []int{20, 230} {
		device, shuffler, analyzer, err := m.Shares(entries, 5)
		if err != nil || !(device > 0 && shuffler > 0 && analyzer > 0) {
			t.Errorf("shares of %d: %v %v %v, %v", entries, device, shuffler, analyzer, err)
		}
	}
}

// Contradictions are refused with the option's name.
func TestOptionsOfChannelsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"channel":      func(o *Options) { o.Channel = "pigeon" },
		"server noise": func(o *Options) { o.ServerNoise = 1.5 },
		"no noise":     func(o *Options) { o.NoDeviceNoise = true },
		"generic":      func(o *Options) { o.Channel, o.Releases = plan.Shares, 1 },
	} {
		o := defaults()
		change(&o)
		if _, err := Run(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Servers' noise that an analyzer of the channel refuses is refused here, too, with the analyzer's reason; what it
// takes is planned.
func TestServerNoiseThatTheAnalyzerRefusesIsNotPlanned(t *testing.T) {
	serial(t)
	for _, of := range []struct {
		channel plan.Channel
		noise   float64
		why     string // empty: it is planned
	}{
		{plan.Local, 1, "--server-noise 1 must be 0 with --trust local: the channel trusts no server, so that no " +
			"server's " + "noise counts in it"},
		{plan.Local, 0.5, "--server-noise 0.5 must be 0 with --trust local"},
		{plan.Local, 0, ""},
		{plan.Central, 0.5, "--server-noise 0.5 must be 0 or 1 with --trust central: the analyzer always adds all " +
			"of the " + "noise, since devices add none"},
		{plan.Central, 0, ""},
		{plan.Central, 1, ""},
		{plan.Shares, 0.5, ""},
	} {
		o := defaults()
		o.Cohorts, o.Channel, o.ServerNoise = []int{400}, of.channel, of.noise
		switch _, err := Run(o); {
		case of.why == "" && err != nil:
			t.Errorf("%s with %v: %v", of.channel, of.noise, err)
		case of.why != "" && (!errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), of.why)):
			t.Errorf("%s with %v: %v, want %q", of.channel, of.noise, err, of.why)
		}
	}
}

// With another channel the plan above the table is that channel's.
func TestAnotherChannelIsPlanned(t *testing.T) {
	serial(t)
	for _, c := range []plan.Channel{plan.Shares, plan.Local, plan.Central} {
		o := defaults()
		o.Channel, o.Machine = c, fixed()
		cohorts := 5
		if c != plan.Shares {
			o.Cohorts, cohorts = []int{400}, 1
		}
		r, err := Run(o)
		if err != nil {
			t.Errorf("%s: %v", c, err)
			continue
		}
		if r.Trust != c || r.MessagesPerUser != 1 || r.BytesPerUser < 200 || r.BytesPerUser > 6000 ||
			!(r.Epsilon <= 1) || len(r.Cohorts) != cohorts || !(r.CPUSecondsPerUser > 0) {
			t.Errorf("%s: %+v", c, r)
		}
		if err := r.WriteTable(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
	}
}

// "If all report" and "if all are honest" mean the same in every channel and with servers' noise: reports that may be
// dishonest are counted again, where devices' noise is what protects.
func TestHonestReportsCountInEveryChannel(t *testing.T) {
	serial(t)
	for _, of := range []struct {
		channel plan.Channel
		server  float64
		devices bool // whether their noise adds up
	}{{plan.Shuffle, 0, true}, {plan.Shuffle, 1, true}, {plan.Shares, 0, true}, {plan.Shares, 1, true},
		{plan.Local, 0, false}, {plan.Central, 0, false}} {
		o := defaults()
		o.Cohorts, o.Channel, o.ServerNoise, o.Dishonest = []int{400}, of.channel, of.server, 0.2
		r, err := Run(o)
		if err != nil {
			t.Fatalf("%+v: %v", of, err)
		}
		c := r.Cohorts[0]
		if of.devices && !(c.HonestEpsilon < 0.97*c.Epsilon) || !of.devices && c.HonestEpsilon != c.Epsilon ||
			of.devices != (c.ExpectedEpsilon < c.HonestEpsilon) {
			t.Errorf("%+v: epsilon %v, %v if all are honest, %v if all report too", of, c.Epsilon, c.HonestEpsilon,
				c.ExpectedEpsilon)
		}
	}
}
