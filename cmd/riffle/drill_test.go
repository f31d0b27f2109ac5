package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/client"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const (
	drillCohort = 60
	drillEpochs = 4
	drillHosts  = 500 // devices of each host
)

// drill is a deployment of processes whose keys are taken, one after the other, and a thief who keeps copies of them.
type drill struct {
	*cluster.Cluster
	t     *testing.T
	stole string // folder with the copies
	epoch uint64 // that was last learned from
}

// riffle runs a command as the operator does, and returns what it printed.
func (d *drill) riffle(args ...string) (string, error) {
	d.t.Helper()
	out, err := exec.CommandContext(d.t.Context(), executable(d.t), args...).CombinedOutput()
	return string(out), err
}

// keygen runs a command of riffle keygen on the deployment's keys.
func (d *drill) keygen(args ...string) {
	d.t.Helper()
	if out, err := d.riffle(append(append([]string{"keygen"}, args...), "--keys", d.Keys())...); err != nil {
		d.t.Fatalf("riffle keygen %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// steal copies all keys as they are now, with the modes that roles ask for.
func (d *drill) steal() (folder string) {
	d.t.Helper()
	folder = filepath.Join(d.stole, fmt.Sprint(d.epoch, time.Now().UnixNano()))
	if err := os.CopyFS(folder, os.DirFS(d.Keys())); err != nil {
		d.t.Fatal(err)
	}
	if out, err := exec.Command("chmod", "-R", "go-rwx", folder).CombinedOutput(); err != nil {
		d.t.Fatalf("%v: %s", err, out)
	}
	return folder
}

// restart ends processes as a power cut would, and starts them again with the keys that there are now.
func (d *drill) restart(names ...string) {
	d.t.Helper()
	for _, name := range names {
		if err := d.Kill(name); err != nil {
			d.t.Fatal(err)
		}
		if err := d.StartProcess(d.t.Context(), name); err != nil {
			d.t.Fatal(err)
		}
	}
}

// enter tries a credential at the broker. It is refused with bus.ErrCredentials.
func (d *drill) enter(role bus.Role, folder, name string) (*bus.Conn, error) {
	d.t.Helper()
	seed, err := os.ReadFile(filepath.Join(folder, name, "nats.seed"))
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), testbed.Patience)
	defer cancel()
	return bus.Connect(ctx, bus.Options{URL: d.URL(), Role: role, Seed: []byte(strings.TrimSpace(string(seed))),
		Name: "thief"})
}

// learn has a cohort of new people decide, reward and report, and waits for the policy that was learned of them.
func (d *drill) learn() {
	d.t.Helper()
	c := client.New(client.Options{})
	defer c.Close()
	at := func() (string, error) {
		if all := d.APIs(); len(all) > 0 {
			return all[0], nil
		}
		return "", errors.New("no host runs")
	}
	d.epoch++
	size := 0
	d.eventually("an open cohort", func() bool {
		s, err := c.Status(d.t.Context(), at)
		if err == nil {
			size = int(s.Cohort)
		}
		return err == nil && s.Epoch == d.epoch && s.Enrolling
	})
	arms := [][]float64{{0.8, 0.1}, {0.1, 0.8}}
	for sampled, n := 0, 0; sampled < size; n++ {
		if n > 2*size {
			d.t.Fatalf("epoch %d: %d of %d people are in a cohort of %d", d.epoch, sampled, n, size)
		}
		a, _, err := c.Decide(d.t.Context(), at, fmt.Sprintf("p%d-%d", d.epoch, n), arms)
		if err != nil {
			d.t.Fatal(err)
		}
		if !a.Sampled {
			continue
		}
		sampled++
		if _, _, err := c.Reward(d.t.Context(), at, a.Token, 1); err != nil {
			d.t.Fatal(err)
		}
	}
	d.eventually("the next policy", func() bool {
		s, err := c.Status(d.t.Context(), at)
		return err == nil && s.Epoch > d.epoch
	})
}

func (d *drill) eventually(what string, is func() bool) {
	d.t.Helper()
	for end := time.Now().Add(testbed.Patience); !is(); time.Sleep(20 * time.Millisecond) {
		if err := d.Failed(); err != nil {
			d.t.Fatal(err)
		}
		if time.Now().After(end) {
			for _, name := range d.Names() {
				d.t.Logf("%s said:\n%s", name, d.LastWords(name))
			}
			d.t.Fatalf("epoch %d: not yet %s", d.epoch, what)
		}
	}
}

// ask enrols a device with a host's keys from a folder, whatever bundle lies there, and returns the shuffler's answer.
func (d *drill) ask(h *keyring.HostKeys, device uint32) *wire.EnrolReply {
	d.t.Helper()
	conn, err := d.enter(bus.Randomizer, d.Keys(), "randomizer-one") // the thief has found a way to the broker
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	signed, _, err := wire.Sign(&wire.EnrolRequest{Deployment: h.Bundle.Deployment, Device: device, Epoch: d.epoch + 1,
		Announcement: make([]byte, 32), Credential: h.Credential, Nonces: []uint32{seal.Nonce()}}, h.Identity)
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), testbed.Patience)
	defer cancel()
	published, err := conn.Keys.ReadKeys(ctx, bus.Shuffler)
	if err != nil {
		d.t.Fatal(err)
	}
	set, _, err := wire.Open[wire.KeySet](published, h.Bundle.ShufflerParty())
	if err != nil {
		d.t.Fatal(err)
	}
	sealed, err := wire.SealRequest(signed, set.Keys[0], h.Bundle.Deployment)
	if err != nil {
		d.t.Fatal(err)
	}
	b, err := conn.Enrolment.Enrol(ctx, sealed.Sealed)
	if err != nil {
		d.t.Fatal(err)
	}
	reply, err := sealed.Answer(b, h.Bundle.Shuffler)
	if err != nil {
		d.t.Fatal(err)
	}
	return reply
}

