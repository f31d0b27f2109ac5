package composetest

import (
	"bytes"
	"context"
	"crypto/tls"
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

// TestCompose brings a deployment up, lets it learn from 300 people while its processes are killed and its keys are
// rotated, and then tries what no role may do. Every report of every enrolled device must be in a release.
func TestCompose(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.up()
	ctx, cancel := context.WithTimeout(t.Context(), stuck)
	defer cancel()

	c := newCrowd(t, s.apis)
	begin := time.Now()
	said := func(format string, v ...any) {
		t.Logf("%5.1f s  %s", time.Since(begin).Seconds(), fmt.Sprintf(format, v...))
	}
	var now status
	for {
		var err error
		if now, err = c.next(ctx, now.Epoch); err != nil {
			t.Fatal(err)
		}
		if now.Final {
			break
		}
		said("epoch %d: a cohort of %d", now.Epoch, now.Cohort)
		var atHalf func()
		c.pause = 0
		if now.Epoch == 1 { // people enrol, and reports are handed in, while the shuffler is away
			c.pause = 1500 * time.Millisecond
			atHalf = func() {
				s.kill("analyzer")
				// this epoch's bit messages are sealed to a key that is not the newest when they are opened
				s.rotateFiles("analyzer")
				s.start("analyzer")
				s.rotateFiles("shuffler")
				s.must("docker", "restart", s.id("shuffler"))
				said("analyzer killed, shuffler stopped, and both restarted with new keys; %d of %d are enrolled",
					c.reporters(1), now.Cohort)
			}
		}
		if err := c.fill(ctx, now, atHalf); err != nil {
			t.Fatal(err)
		}
		switch now.Epoch {
		// reports arrive while no shuffler takes them, sealed to a key that is not the newest when they are opened
		case 2:
			s.kill("shuffler")
			owed := c.pending(ctx)
			for c.pending(ctx) > 0 && ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond)
			}
			s.rotateFiles("shuffler")
			s.start("shuffler")
			said("shuffler killed; %d reports were handed in meanwhile; restarted with a new key", owed)
			if owed < now.Cohort/2 {
				t.Errorf("only %d reports were on their way: the test was too slow to show anything", owed)
			}
		case 3: // reports are being handed in
			owed := c.pending(ctx)
			for ; owed == now.Cohort && ctx.Err() == nil; owed = c.pending(ctx) {
				time.Sleep(20 * time.Millisecond)
			}
			s.kill("nats")
			left := c.pending(ctx)
			s.start("nats")
			said("broker killed after %d reports had been handed in and before %d others, and restarted",
				now.Cohort-owed, left)
			if left == 0 {
				t.Error("no report was on its way: the test was too slow to show anything")
			}
			// The first epoch is counted: nothing that was sealed to its key is opened any more, and the key may go.
			if err := os.Remove(filepath.Join(s.keys(), "analyzer", "hpke-0001.key")); err != nil {
				t.Fatal(err)
			}
			s.must(s.script("rotate"), "analyzer")
			said("the analyzer's first key deleted; deploy/rotate analyzer")
		}
	}
	said("the last policy is out; %d people came, not sampled: %v", c.people, c.missed)

	auditor, err := s.connect(ctx, s.broker(), bus.Auditor)
	if err != nil {
		t.Fatal(err)
	}
	defer auditor.Close()
	s.checkRecord(ctx, auditor, c)
	for service := range s.ops {
		if lost := s.lost(service); len(lost) > 0 {
			t.Errorf("%s: %v", service, lost)
		}
	}
	said("the public record is whole")
	shown := s.must(s.script("compose"), "ps") // as an operator who looks for a container finds it, and its log
	for service := range s.ops {
		if !strings.Contains(shown, "_"+service+"_") && !strings.Contains(shown, "-"+service+"-") {
			t.Errorf("deploy/compose ps does not show %s:\n%s", service, shown)
		}
		if out := s.must(s.script("compose"), "logs", "--tail", "1000", service); !strings.Contains(out, "listening") {
			t.Errorf("deploy/compose logs %s shows nothing: %s", service, out)
		}
	}
	t.Run("containers", s.testContainers)
	t.Run("sides", s.testSides)
	t.Run("tls", s.testTLS)
	t.Run("reload", s.testReload)
	said("done")
}

