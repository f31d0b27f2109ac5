package main

import (
	"context"
	_ "embed" // for the schema
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/issuer"
	"github.com/riffle-dp/riffle/pkg/plan"
)

//go:embed schema.json
var schema []byte

const (
	name     = "exercise"
	lastSeen = 1000 // epochs for which the issuer is certified
	delta    = 1e-4
)

// options say what is started.
type options struct {
	folder  string
	client  string // folder with the web client
	people  int    // to learn from
	epsilon float64
	window  time.Duration // from decision to report
}

func (o options) minCohort() int { return max(8, o.people/10) }

// limits are what the page promises its people.
func (o options) limits() device.Limits {
	l := device.DefaultLimits()
	l.Epsilon, l.Delta, l.Trust = o.epsilon, delta, []plan.Channel{plan.Shares}
	l.MinCohort = o.minCohort()
	return l
}

// start runs broker, roles and ingress as processes of this program, with keys of their own.
func start(ctx context.Context, o options) (*cluster.Cluster, settings, error) {
	fail := func(err error) (*cluster.Cluster, settings, error) { return nil, settings{}, err }
	features := filepath.Join(o.folder, "schema.json")
	if err := os.WriteFile(features, schema, 0o600); err != nil {
		return fail(err)
	}
	program, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	keys := filepath.Join(o.folder, "keys")
	if err := keyring.Generate(keys, keyring.Options{Name: name, Hosts: nil}); err != nil {
		return fail(err)
	}
	key, err := keyring.MakeIssuer(keys)
	if err != nil {
		return fail(err)
	}
	certificate, err := keyring.CertifyIssuer(keys, keyring.IssuerOptions{
		Name: "app", Key: key, First: 1, Last: lastSeen, Installations: uint32(10*o.people + 1000),
	})
	if err != nil {
		return fail(err)
	}
	flag := func(name string, value any) string { return fmt.Sprintf("--%s=%v", name, value) }
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: filepath.Join(o.folder, "deployment"), Name: name, Executable: program, Keys: keys,
		Devices: uint32(4*o.people + 1000), Shuffler: []string{flag("min-cohort", o.minCohort())},
		Ingress: []string{flag("limits-reports", 10_000), flag("limits-enrolments", 10_000)},
		Analyzer: []string{
			flag("features", features), flag("learner-dimension", 12), flag("learner-horizon", o.people),
			flag("privacy-channel", plan.Shares), flag("privacy-epsilon", o.epsilon), flag("privacy-delta", delta),
			flag("privacy-min-cohort", o.minCohort()), flag("timing-reward-window", o.window),
			flag("timing-jitter", o.window/10), flag("timing-grace", "2m"), flag("max-report-size", 0),
		},
	})
	if err != nil {
		return fail(err)
	}
	s, err := known(keys, certificate)
	s.Folder, s.Client, s.Ingress, s.Limits = o.folder, o.client, c.IngressURL(), o.limits()
	return c, s, err
}

// known is what the backend has of the deployment's keys.
func known(keys, certificate string) (s settings, err error) {
	bundle, err := keyring.LoadBundle(keys)
	if err != nil {
		return s, err
	}
	signed, err := os.ReadFile(filepath.Clean(certificate))
	if err != nil {
		return s, err
	}
	if err := os.WriteFile(filepath.Join(keys, keyring.Issuer, filepath.Base(certificate)), signed, 0o600); err != nil {
		return s, err
	}
	own, err := keyring.LoadIssuer(keys)
	if err != nil {
		return s, err
	}
	if s.Bundle, err = os.ReadFile(filepath.Join(keys, keyring.BundleFile)); err != nil {
		return s, err
	}
	s.Names = own.Names
	s.Issuer = issuer.Config{Registrar: bundle.RegistrarParty(), Certificate: own.Certificate, Identity: own.Identity,
		Names: own.Names, Now: time.Now}
	return s, nil
}

// client builds the web client into a folder, and returns where its files are.
func client(ctx context.Context, folder string) (string, error) {
	build := exec.CommandContext(ctx, "go", "run", "./build", "-out", folder)
	build.Dir = filepath.Join("clients", "web")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the web client cannot be built: %w; run this in the repository, with tsc (Debian: "+
			"apt-get install node-typescript)\n%s", err, said)
	}
	return filepath.Join(folder, "dist"), nil
}
