package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
)

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
