package composetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/testing/access"
)

// within gives the stack's helpers the subtest to fail.
func (s *stack) within(t *testing.T) *stack {
	inner := *s
	inner.t = t
	return &inner
}

// testContainers looks at what each container is allowed and at what is inside it.
func (outer *stack) testContainers(t *testing.T) {
	s := outer.within(t)
	role := []string{"/keys/bundle.json", "/keys/ca.pem"}
	for service, want := range map[string]struct {
		files  []string // in the image
		mounts []string
	}{
		"shuffler": {[]string{"role"}, append([]string{"/keys/shuffler", "/state", "/etc/riffle/shuffler.yaml"},
			role...)},
		"analyzer": {[]string{"role"}, append([]string{"/keys/analyzer", "/state", "/etc/riffle/analyzer.yaml"},
			role...)},
		"host1": {[]string{"role"}, append([]string{"/keys/randomizer-host1", "/state",
			"/etc/riffle/randomizer.yaml"}, role...)},
		"host2": {[]string{"role"}, append([]string{"/keys/randomizer-host2", "/state",
			"/etc/riffle/randomizer.yaml"}, role...)},
		"nats": {[]string{"healthcheck", "nats-server"},
			[]string{"/data", "/etc/nats/ca.pem", "/etc/nats/nats.conf", "/etc/nats/tls"}},
		"provision": {[]string{"riffle"}, []string{"/keys/admin", "/keys/ca.pem"}},

		"door-broker": {[]string{"door"}, nil}, "door-mixing": {[]string{"door"}, nil},
		"door-analysis": {[]string{"door"}, nil},
		"door-host1":    {[]string{"door"}, nil}, "door-host2": {[]string{"door"}, nil},
	} {
		c := s.inspect(service)
		uid, gid, ok := strings.Cut(c.Config.User, ":")
		if h := c.HostConfig; !ok || uid == "0" || uid == "" || gid == "0" || strings.Trim(uid, "0123456789") != "" ||
			!h.ReadonlyRootfs || h.Privileged || len(h.CapAdd) > 0 ||
			!slices.Equal(h.CapDrop, []string{"ALL"}) || !slices.Contains(h.SecurityOpt, "no-new-privileges:true") ||
			h.Memory == 0 || h.PidsLimit == 0 || h.PidMode != "" {
			t.Errorf("%s: %+v, %+v", service, c.Config, h)
		}
		if listens := service != "nats" && service != "provision"; listens &&
			c.HostConfig.Sysctls["net.ipv4.conf.all.arp_ignore"] != "1" {
			t.Errorf("%s answers on every network for the address at which it listens on one: %v", service,
				c.HostConfig.Sysctls)
		}
		var mounts []string
		for _, m := range c.Mounts {
			mounts = append(mounts, m.Destination)
			if m.RW != (m.Destination == "/state" || m.Destination == "/data") {
				t.Errorf("%s: %s writable: %v", service, m.Destination, m.RW)
			}
		}
		slices.Sort(mounts)
		slices.Sort(want.mounts)
		if !slices.Equal(mounts, want.mounts) {
			t.Errorf("%s has mounts %v, not %v", service, mounts, want.mounts)
		}
		for port, bindings := range c.NetworkSettings.Ports {
			for _, b := range bindings {
				if b.HostIp != "127.0.0.1" {
					t.Errorf("%s publishes %s on %s", service, port, b.HostIp)
				}
			}
		}
		listing := s.must("sh", "-c",
			`id=$(docker create "$0") && docker export "$id" | tar -t; docker rm "$id" >/dev/null`, c.Config.Image)
		var files []string
		for name := range strings.FieldsSeq(listing) {
			// Docker's own, empty ones
			if top, _, _ := strings.Cut(name, "/"); !slices.Contains([]string{"dev", "etc", "proc", "sys",
				".dockerenv", "state", "data"}, top) {
				files = append(files, name)
			}
		}
		if !slices.Equal(files, want.files) {
			t.Errorf("the image of %s holds %v", service, files)
		}
	}
}

// gate is one service's door to this machine: the only one that has a way to it.
const gate = "door-"

