package role

import (
	"net"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/config"
)

// Settings are the keys that every role has besides its own.
type Settings struct {
	Log LogSettings `key:"log" doc:"What the role writes to standard error."`
	Ops OpsSettings `key:"ops" doc:"How the role is watched and stopped."`
}

// LogSettings say what is logged, and how.
type LogSettings struct {
	Level   string        `key:"level" doc:"The least serious lines that are written: debug, info, warn or error."`
	Format  string        `key:"format" doc:"auto, json or console. auto is console on a terminal and json everywhere else."`
	Summary time.Duration `key:"summary" doc:"How often the totals of received, released and refused items are logged, if they changed. 0: only when the role stops."`
}

// OpsSettings say how the role is watched and stopped.
type OpsSettings struct {
	Listen     string        `key:"listen" doc:"host:port of /metrics, /healthz, /readyz and the role's status page. It authenticates no caller: keep it on loopback or on a network of your own. Port 0 takes a free one. Empty: none."`
	Hosts      []string      `key:"hosts" doc:"Names and addresses, without port, by which requests may call the ops listener besides localhost, loopback addresses, the address that they came to and what listen says: name the service that Prometheus asks for. Requests under other names, and those of web pages, are refused."`
	PProf      string        `key:"pprof" doc:"host:port of the Go profiler, on loopback only: a profile shows what the process works on. Empty: none."`
	StopWithin time.Duration `key:"stop_within" doc:"How long the role may take to finish its work after SIGINT or SIGTERM before it exits with code 2. Keep it below what the supervisor grants (Docker: 10 s). 0: as long as it takes."`
}

// Defaults of Settings. DefaultOpsListen is for roles that do not name a port of their own.
const (
	DefaultOpsListen  = "127.0.0.1:9400"
	DefaultStopWithin = 8 * time.Second // below the 10 s after which Docker kills
	DefaultSummary    = time.Minute
)

// opsSection is the configuration section of OpsSettings.
const opsSection = "ops"

// DefaultSettings are the settings of a role whose ops listener is at opsListen ("": DefaultOpsListen).
func DefaultSettings(opsListen string) Settings {
	if opsListen == "" {
		opsListen = DefaultOpsListen
	}
	return Settings{
		Log: LogSettings{Level: "info", Format: "auto", Summary: DefaultSummary},
		Ops: OpsSettings{Listen: opsListen, StopWithin: DefaultStopWithin},
	}
}

// Validate finds values that are not among those documented.
func (s LogSettings) Validate() (faults []error) {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, s.Level) {
		faults = append(faults, config.Wrong("level", s.Level, "must be debug, info, warn or error"))
	}
	if !slices.Contains([]string{"auto", "json", "console"}, s.Format) {
		faults = append(faults, config.Wrong("format", s.Format, "must be auto, json or console"))
	}
	if s.Summary < 0 {
		faults = append(faults, config.Wrong("summary", s.Summary, "must not be negative"))
	}
	return faults
}

// Validate finds malformed addresses, a profiler that others could reach, and two listeners on one address.
func (s OpsSettings) Validate() (faults []error) {
	if _, _, err := net.SplitHostPort(s.Listen); s.Listen != "" && err != nil {
		faults = append(faults, config.Wrong("listen", s.Listen, "must be host:port"))
	}
	faults = append(faults, Callers{Hosts: s.Hosts}.Faults()...)
	if host, _, err := net.SplitHostPort(s.PProf); s.PProf != "" && err != nil {
		faults = append(faults, config.Wrong("pprof", s.PProf, "must be host:port"))
	} else if ip := net.ParseIP(host); s.PProf != "" && host != "localhost" && !ip.IsLoopback() {
		faults = append(faults, config.Wrong("pprof", s.PProf,
			"must be on loopback").Because("a profile shows what the process works on"))
	}
	if _, port, _ := net.SplitHostPort(s.Listen); s.Listen == s.PProf && s.Listen != "" && port != "0" {
		faults = append(faults, config.Conflict("listen", s.Listen, "must differ from", "pprof", s.PProf))
	}
	if s.StopWithin < 0 {
		faults = append(faults, config.Wrong("stop_within", s.StopWithin, "must not be negative"))
	}
	return faults
}
