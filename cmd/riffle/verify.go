package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func verifyCommand() *cobra.Command {
	var trust string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "check the certificate of an epoch, without any connection",
		Long: `
Checks a certificate, which riffle audit export and riffle demo --export write for each epoch: what was promised to the
people of one cohort, how many reported, what left the servers, and what was concluded. Every statement in it is signed
by the shuffler or the analyzer and is in its transparency log. The guarantees and the sums are computed again.

Says in plain words what the certificate shows, whom one must still trust, and what it cannot show.

Exit codes: 0 if the certificate holds; 4 if it does not; 1 if it could not be checked.`[1:],
		Example: `  riffle verify out/audit/certificates/epoch-1.json --trust bundle.json
  riffle verify epoch-1.json --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runVerify(cmd, args[0], trust, asJSON) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&trust, "trust", "", "bundle.json of the deployment; empty: the keys in the certificate")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}

// verdict is the result of riffle verify.
type verdict struct {
	OK      bool                 `json:"ok"`
	Reason  string               `json:"reason,omitempty"` // why not
	Trusted string               `json:"trusted"`          // the file of the keys, or "the certificate itself"
	Shows   *certificate.Summary `json:"certificate,omitempty"`
	Who     []observer           `json:"observers,omitempty"`
}

// observer is whom the guarantee protects from, and on whom it rests.
type observer struct {
	Sees         string          `json:"sees"`
	Honest       string          `json:"honest"`
	Epsilon      privacy.Epsilon `json:"epsilon"`
	EpsilonAlone privacy.Epsilon `json:"epsilon_alone"`
}

// itself is where keys come from if no others were given.
const itself = "the certificate itself"

func runVerify(cmd *cobra.Command, path, trust string, asJSON bool) error {
	b, err := readAtMost(path, certificate.MaxSize)
	if err != nil {
		return err
	}
	f, err := certificate.Decode(b)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	keys, v := f.Keys, verdict{Trusted: itself}
	if trust != "" {
		if keys, err = keyring.LoadBundleFile(trust); err != nil {
			return err
		}
		v.Trusted = trust
	} else {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: the keys come from the certificate itself, and whoever wrote it can have "+
			"made them: have the deployment's bundle.json from somebody you trust, and give it with --trust\n",
			cmd.CommandPath())
	}
	shown, err := certificate.Verify(f, keys)
	if v.OK = err == nil; !v.OK {
		v.Reason = err.Error()
	} else {
		v.Shows = &shown.Summary
		for _, o := range shown.Observers {
			v.Who = append(v.Who, observer{o.Sees, o.Honest, privacy.Epsilon(o.Together.Epsilon(shown.Delta)),
				privacy.Epsilon(o.Alone.Epsilon(shown.Delta))})
		}
	}
	switch {
	case asJSON:
		err = command.PrintJSON(cmd, v)
	case v.OK:
		err = v.tell(cmd.OutOrStdout())
	default:
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "DOES NOT HOLD: %s\n", v.Reason)
	}
	if err == nil && !v.OK {
		return &role.ExitError{Code: command.ExitBreach, Err: errors.New(v.Reason), Told: true}
	}
	return err
}

func readAtMost(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it is only read
	return io.ReadAll(io.LimitReader(file, most+1))
}

// tell says what the certificate shows, and what it cannot.
func (v *verdict) tell(w io.Writer) error {
	s := v.Shows
	p := &printer{w: w}
	p.line("HOLDS: epoch %d of the deployment %q.", s.Epoch, s.Deployment)
	p.line("")
	p.line("What was promised and planned")
	p.line("  The terms promise each person epsilon %s at delta %g.", privacy.Spell(s.PromisedEpsilon), s.Delta)
	p.line("  %s", s.Channel.Promise(float64(s.Epsilon), float64(s.EpsilonAlone), s.Delta))
	if q := s.Panel; q != nil {
		p.line("  That is over %s.", q.Unit)
		p.line("  The cohort is a panel, drawn by both servers from a pool of %d devices (at least %d), which the "+
			"shuffler states.",
			q.Registered, q.Least)
	}
	p.line("  The cohort has %d places. Nothing may be released of fewer than %d reports, and the noise of %d is not "+
		"counted.",
		s.Cohort.Size, s.Cohort.Minimum, s.Cohort.Dishonest)
	p.line("")
	p.line("What happened")
	for _, r := range s.Rounds {
		p.line("  Round %d: %s", r.Round, outcome(r))
		for _, f := range r.Refused {
			p.line("    refused: %d for %s", f.Reports, f.Reason)
		}
		if r.Left {
			whole := "the whole plan"
			if s.Panel != nil {
				whole = "this epoch"
			}
			p.line("    With these reports %s reveals about one person: %s. If no other device is honest: %s.", whole,
				bound(r.Epsilon), bound(r.EpsilonAlone))
		}
	}
	for _, version := range s.Versions {
		p.line("  The analyzer's program calls itself %q.", version)
	}
	p.line("")
	p.line("Who can learn what")
	for _, o := range v.Who {
		p.line("  %s: %s. Whom it rests on: %s. If no other device is honest: %s.", o.Sees, bound(o.Epsilon), o.Honest,
			bound(o.EpsilonAlone))
	}
	p.line("")
	p.line("This certifies, under the keys from %s, that", v.Trusted)
	p.line("  - both servers signed every statement in it, and put each into their transparency log, with nothing else")
	p.line("    of the epoch in between;")
	p.line("  - the plan keeps the promise, the statements belong together, and no release was below the minimum;")
	p.line("  - what was counted gives the sums and the guarantees that the analyzer states.")
	p.line("It cannot certify")
	p.line("  - that devices and servers added the planned noise, or that the shuffler mixed and forgot: %s;",
		noiseTrust(s))
	p.line("  - that the policy was learned rightly from the sums of all epochs: riffle audit of an export computes " +
		"it again;")
	p.line("  - that others are shown the same logs: compare the roots below with what witnesses signed;")
	if s.Panel == nil {
		p.line("  - who the people were, or that each takes part once.")
	} else {
		p.line("  - who the people were, that nobody was left out of the pool, or that each is in no more panels " +
			"than planned.")
	}
	p.line("")
	p.line("analyzer's log: %d entries, root %x", s.Analyzer.Size, []byte(s.Analyzer.Root))
	p.line("shuffler's log: %d entries, root %x", s.Shuffler.Size, []byte(s.Shuffler.Root))
	p.line("policy of the cohort %x", []byte(s.Policy))
	p.line("policy that was learned %x", []byte(s.Next))
	return p.err
}

// outcome says how a round ended, by what both servers signed.
func outcome(r certificate.Round) string {
	took := fmt.Sprintf("the shuffler states that %d devices enrolled, %d reported", r.Enrolled, r.Reports)
	switch {
	case r.Outcome == certificate.Refusal:
		return fmt.Sprintf("REFUSED by the analyzer after it had left: %s, and %d messages left it. The analyzer had "+
			"them: they are spent like those that are counted.", took, r.Messages)
	case r.Outcome == wire.Released.String():
		return fmt.Sprintf("released: %s, and %d messages left it. The analyzer counted them.", took, r.Messages)
	case r.Messages > 0:
		return fmt.Sprintf("destroyed: %s, and it destroyed the cohort after up to %d messages had left. They are "+
			"spent like a release.", took, r.Messages)
	case r.Left:
		return fmt.Sprintf("destroyed: %s, and it destroyed the cohort after it had signed for a share of the sums, "+
			"which can have left. It is spent like a release.", took)
	}
	return fmt.Sprintf("destroyed: %s, that it destroyed the cohort, and that no message left it.", took)
}

// noiseTrust says on whom it rests that there was noise.
func noiseTrust(s *certificate.Summary) string {
	if s.Channel == plan.Local {
		return "each person's device adds its own noise, and has to be trusted by that person alone"
	}
	return "the guarantee " + s.RestsOn
}

// bound is an epsilon in words.
func bound(e privacy.Epsilon) string {
	if v := float64(e); !math.IsInf(v, 0) && !math.IsNaN(v) {
		return "at most epsilon " + privacy.Spell(v)
	}
	return "nothing bounds it"
}

// printer prints lines until one fails.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, v ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", v...)
	}
}
