package role_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/outcome"
)

// TestMain makes this binary a role when the tests start it as one.
func TestMain(m *testing.M) {
	if behaviour := os.Getenv("SERVICE_TEST_ROLE"); behaviour != "" {
		os.Exit(role.Main(roleThat(behaviour)))
	}
	os.Exit(m.Run())
}

type none struct{}

// roleThat is a role which says "serving" on standard output and then behaves as it is told.
func roleThat(behaviour string) *cobra.Command {
	return role.Command(role.Role[none]{Name: "actor", OpsListen: "127.0.0.1:0",
		Prepare: func(*role.Env, none) (role.Serve, error) {
			if behaviour == "misconfigured" {
				return nil, errors.New("the key file is empty")
			}
			return func(ctx context.Context) error {
				fmt.Println("serving")
				switch behaviour {
				case "fails":
					return errors.New("the disk is full")
				case "goal":
					return fmt.Errorf("load: %w", &role.ExitError{Code: 7, Err: errors.New("a goal was missed")})
				case "done":
					return nil
				}
				<-ctx.Done()
				if behaviour == "hangs" {
					select {}
				}
				return ctx.Err()
			}, nil
		}})
}

func TestExitCodesAndSignals(t *testing.T) {
	const term, interrupt = syscall.SIGTERM, syscall.SIGINT
	for _, c := range []struct {
		behaviour string
		args      []string
		signals   []os.Signal
		code      int
		says      []string
	}{
		{"done", nil, nil, role.ExitOK, []string{`"message":"starting"`, `"go":"go1.`, `"message":"stopped"`}},
		{"waits", nil, []os.Signal{term}, role.ExitOK, []string{`"signal":"terminated"`, `"message":"stopped"`}},
		{"waits", nil, []os.Signal{interrupt}, role.ExitOK, []string{`"signal":"interrupt"`, `"message":"stopped"`}},
		{"misconfigured", nil, nil, role.ExitConfig,
			[]string{"actor: the configuration has 1 fault:\n  the key file is empty\n"}},
		{"misconfigured", []string{"--check-config"}, nil, role.ExitConfig, []string{"the key file is empty"}},
		{"waits", []string{"--check-config"}, nil, role.ExitOK, nil},
		{"fails", nil, nil, role.ExitFailed, []string{`"error":"the disk is full"`}},
		{"goal", nil, nil, 7, []string{`"error":"load: a goal was missed"`}},
		{"hangs", []string{"--ops-stop-within=50ms"}, []os.Signal{term}, role.ExitFailed,
			[]string{"still at work 50ms after it was asked to stop (ops.stop_within)"}},
		{"hangs", nil, []os.Signal{term, interrupt}, role.ExitNow,
			[]string{"a second signal stops at once", `"message":"stopped at once"`}},
	} {
		t.Run(fmt.Sprint(c.behaviour, c.args, c.signals), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], c.args...)
			cmd.Env = append(os.Environ(), "SERVICE_TEST_ROLE="+c.behaviour)
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if c.signals != nil {
				if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "serving\n" {
					t.Fatalf("said %q: %v", line, err)
				}
			}
			var said strings.Builder
			lines := bufio.NewReader(stderr)
			for _, s := range c.signals {
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
				for { // until the role has seen this one
					line, err := lines.ReadString('\n')
					said.WriteString(line)
					if err != nil || strings.Contains(line, `"signal"`) {
						break
					}
				}
			}
			rest, _ := io.ReadAll(lines)
			said.Write(rest)
			cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != c.code {
				t.Errorf("exit %d, want %d", got, c.code)
			}
			for _, want := range c.says {
				if !strings.Contains(said.String(), want) {
					t.Errorf("it did not say %s", want)
				}
			}
			if strings.Count(said.String(), "the disk is full") > 1 {
				t.Error("it said its error twice")
			}
			if t.Failed() {
				t.Logf("it said:\n%s", said.String())
			}
		})
	}
}

// takenPort is an address that something else listens on for the length of the test.
func takenPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestPortInUseNamesItsSetting(t *testing.T) {
	taken := takenPort(t)
	r := run(t, "--url=x", "--ops-listen="+taken, "--log-format=json")
	want := "ops.listen = " + taken + ": another process has this port: stop it, or choose another address with " +
		"--ops-listen or RIFFLE_SAMPLER_OPS_LISTEN (port 0 takes a free one)"
	if r.code != role.ExitFailed || r.served || !strings.Contains(r.stderr, want) {
		t.Fatalf("exit %d, served %v:\n%s", r.code, r.served, r.stderr)
	}
}

