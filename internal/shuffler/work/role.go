package work

import (
	"context"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// taskMemory is how many MiB one task of a mixing worker takes at most.
const taskMemory = 256

// Role describes a mixing worker to the start-up shell.
func Role() role.Role[worker.Settings] {
	return worker.Process{
		// as the shuffler itself
		Role: bus.Shuffler, OpsListen: "127.0.0.1:9404", TaskMemory: taskMemory, ShowProcess: true,
		Short: "do a part of the shuffler's work: open, scatter and mix reports",
		Long: `A worker of the shuffler opens reports, scatters their messages and mixes them in the shuffler's name. It belongs to
the shuffler's operator and has the shuffler's encryption keys. It decides nothing, signs nothing and keeps nothing: any
number of workers may be started and ended at any time. The shuffler itself needs workers.enabled.`,
		Load: func(folder string) (*worker.Member, error) {
			keys, err := keyring.LoadWorker(folder, keyring.Shuffler)
			if err != nil {
				return nil, err
			}
			return &worker.Member{
				Seed: keys.Seed, Secrets: keyring.Secrets(keys.HPKE),
				Work: func(env *role.Env, streams bus.Streams, lead worker.Asker) (worker.Handlers,
					func(context.Context) error,
					error) {
					w, err := Of(env, streams, keys.Bundle.Deployment, keys.HPKE)
					if err != nil {
						return nil, nil, err
					}
					return w.Handlers(), func(ctx context.Context) error { return w.Arrive(ctx, lead) }, nil
				},
			}, nil
		},
	}.Command()
}

// Of is the worker of a process with these keys.
func Of(env *role.Env, streams bus.Streams, deployment string, keys []*seal.HPKEKey) (*Worker, error) {
	return New(Config{
		Deployment: deployment, Keys: keys, Bus: Over(streams), Log: env.Log,
		Source: func() protocol.Source { return entropy.New() },
	})
}
