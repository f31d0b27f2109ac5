package shuffler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// DefaultMemory is how many MiB of memory mixing takes unless it is configured, and leastMemory the fewest.
const (
	DefaultMemory = 256
	leastMemory   = 16
)

// Settings are the configuration of the shuffler's process.
type Settings struct {
	Keys      string              `key:"keys" doc:"Folder made by riffle keygen; of it the bundle and shuffler/ are read." required:"true"`
	State     string              `key:"state" doc:"Folder of the journal, of the transparency log and of releases on their way out. It belongs to one process and must survive restarts." required:"true"`
	MinCohort int                 `key:"min_cohort" doc:"Fewest reports of a release, whatever the analyzer announces. A plan that asks for less is refused."`
	Memory    int                 `key:"memory" doc:"MiB of memory that mixing takes, whatever the cohort, at least 16. What does not fit is in the state folder, in a file that only this process can read and that it removes: of a release up to three times the bytes of its reports. What grows with people comes on top: some 180 bytes for each of a cohort, and as many while it is released."`
	Channels  []string            `key:"channels" doc:"Channels whose cohorts this shuffler serves, of shuffle, shares, local and central. A plan of another channel is refused."`
	Admission AdmissionSettings   `key:"admission"`
	Audit     AuditSettings       `key:"audit"`
	Workers   worker.LeadSettings `key:"workers"`
	Broker    role.BrokerSettings `key:"broker"`
}

// AdmissionSettings say which devices the shuffler lets into a cohort.
type AdmissionSettings struct {
	SponsorShare float64 `key:"sponsor_share" doc:"Largest share of a cohort's slots that devices of one sponsor may hold, above 0 and up to 1: the whole slots within it (50 of 101 at 0.5), and at least one. A device's sponsor is the issuer of its credential, or else its host. A plan counts how many reports may be dishonest, and one sponsor with most of a cohort can exceed that alone; with several sponsors set it to no more than the dishonest share that the plans count. Of panels it is the share of the devices that they are drawn from. 1: no limit."`
	Devices      int     `key:"devices" doc:"Most devices that are ever let in: enrolled in all epochs together or, where there are panels, registered. The shuffler must remember each for ever, so that none takes part more often than it may: in less than a byte for each where hosts have thousands, in 16 to 40 bytes for an installation that an issuer let in, in some 150 bytes for another host with one. Further devices are refused as capacity; those that are known go on."`
}

// Validate lists what is wrong.
func (s AdmissionSettings) Validate() (faults []error) {
	if !(s.SponsorShare > 0 && s.SponsorShare <= 1) {
		faults = append(faults, config.Wrong("sponsor_share", s.SponsorShare, "must be above 0 and at most 1"))
	}
	if s.Devices < 1 {
		faults = append(faults, config.Wrong("devices", s.Devices, "must be at least 1"))
	}
	return faults
}

// Validate lists what is wrong.
func (s Settings) Validate() (faults []error) {
	if s.MinCohort < 1 {
		faults = append(faults, config.Wrong("min_cohort", s.MinCohort, "must be at least 1"))
	}
	if s.Memory < leastMemory {
		faults = append(faults, config.Wrong("memory", s.Memory, fmt.Sprintf("must be at least %d", leastMemory)))
	}
	must := "must be a list of channels, of " + strict.List(plan.Channels(), "and")
	if len(s.Channels) == 0 {
		faults = append(faults, config.Wrong("channels", s.Channels, must))
	}
	for _, c := range s.served() {
		if !slices.Contains(plan.Channels(), c) {
			faults = append(faults, config.Wrong("channels", s.Channels, fmt.Sprintf("%s: %q is none", must, c)))
		}
	}
	if s.Audit.Retain != 0 {
		if err := retainable(s.served()); err != nil {
			faults = append(faults, config.Conflict("audit.retain", s.Audit.Retain, "cannot be used with", "channels",
				s.Channels).Because(err.Error()))
		}
	}
	return faults
}

// served are the channels whose cohorts the shuffler serves.
func (s Settings) served() (all []plan.Channel) {
	for _, c := range s.Channels {
		all = append(all, plan.Channel(c))
	}
	return all
}

// everyChannel names the channels that there are.
func everyChannel() (all []string) {
	for _, c := range plan.Channels() {
		all = append(all, string(c))
	}
	return all
}

