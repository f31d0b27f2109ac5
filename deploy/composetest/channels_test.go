package composetest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The deployment of a short life under one channel: two cohorts of 100. The channel is not in the file.
const channelAnalyzerYAML = `
learner: {family: logistic, dimension: 5, radius: 3, horizon: 200, first_cohort: 100, growth: 1}
privacy: {epsilon: 1, delta: 1e-6, drop_out: 0.1, min_cohort: 50}
timing: {reward_window: 3s, jitter: 1s, grace: 60s}
`

// TestComposeChannels brings a deployment up under a channel that only RIFFLE_CHANNEL names, and lets it learn from two
// cohorts. The analyzer is killed while the first one enrols, and the shuffler while the second one reports. Every
// report of every enrolled device must be counted, and every announcement must name the channel. Some of the devices
// are phones, which take part over an ingress. It is killed in the second epoch, before they report.
//
// RIFFLE_COMPOSE_CHANNELS has the channels, separated by spaces: shares if it is not set, because shuffle has
// TestCompose. deploy/channels runs all.
func TestComposeChannels(t *testing.T) {
	t.Parallel()
	for name := range strings.FieldsSeq(cmp.Or(os.Getenv("RIFFLE_COMPOSE_CHANNELS"), string(plan.Shares))) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shortLife(t, plan.Channel(name))
		})
	}
}

func shortLife(t *testing.T, channel plan.Channel) {
	s := newStack(t, string(channel)[:3])
	for file, text := range map[string]string{"analyzer.yaml": channelAnalyzerYAML, "shuffler.yaml": shufflerYAML,
		"ingress.yaml":    "limits: {reports: 1000, enrolments: 1000}\n",
		"randomizer.yaml": fmt.Sprintf("limits: {trust: [%s], epsilon: 1, delta: 1e-6, min_cohort: 50}\n", channel),
	} {
		if err := os.WriteFile(filepath.Join(s.dir, "config", file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.env = append(s.env, "RIFFLE_CHANNEL="+string(channel), "RIFFLE_INGRESS=true")
	s.up()
	ctx, cancel := context.WithTimeout(t.Context(), stuck)
	defer cancel()
	c := newCrowd(t, s.apis)
	phones := s.phones(c, channel)
	var now status
	for {
		var err error
		if now, err = c.next(ctx, now.Epoch); err != nil {
			t.Fatal(err)
		}
		if now.Final {
			break
		}
		var atHalf func()
		if now.Epoch == 1 {
			atHalf = func() { s.kill("analyzer"); s.start("analyzer") }
		}
		phones.join(ctx, now.Cohort/10)
		if now.Epoch == 2 {
			s.kill("ingress")
		}
		if err := c.fill(ctx, now, atHalf); err != nil {
			t.Fatal(err)
		}
		if now.Epoch == 2 {
			s.kill("shuffler")
			for c.pending(ctx) > 0 && ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond)
			}
			s.start("ingress")
			phones.wait()
			s.start("shuffler")
		}
	}
	phones.wait()
	auditor, err := s.connect(ctx, s.broker(), bus.Auditor)
	if err != nil {
		t.Fatal(err)
	}
	defer auditor.Close()
	s.checkChannel(ctx, auditor, c, channel)
	for service := range s.ops {
		if lost := s.lost(service); len(lost) > 0 {
			t.Errorf("%s: %v", service, lost)
		}
	}
	// The channel is the deployment's for life.
	other := plan.Shares
	if channel == plan.Shares {
		other = plan.Local
	}
	s.env = append(s.env, "RIFFLE_CHANNEL="+string(other))
	if out, err := s.run(s.script("up")); err == nil {
		t.Errorf("deploy/up changed the channel from %s to %s: %s", channel, other, out)
	}
}

// checkChannel holds the public record against what the people's apps saw.
func (s *stack) checkChannel(ctx context.Context, auditor *bus.Conn, c *crowd, channel plan.Channel) {
	t := s.t
	t.Helper()
	bundle, err := keyring.LoadBundle(s.keys())
	if err != nil {
		t.Fatal(err)
	}
	announced, err := auditor.Announcements.ReadAnnouncements(ctx)
	if err != nil {
		t.Fatal(err)
	}
	epochs := 0
	for _, stored := range announced {
		a, _, err := wire.Open[plan.Announcement](stored.Payload, bundle.AnalyzerParty())
		if err != nil {
			t.Fatal(err)
		}
		if a.Final {
			continue
		}
		epochs++
		if a.Plan.Channel != channel {
			t.Errorf("epoch %d is announced for the channel %s, want %s", a.Epoch, a.Plan.Channel, channel)
		}
	}
	if epochs != 2 {
		t.Errorf("%d epochs, want 2", epochs)
	}
	counted := 0
	filter := bus.AuditFilter{Role: bus.Analyzer, Kind: "counts"}
	err = auditor.Audit.ReadAudit(ctx, filter, func(st bus.Statement) error {
		n, _, err := wire.Open[wire.Counts](st.Payload, bundle.AnalyzerParty())
		if err != nil {
			return err
		}
		counted++
		t.Logf("epoch %d: %d reports counted of %d people sampled", n.Epoch, n.Reports, c.sampled[n.Epoch])
		if n.Destroyed || int(n.Reports) != c.sampled[n.Epoch] {
			t.Errorf("epoch %d: %d reports counted, destroyed: %v", n.Epoch, n.Reports, n.Destroyed)
		}
		return nil
	})
	if err != nil || counted != epochs {
		t.Errorf("%d counts of %d epochs: %v", counted, epochs, err)
	}
}
