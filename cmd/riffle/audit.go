package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/audit"
	auditpage "github.com/riffle-dp/riffle/internal/audit/page"
	"github.com/riffle-dp/riffle/internal/audit/witness"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/transparency"
)

// auditFlags are the flags of riffle audit.
type auditFlags struct {
	trust, keys, analyzerKeys            string
	witnesses, witnessKeys, views, opens []string
	tolerance                            float64
	json                                 bool
	html                                 string
	issued                               []string
	registrarDevices                     uint64
	broker                               brokerFlags
}

func auditCommand() *cobra.Command {
	f := &auditFlags{}
	cmd := &cobra.Command{
		Use:   "audit [FOLDER]",
		Short: "check what was mixed, what was learnt and what it cost",
		Long: `
Checks a deployment's transparency logs: an export in FOLDER, or without one the streams of a running deployment, which
it only reads. It trusts the keys that it is given and nothing else. Every signature is verified; both logs must fit
their checkpoints and each other; every plan, guarantee, sum and policy is computed again, bit for bit, with the code
that the analyzer runs. What was retained must be the messages that the shuffler committed to, and with the analyzer's
key they are counted again.

Exit codes: 0 if nothing is wrong, 4 if something is, 1 if the audit could not be made, or could not check what a flag
asks for.`[1:],
		Example: `  riffle audit out/audit --trust bundle.json
  riffle audit --keys keys --broker-url nats://127.0.0.1:4222 --json
  riffle audit out/audit --trust bundle.json --witness shuffler.checkpoint \
      --witness-key witness.key.pub`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runAudit(cmd, f, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.add(flags)
	f.addPage(flags)
	flags.StringSliceVar(&f.issued, "issued", nil, "issued.log of each issuer, taken after the servers' logs, "+
		"separated by commas;\nan earlier copy beside it shows whether it was rewritten")
	flags.Uint64Var(&f.registrarDevices, "registrar-devices", 0, "with --issued: how many devices the registrar "+
		"let in by hosts' credentials")
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
	cmd.AddCommand(auditExportCommand(), auditExplainCommand())
	return cmd
}

// add adds the flags that say where the logs are, whom to trust, and what else is compared.
func (f *auditFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.trust, "trust", "", "bundle.json with the keys to trust, from elsewhere than the folder;\n"+
		"default: that of the folder, with a warning, or that of --keys")
	flags.StringVar(&f.keys, "keys", "keys", "without FOLDER: folder made by riffle keygen, of which the bundle and "+
		"auditor/ are read")
	f.broker.add(flags)
	flags.StringSliceVar(&f.witnesses, "witness", nil, "checkpoints that a witness co-signed, separated by commas")
	flags.StringSliceVar(&f.witnessKeys, "witness-key", nil, "public keys of witnesses whose cosignatures are looked "+
		"for, separated by commas")
	flags.StringSliceVar(&f.views, "view", nil, "folders with what others exported of the same deployment, separated "+
		"by commas")
	flags.StringSliceVar(&f.opens, "auditor-key", nil, "the auditor's private keys, which open what is retained, "+
		"separated by commas;\nwithout FOLDER those of --keys are used, too")
	flags.StringVar(&f.analyzerKeys, "analyzer-keys", "", "folder with the analyzer's keys, which count retained "+
		"messages again")
	flags.Float64Var(&f.tolerance, "tolerance", 0, fmt.Sprintf("relative difference that recomputed numbers may "+
		"have; %g if the analyzer runs on another processor architecture", audit.RoundingTolerance))
}

// besideNote is said where the folder's own keys were trusted.
const besideNote = "The keys that were trusted lay beside the logs: whoever made these logs can have made the keys, " +
	"too."

// checked is what an audit came to, with every round in its report.
type checked struct {
	report  *audit.Report
	options audit.Options
	source  audit.Source
	beside  bool   // the keys lay beside the logs
	end     func() // lets go of the source
}

// check audits what the flags and arguments name.
func (f *auditFlags) check(ctx context.Context, cmd *cobra.Command, args []string) (done checked, err error) {
	return f.checkWith(ctx, cmd, args, nil)
}

// checkWith is check, and tells of each announcement; announced may be nil.
func (f *auditFlags) checkWith(ctx context.Context, cmd *cobra.Command, args []string,
	announced func(audit.Announced),
) (done checked, err error) {
	if done.options, err = f.options(); err != nil {
		return done, err
	}
	logs, err := f.issuers(cmd, &done.options)
	defer func() {
		for _, l := range logs {
			_ = l.Close()
		}
	}()
	if err != nil {
		return done, err
	}
	done.source, done.beside, done.end, err = f.source(ctx, cmd, args, &done.options)
	if err != nil {
		return done, err
	}
	var rows []audit.Row
	done.options.Announced = announced
	done.options.Row = func(r audit.Row) { rows = append(rows, r) }
	if done.report, err = audit.Check(ctx, done.source, done.options); err == nil {
		err = f.refuseUnchecked(done.report, done.options)
	}
	if err != nil {
		done.end()
		return done, err
	}
	done.report.Rounds = rows
	return done, nil
}

// runAudit audits, prints the report, and ends with the exit code of what it found.
func runAudit(cmd *cobra.Command, f *auditFlags, args []string) error {
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	done, err := f.check(ctx, cmd, args)
	if err != nil {
		return err
	}
	defer done.end()
	report, o := done.report, done.options
	if done.beside {
		report.Notes = append(report.Notes, besideNote)
	}
	if d, ok := done.source.(*audit.Folder); ok && !report.OK {
		own, err := d.Bundle()
		if err == nil && !(bytes.Equal(own.Analyzer, o.Trust.Analyzer) && bytes.Equal(own.Shuffler, o.Trust.Shuffler)) {
			report.Notes = append(report.Notes, fmt.Sprintf("The bundle in the folder is of the deployment %q and "+
				"has other keys than those that you trust: if you gave the keys of another deployment, give those of "+
				"this one.",
				own.Deployment))
		}
	}
	if len(f.witnesses) > 0 && len(report.Witnessed) == 0 {
		report.Notes = append(report.Notes, "No cosignature on the checkpoints of --witness was verified: they were "+
			"compared as the roles' own. Give the key of the witness whose word you take with --witness-key.")
	}
	if err := f.writePage(report); err != nil {
		return err
	}
	if err := command.Print(cmd, report, f.json); err != nil {
		return err
	}
	if !report.OK {
		return &role.ExitError{Code: command.ExitBreach, Err: fmt.Errorf("%d breaches",
			len(report.Breaches)+report.Unlisted)}
	}
	return nil
}

// refuseUnchecked refuses to call logs clean of which nothing was checked that a flag asks for.
func (f *auditFlags) refuseUnchecked(r *audit.Report, o audit.Options) error {
	if !r.OK {
		return nil
	}
	if len(f.opens) > 0 && r.Opened == 0 {
		return errors.New("--auditor-key opened no release: nothing is retained, or not all of any release. Have it " +
			"exported with what is retained, or leave the flag out")
	}
	if f.analyzerKeys != "" && r.Recounted == 0 {
		return errors.New("--analyzer-keys counted no release again: that takes what is retained, --auditor-key that " +
			"opens it, and the analyzer's key of the time. Give them, or leave the flag out")
	}
	for _, w := range o.Witnesses {
		if !slices.ContainsFunc(r.Witnessed, func(one audit.Witnessed) bool { return one.Witness == w.Name }) {
			return fmt.Errorf("the witness %s co-signed no checkpoint that was given: give its own with --witness, "+
				"or leave its --witness-key out", w.Name)
		}
	}
	return nil
}

// options are those that no source is needed for, with the keys of --trust where there are any.
func (f *auditFlags) options() (o audit.Options, err error) {
	o.Tolerance = f.tolerance
	if f.trust != "" {
		if o.Trust, err = keyring.LoadBundleFile(f.trust); err != nil {
			return o, fmt.Errorf("--trust takes the deployment's bundle.json: %w", err)
		}
	}
	for _, path := range f.opens {
		key, err := keyfile.LoadHPKE(path)
		if err != nil {
			return o, err
		}
		o.Auditor = append(o.Auditor, key)
	}
	if f.analyzerKeys != "" {
		keys, err := keyring.LoadAnalyzer(f.analyzerKeys)
		if err != nil {
			return o, err
		}
		o.AnalyzerKeys = keys.HPKE
	}
	for _, path := range f.witnessKeys {
		name, key, err := witness.LoadPublic(path)
		if err != nil {
			return o, err
		}
		o.Witnesses = append(o.Witnesses, audit.Witness{Name: name, Key: key})
	}
	for _, path := range f.views {
		d, err := audit.OpenFolder(path)
		if err != nil {
			return o, err
		}
		v := audit.View{Name: path, Source: d, Checkpoints: map[bus.Role][]byte{}}
		for _, r := range []bus.Role{bus.Analyzer, bus.Shuffler} {
			if v.Checkpoints[r], err = d.Checkpoint(context.Background(), r); err != nil {
				return o, err
			}
		}
		o.Views = append(o.Views, v)
	}
	for _, path := range f.witnesses {
		v, err := loadView(path)
		if err != nil {
			return o, err
		}
		o.Views = append(o.Views, v)
	}
	return o, nil
}

// issuers opens the logs of issuers for an audit.
func (f *auditFlags) issuers(cmd *cobra.Command, o *audit.Options) (files []*os.File, err error) {
	if cmd.Flags().Changed("registrar-devices") {
		if o.RegistrarDevices = &f.registrarDevices; len(f.issued) == 0 {
			return nil, errors.New("--registrar-devices is compared together with issuers' logs: give them with " +
				"--issued")
		}
	}
	for _, path := range f.issued {
		file, err := os.Open(filepath.Clean(path))
		if err != nil {
			return files, err
		}
		files = append(files, file)
		o.Issued = append(o.Issued, audit.IssuedLog{Name: path, From: file})
	}
	return files, nil
}

// loadView is the view of a co-signed checkpoint. Its first line says whose log it is of; the audit looks whether that
// is true.
func loadView(path string) (audit.View, error) {
	v := audit.View{Name: path}
	info, err := os.Stat(path)
	if err != nil {
		return v, err
	}
	if info.Size() > transparency.MaxCheckpoint {
		return v, fmt.Errorf("%s: no checkpoint: it has more than %d bytes", path, transparency.MaxCheckpoint)
	}
	note, err := os.ReadFile(path)
	if err != nil {
		return v, err
	}
	origin, _, _ := strings.Cut(string(note), "\n")
	for _, r := range []bus.Role{bus.Analyzer, bus.Shuffler} {
		if strings.HasSuffix(origin, "/"+string(r)) {
			v.Checkpoints = map[bus.Role][]byte{r: note}
			return v, nil
		}
	}
	return v, fmt.Errorf("%s: no checkpoint of the analyzer's or the shuffler's log: its first line must name the log",
		path)
}

// source opens what is audited, and completes the keys. beside tells that the keys to trust lay beside the logs.
func (f *auditFlags) source(ctx context.Context, cmd *cobra.Command, args []string, o *audit.Options) (
	source audit.Source, beside bool, end func(), err error,
) {
	end = func() {}
	if len(args) > 0 {
		d, err := audit.OpenFolder(args[0])
		if err != nil || f.trust != "" {
			return d, false, end, err
		}
		if o.Trust, err = d.Bundle(); err != nil {
			return nil, false, end, err
		}
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Warning: the keys in %s are trusted, which lie beside the logs. "+
			"Give keys from elsewhere with --trust FILE.\n", args[0])
		return d, true, end, err
	}
	keys, err := keyring.LoadAuditor(f.keys)
	if err != nil {
		return nil, false, end, fmt.Errorf("no FOLDER is given, so a running deployment is to be audited; that needs "+
			"bundle.json and auditor/ in the folder of --keys: %w", err)
	}
	if f.trust == "" {
		o.Trust = keys.Bundle
	}
	o.Auditor = append(o.Auditor, keys.HPKE...)
	to := f.broker.options(f.keys)
	to.Role, to.Name, to.Seed = bus.Auditor, "audit", keys.Seed
	conn, err := reach(ctx, to, reachWithin)
	if err != nil {
		return nil, false, end, err
	}
	live, err := audit.NewLive(ctx, audit.Over(conn.Streams), o.Trust)
	if err != nil {
		conn.Close()
		return nil, false, end, err
	}
	return live, false, conn.Close, nil
}

// addPage adds the flag of the page.
func (f *auditFlags) addPage(flags *pflag.FlagSet) {
	flags.StringVar(&f.html, "html", "", "also write the result to FILE, as a page with plots that loads nothing from "+
		"elsewhere")
}

// writePage writes the page where one is asked for: whole or not at all.
func (f *auditFlags) writePage(report *audit.Report) error {
	if f.html == "" {
		return nil
	}
	var b bytes.Buffer
	if err := auditpage.Write(&b, report); err != nil {
		return err
	}
	return os.WriteFile(f.html, b.Bytes(), 0o644) //nolint:gosec // all of it is public
}