// The compromise drill of docs/deploy.md, with the commands that are there, on processes: what was stolen works
// before the commands and is refused after them, and the deployment goes on learning where it can.
func TestTheCompromiseDrillEndsCompromises(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("runs a deployment whose keys are taken one after the other; RIFFLE_LONG=1")
	}
	c, err := cluster.Start(t.Context(), cluster.Options{
		Dir: t.TempDir(), Name: "drill", Executable: executable(t), Hosts: []string{"one", "two"}, Devices: drillHosts,
		Analyzer: []string{"--learner-dimension", "2", "--learner-horizon", fmt.Sprint(drillCohort * (drillEpochs + 2)),
			"--learner-first-cohort", fmt.Sprint(drillCohort), "--learner-growth", "1.01",
			"--timing-reward-window", "1s", "--timing-jitter", "0s", "--timing-grace", "20s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	d := &drill{Cluster: c, t: t, stole: t.TempDir()}
	users := map[string]bus.Role{"analyzer": bus.Analyzer, "shuffler": bus.Shuffler, "auditor": bus.Auditor,
		"admin": bus.Admin, "randomizer-one": bus.Randomizer}
	d.learn()

	// Credentials at the broker, of every role.
	stolen := d.steal()
	for name, role := range users {
		conn, err := d.enter(role, stolen, name)
		if err != nil {
			t.Fatalf("the credential of %s before: %v", name, err)
		}
		conn.Close()
		d.keygen("rotate-user", name)
	}
	d.restart(cluster.Broker, cluster.Shuffler, cluster.Analyzer, "randomizer-one")
	for name, role := range users {
		if _, err := d.enter(role, stolen, name); !errors.Is(err, bus.ErrCredentials) {
			t.Errorf("the old credential of %s: %v", name, err)
		}
		conn, err := d.enter(role, d.Keys(), name)
		if err != nil {
			t.Fatalf("the new credential of %s: %v", name, err)
		}
		conn.Close()
	}

	// Encryption keys. The roles have lost the old ones before anybody reports, so what is counted was sealed to the
	// new.
	d.keygen("rotate", "shuffler")
	d.keygen("rotate", "analyzer")
	d.restart(cluster.Shuffler, cluster.Analyzer)
	if err := os.Remove(filepath.Join(d.Keys(), "shuffler", "hpke-0001.key")); err != nil { // no report is under way
		t.Fatal(err)
	}
	d.restart(cluster.Shuffler)
	d.learn() // epoch 2 is announced with the analyzer's old key, epoch 3 with the new one
	if err := os.Remove(filepath.Join(d.Keys(), "analyzer", "hpke-0001.key")); err != nil {
		t.Fatal(err)
	}
	d.restart(cluster.Analyzer)

	// A host's key. The thief still reaches the broker.
	stolen = d.steal()
	thief, err := keyring.LoadRandomizer(stolen, "one")
	if err != nil {
		t.Fatal(err)
	}
	unused := uint32(drillHosts - 1)
	if r := d.ask(thief, unused); r.Refusal == wire.RefusalNoCredential {
		t.Errorf("the host's key before: %v", r.Refusal)
	}
	d.keygen("rotate-host", "one")
	d.restart(cluster.Broker, cluster.Shuffler, cluster.Analyzer, "randomizer-one")
	if r := d.ask(thief, unused); r.Refusal != wire.RefusalNoCredential {
		t.Errorf("the host's old key: %v", r.Refusal)
	}
	d.learn()

	// A host that nobody trusts any more.
	withdrawn, err := keyring.LoadRandomizer(d.Keys(), "two")
	if err != nil {
		t.Fatal(err)
	}
	if r := d.ask(withdrawn, 0); r.Refusal == wire.RefusalNoCredential {
		t.Errorf("the host before it is withdrawn: %v", r.Refusal)
	}
	if err := d.Kill("randomizer-two"); err != nil {
		t.Fatal(err)
	}
	d.keygen("withdraw-host", "two")
	d.restart(cluster.Broker, cluster.Shuffler, cluster.Analyzer, "randomizer-one")
	if r := d.ask(withdrawn, 0); r.Refusal != wire.RefusalNoCredential {
		t.Errorf("the withdrawn host: %v", r.Refusal)
	}
	if _, err := d.enter(bus.Randomizer, d.Keys(), "randomizer-two"); !errors.Is(err, bus.ErrCredentials) {
		t.Errorf("its user: %v", err)
	}
	d.learn()
	d.identities()
}

// identities takes the signing keys: the deployment ends, and the next one refuses them. Audits of the first one are
// told until when they were good.
func (d *drill) identities() {
	d.t.Helper()
	d.keygen("end-key", fmt.Sprintf("shuffler=%d", drillEpochs-1))
	out, err := d.riffle("audit", "--keys", d.Keys(), "--broker-url", d.URL(), "--json")
	if err == nil || !strings.Contains(out, `"what": "expired_key"`) {
		d.t.Errorf("the audit of statements after the key's end: %v\n%s", err, out)
	}
	next := filepath.Join(d.stole, "next")
	if out, err := d.riffle("keygen", "--out", next, "--name", "drill-2", "--no-tls", "--host", "one=500"); err != nil {
		d.t.Fatalf("%v\n%s", err, out)
	}
	for role, args := range map[string][]string{
		"analyzer": {"--learner-dimension", "2", "--learner-horizon", "240"}, "shuffler": nil,
		"randomizer-one": {"--host", "one"},
	} {
		word, _, _ := strings.Cut(role, "-")
		check := append([]string{word, "--keys", next, "--state", filepath.Join(d.stole, "state"), "--check-config"},
			args...)
		if out, err := d.riffle(check...); err != nil {
			d.t.Errorf("%s of the new deployment: %v\n%s", role, err, out)
		}
		kept := filepath.Join(next, role)
		if err := os.Rename(kept, kept+".kept"); err != nil {
			d.t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(d.Keys(), role), kept); err != nil {
			d.t.Fatal(err)
		}
		if out, err := d.riffle(check...); err == nil || !strings.Contains(out, "do not belong to this bundle") {
			d.t.Errorf("%s with its old keys in the new deployment: %v\n%s", role, err, out)
		}
	}
}

// A broker's key that was taken: with the new authority a client refuses the thief's broker, on a real server over TLS.
func TestTheCompromiseDrillEndsAStolenBroker(t *testing.T) {
	if os.Getenv("RIFFLE_LONG") == "" {
		t.Skip("runs brokers; RIFFLE_LONG=1")
	}
	keys, stolen := filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "stolen")
	d := &drill{t: t}
	if out, err := d.riffle("keygen", "--out", keys, "--tls", "nats=127.0.0.1"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.CopyFS(stolen, os.DirFS(keys)); err != nil {
		t.Fatal(err)
	}
	provisioned := func(server, authority string) error {
		users, err := keyring.LoadUsers(keys)
		if err != nil {
			t.Fatal(err)
		}
		o := broker.Options{Dir: t.TempDir(), Users: map[bus.Role][]string{}, MaxStore: 1 << 40, TLS: &broker.TLS{
			CertFile: filepath.Join(server, "broker-nats", "server.pem"),
			KeyFile:  filepath.Join(server, "broker-nats", "server.key")}}
		for role, public := range users {
			o.Users[bus.Role(role)] = public
		}
		s, err := broker.Start(o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		out, err := d.riffle("broker", "provision", "--keys", keys, "--broker-url",
			fmt.Sprintf("tls://127.0.0.1:%d", s.Port()),
			"--broker-ca", filepath.Join(authority, "ca.pem"), "--within", "20s", "--max-report-bytes", "-1")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := provisioned(stolen, keys); err != nil {
		t.Fatalf("the broker's key before: %v", err)
	}
	if out, err := d.riffle("keygen", "rotate-authority", "--keys", keys); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := provisioned(keys, keys); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if err := provisioned(stolen, keys); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("the thief's broker, with the new ca.pem: %v", err)
	}
}
