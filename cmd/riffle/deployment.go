package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/privacy"
)

// The flags that the commands for a deployment share.

// keysFlag declares --keys, the folder of the deployment's keys.
func keysFlag(flags *pflag.FlagSet, keys *string) {
	flags.StringVar(keys, "keys", "keys", "folder made by riffle keygen")
}

// brokerFlags say where a deployment's broker is, and how it proves its identity.
type brokerFlags struct {
	url string
	tls bus.TLS
}

func (f *brokerFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "broker-url", bus.DefaultURL,
		"URL of the broker; the URLs of a cluster are separated by commas")
	flags.StringVar(&f.tls.CAFile, "broker-ca", "", "PEM file of the authorities that may vouch for the broker; "+
		"empty: with a tls:// URL ca.pem of --keys, if it is there")
	flags.StringVar(&f.tls.ServerName, "broker-server-name", "",
		"name expected in the broker's certificate; empty: the host of --broker-url")
}

// options are the flags as a connection takes them; the role and its seed are left to the caller. keys is the folder of
// --keys, whose authority vouches for the broker where the flags name none.
func (f *brokerFlags) options(keys string) bus.Options {
	o, secure := bus.Options{URL: f.url}, f.tls
	if authority := filepath.Join(keys, keyring.AuthorityFile); secure.CAFile == "" &&
		strings.Contains(f.url, "tls://") {
		if _, err := os.Stat(authority); err == nil {
			secure.CAFile = authority
		}
	}
	if secure != (bus.TLS{}) {
		o.TLS = &secure
	}
	return o
}

// reachWithin is how long a command that somebody waits for tries to reach the broker.
const reachWithin = 15 * time.Second

// reach connects to a broker that should be running. A role waits for its broker for ever; whoever types a command with
// a wrong address or credential, or before the broker runs, wants to be told. The role is the auditor.
func reach(ctx context.Context, o bus.Options, within time.Duration) (*bus.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := bus.Connect(limited, o)
	if err != nil && strings.Contains(err.Error(), "x509: ") { // the client gives no more of it than its text
		return nil, fmt.Errorf("the broker at %s has a certificate that nobody vouches for here: give its authority, "+
			"with a tls:// URL and ca.pem in --keys, or with --broker-ca: %w", o.URL, err)
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("no broker answers at %s: see whether it runs, and give its address with "+
			"--broker-url: %w",
			o.URL, err)
	}
	if err != nil {
		return nil, err
	}
	if err := audits(ctx, conn, within); err != nil {
		conn.Close()
		return nil, fmt.Errorf("the broker at %s: %w", o.URL, err)
	}
	return conn, nil
}

// audits makes sure that the connection may read the audit log. The broker answers nothing to one who asks with another
// role's credential, and later requests are repeated for ever.
func audits(ctx context.Context, conn *bus.Conn, within time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := conn.Audit.Audited(limited, bus.Shuffler, "manifest", nil)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("it does not answer about the audit log: see whether the credential is the auditor's "+
			"(auditor/ of --keys) and whether riffle broker provision was run: %w", err)
	}
	return err
}

// reportLimits declares the flags that bound the reports at the broker.
func reportLimits(flags *pflag.FlagSet, o *bus.ProvisionOptions) {
	flags.Int64Var(&o.HostReports, "max-host-reports", bus.DefaultHostReports,
		"largest number of reports that one host may have waiting")
	flags.Int64Var(&o.ReportSize, "max-report-size", bus.DefaultReportSize,
		"most bytes of one report: 52 for each bit message, and 250")
	flags.Int64Var(&o.MaxReportBytes, "max-report-bytes", bus.DefaultMaxReportBytes,
		"most bytes of reports on disk; negative: no limit")
}

// checkConfidence refuses a level that no interval has. (0 is a default elsewhere, and would be printed.)
func checkConfidence(level float64) error {
	if !(level > 0 && level < 1) {
		return fmt.Errorf("--confidence is %v: give a number between 0 and 1, such as 0.95", level)
	}
	return nil
}

// warnDelta warns on standard error of a delta that is large for so many people.
func warnDelta(cmd *cobra.Command, delta float64, people int) {
	if warning := privacy.WarnDelta(delta, people); warning != "" {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "%s: warning: %s\n", cmd.CommandPath(), warning)
	}
}

// mostNamed bounds how many files a warning names.
const mostNamed = 3

// warnListed warns of private files at a path or below it that git has, or would take with its next "git add".
func warnListed(cmd *cobra.Command, path string) error {
	files, err := keyfile.ListInGit(path)
	if err != nil || len(files) == 0 {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Warning: git does not leave out %s: %s.\nMove what it names out of the "+
		"work tree, or put it into .gitignore and run git rm --cached on it; replace keys that were ever pushed.\n",
		number(len(files), "private file"), strings.Join(files[:min(len(files), mostNamed)], ", "))
	return err
}

// number counts things.
func number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
