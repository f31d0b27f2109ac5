package web

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/ingress"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/mailbox"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// deployment is a whole one on this machine: broker, shuffler and analyzer as processes, ingress, issuer, mailbox and
// the app's server in this one.
type deployment struct {
	*pages
	cluster *cluster.Cluster
	app     string // base URL of the app's server, which is the issuer and the mailbox too
	entry   string // base URL of the ingress
	boxed   bool   // there is a mailbox

	down atomic.Bool  // the mailbox answers 503
	out  atomic.Value // what the mailbox's server answers in its place, a http.HandlerFunc, where nobody is logged in
	gets atomic.Int32 // what the ingress was asked
	puts atomic.Int32 // deposits that the mailbox was given
	old  atomic.Value // folder of an older client
	lose atomic.Int32 // replies to enrolments that will be lost on their way to the page

	mu       sync.Mutex
	arrivals map[uint32]time.Time // of reports at the ingress, by their slots
}

// people says who takes part.
type people struct {
	cohort  int
	window  time.Duration // until the reward is due
	mailbox bool
}

const epsilon, delta = 4, 1e-3

func startDeployment(t *testing.T, p people) *deployment {
	t.Helper()
	folder := t.TempDir()
	riffle := filepath.Join(folder, "riffle")
	build := exec.Command("go", "build", "-C", "../../..", "-o", riffle, "./cmd/riffle")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	flag := func(name string, value any) string { return fmt.Sprintf("--%s=%v", name, value) }
	c, err := cluster.Start(t.Context(), cluster.Options{
		Dir: filepath.Join(folder, "deployment"), Name: "clinic", Executable: riffle, Hosts: []string{"web"},
		Devices: 1 << 16, Idle: true, Shuffler: []string{flag("min-cohort", p.cohort/2)},
		Analyzer: []string{
			flag("learner-dimension", 2), flag("learner-radius", 2), flag("learner-horizon", 2*p.cohort),
			flag("learner-first-cohort", p.cohort), flag("learner-growth", 1), flag("privacy-channel", "shares"),
			flag("privacy-epsilon", epsilon), flag("privacy-delta", delta), flag("privacy-min-cohort", p.cohort/2),
			flag("timing-reward-window", p.window), flag("timing-jitter", "1s"), flag("timing-grace", "10m"),
			flag("timing-enrolment", "2h"), flag("max-report-size", 0),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	d := &deployment{
		pages: &pages{all: map[string]*page{}}, cluster: c, boxed: p.mailbox, arrivals: map[uint32]time.Time{},
	}
	d.entry = serve(t, d.ingress(t))
	bundle, err := os.ReadFile(filepath.Join(c.Keys(), keyring.BundleFile))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", d.handler())
	mux.Handle("/riffle/", http.StripPrefix("/riffle/", http.FileServer(http.Dir(built(t)))))
	d.app = serve(t, mux)
	mux.HandleFunc("GET /riffle.json", func(w http.ResponseWriter, r *http.Request) {
		options := map[string]any{
			"ingress": d.entry, "issuer": "http://" + r.Host + "/issuer", "bundle": json.RawMessage(bundle),
			"mailbox": nil, "patience": patience.Milliseconds(),
			"limits": map[string]any{
				"epsilon": epsilon, "delta": delta, "min_cohort": p.cohort / 2, "trust": []string{"shares"},
			},
		}
		if p.mailbox {
			options["mailbox"] = "http://" + r.Host + "/mailbox"
		}
		json.NewEncoder(w).Encode(options)
	})
	box := d.mailbox(t, d.entry)
	mux.HandleFunc("/mailbox/", func(w http.ResponseWriter, r *http.Request) {
		if d.down.Load() {
			http.Error(w, "{}", http.StatusServiceUnavailable)
			return
		}
		if login, _ := d.out.Load().(http.HandlerFunc); login != nil {
			login(w, r)
			return
		}
		if r.Method == http.MethodPut {
			d.puts.Add(1)
		}
		http.StripPrefix("/mailbox", box).ServeHTTP(w, r)
	})
	mux.HandleFunc("/held", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(box.Counts().Waiting)
	})
	mux.HandleFunc("/old/", func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/old/", http.FileServer(http.Dir(d.old.Load().(string)))).ServeHTTP(w, r)
	})
	mux.Handle("/issuer/", http.StripPrefix("/issuer", d.issuer(t)))
	return d
}

func serve(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(l) })
	t.Cleanup(func() { s.Close(); serving.Wait() })
	return "http://" + l.Addr().String()
}

