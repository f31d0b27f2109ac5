package main

import (
	"fmt"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
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
