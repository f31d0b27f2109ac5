package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/registry"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/keyring"
)

// exportFlags are the flags of riffle audit export.
type exportFlags struct {
	keys             string
	broker           brokerFlags
	registry, losses string
	json             bool
}

// auditExportCommand is riffle audit export.
func auditExportCommand() *cobra.Command {
	f := &exportFlags{}
	cmd := &cobra.Command{
		Use:   "export FOLDER",
		Short: "copy a running deployment's logs to a folder, which anybody can audit",
		Long: `
Copies what a deployment's servers signed to a new folder: the transparency logs of both, their newest checkpoints, the
public keys, what the shuffler retained, and a certificate of each epoch that is over. It reads with the auditor's
credential at the broker and changes nothing. All but what was retained is public. What was retained stays sealed to the
auditor, but no window ends this copy: only its owner may read the folder "retained" in it. Delete that folder when the
window is over, and before the rest is published: an audit does without it.

The folder is there whole or not at all. Nothing is judged: riffle audit FOLDER does that, and riffle verify FILE for one
certificate. --registry and --losses write further files from the same statements. No signature covers them, so they do
not belong into the folder; whoever has the folder can make them again (--from).`[1:],
		Example: `  riffle audit export out/audit --keys keys
  riffle audit export out/audit --keys keys --broker-url tls://broker:4222
  riffle audit export --from out/audit --registry registry.json --losses losses.json`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	keysFlag(flags, &f.keys)
	f.broker.add(flags)
	flags.StringVar(&f.broker.tls.CertFile, "broker-cert", "",
		"PEM file of a client certificate, if the broker asks for one")
	flags.StringVar(&f.broker.tls.KeyFile, "broker-cert-key", "", "PEM file of the client certificate's key")
	from := flags.String("from", "", "read this export in place of a broker; FOLDER may then be left out")
	trust := flags.String("trust", "", "with --from: bundle.json of the deployment, by default the one in that folder")
	flags.StringVar(&f.registry, "registry", "", "file for a record in the vocabulary of the Differential Privacy "+
		"Deployments Registry")
	flags.StringVar(&f.losses, "losses", "", "file for the privacy-loss distribution, as dp_accounting takes it")
	flags.BoolVar(&f.json, "json", false, "print what was exported as one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *from == "" && len(args) == 0 {
			return errors.New("name the folder to export to: riffle audit export FOLDER")
		}
		if len(args) == 0 && f.registry == "" && f.losses == "" {
			return errors.New("nothing is to be written: name a FOLDER, --registry FILE or --losses FILE")
		}
		ctx, stop := command.UntilStopped(cmd)
		defer stop()
		if *from != "" {
			folder, bundle, err := openExport(cmd, *from, *trust)
			if err != nil {
				return err
			}
			return f.run(ctx, cmd, args, folder, bundle)
		}
		live, bundle, done, err := liveLogs(ctx, f.keys, f.broker)
		if err != nil {
			return err
		}
		defer done()
		for _, role := range []bus.Role{bus.Analyzer, bus.Shuffler} {
			if n := live.Uncovered(role); n > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "riffle audit export: the last %d entries of the %s's log are left "+
					"out, because it has not signed a checkpoint over them. It does so at once while it runs: export "+
					"again later.\n",
					n, role)
			}
		}
		return f.run(ctx, cmd, args, live, bundle)
	}
	return cmd
}

// liveLogs reads a running deployment's logs with the auditor's credential. Call done at the end.
func liveLogs(ctx context.Context, keys string, broker brokerFlags) (
	live *audit.Live, bundle keyring.Bundle, done func(), err error,
) {
	if bundle, err = keyring.LoadBundle(keys); err != nil {
		return nil, bundle, nil, err
	}
	o := broker.options(keys)
	if o.Seed, err = keyring.LoadSeed(keys, keyring.Auditor); err != nil {
		return nil, bundle, nil, err
	}
	o.Role, o.Name = bus.Auditor, "riffle audit"
	conn, err := reach(ctx, o, reachWithin)
	if err != nil {
		return nil, bundle, nil, err
	}
	if live, err = audit.NewLive(ctx, audit.Over(conn.Streams), bundle); err != nil {
		conn.Close()
		return nil, bundle, nil, err
	}
	return live, bundle, conn.Close, nil
}

// openExport opens an exported folder, and the bundle to trust: by default the one that lies in it, with a warning.
func openExport(cmd *cobra.Command, path, trust string) (*audit.Folder, keyring.Bundle, error) {
	folder, err := audit.OpenFolder(path)
	if err != nil {
		return nil, keyring.Bundle{}, err
	}
	if trust != "" {
		bundle, err := keyring.LoadBundleFile(trust)
		return folder, bundle, err
	}
	bundle, err := folder.Bundle()
	if err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: the keys come from the folder itself, and whoever wrote the logs can "+
			"have written them: have the deployment's bundle.json from somebody you trust, and give it with --trust\n",
			cmd.CommandPath())
	}
	return folder, bundle, err
}

func (f *exportFlags) run(
	ctx context.Context, cmd *cobra.Command, args []string, src audit.Source, bundle keyring.Bundle,
) error {
	if err := f.describe(ctx, args, src, bundle); err != nil || len(args) == 0 {
		return err
	}
	done, err := audit.WriteFolder(ctx, args[0], src, bundle)
	if err != nil {
		return err
	}
	if f.json {
		return command.PrintJSON(cmd, done)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: %d entries of the analyzer, %d of the shuffler, %d retained chunks, %d "+
		"certificates\n",
		args[0], done.Entries[bus.Analyzer], done.Entries[bus.Shuffler], done.Retained, done.Certificates)
	var without []uint64
	for epoch := range done.Uncertified {
		without = append(without, epoch)
	}
	slices.Sort(without)
	for _, epoch := range without {
		fmt.Fprintf(cmd.OutOrStdout(), "epoch %d has no certificate: %s\n", epoch, done.Uncertified[epoch])
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "Check it: riffle audit %s\n", args[0])
	return err
}

// describe writes what is asked for beside the folder.
func (f *exportFlags) describe(ctx context.Context, args []string, src audit.Source, bundle keyring.Bundle) error {
	if len(args) > 0 {
		if err := audit.CheckDestination(args[0]); err != nil {
			return err
		}
	}
	if f.registry == "" && f.losses == "" {
		return nil
	}
	facts, err := registry.Gather(ctx, src, bundle)
	if err != nil {
		return err
	}
	if f.registry != "" {
		if err := saveJSON(f.registry, registry.Describe(facts)); err != nil {
			return err
		}
	}
	if f.losses == "" {
		return nil
	}
	losses, err := registry.Distribution(facts)
	if err != nil {
		return err
	}
	return saveJSON(f.losses, losses)
}

// saveJSON writes a value as one JSON object to a file.
func saveJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
