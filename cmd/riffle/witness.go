package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/witness"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
)

// witnessEvery is how often a witness looks unless --every says otherwise: a co-signed checkpoint is then at most a
// minute old, and the broker has little to do.
const witnessEvery = time.Minute

// witnessFlags are the flags of riffle witness.
type witnessFlags struct {
	keys, key, state, out string
	broker                brokerFlags
	once                  bool
	every                 time.Duration
}

func witnessCommand() *cobra.Command {
	f := &witnessFlags{}
	cmd := &cobra.Command{
		Use:   "witness [FOLDER]",
		Short: "co-sign checkpoints of the transparency logs, so that none can show two faces",
		Long: `
Looks at the transparency logs of the shuffler and of the analyzer, and co-signs the newest checkpoint of each if it
extends everything that this witness saw before. The co-signed checkpoints are files in --out,
ROLE.NAME.checkpoint: publish them, or give them to whoever audits. A witness is worth most in hands that no operator
of the deployment holds.

It reads a running deployment, with the bundle and the auditor's credential of --keys, or a folder that was exported,
with the bundle of --keys. What it saw is kept in --state: a witness that loses it can vouch only for what comes.

Exit codes: 4 if a log contradicts what was seen before (it was rewound, or shows two faces), or is not whole; nothing
is co-signed then, and the message names the two checkpoints. 1 if the command could not look.`[1:],
		Example: `  riffle witness keygen --key witness.key --name university.example.org
  riffle witness --keys keys --key witness.key --state seen --out checkpoints
  riffle witness out/audit --keys keys --key witness.key --state seen --out checkpoints`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runWitness(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.keys, "keys", "keys", "folder made by riffle keygen, of which the bundle is read, and auditor/ "+
		"where no FOLDER is given")
	flags.StringVar(&f.key, "key", "witness.key", "the witness's own key, made by riffle witness keygen")
	flags.StringVar(&f.state, "state", "witness", "folder of what was seen last; it belongs to one process, and must "+
		"be kept")
	flags.StringVar(&f.out, "out", "checkpoints", "folder of the co-signed checkpoints")
	flags.BoolVar(&f.once, "once", false, "look once and end; with a FOLDER always")
	flags.DurationVar(&f.every, "every", witnessEvery, "how often to look")
	f.broker.add(flags)
	cmd.AddCommand(witnessKeygenCommand(), witnessProofCommand())
	return cmd
}

func witnessProofCommand() *cobra.Command {
	var keys, out string
	var checkpoints []string
	cmd := &cobra.Command{
		Use:   "proof FOLDER",
		Short: "make what a device begins with that comes late",
		Long: `
Writes the latest announcement of a cohort in an exported folder, and the proof that it is in the analyzer's log, under
the checkpoint that the witnesses co-signed: several that state the same become one. A device that pins enough of these
witnesses begins with the two files (riffle_begin), and does not read the chain from the first epoch on.

Exit code 4 if the folder's log is not the one of the checkpoint.`[1:],
		Example: `  riffle witness proof out/audit --checkpoint checkpoints/analyzer.university.example.org.checkpoint`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bundle, err := keyring.LoadBundle(keys)
			if err != nil {
				return err
			}
			folder, err := audit.OpenFolder(args[0])
			if err != nil {
				return err
			}
			var cosigned [][]byte
			for _, name := range checkpoints {
				b, err := os.ReadFile(filepath.Clean(name))
				if err != nil {
					return err
				}
				cosigned = append(cosigned, b)
			}
			log := witness.Log{Deployment: bundle.Deployment, Role: bus.Analyzer, Key: bundle.Analyzer}
			proof, announcement, err := witness.Prove(cmd.Context(), folder, log, cosigned...)
			if errors.Is(err, witness.ErrRefused) {
				return &role.ExitError{Code: command.ExitBreach, Err: err}
			}
			if err != nil {
				return err
			}
			if err := os.WriteFile(out+".tlog-proof", proof, 0o644); err != nil {
				return err
			}
			if err := os.WriteFile(out, announcement, 0o644); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The announcement is in %s, its proof in %[1]s.tlog-proof.\n", out)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&keys, "keys", "keys", "folder made by riffle keygen, of which the bundle is read")
	flags.StringArrayVar(&checkpoints, "checkpoint", nil, "co-signed checkpoint of the analyzer; may be repeated")
	flags.StringVar(&out, "out", "announcement", "file to write; the proof has .tlog-proof behind its name")
	return cmd
}

func witnessKeygenCommand() *cobra.Command {
	var path, name string
	cmd := &cobra.Command{
		Use:   "keygen",
		Short: "make the key of a witness",
		Long: `
Makes the key that a witness signs with, and beside it, with .pub behind its name, the line that others trust the
witness by: its name and its public key.`[1:],
		Example: `  riffle witness keygen --key witness.key --name university.example.org`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			line, err := witness.Generate(path, name)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "The key of the witness is in %s. Others trust it by the line in "+
				"%s.pub:\n%s\n", path, path, line)
			return errors.Join(err, warnListed(cmd, path))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&path, "key", "witness.key", "file to make")
	flags.StringVar(&name, "name", "", "name of the witness: letters, digits, dots, - and _, such as a host's")
	return cmd
}

func runWitness(cmd *cobra.Command, f *witnessFlags, args []string) error {
	if f.every <= 0 {
		return fmt.Errorf("--every %v: must be above 0", f.every)
	}
	bundle, err := keyring.LoadBundle(f.keys)
	if err != nil {
		return err
	}
	w, err := witness.Load(f.key, f.state, f.out)
	if err != nil {
		return err
	}
	logs := []witness.Log{
		{Deployment: bundle.Deployment, Role: bus.Shuffler, Key: bundle.Shuffler},
		{Deployment: bundle.Deployment, Role: bus.Analyzer, Key: bundle.Analyzer},
	}
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	if len(args) > 0 {
		folder, err := audit.OpenFolder(args[0])
		if err != nil {
			return err
		}
		return look(ctx, cmd, w, folder, logs, map[bus.Role]uint64{})
	}
	o := f.broker.options(f.keys)
	o.Role, o.Name = bus.Auditor, "witness"
	if o.Seed, err = keyring.LoadSeed(f.keys, keyring.Auditor); err != nil {
		return err
	}
	conn, err := reach(ctx, o, reachWithin)
	if err != nil {
		return err
	}
	defer conn.Close()
	told := map[bus.Role]uint64{}
	for {
		live, err := audit.NewLive(ctx, audit.Over(conn.Streams), bundle)
		if err == nil {
			err = look(ctx, cmd, w, live, logs, told)
		}
		if err != nil || f.once {
			return unlessStopped(ctx, err)
		}
		if err := role.Sleep(ctx, role.SystemClock(), f.every); err != nil {
			return unlessStopped(ctx, err)
		}
	}
}

// look has the witness look at every log, and says what is new. told are the sizes that were said before.
func look(
	ctx context.Context, cmd *cobra.Command, w *witness.Witness, src audit.Source, logs []witness.Log,
	told map[bus.Role]uint64,
) error {
	var faults []error
	for _, log := range logs {
		seen, err := w.Look(ctx, src, log, role.SystemClock().Now())
		if err != nil {
			faults = append(faults, err)
			continue
		}
		size, before := told[log.Role]
		if before && size == seen.Size {
			continue
		}
		told[log.Role] = seen.Size
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), sentence(w, log.Role, seen)); err != nil {
			return err
		}
	}
	err := errors.Join(faults...)
	if errors.Is(err, witness.ErrRefused) {
		return &role.ExitError{Code: command.ExitBreach, Err: err}
	}
	return err
}

// sentence says what a look came to.
func sentence(w *witness.Witness, of bus.Role, seen *witness.Seen) string {
	switch {
	case seen.Empty:
		return fmt.Sprintf("%s: there is no checkpoint yet", of)
	case seen.First:
		return fmt.Sprintf("%s: %d entries co-signed by %s. This is the first use: the witness remembers no earlier "+
			"checkpoint, and vouches only for what comes. If it should remember one, restore its --state", of,
			seen.Size,
			w.Name)
	}
	return fmt.Sprintf("%s: %d entries co-signed by %s; they begin with the %d that it saw before", of, seen.Size,
		w.Name,
		seen.Before)
}

// unlessStopped is nil where the command ends because it was asked to.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, witness.ErrRefused) {
		return nil
	}
	return err
}
