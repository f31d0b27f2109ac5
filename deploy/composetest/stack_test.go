package composetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
)

// The test's own configuration: a small deployment whose people come at once.
const (
	horizon      = 300
	rewardWindow = 5 * time.Second
	jitter       = 4 * time.Second
	analyzerYAML = `
learner: {family: logistic, dimension: 5, radius: 3, horizon: 300}
privacy: {epsilon: 1, delta: 1e-6, drop_out: 0.1, max_messages: 0, min_cohort: 50}
timing: {reward_window: 5s, jitter: 4s, grace: 60s}
`
	randomizerYAML = `limits: {epsilon: 1, delta: 1e-6, min_cohort: 50, max_messages: 100000}` + "\n"
	shufflerYAML   = `min_cohort: 50` + "\n"
)

// stuck is a time after which anything that is waited for counts as stuck, on a machine that is busy with other tests
// too.
const stuck = 5 * time.Minute

// shared is what the deployments of a test run have in common: the commit, and the machine.
var shared struct {
	building sync.Mutex
	riffle   []byte // the command as the first deployment has built it, with all images; nil: nothing is built yet

	mu      sync.Mutex
	ports   []string // that deployments were given
	subnets int
}

// stack is a compose deployment that this test started and ends.
type stack struct {
	t       *testing.T
	root    string // of this repository
	tree    string // a clean checkout
	dir     string
	project string
	tag     string // of its images
	env     []string
	apis    []string
	port    string            // of the broker
	ingress string            // where RIFFLE_INGRESS is true
	ops     map[string]string // the roles' ops listeners, by service
}

// newStack checks a commit out, the last one unless RIFFLE_COMPOSE_COMMIT names another, and chooses names and ports
// that nothing else has. What up starts ends with the test.
func newStack(t *testing.T, name string) *stack {
	t.Helper()
	if os.Getenv("RIFFLE_COMPOSE") == "" {
		t.Skip("RIFFLE_COMPOSE=1 runs it: needs a Docker engine and docker-compose; see deploy/test")
	}
	s := &stack{t: t, dir: t.TempDir(), project: fmt.Sprintf("riffletest%s%d", name, os.Getpid()),
		tag: cmp.Or(os.Getenv("RIFFLE_TAG"), "test")}
	s.tree = filepath.Join(s.dir, "tree")
	config := filepath.Join(s.dir, "config")
	for _, d := range []string{s.tree, config} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.root = strings.TrimSpace(s.must("git", "rev-parse", "--show-toplevel"))
	commit := cmp.Or(os.Getenv("RIFFLE_COMPOSE_COMMIT"), "HEAD")
	s.must("sh", "-c", `git -C "$0" archive "$2" | tar -x -C "$1"`, s.root, s.tree, commit)
	for name, text := range map[string]string{"analyzer.yaml": analyzerYAML, "randomizer.yaml": randomizerYAML,
		"shuffler.yaml": shufflerYAML} {
		if err := os.WriteFile(filepath.Join(config, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ports := freePorts(t, 9)
	for _, p := range ports[:2] {
		s.apis = append(s.apis, "http://127.0.0.1:"+p)
	}
	s.port = ports[2]
	s.ops = map[string]string{}
	for i, service := range []string{"shuffler", "analyzer", "host1", "host2"} {
		s.ops[service] = "http://127.0.0.1:" + ports[3+i]
	}
	s.env = append(os.Environ(), "COMPOSE_PROJECT_NAME="+s.project, "RIFFLE_TAG="+s.tag,
		"RIFFLE_RUN="+filepath.Join(s.dir, "run"), "RIFFLE_CONFIG="+config,
		"RIFFLE_HOSTS=host1=1000 host2=1000", "RIFFLE_API_PORT_1="+ports[0], "RIFFLE_API_PORT_2="+ports[1],
		"RIFFLE_BROKER_PORT="+s.port, "RIFFLE_SHUFFLER_OPS_PORT="+ports[3], "RIFFLE_ANALYZER_OPS_PORT="+ports[4],
		"RIFFLE_OPS_PORT_1="+ports[5], "RIFFLE_OPS_PORT_2="+ports[6], "RIFFLE_INGRESS_PORT="+ports[7],
		"RIFFLE_INGRESS_OPS_PORT="+ports[8])
	s.ingress = "http://127.0.0.1:" + ports[7]
	if name != "" { // the one without a name has the addresses that follow from its project's name, as an operator's
		s.env = append(s.env, "RIFFLE_SUBNET="+subnet())
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := s.run("sh", "-c", `for c in $(docker ps -aq --filter label=com.docker.compose.project="$0"); do
				docker inspect -f '== {{.Name}} {{.State.Status}}' $c; docker logs --tail 30 $c 2>&1; done`, s.project)
			t.Log(out)
		}
		s.must(s.script("down"), "--volumes")
		for _, kind := range [][]string{{"ps", "-aq"}, {"network", "ls", "-q"}, {"volume", "ls", "-q"}} {
			left := s.must("docker", append(kind, "--filter", "label=com.docker.compose.project="+s.project)...)
			if left != "" {
				t.Errorf("deploy/down --volumes left %s: %s", kind[0], left)
			}
		}
		for service := range s.ops {
			if t.Failed() {
				break // it may never have been up
			}
			if kept, err := filepath.Glob(filepath.Join(s.dir, "run", "logs", service+"-*.log")); err != nil ||
				len(kept) == 0 {
				t.Errorf("deploy/down kept no log of %s: %v", service, err)
			}
		}
		if _, err := os.Stat(s.keys()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("deploy/down --volumes left keys: %v", err)
		}
	})
	return s
}

func (s *stack) keys() string              { return filepath.Join(s.dir, "run", "keys") }
func (s *stack) riffle() string            { return filepath.Join(s.dir, "run", "bin", "riffle") }
func (s *stack) script(name string) string { return filepath.Join(s.tree, "deploy", name) }

// run runs a command with the deployment's environment and returns what it printed.
func (s *stack) run(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stuck) // not the test's: cleaning up comes after it
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = s.env, &out, &errs, time.Second
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.String(),
			errs.String())
	}
	return out.String(), nil
}

