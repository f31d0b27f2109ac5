package main

import (
	"fmt"
	"net"
	"path"
	"strings"

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
