package main

import (
	"context"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/keyring"
)

func brokerCommand() *cobra.Command {
	var keys, dir, host string
	var port int
	var limits bus.ProvisionOptions
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "run a NATS server with the streams and rights of a deployment",
		Long: `
Runs an embedded NATS server with JetStream for the users of a folder made by riffle keygen, and creates the streams.
It is meant for trying out a deployment on one machine. For a real deployment run nats-server itself, as deploy/ does,
with the configuration that riffle broker config writes, and create the streams with riffle broker provision.`[1:],
		Example: `  riffle broker --keys keys --dir broker`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := command.UntilStopped(cmd)
			defer stop()
			server, err := cluster.StartBroker(ctx, keys,
				broker.Options{Dir: dir, Host: host, Port: port, SyncAlways: true}, limits)
			if err != nil {
				return err
			}
			defer server.Stop()
			if host != "localhost" && !net.ParseIP(host).IsLoopback() {
				fmt.Fprintf(cmd.ErrOrStderr(), "Warning: %s can be reached from other machines, and this broker has "+
					"no TLS: whoever is on the way sees who enrols and reports when. For anything but a trial run "+
					"nats-server with the configuration of riffle broker config.\n", host)
			}
			lines := append([]string{"broker: listening on " + server.URL()}, crowdingOf(keys, limits.HostReports)...)
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Join(lines, "\n")); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		},
	}
	keysFlag(cmd.Flags(), &keys)
	cmd.Flags().StringVar(&dir, "dir", "broker", "folder of the streams, which must be the same after a restart")
	cmd.Flags().StringVar(&host, "host", "127.0.0.1", "address to listen on; without TLS use a loopback address")
	cmd.Flags().IntVar(&port, "port", 4222, "port to listen on; 0: any free port")
	reportLimits(cmd.Flags(), &limits)
	cmd.AddCommand(configCommand(), provisionCommand(), cluster.BrokerCommand())
	return cmd
}

const (
	clientPort = 4222
	routePort  = 6222
	// health is the address of the server's monitoring, which its health check asks. It is on the server's loopback, so
	// that no other machine reaches it.
	health = "127.0.0.1:8222"
)

