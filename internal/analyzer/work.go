package analyzer

import (
	"context"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// taskMemory is how many MiB one task of a counting worker takes at most.
const taskMemory = 64

// WorkerRole describes a counting worker to the start-up shell.
func WorkerRole() role.Role[worker.Settings] {
	return worker.Process{
		Role: bus.Analyzer, OpsListen: "127.0.0.1:9405", TaskMemory: taskMemory,
		Short: "do a part of the analyzer's work: open and count what was mixed",
		Long: `A worker of the analyzer opens messages and counts them, or verifies shares, in the analyzer's name. It belongs to
the analyzer's operator and has the analyzer's encryption keys. It decides nothing, signs nothing and keeps nothing: any
number of workers may be started and ended at any time. The analyzer itself needs workers.enabled.`,
		Load: func(folder string) (*worker.Member, error) {
			keys, err := keyring.LoadWorker(folder, keyring.Analyzer)
			if err != nil {
				return nil, err
			}
			return &worker.Member{
				Seed: keys.Seed, Secrets: keyring.Secrets(keys.HPKE),
				Work: func(_ *role.Env, streams bus.Streams, _ worker.Asker) (worker.Handlers,
					func(context.Context) error,
					error) {
					return handlersOf(streams.Mixed, keys.Bundle, keys.HPKE), nil, nil
				},
			}, nil
		},
	}.Command()
}

func handlersOf(mixed *bus.MixedStream, bundle keyring.Bundle, keys []*seal.HPKEKey) worker.Handlers {
	return WorkerHandlers(WorkerConfig{
		Deployment: bundle.Deployment, Registrar: bundle.Registrar, Hosts: bundle.RegistrarParty().Hosts, Keys: keys,
		Bus: mixed,
	})
}

// lead makes the configuration that of an analyzer with workers, if the settings ask for some. Without, it is nil.
func (s Settings) lead(env *role.Env, streams bus.Streams, keys *keyring.ServerKeys, c *Config) (*worker.Lead, error) {
	if !s.Workers.Enabled {
		return nil, nil
	}
	handlers := handlersOf(streams.Mixed, keys.Bundle, keys.HPKE)
	lead, err := s.Workers.Lead(env, streams, keyring.Secrets(keys.HPKE), handlers)
	if err != nil {
		return nil, err
	}
	c.Pool = lead
	return lead, nil
}
