package role

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"reflect"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/version"
)

// An Env is what a role finds around itself: where it logs, counts, and says how it is.
type Env struct {
	Name    string               // of the role: shuffler
	Log     zerolog.Logger       // typed attributes only, never a payload
	Metrics *prometheus.Registry // what /metrics shows
	Health  *Health              // what /readyz shows
	Clock   Clock                // by which the role works; the shell itself keeps to the system's

	settings Settings
	mux      *http.ServeMux
	mu       sync.Mutex
	opsAddr  string
	accounts []*account
}

// An account is an Outcomes whose totals are logged, and what was logged last.
type account struct {
	*outcome.Outcomes
	logged outcome.Balance
}

// NewEnv makes the surroundings of a role that logs to w. Command makes one by itself; programs that run several
// roles in one process, and tests, make their own.
func NewEnv(name string, settings Settings, w io.Writer) (*Env, error) {
	log, err := newLogger(w, name, settings.Log)
	if err != nil {
		return nil, fmt.Errorf("log.level: %w", err)
	}
	e := &Env{Name: name, Log: log, Metrics: prometheus.NewRegistry(), Clock: SystemClock(), settings: settings}
	e.Health = &Health{log: log, conditions: map[string]error{}}
	e.mux = opsMux(e)
	ready := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "riffle_ready", Help: "1 while the role is ready: what /readyz " +
			"says.", ConstLabels: prometheus.Labels{"role": name},
	}, func() float64 {
		if e.Health.Ready() != nil {
			return 0
		}
		return 1
	})
	for _, c := range []prometheus.Collector{
		ready, buildInfo(name), conditions{e.Health, name},
	} {
		if err := e.Metrics.Register(c); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// ShowProcess has /metrics show what the whole process takes: processor, memory, network (process_*, go_*). All that
// the process does moves these numbers, so whoever sees them sees what depends on its inputs, to the byte. Only a role
// that cannot read records may call it: one whose inputs are sealed to others, or are protected by the deployment's
// guarantee before they come. A randomizer must not: its process's received bytes once told each reward.
func (e *Env) ShowProcess() error {
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := e.Metrics.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// buildInfo is a metric that is always 1 and says with its labels which build the role is.
func buildInfo(role string) prometheus.Collector {
	b := version.Read()
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "riffle_build_info", Help: "Always 1; the labels say which build the role is.",
		ConstLabels: prometheus.Labels{
			"role": role, "version": b.Version, "commit": b.Commit, "modified": strconv.FormatBool(b.Modified),
			"goversion": b.Go,
		},
	})
	g.Set(1)
	return g
}

// Handle mounts a handler on the ops listener; pattern is one of http.ServeMux. Call it before Run.
func (e *Env) Handle(pattern string, handler http.Handler) { e.mux.Handle(pattern, handler) }

// Account has the totals of o logged every log.summary, if they changed, and when the role stops.
func (e *Env) Account(o *outcome.Outcomes) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.accounts = append(e.accounts, &account{Outcomes: o})
}

// Accounts are those of Account, in the order in which they came.
func (e *Env) Accounts() []*outcome.Outcomes {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]*outcome.Outcomes, len(e.accounts))
	for i, a := range e.accounts {
		out[i] = a.Outcomes
	}
	return out
}

// OpsAddr is the host:port that the ops listener is bound to while Run runs, "" if there is none.
func (e *Env) OpsAddr() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opsAddr
}

// Serve is the working life of a role. When ctx is done it finishes or hands back what it holds and returns; returning
// ctx.Err() then is as good as nil.
type Serve func(ctx context.Context) error

// Run opens the listeners, runs serve and closes the listeners. Once ctx is done serve has ops.stop_within to return.
func (e *Env) Run(ctx context.Context, serve Serve) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	for _, l := range []struct {
		key, address string
		handler      http.Handler
	}{{"ops.listen", e.settings.Ops.Listen, e.opsHandler()}, {"ops.pprof", e.settings.Ops.PProf, pprofHandler()}} {
		if l.address == "" {
			continue
		}
		bound, stop, err := e.serveHTTP(l.key, l.address, l.handler, fail)
		if err != nil {
			return err
		}
		defer stop()
		if l.key == "ops.listen" {
			e.mu.Lock()
			e.opsAddr = bound
			e.mu.Unlock()
		}
		e.Log.Info().Str("listener", l.key).Str("address", bound).Msg("listening")
	}

	served := make(chan error, 1)
	go func() { served <- serve(ctx) }()
	var summary <-chan time.Time
	if every := e.settings.Log.Summary; every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		summary = ticker.C
	}
	defer e.logAccounts()
	asked, overrun := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case err := <-served:
			e.Health.stop()
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				err = nil
			}
			if cause := context.Cause(ctx); err == nil && cause != ctx.Err() {
				err = cause // a listener broke
			}
			return err
		case <-asked:
			e.Health.stop()
			asked = nil
			if grace := e.settings.Ops.StopWithin; grace > 0 {
				overrun = time.After(grace)
			}
		case <-overrun:
			return fmt.Errorf("still at work %s after it was asked to stop (ops.stop_within): what was unfinished "+
				"is resumed at the next start", e.settings.Ops.StopWithin)
		case <-summary:
			e.logAccounts()
		}
	}
}

func (e *Env) logAccounts() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range e.accounts {
		b := a.Balance()
		if reflect.DeepEqual(b, a.logged) {
			continue
		}
		a.logged = b
		refused := zerolog.Dict()
		for _, c := range b.Refused {
			if c.Items > 0 {
				refused.Uint64(string(c.Reason), c.Items)
			}
		}
		e.Log.Info().Str("item", a.Item()).Uint64("received", b.Received).Uint64("resumed", b.Resumed).
			Uint64("released", b.Released).Dict("refused", refused).Int64("pending", b.Pending).
			Int64("unaccounted", b.Unaccounted()).Msg("totals")
	}
}

// withSignals is a context that SIGINT or SIGTERM ends. A second signal ends the process at once, with ExitNow.
func withSignals(ctx context.Context, log zerolog.Logger) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			log.Info().Str("signal", s.String()).Msg("stopping; a second signal stops at once")
			cancel()
		case <-ctx.Done():
			return
		}
		s := <-signals
		log.Error().Str("signal", s.String()).Msg("stopped at once")
		os.Exit(ExitNow)
	}()
	return ctx, func() { signal.Stop(signals); cancel() }
}
