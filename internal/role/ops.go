package role

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/riffle-dp/riffle/internal/config"
)

// opsHandler is what the ops listener answers with: no page and no foreign name gets anything of it.
func (e *Env) opsHandler() http.Handler {
	return CallersOf(opsSection, e.settings.Ops.Listen, e.settings.Ops.Hosts, nil).Guard(e.mux)
}

// opsMux serves what every role answers to those who watch it.
func opsMux(e *Env) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(e.Metrics, promhttp.HandlerOpts{Registry: e.Metrics}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "alive\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := e.Health.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, e.Health.ready())
	})
	return mux
}

// pprofHandler is what the profiler answers with, under names of loopback alone.
func pprofHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return Callers{Key: opsSection}.Guard(mux)
}

// serveHTTP answers at address, the value of key, until stop is called. Handlers that stream see their request's
// context end then. A listener that breaks later is told to failed.
func (e *Env) serveHTTP(key, address string, handler http.Handler, failed func(error)) (bound string, stop func(),
	err error) {
	listener, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return "", nil, fmt.Errorf("%s = %s: another process has this port: stop it, or choose another address with "+
			"%s or %s (port 0 takes a free one): %w",
			key, address, config.Flag(key), config.Variable(e.Name, key), err)
	} else if err != nil {
		return "", nil, fmt.Errorf("%s = %s: %w", key, address, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			failed(fmt.Errorf("%s = %s: %w", key, address, err))
		}
	}()
	return listener.Addr().String(), func() {
		cancel()
		grace, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	}, nil
}