// Role describes the shuffler to the start-up shell.
func Role() role.Role[Settings] {
	return role.Role[Settings]{
		Name:  "shuffler",
		Short: "mix a cohort's reports so that no one knows whose they are",
		Long: `The shuffler enrols devices into cohorts, or draws them from the devices that registered, opens the outer envelopes of their reports, admits one report
per device, and forwards a cohort with a signed manifest: in the channel shuffle all its bit messages, permuted; in
shares its own share of the sum, which it computes together with the analyzer; in local and central the reports'
envelopes, permuted. It can read none of them, and it never releases fewer reports than the minimum cohort.`,
		Defaults: Settings{
			MinCohort: DefaultMinCohort, Memory: DefaultMemory, Channels: everyChannel(),
			Admission: AdmissionSettings{SponsorShare: 1, Devices: cohort.DefaultDevices},
			Workers:   worker.DefaultLead(), Broker: role.DefaultBroker(),
		},
		OpsListen: "127.0.0.1:9401",
		Prepare:   prepare,
		Faults: func(s Settings) []error {
			_, err := loadKeys(s)
			return config.FaultsOf(err)
		},
	}
}

func loadKeys(s Settings) (*keyring.ServerKeys, error) {
	keys, err := keyring.LoadShuffler(s.Keys)
	if err != nil {
		return nil, config.Wrong("keys", s.Keys, "cannot be used").From(err)
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
	// all that a device sends is sealed to the analyzer too, or is a share of it
	if err := env.ShowProcess(); err != nil {
		return nil, err
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
		if err := keyfile.Folder(s.State); err != nil {
			return fmt.Errorf("state: %w", err)
		}
		conn, err := role.Attach(ctx, env, bus.Shuffler, s.Broker, keys.Seed)
		if err != nil {
			return err
		}
		defer conn.Close()
		of := Party{
			Deployment: keys.Bundle.Deployment, Analyzer: keys.Bundle.Analyzer, Registrar: keys.Bundle.Registrar,
			Hosts: keys.Bundle.RegistrarParty().Hosts, Identity: keys.Identity, Keys: keys.HPKE, Ticket: keys.Ticket,
		}
		told := Accounts{
			Reports: accounts["report"], Enrolments: accounts["enrolment"], Messages: accounts[shuffle.Item],
			Announcements: accounts["announcement"], Steps: steps,
			Notice: func(condition string, err error) { env.Health.Condition(condition).Set(err) },
		}
		lead, err := s.lead(env, conn.Streams, keys)
		if err != nil {
			return err
		}
		sh, err := s.open(env, of, told, keys.Bundle.Auditor, Over(conn.Streams), lead)
		if err != nil {
			return err
		}
		running.Store(sh)
		return lead.Beside(ctx, sh.Answers(), sh.Run)
	}, nil
}

// open makes the shuffler of these settings.
func (s Settings) open(
	env *role.Env, of Party, told Accounts, auditor []byte, broker Broker, lead *worker.Lead,
) (*Shuffler, error) {
	retention, err := Retention(s.Audit.Retain, auditor, s.served(), of, broker)
	if err != nil {
		return nil, err
	}
	files, err := OpenFiles(s.State, s.Memory, of, broker, env.Log)
	if err != nil {
		return nil, err
	}
	mixing := Mixing{Disk: channel.Folder(s.State), Source: entropy.New(), Retention: retention}
	if lead != nil {
		mixing.Workers = lead
	}
	channels, err := NewChannels(of, files, mixing, broker, told, env.Log)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	by := DefaultPolicy()
	by.MinCohort, by.SponsorShare, by.Devices = s.MinCohort, s.Admission.SponsorShare, s.Admission.Devices
	by.Channels = s.served()
	return New(of, by, files, channels, broker, told, env.Clock, mixing.Source, env.Log)
}

// lead leads workers, if the settings ask for some. Without, it is nil.
func (s Settings) lead(env *role.Env, streams bus.Streams, keys *keyring.ServerKeys) (*worker.Lead, error) {
	if !s.Workers.Enabled {
		return nil, nil
	}
	w, err := work.Of(env, streams, keys.Bundle.Deployment, keys.HPKE)
	if err != nil {
		return nil, err
	}
	return s.Workers.Lead(env, streams, keyring.Secrets(keys.HPKE), w.Handlers())
}
