package main

import (
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
)

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