// start runs an Env until the test ends or stop is called; stop gives what Run returned.
func start(t *testing.T, env *role.Env, serve role.Serve) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	serving, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- env.Run(ctx, func(ctx context.Context) error {
			close(serving)
			return serve(ctx)
		})
	}()
	select {
	case <-serving:
	case err := <-done:
		t.Fatal(err)
	}
	return func() error { cancel(); return <-done }
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestOpsListener(t *testing.T) {
	var log bytes.Buffer
	env, err := role.NewEnv("actor", role.DefaultSettings("127.0.0.1:0"), &log)
	if err != nil {
		t.Fatal(err)
	}
	const full outcome.Reason = "cohort_full"
	reports, err := outcome.New(env.Metrics, "actor", "report", nil, full)
	if err != nil {
		t.Fatal(err)
	}
	env.Account(reports)
	env.Handle("GET /{$}", http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		io.WriteString(w, "status page")
	}))
	streaming, told := make(chan struct{}), make(chan bool, 1)
	env.Handle("GET /stream", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		close(streaming)
		<-r.Context().Done() // a live page, for as long as the role runs
		server := r.Context().Value(http.ServerContextKey).(*http.Server)
		told <- server.BaseContext(nil).Err() != nil // nil: only this connection was cut off
	}))
	broker := env.Health.Condition("broker")
	released := make(chan struct{})
	stop := start(t, env, func(ctx context.Context) error { <-ctx.Done(); <-released; return nil })
	url := "http://" + env.OpsAddr()

	for _, c := range []struct {
		do         func()
		path       string
		status     int
		body, lack string
	}{
		{nil, "/healthz", 200, "alive", ""},
		{nil, "/readyz", 503, "broker: not yet", ""},
		{func() { broker.Set(nil) }, "/readyz", 200, "ready", ""},
		{func() { broker.Set(errors.New("connection lost")) }, "/readyz", 503, "broker: connection lost", ""},
		{func() { env.Health.Condition("broker").Set(nil) }, "/readyz", 200, "ready", ""},
		{func() { env.Health.Note("a rehearsal") }, "/readyz", 200, "ready\na rehearsal\n", ""},
		{func() { reports.Received(3); reports.Released(2); reports.Refused(full, 1) }, "/metrics", 200,
			`riffle_refused_total{item="report",reason="cohort_full",role="actor"} 1`, ""},
		{nil, "/metrics", 200, `riffle_ready{role="actor"} 1`, ""},
		{nil, "/metrics", 200, `riffle_build_info{commit="`, ""},
		{nil, "/metrics", 200, `riffle_condition{condition="broker",role="actor"} 1`, "go_goroutines"},
		{func() { env.Health.Condition("disk").Set(errors.New("full")) }, "/metrics", 200,
			`riffle_condition{condition="disk",role="actor"} 0`, "process_"},
		{func() { env.Health.Condition("disk").Set(nil) }, "/readyz", 200, "ready", ""},
		{nil, "/", 200, "status page", ""},
		{nil, "/elsewhere", 404, "", ""},
		{nil, "/debug/pprof/", 404, "", "goroutine"},
	} {
		if c.do != nil {
			c.do()
		}
		if status, body := get(t, url+c.path); status != c.status || !strings.Contains(body, c.body) || c.lack != "" &&
			strings.Contains(body, c.lack) {
			t.Errorf("%s: %d %q, want %d %q", c.path, status, body, c.status, c.body)
		}
	}

	go http.Get(url + "/stream")
	<-streaming
	stopped := make(chan error)
	go func() { stopped <- stop() }()
	for { // while the role still works, it takes no new work
		if status, body := get(t, url+"/readyz"); status == 503 && strings.Contains(body, "stopping") {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	close(released)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if !<-told {
		t.Error("a live page held the role up until its connection was cut off")
	}
	for _, want := range []string{`"condition":"broker","error":"connection lost"`,
		`"item":"report","received":3,"resumed":0,"released":2,"refused":{"cohort_full":1},` +
			`"pending":0,"unaccounted":0`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %s in the log:\n%s", want, log.String())
		}
	}
}

func TestProfilerIsApart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	settings := role.DefaultSettings("127.0.0.1:0")
	settings.Ops.PProf = address
	env, err := role.NewEnv("actor", settings, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	stop := start(t, env, func(ctx context.Context) error { <-ctx.Done(); return nil })
	if status, body := get(t, "http://"+address+"/debug/pprof/"); status != 200 ||
		!strings.Contains(body, "goroutine") {
		t.Errorf("%d %q", status, body)
	}
	if status, _ := get(t, "http://"+address+"/metrics"); status != 404 {
		t.Errorf("metrics at the profiler: %d", status)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestTotalsAtIntervals(t *testing.T) {
	read, write := io.Pipe()
	settings := role.DefaultSettings("")
	settings.Ops.Listen = ""
	settings.Log.Summary = 10 * time.Millisecond
	env, err := role.NewEnv("actor", settings, write)
	if err != nil {
		t.Fatal(err)
	}
	reports, err := outcome.New(env.Metrics, "actor", "report", func() int64 { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	env.Account(reports)
	stop := start(t, env, func(ctx context.Context) error { <-ctx.Done(); return nil })
	if env.OpsAddr() != "" {
		t.Errorf("a listener at %s", env.OpsAddr())
	}
	lines := bufio.NewScanner(read)
	for n := 1; n <= 3; n++ {
		reports.Received(1)
		for want := fmt.Sprintf(`"received":%d,`, n); ; {
			if !lines.Scan() {
				t.Fatal(lines.Err())
			}
			if strings.Contains(lines.Text(), want) {
				break
			}
		}
	}
	go io.Copy(io.Discard, read)
	if err := stop(); err != nil {
		t.Error(err)
	}
}
