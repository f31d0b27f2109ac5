package randomizer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Settings are the configuration of a randomizer's process.
type Settings struct {
	Keys   string              `key:"keys" doc:"Folder made by riffle keygen; of it the bundle and randomizer-<host>/ are read." required:"true"`
	Host   string              `key:"host" doc:"This host's name in that folder."`
	State  string              `key:"state" doc:"Folder of what this host's devices have promised and spent. It belongs to one process and must survive restarts. No record is ever written to it." required:"true"`
	API    api.Settings        `key:"api"`
	Limits LimitSettings       `key:"limits"`
	Broker role.BrokerSettings `key:"broker"`
}

// LimitSettings are what the host's people agree to.
type LimitSettings struct {
	Trust        []string `key:"trust" doc:"Channels to take part in, which is whom these people trust: shuffle (the guarantee rests on an honest shuffler), shares (on shuffler and analyzer not both being dishonest), local (on nobody), central (on an honest analyzer, which sees each report). Under a plan of another channel nobody is enrolled."`
	Epsilon      float64  `key:"epsilon" doc:"Largest epsilon that one person's guarantee may have, over everything that the deployment ever releases about them."`
	EpsilonAlone float64  `key:"epsilon_alone" doc:"Largest epsilon of the same if no other device of a cohort is honest, so that only the noise of the person's own device and of one server counts. 0: no limit. A limit needs server noise, or the channel local."`
	Delta        float64  `key:"delta" doc:"The delta of both guarantees."`
	MinCohort    int      `key:"min_cohort" doc:"Smallest cohort to take part in."`
	Dishonest    float64  `key:"dishonest" doc:"Share of a cohort that may be dishonest: their noise is not counted, whatever the plan says."`
	MaxDishonest int      `key:"max_dishonest" doc:"Number of devices of a cohort that may be dishonest. The larger counts of this number, the share dishonest and what the plan says."`
	MaxReleases  int      `key:"max_releases" doc:"Most releases that one record may take part in."`
	MaxNorm      float64  `key:"max_norm" doc:"Largest bound on the parameter's norm."`
	MaxMessages  int      `key:"max_messages" doc:"Most bit messages of one report, in the channel shuffle."`

	MaxReportSize int `key:"max_report_size" doc:"Most bytes of one sealed report, in every other channel. 0: the default."`
	MaxNoiseBits  int `key:"max_noise_bits" doc:"Most noise bits that a device draws for one report, over all numbers in it, in every other channel. 0: the default."`

	Records int `key:"records" doc:"Records of one person that may be used in the deployment: the ledger adds up their guarantees, within epsilon. 0: as many epochs as the plan of panels says, and 1 where devices enrol as they arrive. Where panels are drawn a record is everything that a person did in an epoch."`
	Period  int `key:"period" doc:"Fewest epochs in a row after which the limits epsilon, epsilon_alone and records may begin anew: then they are for a period, and nothing bounds what all periods reveal together. 0: they are for the whole deployment, and a plan that counts them per period is refused."`

	MinEpoch time.Duration `key:"min_epoch" doc:"Least length of an epoch of which period is counted, up to 24 days: the analyzer sets how long epochs are. With a period the limits begin anew no sooner than period times this time after the last report that counts, by this host's clock and whatever is announced; a plan whose announced times allow it sooner is refused. 0: the default."`
}

// DefaultLimits are what a host agrees to by default.
func DefaultLimits() LimitSettings {
	l := device.DefaultLimits()
	s := LimitSettings{
		Epsilon: l.Epsilon, EpsilonAlone: l.EpsilonAlone, Delta: l.Delta, MinCohort: l.MinCohort,
		Dishonest:    l.Dishonest,
		MaxDishonest: l.MaxDishonest, MaxReleases: l.MaxReleases, MaxNorm: l.MaxNorm, MaxMessages: l.MaxMessages,
		MaxReportSize: l.MaxReportSize, MaxNoiseBits: l.MaxNoiseBits, Records: l.Records, Period: l.Period,
		MinEpoch: time.Duration(l.MinEpoch),
	}
	for _, c := range l.Trust {
		s.Trust = append(s.Trust, string(c))
	}
	return s
}

// limits are those of the host's devices.
func (l LimitSettings) limits() device.Limits {
	out := device.Limits{
		Trust: []plan.Channel{}, Epsilon: l.Epsilon, EpsilonAlone: l.EpsilonAlone, Delta: l.Delta,
		MinCohort: l.MinCohort,
		Dishonest: l.Dishonest, MaxDishonest: l.MaxDishonest, MaxReleases: l.MaxReleases, MaxNorm: l.MaxNorm,
		MaxMessages: l.MaxMessages, MaxReportSize: l.MaxReportSize, MaxNoiseBits: l.MaxNoiseBits, Records: l.Records,
		Period: l.Period, MinEpoch: device.Duration(l.MinEpoch),
	}
	for _, c := range l.Trust { // none is a fault, not the default
		out.Trust = append(out.Trust, plan.Channel(c))
	}
	return out
}