// checkRecord holds the public record against what the people's apps saw.
func (s *stack) checkRecord(ctx context.Context, auditor *bus.Conn, c *crowd) {
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
	keys := map[string]bool{} // of the analyzer, that epochs were announced with
	epochs, final := 0, false
	for _, stored := range announced {
		a, _, err := wire.Open[plan.Announcement](stored.Payload, bundle.AnalyzerParty())
		if err != nil {
			t.Fatal(err)
		}
		if final = a.Final; !final {
			epochs++
			keys[string(a.AnalyzerKey)] = true
		}
	}
	if !final || epochs < 3 {
		t.Errorf("%d epochs, final policy: %v", epochs, final)
	}
	if len(keys) < 2 {
		t.Errorf("all %d epochs were announced with one key of the analyzer, which was rotated in the first", epochs)
	}
	released := 0
	filter := bus.AuditFilter{Role: bus.Shuffler, Kind: "manifest"}
	err = auditor.Audit.ReadAudit(ctx, filter, func(st bus.Statement) error {
		m, _, err := wire.Open[wire.Manifest](st.Payload, bundle.ShufflerParty())
		if err != nil {
			return err
		}
		released++
		t.Logf("epoch %d: enrolled %d, reports %d, messages %d, %s", m.Epoch, m.Enrolled, m.Reports,
			m.Messages, m.Outcome)
		if m.Outcome != wire.Released || m.Reports != m.Enrolled || int(m.Enrolled) != c.sampled[m.Epoch] {
			t.Errorf("epoch %d: %d were sampled", m.Epoch, c.sampled[m.Epoch])
		}
		return nil
	})
	if err != nil || released != epochs {
		t.Errorf("%d manifests of %d epochs: %v", released, epochs, err)
	}
	counted := 0
	filter = bus.AuditFilter{Role: bus.Analyzer, Kind: "counts"}
	err = auditor.Audit.ReadAudit(ctx, filter, func(st bus.Statement) error {
		n, _, err := wire.Open[wire.Counts](st.Payload, bundle.AnalyzerParty())
		if err != nil {
			return err
		}
		counted++
		if n.Destroyed || int(n.Reports) != c.sampled[n.Epoch] {
			t.Errorf("epoch %d: %d reports counted, destroyed: %v", n.Epoch, n.Reports, n.Destroyed)
		}
		return nil
	})
	if err != nil || counted != epochs {
		t.Errorf("%d counts of %d epochs: %v", counted, epochs, err)
	}
	signed, err := auditor.Keys.ReadKeys(ctx, bus.Shuffler)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := wire.Open[wire.KeySet](signed, bundle.ShufflerParty())
	if err != nil {
		t.Fatal(err)
	}
	own, err := keyring.LoadShuffler(s.keys())
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Keys) != 3 || !bytes.Equal(set.Keys[0], own.HPKE[0].Public()) {
		t.Errorf("the shuffler publishes %d keys after two rotations, or not the newest first", len(set.Keys))
	}
}

// TestComposeCluster brings three brokers up and stops one of them, whichever it is, while people are decided for.
func TestComposeCluster(t *testing.T) {
	t.Parallel()
	s := newStack(t, "c")
	s.up("--cluster")
	ctx, cancel := context.WithTimeout(t.Context(), stuck)
	defer cancel()
	c := newCrowd(t, s.apis)
	now, err := c.next(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.fill(ctx, now, func() { s.kill("nats") }); err != nil {
		t.Fatal(err)
	}
	after, err := c.next(ctx, now.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("epoch %d was reached with two of three brokers; not sampled: %v", after.Epoch, c.missed)
	second := "tls://" + s.through("operation", "nats2:4222")
	auditor, err := s.connect(ctx, second, bus.Auditor, func(o *bus.Options) { o.TLS.ServerName = "nats2" })
	if err != nil {
		t.Fatal(err)
	}
	defer auditor.Close()
	bundle, err := keyring.LoadBundle(s.keys())
	if err != nil {
		t.Fatal(err)
	}
	filter := bus.AuditFilter{Role: bus.Shuffler, Kind: "manifest"}
	err = auditor.Audit.ReadAudit(ctx, filter, func(st bus.Statement) error {
		m, _, err := wire.Open[wire.Manifest](st.Payload, bundle.ShufflerParty())
		if err == nil &&
			(m.Outcome != wire.Released || m.Reports != m.Enrolled || int(m.Reports) != c.sampled[m.Epoch]) {
			t.Errorf("epoch %d: %s, %d reports of %d enrolled, %d sampled", m.Epoch, m.Outcome,
				m.Reports, m.Enrolled, c.sampled[m.Epoch])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	// A process that joins the brokers must show a certificate of the deployment's authority; no role has one.
	pair, err := tls.LoadX509KeyPair(filepath.Join(s.keys(), "broker-nats", "server.pem"),
		filepath.Join(s.keys(), "broker-nats", "server.key"))
	if err != nil {
		t.Fatal(err)
	}
	routes := s.through("brokers", "nats2:6222")
	for what, own := range map[string][]tls.Certificate{"with a broker's certificate": {pair}, "without": nil} {
		peer, err := s.call(routes, "nats2", false, own)
		if err != nil {
			t.Fatal(err)
		}
		// in TLS 1.3 a client learns here what the other side thinks of its certificate
		said, err := peer.Read(make([]byte, 64))
		if own != nil && said == 0 || own == nil && err == nil {
			t.Errorf("as a broker %s: %d bytes, %v", what, said, err)
		}
		t.Logf("as a broker %s: %d bytes, %v", what, said, err)
		_ = peer.Close()
	}
	// Provisioning again says how many copies the streams have, and changes nothing. The broker that was stopped comes
	// back.
	s.start("nats")
	out := s.must("docker", "logs", s.id("provision"))
	if !strings.Contains(out, "Copies of each: 3") {
		t.Errorf("provisioning said %q", out)
	}
}
