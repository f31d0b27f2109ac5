//go:build unix

package bus_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// brokerProcess is a broker in a process of its own, whose files can be kept from growing: to the server that is a
// disk that fails its writes, and it needs no rights to bring about.
type brokerProcess struct {
	t       *testing.T
	options broker.Options
	cmd     *exec.Cmd
	in      io.Closer
}

const brokerProcessEnv = "RIFFLE_TEST_BROKER"

// TestBrokerProcess is not a test but the other process.
func TestBrokerProcess(t *testing.T) {
	given := os.Getenv(brokerProcessEnv)
	if given == "" {
		return
	}
	limit, text, _ := strings.Cut(given, " ")
	if n, err := strconv.ParseUint(limit, 10, 64); err != nil {
		t.Fatal(err)
	} else if n > 0 {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			t.Fatal(err)
		}
	}
	var o broker.Options
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	s := testbed.StartBroker(t, o)
	fmt.Println("url", s.URL())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test is done with it
	s.Stop()
}

// start runs it with files of at most limit bytes, or of any size for 0.
func (b *brokerProcess) start(limit uint64) (url string) {
	b.t.Helper()
	text, err := json.Marshal(b.options)
	if err != nil {
		b.t.Fatal(err)
	}
	b.cmd = exec.Command(os.Args[0], "-test.run=^TestBrokerProcess$")
	b.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", brokerProcessEnv, limit, text))
	in, err := b.cmd.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	b.in = in
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if u, ok := strings.CutPrefix(lines.Text(), "url "); ok {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return u
		}
	}
	b.t.Fatal("the broker's process did not start")
	return ""
}

func (b *brokerProcess) stop() {
	if b.cmd == nil {
		return
	}
	b.in.Close()
	if err := b.cmd.Wait(); err != nil {
		b.t.Error(err)
	}
	b.cmd = nil
}

// A broker whose disk fails its writes answers publishers nothing, says so to who deletes, and stays so. The role is
// not ready and names the cause; once the broker has been restarted with room it goes on by itself, and nothing that
// was acknowledged is lost.
func TestFullDiskLosesNothing(t *testing.T) {
	t.Parallel()
	b := &brokerProcess{t: t, options: broker.Options{Dir: t.TempDir(), Users: map[bus.Role][]string{}}}
	seeds := map[bus.Role][]byte{}
	for _, r := range bus.Roles() {
		seed, public, err := keyfile.NewSeed()
		if err != nil {
			t.Fatal(err)
		}
		seeds[r], b.options.Users[r] = seed, []string{public}
	}
	monitor := freePort(t)
	b.options.Port, b.options.Monitor = freePort(t), fmt.Sprintf("127.0.0.1:%d", monitor)
	url := b.start(128 << 10)
	t.Cleanup(b.stop)
	ctx, cancel := context.WithTimeout(context.Background(), 3*testbed.Patience)
	defer cancel()
	connect := func(r bus.Role) *bus.Conn {
		c, err := bus.Connect(ctx, bus.Options{URL: url, Role: r, Seed: seeds[r]})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.NATS().Close)
		return c
	}
	admin := connect(bus.Admin)
	if err := bus.Provision(ctx, admin, bus.ProvisionOptions{}); err != nil {
		t.Fatal(err)
	}
	admin.NATS().Close()
	p := bus.Pace(time.Second, 50*time.Millisecond)
	device := newShell(t, bus.Options{URL: url, Role: bus.Randomizer, Seed: seeds[bus.Randomizer]}, p)
	shuffler := newShell(t, bus.Options{URL: url, Role: bus.Shuffler, Seed: seeds[bus.Shuffler]}, p)

	type result struct {
		n   int
		err error
	}
	stored := make(chan result, 100)
	go func() {
		for n := range 12 { // 20 kB each: the seventh does not fit into 128 kB
			err := device.conn.Reports.PublishReport(ctx, 1, 0, fmt.Sprint(n), make([]byte, 20<<10))
			stored <- result{n, err}
		}
		close(stored)
	}()
	device.until("full", bus.ReportSubject(device.conn.User())+" has no final answer since")
	if device.metric("riffle_broker_refuses_writes") != 1 || device.metric("riffle_broker_connected") != 1 {
		t.Error("the metrics do not show it")
	}
	before := 0
	for len(stored) > 0 {
		if r := <-stored; r.err != nil {
			t.Errorf("report %d: %v", r.n, r.err)
		}
		before++
	}
	if before == 0 || before == 12 {
		t.Fatalf("%d reports were stored", before)
	}
	purged := make(chan error, 1)
	go func() { purged <- shuffler.conn.Reports.PurgeReports(ctx, 1) }()
	shuffler.until("told", bus.ErrDisk.Error())
	if shuffler.metric("riffle_broker_refuses_writes") != 1 ||
		shuffler.log.count(`"level":"warn"`, "cannot write to its disk") == 0 {
		t.Error("the shuffler does not say so")
	}
	// What a watchdog of the broker's can go by.
	if r, err := http.Get("http://" + b.options.Monitor + "/healthz"); err != nil ||
		r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the broker's own health: %+v, %v", r, err)
	}

	b.stop()
	b.start(0)
	if err := <-purged; err != nil {
		t.Errorf("purging after the restart: %v", err)
	}
	for r := range stored {
		if r.err != nil {
			t.Errorf("report %d: %v", r.n, r.err)
		}
	}
	device.until("restarted", "ready")
	shuffler.until("restarted", "ready")
	if device.metric("riffle_broker_refuses_writes") != 0 {
		t.Error("the metric still shows it")
	}
	if n, err := shuffler.conn.Reports.Backlog(ctx); err != nil || n.Waiting != 11 {
		t.Errorf("%d of 11 reports wait, %v", n.Waiting, err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
