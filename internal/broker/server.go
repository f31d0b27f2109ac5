package broker

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/riffle-dp/riffle/internal/bus"
)

// ErrPortInUse means that something else listens on the server's port. No server was started.
var ErrPortInUse = errors.New("broker: port in use")

// startTime is how long a server may take to open its streams and listen. Recovery reads the index of every stream.
const startTime = 60 * time.Second

// Server is a broker inside this process.
type Server struct {
	s *server.Server
}

// Start runs a broker with JetStream and returns once it takes connections. Its configuration is what RenderConfig
// writes.
//
// Errors: ErrPortInUse where something listens on the port already; faults of the options, all at once; what the
// server said otherwise. After an error nothing runs.
func Start(o Options) (*Server, error) {
	port := strconv.Itoa(o.Port)
	if o.Port == 0 {
		port = "-1" // the server's word for any free port
	}
	conf, err := render(o, port)
	if err != nil {
		return nil, err
	}
	if err := probe(o); err != nil {
		return nil, err
	}
	var opts server.Options
	if err := opts.ProcessConfigString(conf); err != nil {
		return nil, fmt.Errorf("broker: configuration: %w", err)
	}
	opts.NoSigs = true // signals are the process's business
	s, err := server.NewServer(&opts)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	said := &lastWords{}
	s.SetLoggerV2(said, false, false, false)
	s.Start()
	if !s.ReadyForConnections(startTime) || !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("broker: server did not start: %s", said.String())
	}
	return &Server{s: s}, nil
}

// probe finds out whether the port is taken, which the server itself would only tell its log.
func probe(o Options) error {
	host := o.Host
	if host == "" {
		host = "127.0.0.1"
	}
	addr := net.JoinHostPort(host, strconv.Itoa(o.Port))
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w: %s; stop what listens there or choose another port", ErrPortInUse, addr)
	}
	if err != nil {
		return fmt.Errorf("broker: cannot listen on %s: %w", addr, err)
	}
	return l.Close()
}

// URL is where clients connect.
func (s *Server) URL() string { return s.s.ClientURL() }

// Port is the port that clients connect to.
func (s *Server) Port() int {
	if a, ok := s.s.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// Traffic is what a role's users sent and received, as the server counted it: payloads and headers of messages, without
// subjects, TCP and TLS.
type Traffic struct {
	Sent     int64 `json:"sent"`     // bytes from the role to the broker
	Received int64 `json:"received"` // bytes from the broker to the role
}

// closedKept is how many closed connections the server remembers (its default).
const closedKept = 10_000

// Traffic tells by role what its users sent and received since the start, over open connections and over the last
// 10,000 closed ones. An error says that it is not known.
func (s *Server) Traffic() (map[bus.Role]Traffic, error) {
	all, err := s.s.Connz(&server.ConnzOptions{Username: true, State: server.ConnAll, Limit: 1 << 20})
	if err != nil {
		return nil, fmt.Errorf("broker: the server's connections: %w", err)
	}
	closed := 0
	out := map[bus.Role]Traffic{}
	for _, c := range all.Conns {
		if c.Stop != nil {
			closed++
		}
		name, _, _ := strings.Cut(strings.ToLower(c.Account), "_")
		if r := bus.Role(name); slices.Contains(bus.Roles(), r) {
			t := out[r]
			out[r] = Traffic{t.Sent + c.InBytes, t.Received + c.OutBytes}
		}
	}
	if closed >= closedKept {
		return nil, fmt.Errorf("broker: more than %d connections were closed: what they carried is not known",
			closedKept)
	}
	return out, nil
}

// Stop ends the server and returns when everything is written and closed. It may be called twice.
func (s *Server) Stop() {
	s.s.Shutdown()
	s.s.WaitForShutdown()
}

// lastWords keeps the server's last warnings and errors, to explain a failed start.
type lastWords struct {
	mu    sync.Mutex
	lines []string
}

func (l *lastWords) add(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) >= 8 {
		l.lines = l.lines[1:]
	}
	l.lines = append(l.lines, fmt.Sprintf(format, v...))
}

func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return "no reason given"
	}
	return strings.Join(l.lines, "; ")
}

func (l *lastWords) Warnf(format string, v ...any)  { l.add(format, v...) }
func (l *lastWords) Errorf(format string, v ...any) { l.add(format, v...) }
func (l *lastWords) Fatalf(format string, v ...any) { l.add(format, v...) }
func (l *lastWords) Noticef(string, ...any)         {}
func (l *lastWords) Debugf(string, ...any)          {}
func (l *lastWords) Tracef(string, ...any)          {}
