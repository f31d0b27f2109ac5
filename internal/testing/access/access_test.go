package access_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/testing/access"
)

var update = flag.Bool("update", false, "write docs/access.md")

const page = "../../../docs/access.md"

// TestAccessPageIsWhatTheBrokerAllows tries everything with the credentials that keygen makes, over TLS, and holds the
// page in the docs against what it finds.
func TestAccessPageIsWhatTheBrokerAllows(t *testing.T) {
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
	o := bus.ServerOptions{
		Dir: t.TempDir(), MaxStore: 1 << 40, Users: map[bus.Role][]string{},
		TLS: &bus.ServerTLS{CertFile: filepath.Join(folder, "server.pem"),
			KeyFile: filepath.Join(folder, "server.key")},
	}
	for role, public := range users {
		o.Users[bus.Role(role)] = public
	}
	server, err := bus.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	connect := func(ctx context.Context, role bus.Role) (*bus.Conn, error) {
		seed := filepath.Join(keys, string(role), "nats.seed")
		if role == bus.Randomizer {
			seed = filepath.Join(keys, "randomizer-one", "nats.seed")
		}
		return bus.Connect(ctx,
			bus.Options{URL: server.URL(), Role: role, SeedFile: seed,
				TLS: &bus.TLS{CAFile: filepath.Join(keys, keyring.AuthorityFile)}})
	}
	admin, err := connect(ctx, bus.Admin)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := bus.Provision(ctx, admin, bus.ProvisionOptions{}); err != nil {
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
	text := found.Document()
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	written, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != text {
		t.Error("docs/access.md is not what this test finds: " +
			"run go test ./internal/testing/access -update and look at what has changed")
	}
}

// What is not refused must show, and so must a refusal that proves nothing.
func TestUnexpectedOutcomeIsAFault(t *testing.T) {
	attempts := bus.Attempts()
	good := func() access.Outcomes {
		o := access.Outcomes{}
		for _, role := range bus.Roles() {
			for _, a := range attempts {
				o[role] = append(o[role],
					bus.Outcome{Reached: a.Allows(role),
						Reason: map[bool]string{true: "answered", false: "no permission"}[a.Allows(role)]})
			}
		}
		return o
	}
	if f := good().Faults(); len(f) > 0 {
		t.Fatal(f)
	}
	for _, spoiled := range []bus.Outcome{{Reached: true, Reason: "answered"}, {Reason: "no responders"},
		{Reason: "no permission; no answer"}} {
		o := good()
		o[bus.Auditor][0] = spoiled // creating a stream, which no auditor may
		if f := o.Faults(); len(f) != 1 {
			t.Errorf("%+v: %v", spoiled, f)
		}
	}
	o := good()
	for i, a := range attempts {
		if a.Allows(bus.Shuffler) {
			o[bus.Shuffler][i] = bus.Outcome{Reason: "no permission"}
			break
		}
	}
	if f := o.Faults(); len(f) != 1 {
		t.Errorf("a right that is missing: %v", f)
	}
}