// Validate lists what is wrong.
func (l LimitSettings) Validate() (faults []error) {
	for _, f := range l.limits().Faults() {
		faults = append(faults, config.Wrong(f.Limit, f.Value, f.Problem))
	}
	return faults
}

// Role describes the randomizer to the start-up shell.
func Role() role.Role[Settings] {
	return role.Role[Settings]{
		Name:  "randomizer",
		Short: "decide for people on their side, and answer with noisy, encrypted reports only",
		Long: `The randomizer runs on people's side, for one device or for all devices of a gateway. Apps ask it for
decisions over a local HTTP API and tell it rewards. It decides with the analyzer's public policy, recomputes the
privacy guarantee of every plan, refuses one that is weaker than its limits, and reports at times that do not depend
on any record.`,
		Defaults: Settings{
			Host: "main", API: api.Settings{Listen: "127.0.0.1:8400"}, Limits: DefaultLimits(),
			Broker: role.DefaultBroker(),
		},
		OpsListen: "127.0.0.1:9403",
		Prepare:   prepare,
		Faults: func(s Settings) []error {
			_, err := usable(s)
			return config.FaultsOf(err)
		},
	}
}

// usable reads the keys. It refuses files of the API that cannot be used, too: nothing is to start with them.
func usable(s Settings) (*keyring.HostKeys, error) {
	faults := s.API.Unusable()
	keys, err := keyring.LoadRandomizer(s.Keys, s.Host)
	if err != nil {
		faults = append(faults, config.Wrong("keys", s.Keys, "cannot be used").From(err).Given("host"))
	}
	return keys, errors.Join(faults...)
}

func prepare(env *role.Env, s Settings) (role.Serve, error) {
	keys, err := usable(s)
	if err != nil {
		return nil, err
	}
	var running atomic.Pointer[Host]
	held := func(count func(*Host) int64) func() int64 {
		return func() int64 {
			if h := running.Load(); h != nil {
				return count(h)
			}
			return 0
		}
	}
	reports, err := outcome.New(env.Metrics, env.Name, "report", held((*Host).Pending), Reasons()...)
	if err != nil {
		return nil, err
	}
	enrolments, err := outcome.New(env.Metrics, env.Name, "enrolment", held((*Host).Asking), EnrolmentReasons()...)
	if err != nil {
		return nil, err
	}
	announcements, err := outcome.New(env.Metrics, env.Name, "announcement", nil, AnnouncementReasons()...)
	if err != nil {
		return nil, err
	}
	keySets, err := outcome.New(env.Metrics, env.Name, "key_set", nil, KeySetReasons()...)
	if err != nil {
		return nil, err
	}
	for _, o := range []*outcome.Outcomes{enrolments, reports, announcements, keySets} {
		env.Account(o)
	}
	err = status.Mount(env, func() status.Snapshot {
		if h := running.Load(); h != nil {
			return h.Snapshot()
		}
		return status.Snapshot{Deployment: keys.Bundle.Deployment,
			Devices: &status.Devices{Capacity: int(keys.Devices)}}
	})
	if err != nil {
		return nil, err
	}
	if s.API.DryRun {
		env.Health.Note(dryRunMeans)
		env.Log.Warn().Msg("api.dry_run is on: this host enrols nobody and sends nothing")
	}
	state, following := env.Health.Condition("state"), env.Health.Condition("announcements")
	return func(ctx context.Context) error {
		if err := keyfile.Folder(s.State); err != nil {
			return fmt.Errorf("state: %w", err)
		}
		conn, err := role.Attach(ctx, env, bus.Randomizer, s.Broker, keys.Seed)
		if err != nil {
			return err
		}
		defer conn.Close()
		h, err := New(Config{
			Deployment: keys.Bundle.Deployment, Analyzer: keys.Bundle.Analyzer, Shuffler: keys.Bundle.Shuffler,
			Identity:   keys.Identity,
			Credential: keys.Credential, Devices: int(keys.Devices), Order: &keys.Order, Limits: s.Limits.limits(),
			Clock:    env.Clock,
			DryRun:   s.API.DryRun,
			StateDir: s.State, State: state, Following: following,
			Source: func() protocol.Source { return entropy.New() }, Bus: Over(conn.Streams), Log: env.Log,
			Reports:    reports,
			Enrolments: enrolments, Announcements: announcements, KeySets: keySets,
		})
		if err != nil {
			return err
		}
		running.Store(h)
		served, listener, err := api.Open(h, s.API, env.Log)
		if err != nil {
			return errors.Join(err, h.Close())
		}
		env.Log.Info().Str("listener", "api.listen").Str("address", listener.Addr().String()).Msg("listening")
		// A stack trace shows arguments, and arguments are records: neither a crash nor a handler that panics may print
		// one.
		debug.SetTraceback("none")
		server := served.Server()
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return h.Run(ctx) })
		g.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("api: %w", err)
			}
			return nil
		})
		g.Go(func() error {
			<-ctx.Done()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
			defer cancel()
			return server.Shutdown(last)
		})
		return g.Wait()
	}, nil
}

// closeTime bounds how long requests under way may take when the process stops.
const closeTime = 2 * time.Second
