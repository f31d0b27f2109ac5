package shuffler

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/role/status"
)

// DefaultMinCohort is the shuffler's own minimum cohort unless it is configured: far below useful cohorts.
const DefaultMinCohort = 50

// Settings are the configuration of the shuffler's process.
type Settings struct {
	Keys      string              `key:"keys" doc:"Folder made by riffle keygen; of it the bundle and shuffler/ are read." required:"true"`
	State     string              `key:"state" doc:"Folder of the journal and of releases on their way out. It belongs to one process and must survive restarts." required:"true"`
	MinCohort int                 `key:"min_cohort" doc:"Fewest reports of a release, whatever the analyzer announces. A plan that asks for less is refused."`
	Admission AdmissionSettings   `key:"admission"`
	Broker    role.BrokerSettings `key:"broker"`
}

// AdmissionSettings say which devices the shuffler lets into a cohort.
type AdmissionSettings struct {
	HostShare float64 `key:"host_share" doc:"Largest share of a cohort's slots that one host may hold, above 0 and up to 1: the whole slots within it (50 of 101 at 0.5), and at least one. A plan counts how many reports may be dishonest, and one host with most of a cohort can exceed that alone; with several operators set it to no more than the dishonest share that the plans count. 1: no limit."`
}

// Validate lists what is wrong.
func (s AdmissionSettings) Validate() (faults []error) {
	if !(s.HostShare > 0 && s.HostShare <= 1) {
		faults = append(faults, role.Wrong("host_share", s.HostShare, "must be above 0 and at most 1"))
	}
	return faults
}

// Validate lists what is wrong.
func (s Settings) Validate() (faults []error) {
	if s.MinCohort < 1 {
		faults = append(faults, role.Wrong("min_cohort", s.MinCohort, "must be at least 1"))
	}
	return faults
}

// Role describes the shuffler to the start-up shell.
func Role() role.Role[Settings] {
	return role.Role[Settings]{
		Name:  "shuffler",
		Short: "mix a cohort's bit messages so that no one knows whose they are",
		Long: `The shuffler enrols devices into cohorts, opens the outer envelopes of their reports, admits one report
per device, permutes all bit messages of a cohort and forwards them with a signed manifest. It cannot open a bit
message, and it never releases fewer reports than the minimum cohort.`,
		Defaults: Settings{
			MinCohort: DefaultMinCohort, Admission: AdmissionSettings{HostShare: 1},
			Broker: role.DefaultBroker(),
		},
		OpsListen: "127.0.0.1:9401",
		Prepare:   prepare,
		Faults: func(s Settings) []error {
			_, err := loadKeys(s)
			return role.FaultsOf(err)
		},
	}
}

func loadKeys(s Settings) (*keyring.ServerKeys, error) {
	keys, err := keyring.LoadShuffler(s.Keys)
	if err != nil {
		return nil, role.Wrong("keys", s.Keys, "cannot be used").From(err)
	}
	return keys, nil
}

func prepare(env *role.Env, s Settings) (role.Serve, error) {
	keys, err := loadKeys(s)
	if err != nil {
		return nil, err
	}
	var running atomic.Pointer[Shuffler]
	held := func(count func(*Shuffler) int64) func() int64 {
		return func() int64 {
			if sh := running.Load(); sh != nil {
				return count(sh)
			}
			return 0
		}
	}
	accounts := map[string]*outcome.Outcomes{}
	for _, a := range []struct {
		item string
		held func() int64
	}{
		{shuffle.Item, held((*Shuffler).HeldMessages)}, {"report", held((*Shuffler).Held)},
		{"enrolment", nil}, {"announcement", nil},
	} {
		if accounts[a.item], err = outcome.New(env.Metrics, env.Name, a.item, a.held, Reasons()...); err != nil {
			return nil, err
		}
		env.Account(accounts[a.item])
	}
	steps, err := role.NewSteps(env, Steps()...)
	if err != nil {
		return nil, err
	}
	err = status.Mount(env, func() status.Snapshot {
		if sh := running.Load(); sh != nil {
			return sh.Snapshot()
		}
		return status.Snapshot{Deployment: keys.Bundle.Deployment}
	})
	if err != nil {
		return nil, err
	}
	env.Health.Condition(historyCondition) // not met before the broker was held against the journal
	return func(ctx context.Context) error {
		if err := os.MkdirAll(s.State, 0o700); err != nil {
			return fmt.Errorf("state: %w", err)
		}
		conn, err := role.Attach(ctx, env, bus.Shuffler, s.Broker, keys.Seed)
		if err != nil {
			return err
		}
		defer conn.Close()
		sh, err := New(Config{
			Deployment: keys.Bundle.Deployment, Analyzer: keys.Bundle.Analyzer, Registrar: keys.Bundle.Registrar,
			Identity: keys.Identity, Keys: keys.HPKE, MinCohort: s.MinCohort, HostShare: s.Admission.HostShare,
			StateDir: s.State, Source: entropy.New(), Clock: env.Clock, Bus: conn, Log: env.Log,
			Reports: accounts["report"], Enrolments: accounts["enrolment"], Messages: accounts[shuffle.Item],
			Announcements: accounts["announcement"], Steps: steps,
			Notice: func(condition string, err error) { env.Health.Condition(condition).Set(err) },
		})
		if err != nil {
			return err
		}
		running.Store(sh)
		return sh.Run(ctx)
	}, nil
}