// announced reports whether an epoch is.
func (d *deployment) announced(t *testing.T, epoch int) bool {
	t.Helper()
	answer, err := http.Get(fmt.Sprintf("%s/v1/announcements/%d/0", d.entry, epoch))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// built is the folder of the client's files, which are built once.
func built(t *testing.T) string {
	t.Helper()
	folder, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

var buildOnce = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "riffle-web")
	if err != nil {
		return "", err
	}
	builtIn = folder
	cmd := exec.Command("go", "run", "./build", "-out", folder)
	cmd.Dir = ".."
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, said)
	}
	return filepath.Join(folder, "dist"), nil
})

// ingress is the deployment's own, in this process. Which reports it takes, and when, is noted.
func (d *deployment) ingress(t *testing.T) http.Handler {
	keys, err := keyring.LoadIngress(d.cluster.Keys())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := bus.Connect(ctx, bus.Options{URL: d.cluster.URL(), Role: bus.Ingress, Seed: keys.Seed})
	if err != nil {
		t.Fatal(err)
	}
	limits := ingress.Limits(ingress.DefaultLimits())
	limits.Reports, limits.Enrolments = 1e6, 1e6 // all pages are at one address
	in := ingress.New(ingress.Config{
		Deployment: keys.Bundle.Deployment, Analyzer: keys.Bundle.Analyzer, Shuffler: keys.Bundle.Shuffler,
		Ticket: keys.Ticket, Limits: limits, Bus: ingress.Over(conn.Streams), Log: zerolog.Nop(),
	})
	var running sync.WaitGroup
	running.Go(func() { in.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); conn.Close() })
	handler := in.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/enrolments" && r.Method == http.MethodPost && d.lose.Add(-1) >= 0 {
			handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		answer := &noted{ResponseWriter: w}
		if r.Method != http.MethodPut { // the mailbox
			d.gets.Add(1)
		}
		handler.ServeHTTP(answer, r)
		_, after, found := strings.Cut(r.Header.Get("Riffle-Ticket"), ".")
		slot, err := strconv.ParseUint(after, 10, 32)
		if !found || err != nil || r.Method != http.MethodPut {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if _, known := d.arrivals[uint32(slot)]; !known && answer.status == http.StatusNoContent {
			d.arrivals[uint32(slot)] = time.Now()
		}
	})
}

type noted struct {
	http.ResponseWriter
	status int
}

func (n *noted) Unwrap() http.ResponseWriter { return n.ResponseWriter }

func (n *noted) WriteHeader(status int) {
	n.status = status
	n.ResponseWriter.WriteHeader(status)
}

// mailbox is the app's, which knows the account by its cookie.
func (d *deployment) mailbox(t *testing.T, ingress string) *mailbox.Mailbox {
	at, err := url.Parse(ingress)
	if err != nil {
		t.Fatal(err)
	}
	m, err := mailbox.New(mailbox.Config{
		Account: account, Key: make([]byte, 32), Store: &memory{all: map[string]string{}}, Ingress: at,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return m
}

func account(r *http.Request) (string, error) {
	c, err := r.Cookie("account")
	if err != nil {
		return "", err
	}
	return c.Value, nil
}

// memory is a store of deposits.
type memory struct {
	mu  sync.Mutex
	all map[string]string
}

func (m *memory) Put(name, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[string(name)] = string(value)
	return nil
}

func (m *memory) Get(name []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return []byte(m.all[string(name)]), nil
}

func (m *memory) Delete(name []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, string(name))
	return nil
}

func (m *memory) Each(f func(name, value []byte) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, value := range m.all {
		if err := f([]byte(name), []byte(value)); err != nil {
			return err
		}
	}
	return nil
}

// issuer is a stand-in: the registrar admits each account once.
func (d *deployment) issuer(t *testing.T) http.Handler {
	registrar, err := keyring.LoadRegistrar(d.cluster.Keys())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	accounts := map[string]string{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/credentials", func(w http.ResponseWriter, r *http.Request) {
		who, err := account(r)
		var asked struct{ Key string }
		if err == nil {
			err = json.NewDecoder(r.Body).Decode(&asked)
		}
		key, bad := base64.RawURLEncoding.DecodeString(asked.Key)
		if err != nil || bad != nil {
			http.Error(w, `{"detail":"bad"}`, http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if was := accounts[who]; was != "" && was != asked.Key {
			http.Error(w, `{"reason":"issued","detail":"this account has a credential"}`, http.StatusConflict)
			return
		}
		accounts[who] = asked.Key
		signed, _, err := wire.Sign(&wire.Credential{
			Deployment: registrar.Bundle.Deployment, HostKey: key, Devices: 1, NotAfter: 9,
		}, registrar.Identity)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"credential": signed, "not_after": 9})
	})
	return mux
}
