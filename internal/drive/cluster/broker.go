package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/ingress"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/shuffler/work"
)

// maxStore is more than any disk has: a deployment on one machine writes megabytes, and must not be kept from starting
// because the free disk is less than what the limits would set aside.
const maxStore = 1 << 40

// BrokerCommand is `broker run`, with which a cluster runs its broker as a process of its own. The program of
// Options.Executable must have it. It says on standard error where it listens, and ends with its standard input: the
// cluster holds the other end of that pipe, which closes with the cluster's process, however that ends.
func BrokerCommand() *cobra.Command {
	var keys, dir string
	var port int
	var sync bool
	cmd := &cobra.Command{
		Use:   "run",
		Short: "run the broker of a cluster on one machine, until standard input ends",
		// It is no way to run a broker by hand: it creates no streams, and by default writes without syncing the disk.
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			users, err := loadUsers(keys)
			if err != nil {
				return err
			}
			server, err := broker.Start(broker.Options{
				Dir: dir, Port: port, Users: users, MaxStore: maxStore, SyncAlways: sync,
			})
			if err != nil {
				return err
			}
			defer server.Stop()
			say := json.NewEncoder(cmd.ErrOrStderr())
			address := fmt.Sprintf("127.0.0.1:%d", server.Port())
			if err := say.Encode(line{Listener: brokerListener, Address: address, Message: "listening"}); err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, cmd.InOrStdin()); err != nil {
				return err
			}
			traffic, err := server.Traffic()
			if err != nil { // it is missing from the line, and means unknown
				traffic = nil
			}
			return say.Encode(line{Message: "stopped", Traffic: traffic})
		},
	}
	cmd.Flags().StringVar(&keys, "keys", "keys", "folder of the deployment's keys")
	cmd.Flags().StringVar(&dir, "dir", "broker", "folder of the streams")
	cmd.Flags().IntVar(&port, "port", 0, "port to listen on; 0: any free port")
	cmd.Flags().BoolVar(&sync, "sync", false, "sync the disk before every acknowledgement")
	return cmd
}

// brokerListener is the name of the broker's listener in its log.
const brokerListener = "broker.listen"

// launchBroker starts the broker's process. Started again, it listens where it listened before, so that the roles find
// it.
func (c *Cluster) launchBroker() (*process, error) {
	p, err := launch(c.o.Executable, []string{Broker, "run", "--keys", c.Keys(), "--dir",
		filepath.Join(c.o.Dir, Broker), "--port", fmt.Sprint(c.port), fmt.Sprintf("--sync=%v", c.o.Sync)}, c.o.Environ,
		filepath.Join(c.o.Dir, Broker+".log"), []string{brokerListener})
	if err == nil {
		p.tied = true
	}
	return p, err
}

func loadUsers(keys string) (map[bus.Role][]string, error) {
	users, err := keyring.LoadUsers(keys)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	all := map[bus.Role][]string{}
	for role, public := range users {
		all[bus.Role(role)] = public
	}
	return all, nil
}

// StartBroker starts a broker inside this process, for the users of a folder of keys, and provisions its streams.
func StartBroker(ctx context.Context, keys string, o broker.Options, p bus.ProvisionOptions) (*broker.Server, error) {
	users, err := loadUsers(keys)
	if err != nil {
		return nil, err
	}
	o.Users = users
	if err := keyfile.Folder(o.Dir); err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	server, err := broker.Start(o)
	if err != nil {
		return nil, err
	}
	err = Provision(ctx, keys, server.URL(), p)
	if err != nil {
		server.Stop()
		return nil, fmt.Errorf("broker: %w", err)
	}
	return server, nil
}

// Provision creates the streams of the broker at url with the admin's key.
func Provision(ctx context.Context, keys, url string, p bus.ProvisionOptions) error {
	seed, err := keyring.LoadSeed(keys, keyring.Admin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	admin, err := bus.Connect(ctx, bus.Options{URL: url, Role: bus.Admin, Seed: seed, Name: "provisioning"})
	if err != nil {
		return err
	}
	defer admin.Close()
	return bus.Provision(ctx, admin, p)
}

// Commands are those that a program must have so that it can be an Executable: the roles with their workers, and the
// broker.
func Commands() []*cobra.Command {
	mixing, learning := role.Command(shuffler.Role()), role.Command(analyzer.Role())
	mixing.AddCommand(role.Command(work.Role()))
	learning.AddCommand(role.Command(analyzer.WorkerRole()))
	server := &cobra.Command{Use: "broker"}
	server.AddCommand(BrokerCommand())
	return []*cobra.Command{
		role.Command(randomizer.Role()), mixing, learning, role.Command(ingress.Role()), server,
	}
}