// testSides puts a probe into the network namespace of every container, where it can do what a process could that took
// the container over, and lets it call every address of every container and of this machine. A role must reach the
// broker's one port on their common network and itself; the broker must reach itself; a door its own role. Nobody but a
// door reaches this machine.
func (outer *stack) testSides(t *testing.T) {
	s := outer.within(t)
	folder := t.TempDir()
	s.must("sh", "-c", `cd "$0" && CGO_ENABLED=0 go build -o "$1/probe" ./deploy/composetest/probe`, s.root, folder)
	if err := os.WriteFile(filepath.Join(folder, "Dockerfile"),
		[]byte("FROM scratch\nCOPY probe /probe\nUSER 65532:65532\nENTRYPOINT [\"/probe\"]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	image := s.project + "-probe"
	s.must("docker", "build", "-q", "-t", image, folder)
	defer s.must("docker", "image", "rm", "-f", image)

	// This machine listens on all its addresses, as a database might that somebody runs beside the deployment.
	machine, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	go func() {
		for {
			c, err := machine.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	_, machinePort, _ := net.SplitHostPort(machine.Addr().String())
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{} // whose an address is
	var targets []string
	add := func(owner, address, port string) {
		targets = append(targets, net.JoinHostPort(address, port))
		of[net.JoinHostPort(address, port)] = owner
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			add("this machine", n.IP.String(), machinePort)
		}
	}
	ports := map[string][]string{"nats": {"4222", "6222", "8222"}, "shuffler": {"9401"}, "analyzer": {"9402"},
		"host1": {"8400", "9403"}, "host2": {"8400", "9403"}}
	var services []string
	for _, service := range strings.Fields(s.must("docker", "ps", "--filter",
		"label=com.docker.compose.project="+s.project, "--format", `{{.Label "com.docker.compose.service"}}`)) {
		services = append(services, service)
		if door, ok := strings.CutPrefix(service, gate); ok {
			ports[service] = ports[map[string]string{"broker": "nats", "mixing": "shuffler",
				"analysis": "analyzer"}[door]]
			if len(ports[service]) == 0 {
				ports[service] = ports[door]
			}
		}
		for _, network := range s.inspect(service).NetworkSettings.Networks {
			for _, port := range ports[service] {
				add(service, network.IPAddress, port)
			}
		}
	}
	var wg sync.WaitGroup
	answers, errs := make([]string, len(services)), make([]error, len(services))
	for i, service := range services {
		wg.Go(func() {
			answers[i], errs[i] = s.run("docker",
				append([]string{"run", "--rm", "--name", s.project + "-probe-" + service,
					"--network", "container:" + s.id(service), "--read-only", "--cap-drop", "ALL", image, "nats:4222"},
					targets...)...)
		})
	}
	wg.Wait()
	behind := map[string]string{"door-broker": "nats", "door-mixing": "shuffler", "door-analysis": "analyzer",
		"door-host1": "host1", "door-host2": "host2"}
	for i, service := range services {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		reached, met := strings.Fields(answers[i]), map[string]int{}
		role, door := behind[service]
		for _, r := range reached {
			owner, port := of[r], r[strings.LastIndexByte(r, ':')+1:]
			met[owner]++
			switch {
			case r == "nats:4222" && (!door || role == "nats"), owner == service:
			case owner == "nats" && port == "4222" && service != "nats" && !door:
			case door && (owner == role || owner == "this machine"):
			default:
				t.Errorf("from %s one reaches %s of %s", service, r, owner)
			}
		}
		if want := map[bool]string{true: role, false: "nats"}[door]; met[want] == 0 {
			t.Errorf("from %s one does not reach %s, so that what else is not reached proves nothing: %v", service,
				want, reached)
		}
		t.Logf("from %s: %d of %d addresses reached: %v", service, len(reached), len(targets), met)
	}
}

// testTLS tries to talk to the broker without knowing whom one talks to.
func (outer *stack) testTLS(t *testing.T) {
	s := outer.within(t)
	other := filepath.Join(t.TempDir(), "keys")
	if err := keyring.Generate(other, keyring.Options{Name: "other",
		Brokers: []keyring.BrokerOptions{{Name: "nats", Hosts: []string{"nats"}}}}); err != nil {
		t.Fatal(err)
	}
	broker := s.broker()
	const otherKey = "with another deployment's key"
	var wg sync.WaitGroup
	for what, change := range map[string]func(*bus.Options){
		"in the clear": func(o *bus.Options) {
			o.URL, o.TLS = strings.Replace(o.URL, "tls://", "nats://", 1), nil
		},
		"with another authority": func(o *bus.Options) {
			o.TLS.CAFile = filepath.Join(other, keyring.AuthorityFile)
		},
		"with the system's authorities": func(o *bus.Options) { o.TLS.CAFile = "" },
		"under another name":            func(o *bus.Options) { o.TLS.ServerName = "broker.example.org" },
		otherKey:                        func(o *bus.Options) { o.Seed = s.seed(other, "auditor") },
	} {
		wg.Go(func() {
			wait := 2 * time.Second // most of these attempts go on until the time is up
			if what == otherKey {
				wait = stuck
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			c, err := s.connect(ctx, broker, bus.Auditor, change)
			if err == nil {
				c.Close()
				t.Errorf("%s: connected", what)
			}
			if what == otherKey && !errors.Is(err, bus.ErrCredentials) {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	wg.Wait()
}

// call opens TLS with a broker. On the port for roles it greets in the clear before.
func (s *stack) call(address, name string, greets bool, own []tls.Certificate) (*tls.Conn, error) {
	pem, err := os.ReadFile(filepath.Join(s.keys(), keyring.AuthorityFile))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	c, err := net.DialTimeout("tcp", address, stuck)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(stuck)); err != nil {
		return nil, err
	}
	for b := []byte{0}; greets && b[0] != '\n'; { // not a byte more: what follows is TLS
		if _, err := c.Read(b); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	secure := tls.Client(c, &tls.Config{RootCAs: pool, ServerName: name, Certificates: own})
	if err := secure.Handshake(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return secure, nil
}

// testReload admits a host and renews the broker's certificate while everything runs.
func (outer *stack) testReload(t *testing.T) {
	s := outer.within(t)
	broker := s.broker()
	served := func() *x509.Certificate {
		t.Helper()
		secure, err := s.call(strings.TrimPrefix(broker, "tls://"), "nats", true, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer secure.Close()
		return secure.ConnectionState().PeerCertificates[0]
	}
	host3 := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), stuck)
		defer cancel()
		c, err := s.connect(ctx, broker, bus.Randomizer,
			func(o *bus.Options) { o.Seed = s.seed(s.keys(), "randomizer-host3") })
		if err == nil {
			c.Close()
		}
		return err
	}
	before := served()
	s.must(s.riffle(), "keygen", "add-host", "host3=10", "--keys", s.keys())
	s.must(s.riffle(), "keygen", "renew-broker", "nats", "--keys", s.keys())
	if err := host3(); !errors.Is(err, bus.ErrCredentials) {
		t.Errorf("a host that the broker has not heard of: %v", err)
	}
	s.must(s.script("reload"))
	if err := host3(); err != nil {
		t.Errorf("a host that was admitted: %v", err)
	}
	if after := served(); after.SerialNumber.Cmp(before.SerialNumber) == 0 || after.NotAfter.Before(before.NotAfter) {
		t.Errorf("the broker shows the certificate %v until %v, as before", after.SerialNumber, after.NotAfter)
	}
}

// testAccess tries everything at the broker as every role, with the deployment's own credentials.
func (outer *stack) testAccess(t *testing.T) {
	s := outer.within(t)
	ctx, cancel := context.WithTimeout(t.Context(), stuck)
	defer cancel()
	broker := s.broker()
	found, err := access.Try(ctx, func(role bus.Role) bus.Options { return s.options(broker, role) })
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found.Faults() {
		t.Error(f)
	}
	for path, text := range map[string]string{
		"docs/access.md": found.Document(), "internal/testing/access/testdata/attempts.txt": found.Table(),
	} {
		page, err := os.ReadFile(filepath.Join(s.tree, path))
		if err != nil {
			t.Fatal(err)
		}
		if string(page) != text {
			t.Errorf("%s is not what was found here", path)
		}
	}
	refused, reached := found.Counts()
	t.Logf("%d attempts refused, %d allowed", refused, reached)
}