func (s *stack) must(name string, args ...string) string {
	s.t.Helper()
	out, err := s.run(name, args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// up brings the deployment up. The first one of a test run builds its images, as an operator does. The others wait
// until it is up, and use them.
func (s *stack) up(args ...string) {
	s.t.Helper()
	begin := time.Now()
	if !s.first(args) {
		s.must("mkdir", "-p", filepath.Dir(s.riffle()))
		if err := os.WriteFile(s.riffle(), shared.riffle, 0o755); err != nil {
			s.t.Fatal(err)
		}
		s.env = append(s.env, "RIFFLE_SKIP_BUILD=1")
		s.t.Log(s.must(s.script("up"), args...))
	}
	s.t.Logf("up after %.0f s", time.Since(begin).Seconds())
}

// first brings the deployment up, with images of its own, if no other one has built them.
func (s *stack) first(args []string) bool {
	s.t.Helper()
	shared.building.Lock()
	defer shared.building.Unlock()
	if shared.riffle != nil {
		return false
	}
	s.t.Log(s.must(s.script("up"), args...))
	riffle, err := os.ReadFile(s.riffle())
	if err != nil {
		s.t.Fatal(err)
	}
	shared.riffle = riffle
	return true
}

// id is a service's container.
func (s *stack) id(service string) string {
	s.t.Helper()
	id := strings.TrimSpace(s.must("docker", "ps", "-aq", "--no-trunc",
		"--filter", "label=com.docker.compose.project="+s.project, "--filter",
		"label=com.docker.compose.service="+service))
	if len(id) != 64 {
		s.t.Fatalf("%s has no container, or several: %q", service, id)
	}
	return id
}

// kill ends a container as a power cut would, and start starts it again.
func (s *stack) kill(service string) {
	s.t.Helper()
	s.must("docker", "kill", s.id(service))
}
func (s *stack) start(service string) {
	s.t.Helper()
	s.must("docker", "start", s.id(service))
}

// rotateFiles makes a new key for a role without restarting it, as the first half of deploy/rotate does.
func (s *stack) rotateFiles(role string) {
	s.t.Helper()
	path, err := keyring.RotateHPKE(s.keys(), role)
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(s.keys(), role, "identity.key"))
	if err != nil {
		s.t.Fatal(err)
	}
	chown(s.t, path, info)
}

// container is what the test looks at of docker inspect.
type container struct {
	Config struct {
		User  string
		Image string
	}
	HostConfig struct {
		ReadonlyRootfs bool
		Privileged     bool
		CapAdd         []string
		CapDrop        []string
		SecurityOpt    []string
		Memory         int64
		PidsLimit      int64
		NetworkMode    string
		PidMode        string
		Sysctls        map[string]string
	}
	Mounts []struct {
		Destination string
		RW          bool
	}
	NetworkSettings struct {
		Networks map[string]struct{ IPAddress string }
		Ports    map[string][]struct{ HostIp string }
	}
}

func (s *stack) inspect(service string) container {
	s.t.Helper()
	var found []container
	if err := json.Unmarshal([]byte(s.must("docker", "inspect", s.id(service))), &found); err != nil ||
		len(found) != 1 {
		s.t.Fatal(service, err)
	}
	return found[0]
}

// through opens a door to a port that no door of the deployment leads to, and returns the address on this machine.
func (s *stack) through(network, target string) string {
	s.t.Helper()
	id := strings.TrimSpace(s.must("docker", "create", "-p", "127.0.0.1::9000", "-e", "RIFFLE_DOOR=:9000="+target,
		"riffle/door:"+s.tag))
	s.t.Cleanup(func() { s.must("docker", "rm", "-f", id) })
	s.must("docker", "network", "connect", s.project+"_"+network, id)
	s.must("docker", "start", id)
	return strings.TrimSpace(s.must("docker", "port", id, "9000/tcp"))
}

// broker is where the operator's tools find the broker.
func (s *stack) broker() string { return "tls://" + net.JoinHostPort("127.0.0.1", s.port) }

// options are how a role connects to the broker from this machine, by its address and under the name in its
// certificate.
func (s *stack) options(broker string, role bus.Role) bus.Options {
	s.t.Helper()
	folder := string(role)
	if role == bus.Randomizer {
		folder += "-host1"
	}
	return bus.Options{
		URL: broker, Role: role, Seed: s.seed(s.keys(), folder), Name: "compose test",
		TLS: &bus.TLS{CAFile: filepath.Join(s.keys(), keyring.AuthorityFile), ServerName: "nats"},
	}
}

// seed is the broker credential in one folder of a key folder.
func (s *stack) seed(keys, folder string) []byte {
	s.t.Helper()
	seed, err := keyfile.LoadSeed(filepath.Join(keys, folder, "nats.seed"))
	if err != nil {
		s.t.Error(err)
	}
	return seed
}

// connect connects with these options, changed.
func (s *stack) connect(ctx context.Context, broker string, role bus.Role, change ...func(*bus.Options)) (*bus.Conn,
	error) {
	s.t.Helper()
	o := s.options(broker, role)
	for _, f := range change {
		f(&o)
	}
	return bus.Connect(ctx, o)
}

// spoiled finds what metrics show of items that were refused or are unaccounted for.
var spoiled = regexp.MustCompile(`(?m)^(riffle_refused_total|riffle_unaccounted_items)(\{[^}]*\})? (-?[1-9].*)$`)

// metrics are what a role shows of itself.
func (s *stack) metrics(service string) string {
	s.t.Helper()
	client := http.Client{Timeout: stuck}
	answer, err := client.Get(s.ops[service] + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || !bytes.Contains(text, []byte("riffle_unaccounted_items")) {
		s.t.Fatalf("%s has no metrics: %v", service, err)
	}
	return string(text)
}

// losses lists what a role has refused or lost sight of since it started.
func (s *stack) losses(service string) []string {
	s.t.Helper()
	return slices.DeleteFunc(spoiled.FindAllString(s.metrics(service), -1), func(line string) bool {
		// People who were not sampled have lost nothing, and a device that was ahead of the shuffler has asked again.
		return strings.HasPrefix(service, "host") && strings.Contains(line, `refused_total{item="enrolment"`) ||
			strings.Contains(line, `item="enrolment",reason="wrong_epoch"`)
	})
}

// lost is what losses lists but for reports that came again: one that was admitted, and whose acknowledgement died with
// the shuffler, a worker or the broker, comes again when its epoch is over. The public record shows that each is
// counted.
func (s *stack) lost(service string) []string {
	s.t.Helper()
	return slices.DeleteFunc(s.losses(service), func(line string) bool {
		return service == "shuffler" && strings.Contains(line, `item="report",reason="late"`)
	})
}
