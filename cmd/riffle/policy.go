package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile/scoring"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// policyCommand is riffle policy.
func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "see the policy that was learnt, and take it elsewhere",
		Long: `
Shows what a deployment learnt, by the names of its schema, and writes it as a file that other programs read. The
policy is public, and so is all that these commands print.`[1:],
		Example: `  riffle policy show out/audit --trust bundle.json
  riffle policy export --keys keys --format python --out choose.py`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(policyShowCommand(), policyExportCommand())
	return cmd
}

// fromWhere ends the help of the commands that read a policy.
const fromWhere = `
It reads a file of riffle policy export, or an audit's export in a folder, or without either a running deployment. Logs
are audited first, with the keys and flags of riffle audit, and the policy is one that was computed again from signed
counts; of logs with a breach none is given. Of a file it is checked that it fits together: who made it, it does not
say.
`

func policyShowCommand() *cobra.Command {
	f := &auditFlags{}
	var out string
	cmd := &cobra.Command{
		Use:   "show [FILE|FOLDER]",
		Short: "print the policy's coefficients by name, with intervals",
		Long: `
Prints the coefficients of the newest policy by the names of the deployment's schema, with an interval for each and a
picture of both, how devices play by it, what learning it revealed about a person, and its digest.
`[1:] + fromWhere,
		Example: `  riffle policy show policy.json
  riffle policy show out/audit --trust bundle.json --out policy.png
  riffle policy show --keys keys --broker-url nats://127.0.0.1:4222`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, audited, err := readPolicy(cmd, f, args)
			if err != nil {
				return err
			}
			shown := shownPolicy{p, audited}
			if out != "" {
				if err := shown.Picture().Save(out); err != nil {
					return err
				}
			}
			return command.Print(cmd, shown, f.json)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.add(flags)
	flags.StringVar(&out, "out", "", "file for a picture of the coefficients, .png or .svg")
	flags.BoolVar(&f.json, "json", false, "print the policy as the JSON of riffle policy export")
	return cmd
}

// policyFormats are what riffle policy export writes.
var policyFormats = map[string]func(*policyfile.File) ([]byte, error){
	"json": (*policyfile.File).Encode, "python": scoring.Python, "sql": scoring.SQL, "pmml": scoring.PMML,
}

func policyExportCommand() *cobra.Command {
	f := &auditFlags{}
	var format, out string
	formats := strict.List(slices.Sorted(maps.Keys(policyFormats)), "or")
	cmd := &cobra.Command{
		Use:   "export [FILE|FOLDER]",
		Short: "write the policy as a file that other programs read",
		Long: `
Writes the newest policy of a deployment, in one of these formats:

  json    all of it: the policy as devices have it, the schema, each coefficient by name with its
          interval, the digest, and what learning revealed; riffle evaluate --policy and the setting
          learner.prior read it
  python  a file with one function, which plays as a device does and needs nothing but Python
  sql     a query over a table of arms, which plays as a device does that does not explore
  pmml    PMML 4.4, which predicts the reward of an arm; it does not choose
`[1:] + fromWhere,
		Example: `  riffle policy export out/audit --trust bundle.json --out policy.json
  riffle policy export policy.json --format python --out choose.py`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			write := policyFormats[format]
			if write == nil {
				return fmt.Errorf("--format must be %s", formats)
			}
			p, _, err := readPolicy(cmd, f, args)
			if err != nil {
				return err
			}
			text, err := write(p)
			if err != nil {
				return err
			}
			if out == "" {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			return os.WriteFile(out, text, 0o644) //nolint:gosec // all of it is public
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.add(flags)
	flags.StringVar(&format, "format", "json", "form of what is written: "+formats)
	flags.StringVar(&out, "out", "", "file to write; default: standard output")
	return cmd
}

// readPolicy reads the policy that the arguments name, and says whether it is one of logs that were audited.
func readPolicy(cmd *cobra.Command, f *auditFlags, args []string) (p *policyfile.File, audited bool, err error) {
	if len(args) > 0 {
		info, err := os.Stat(args[0])
		if err != nil {
			return nil, false, err
		}
		if !info.IsDir() {
			p, err = policyOf(cmd, args[0], info.Size())
			return p, false, err
		}
	}
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	p, err = f.policy(ctx, cmd, args)
	return p, true, err
}

// policyOf reads a file of riffle policy export.
func policyOf(cmd *cobra.Command, path string, size int64) (*policyfile.File, error) {
	if cmd.Flags().Changed("trust") {
		return nil, fmt.Errorf("%s is a file, and nothing in it is signed: leave --trust out, or give an audit's "+
			"export", path)
	}
	if size > policyfile.MaxSize {
		return nil, fmt.Errorf("%s: %w: it has more than %d bytes", path, policyfile.ErrFile, policyfile.MaxSize)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p, err := policyfile.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// policy audits the logs that the arguments name, and gives the last policy.
func (f *auditFlags) policy(ctx context.Context, cmd *cobra.Command, args []string) (*policyfile.File, error) {
	var last audit.Announced
	done, err := f.checkWith(ctx, cmd, args, func(a audit.Announced) { last = a })
	if err != nil {
		return nil, err
	}
	defer done.end()
	r := done.report
	if !r.OK {
		return nil, &role.ExitError{Code: command.ExitBreach, Err: fmt.Errorf("%d breaches: no policy is given from "+
			"logs that are not as they must be; riffle audit says what is wrong", len(r.Breaches)+r.Unlisted)}
	}
	if last.Announcement == nil {
		return nil, errors.New("the logs have no announcement yet: wait until the deployment has begun")
	}
	return policyfile.New(last.Announcement, last.Digest, last.Estimate, policyfile.Certificate{Channel: r.Channel,
		Unit: r.Protected(), RestsOn: r.Channel.RestsOn(), Epsilon: policyfile.Bound(r.Epsilon),
		EpsilonAlone: policyfile.Bound(r.EpsilonAlone), Delta: r.Delta, Releases: r.Releases,
		Recomputed: r.PoliciesRecomputed})
}
