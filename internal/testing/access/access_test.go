package access_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/testing/access"
)

var update = flag.Bool("update", false, "write docs/access.md and testdata/attempts.txt")

// It tries everything with the credentials that keygen makes, over TLS.
func TestAccessPageSaysWhatTheBrokerDoes(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	err := keyring.Generate(keys, keyring.Options{
		Name: "demo", Hosts: []keyring.HostOptions{{Name: "one", Devices: 5}},
		Brokers: []keyring.BrokerOptions{{Name: "nats", Hosts: []string{"127.0.0.1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	users, err := keyring.LoadUsers(keys)
	if err != nil {
		t.Fatal(err)
	}
	folder := keyring.BrokerFolder(keys, "nats")
	o := broker.Options{
		Dir: t.TempDir(), MaxStore: 1 << 40, Users: map[bus.Role][]string{},
		TLS: &broker.TLS{CertFile: filepath.Join(folder, "server.pem"), KeyFile: filepath.Join(folder, "server.key")},
	}
	for role, public := range users {
		o.Users[bus.Role(role)] = public
	}
	server, err := broker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := func(role bus.Role) bus.Options {
		folder := string(role)
		if role == bus.Randomizer {
			folder = "randomizer-one"
		}
		seed, err := keyfile.LoadSeed(filepath.Join(keys, folder, "nats.seed"))
		if err != nil {
			t.Error(err)
		}
		ca := filepath.Join(keys, keyring.AuthorityFile)
		return bus.Options{URL: server.URL(), Role: role, Seed: seed, TLS: &bus.TLS{CAFile: ca}}
	}
	admin, err := bus.Connect(ctx, connect(bus.Admin))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := bus.Provision(ctx, admin, bus.ProvisionOptions{Workers: true}); err != nil {
		t.Fatal(err)
	}
	found, err := access.Try(ctx, connect)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found.Faults() {
		t.Error(f)
	}
	if refused, reached := found.Counts(); refused < 100 || reached < 20 {
		t.Errorf("%d refusals and %d permissions: too few to be everything", refused, reached)
	}
	for path, text := range map[string]string{
		"../../../docs/access.md": found.Document(), "testdata/attempts.txt": found.Table(),
	} {
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		written, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(written) != text {
			t.Errorf("%s is not what this test finds: run go test ./internal/testing/access -update and look at "+
				"what has "+"changed", path)
		}
	}
}

func TestUnrefusedAttemptsAndEmptyRefusalsAreFaults(t *testing.T) {
	attempts := access.Attempts()
	good := func() access.Outcomes {
		o := access.Outcomes{}
		for _, role := range bus.Roles() {
			for _, a := range attempts {
				outcome := access.Outcome{Reason: "no permission"}
				if a.Allows(role) {
					outcome = access.Outcome{Reached: true, Reason: "answered"}
				}
				o[role] = append(o[role], outcome)
			}
		}
		return o
	}
	if f := good().Faults(); len(f) > 0 {
		t.Fatal(f)
	}
	for _, spoiled := range []access.Outcome{
		{Reached: true, Reason: "answered"}, {Reason: "no one there"}, {Reason: "no permission; no answer"},
	} {
		o := good()
		o[bus.Auditor][0] = spoiled // creating a stream, which no auditor may
		if f := o.Faults(); len(f) != 1 {
			t.Errorf("%+v: %v", spoiled, f)
		}
	}
	o := good()
	for i, a := range attempts {
		if a.Allows(bus.Shuffler) {
			o[bus.Shuffler][i] = access.Outcome{Reason: "no permission"}
			break
		}
	}
	if f := o.Faults(); len(f) != 1 {
		t.Errorf("a right that is missing: %v", f)
	}
}
