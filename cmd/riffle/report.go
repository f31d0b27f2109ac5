package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/audit/effect"
	auditpage "github.com/riffle-dp/riffle/internal/audit/page"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/role"
)

// reportCommand is riffle report.
func reportCommand() *cobra.Command {
	f := &auditFlags{}
	var out string
	cmd := &cobra.Command{
		Use:   "report [FOLDER]",
		Short: "see whether the policy helps, and what that cost people's privacy",
		Long: `
Says for each epoch, and for all of them together, what people's decisions were worth: the mean reward of the policy and
of the control group, which gets the default arm by a coin; the difference of the two, the lift, with its 95 % interval
for sampling and for all noise; how many reports came, and about how many decisions were in each; what that revealed
about one person so far, and what it can reveal over the deployment; whether the world changed; and what the announced
rules did to the policy. That takes a control group (learner.control of the analyzer).

It reads an export in FOLDER, or without one a running deployment, and audits it first, with the keys and flags of
riffle audit. Every number is recomputed from signed counts.

Exit codes: 0 if the audit found nothing wrong, 4 if it did, 1 if it could not be made.
`[1:],
		Example: `  riffle report out/audit --trust bundle.json
  riffle report out/audit --trust bundle.json --out lift.png
  riffle report --keys keys --broker-url nats://127.0.0.1:4222 --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runReport(cmd, f, args, out) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.add(flags)
	flags.StringVar(&f.html, "html", "", "also write the result to FILE, as a page with plots that loads nothing from "+
		"elsewhere")
	flags.StringVar(&out, "out", "", "file for a picture of the lift, .png or .svg")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	return cmd
}

func runReport(cmd *cobra.Command, f *auditFlags, args []string, out string) error {
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	done, err := f.check(ctx, cmd, args)
	if err != nil {
		return err
	}
	defer done.end()
	result := effect.Of(done.report)
	if done.beside {
		result.Notes = append(result.Notes, besideNote)
	}
	if err := drawReport(result, f.html, out); err != nil {
		return err
	}
	if err := command.Print(cmd, result, f.json); err != nil {
		return err
	}
	if !result.OK {
		return &role.ExitError{Code: command.ExitBreach, Err: fmt.Errorf("%d breaches", result.Breaches)}
	}
	return nil
}

// drawReport writes the page and the picture where they are asked for. A deployment without a lift has no picture.
func drawReport(r *effect.Result, page, picture string) error {
	if page != "" {
		var b bytes.Buffer
		if err := auditpage.WriteEffect(&b, r); err != nil {
			return err
		}
		if err := os.WriteFile(page, b.Bytes(), 0o644); err != nil { //nolint:gosec // all of it is public
			return err
		}
	}
	if picture == "" {
		return nil
	}
	c, err := r.Chart()
	if errors.Is(err, effect.ErrNoControl) {
		return fmt.Errorf("--out: %w", err)
	}
	if err != nil {
		return err
	}
	return c.Save(picture)
}