func configCommand() *cobra.Command {
	var keys, out, data, certificates, ca, name, clusterName string
	var peers []string
	var maxStore int64
	cmd := &cobra.Command{
		Use:   "config",
		Short: "write the configuration of a nats-server for a deployment",
		Long: `
Writes what nats-server needs to serve a deployment: listeners, storage, and the table of rights as accounts, imports
and permissions. The file holds public keys and paths, and no secret. --data, --certificates and --ca are paths as the
server sees them.

With --peer the server is part of a cluster. The servers of a cluster show each other certificates of the
deployment's own authority.`[1:],
		Example: `  riffle broker config --keys keys --out nats.conf
  riffle broker config --keys keys --out n1.conf --name n1 --peer n2 --peer n3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			users, err := keyring.LoadUsers(keys)
			if err != nil {
				return err
			}
			o := broker.Options{
				Dir: data, Host: "0.0.0.0", Port: clientPort, Name: name, Users: map[bus.Role][]string{},
				SyncAlways: true, MaxStore: maxStore, Monitor: health,
			}
			for role, public := range users {
				o.Users[bus.Role(role)] = public
			}
			if keyring.HasAuthority(keys) {
				o.TLS = &broker.TLS{CertFile: path.Join(certificates, "server.pem"),
					KeyFile: path.Join(certificates, "server.key")}
			}
			if len(peers) > 0 {
				if o.TLS == nil {
					return fmt.Errorf("--peer: the servers of a cluster need certificates, and %s has no authority; "+
						"make the keys with riffle keygen --tls", keys)
				}
				o.Cluster = &broker.Cluster{Name: clusterName, Listen: fmt.Sprintf("0.0.0.0:%d", routePort),
					TLS: &broker.TLS{CertFile: o.TLS.CertFile, KeyFile: o.TLS.KeyFile, CAFile: ca}}
				for _, p := range peers {
					o.Cluster.Routes = append(o.Cluster.Routes, fmt.Sprintf("nats-route://%s:%d", p, routePort))
				}
			}
			if err := broker.WriteConfig(out, o); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The configuration of %s is in %s.\n", name, out)
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	keysFlag(flags, &keys)
	flags.StringVar(&out, "out", "nats.conf", "file to write")
	flags.StringVar(&name, "name", "nats", "the server's name, unique in its cluster")
	flags.StringVar(&data, "data", "/data", "folder in which the server keeps the streams")
	flags.StringVar(&certificates, "certificates", "/etc/nats/tls",
		"folder in which the server finds server.pem and server.key")
	flags.StringVar(&ca, "ca", "/etc/nats/ca.pem",
		"PEM file in which the server finds the authority that vouches for its peers")
	flags.StringArrayVar(&peers, "peer", nil, "host of another server of the cluster; may be repeated")
	flags.StringVar(&clusterName, "cluster", "riffle", "name of the cluster")
	flags.Int64Var(&maxStore, "max-store", 0,
		"most bytes of all streams on disk; 0: what is free when the server starts")
	return cmd
}

func provisionCommand() *cobra.Command {
	var keys string
	var at brokerFlags
	var within time.Duration
	var o bus.ProvisionOptions
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "create the streams of a deployment, or change their options",
		Long: `
Creates streams, buckets and consumers with the admin's key, and waits for the broker if it does not answer yet.
Running the command again with the same options changes nothing, and no run drops a message. The admin's key
serves no other purpose.

The three limits on reports prevent one host from shutting out the others: --max-host-reports times --max-report-size
may be at most half of --max-report-bytes. The broker reserves --max-report-bytes on its disk. A host needs room for
the reports of all its devices that may be in one cohort. For example, a gateway of 100 000 devices whose reports have
up to 300 bit messages needs --max-host-reports 131072 --max-report-size 16384 --max-report-bytes 4294967296`[1:],
		Example: `
  riffle broker provision --keys keys --broker-url tls://nats:4222 --replicas 3`[1:],
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			seed, err := keyring.LoadSeed(keys, keyring.Admin)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), within)
			defer cancel()
			c := at.options(keys)
			c.Role, c.Seed, c.Name = bus.Admin, seed, "provisioning"
			admin, err := bus.Connect(ctx, c)
			if err != nil {
				return err
			}
			defer admin.Close()
			if err := bus.Provision(ctx, admin, o); err != nil {
				return err
			}
			lines := []string{fmt.Sprintf("The streams exist. Copies of each: %d", max(1, o.Replicas))}
			lines = append(lines, crowdingOf(keys, o.HostReports)...)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(lines, "\n"))
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&keys, "keys", "keys",
		"folder made by riffle keygen; its admin/ is read and, where they are there, what hosts may enrol")
	at.add(flags)
	flags.IntVar(&o.Replicas, "replicas", 1, "copies of every stream: 1, 3 or 5")
	flags.DurationVar(&o.DedupWindow, "dedup-window", bus.DefaultDedupWindow,
		"how long the broker recognises a repeated report")
	flags.DurationVar(&o.AckWait, "ack-wait", bus.DefaultAckWait,
		"after how long an unacknowledged report or chunk is delivered again")
	flags.BoolVar(&o.Workers, "workers", false,
		"make the streams that workers of shuffler and analyzer need, too; without it, those that exist stay as they "+
			"are")
	flags.DurationVar(&o.TaskWait, "task-wait", bus.DefaultTaskWait,
		"with --workers: for how long a worker may be silent before its task is given to another one")
	reportLimits(flags, &o)
	flags.Int64Var(&o.MaxMixedBytes, "max-mixed-bytes", bus.DefaultMaxMixedBytes,
		"most bytes of mixed messages on disk; negative: no limit")
	flags.Int64Var(&o.MaxPreparedBytes, "max-prepared-bytes", bus.DefaultMaxPreparedBytes,
		"most bytes of the analyzer's answers to the shuffler on disk; negative: no limit")
	flags.Int64Var(&o.MaxRetainedBytes, "max-retained-bytes", bus.DefaultMaxRetainedBytes,
		"most bytes on disk of what the shuffler retains for the auditor; negative: no limit")
	flags.Int64Var(&o.MaxMixingBytes, "max-mixing-bytes", bus.DefaultMaxMixingBytes,
		"with --workers: most bytes on disk of rounds between mixing processes; negative: no limit")
	flags.Int64Var(&o.MaxTaskBytes, "max-task-bytes", bus.DefaultMaxTaskBytes,
		"with --workers: most bytes on disk of tasks that wait, for each of the two roles; negative: no limit")
	flags.Int64Var(&o.MaxAuditBytes, "max-audit-bytes", bus.DefaultMaxAuditBytes,
		"most bytes of the audit log on disk; negative: no limit")
	flags.Int64Var(&o.MaxAnnouncementBytes, "max-announcement-bytes", bus.DefaultMaxAnnouncementBytes,
		"most bytes of announcements on disk; negative: no limit")
	flags.Int64Var(&o.MaxKeyBytes, "max-key-bytes", bus.DefaultMaxKeyBytes,
		"most bytes of key sets on disk; negative: no limit")
	flags.DurationVar(&within, "within", time.Minute,
		"how long the command may take, including the wait for the broker")
	return cmd
}
