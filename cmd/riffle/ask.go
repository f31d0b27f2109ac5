package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/ask"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/command"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// askFlags are the flags of riffle ask.
type askFlags struct {
	auditFlags
	want                   ask.Wanted
	folder, questions, out string
	edges                  []string
}

func askCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ask",
		Short: "ask a running deployment's panel for a mean, a histogram or a regression",
		Long: `
Asks the panel of an epoch of a running deployment for a mean, a histogram or a regression, in
place of teaching the learner. It is about what devices record after the question is announced: the
decisions of the epoch whose reward came in time. Devices keep nothing of before. The answer is a
private sum like every other, with the deployment's guarantee: a person who is drawn spends one of
the epochs that they may report in (privacy.records). Beside it stands how many decisions there
were, since who had nothing to report must not count as 0.

FIELDs are numbers, flags, categories and buckets of the deployment's schema of features, or reward.
Without a schema x0 is the first number of the played arm's vector. A number that is missing counts
as the middle of its range, and one outside it as the nearest end, as in what is learnt.

A question is written to the folder that the analyzer reads (its setting questions), and asked in an
epoch that begins. Without --questions nothing is written: you see what it would cost and how precise
the answer would be. Do that first. The public logs say what was asked and answered; riffle audit
recomputes both.
`[1:],
		Example: `  riffle ask mean age reward --name age --keys keys
  riffle ask mean age reward --name age --keys keys --questions questions
  riffle ask answers --keys keys`,
	}
	mean := &cobra.Command{
		Use: "mean FIELD...", Short: "ask for the means of fields, and how much they vary",
		Long: `
Asks for the mean of each FIELD over decisions, its standard deviation, and the number of decisions.
More fields in one question cost nobody more, but share the precision; a question of their own costs
another epoch.
`[1:],
		Example: `  riffle ask mean age reward --name age --keys keys --broker-url nats://127.0.0.1:4222
  riffle ask mean age reward --name age --export out/audit --questions questions`,
		Args: cobra.MinimumNArgs(1),
	}
	histogram := &cobra.Command{
		Use: "histogram FIELD", Short: "ask for the shares of the values or ranges of a field",
		Long: `
Asks for the share of decisions in each place of a category or of buckets, or in each range of a
number, and the number of decisions. The ranges of a number are --bins of equal width, or those
between --edges. A baseline value, a missing one, and one that is not listed are in the last cell,
"any other".
`[1:],
		Example: `  riffle ask histogram age --edges 30,50,70 --name ages --questions questions --keys keys
  riffle ask histogram region --name regions --keys keys --json`,
		Args: cobra.ExactArgs(1),
	}
	fit := &cobra.Command{
		Use: "fit OUTCOME FIELD...", Short: "ask for the linear regression of a field on others",
		Long: `
Asks for the sums of a linear regression of OUTCOME on the FIELDs with an intercept, in one round.
The coefficients are those of values clipped to their ranges, in their own units. Intervals take the
outcome to spread equally around the prediction everywhere; where the noise is too large to exclude
any value there are none.
`[1:],
		Example: `  riffle ask fit reward age visits --name gain --questions questions --keys keys`,
		Args:    cobra.MinimumNArgs(2),
	}
	for kind, c := range map[statistic.Kind]*cobra.Command{
		statistic.Mean: mean, statistic.Histogram: histogram, statistic.Fit: fit,
	} {
		f := &askFlags{want: ask.Wanted{Kind: kind}}
		flags := c.Flags()
		flags.SortFlags = false
		flags.StringVar(&f.want.Name, "name", "", "name of the question, of a-z, 0-9 and -; each of a deployment has\n"+
			"its own; required")
		flags.StringVar(&f.questions, "questions", "", "folder that the analyzer reads questions from; without it\n"+
			"nothing is asked")
		if kind == statistic.Histogram {
			flags.IntVar(&f.want.Bins, "bins", 0, "ranges of equal width of a number; default: 8")
			flags.StringSliceVar(&f.edges, "edges", nil, "values between the ranges of a number, separated by "+
				"commas")
		}
		flags.StringVar(&f.folder, "export", "", "folder with an export of the deployment; default: it runs, and is\n"+
			"read at its broker")
		f.where(flags)
		c.RunE = func(cmd *cobra.Command, args []string) error {
			f.want.Fields = args
			for _, e := range f.edges {
				v, err := strconv.ParseFloat(e, 64)
				if err != nil {
					return fmt.Errorf("--edges %s: %q is no number", strings.Join(f.edges, ","), e)
				}
				f.want.Edges = append(f.want.Edges, v)
			}
			r, err := f.ask(cmd)
			if err != nil {
				return err
			}
			return command.Print(cmd, r, f.json)
		}
	}
	cmd.AddCommand(mean, histogram, fit, answersCommand())
	return cmd
}

// where adds the flags that say where the logs are and whom to trust.
func (f *askFlags) where(flags *pflag.FlagSet) {
	flags.StringVar(&f.trust, "trust", "", "bundle.json with the keys to trust, from elsewhere than the folder")
	flags.StringVar(&f.keys, "keys", "keys", "without an export: folder made by riffle keygen, of which the bundle "+
		"and\nauditor/ are read")
	f.broker.add(flags)
	flags.BoolVar(&f.json, "json", false, "print the result as one JSON object")
}

// ask plans a question, and writes it where a folder is given.
func (f *askFlags) ask(cmd *cobra.Command) (*ask.Preview, error) {
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	if f.want.Name == "" {
		return nil, errors.New("--name is missing: name the question, such as --name age-2026")
	}
	d, err := f.read(ctx, cmd)
	if err != nil {
		return nil, err
	}
	q, err := f.want.Question(d.c)
	if err != nil {
		return nil, err
	}
	for _, asked := range d.asked {
		if asked == f.want.Name {
			return nil, fmt.Errorf("--name %s: a question of this name was asked before; give this one another",
				f.want.Name)
		}
	}
	m, err := deployment.New(d.c)
	if err != nil {
		return nil, err
	}
	a, _, err := m.Asking(f.want.Kind, q)
	if err != nil {
		return nil, err
	}
	out, err := ask.NewPreview(a, d.c)
	if err != nil || f.questions == "" {
		return out, err
	}
	text, err := deployment.QuestionFile(f.want.Kind, q)
	if err != nil {
		return nil, err
	}
	out.Written = filepath.Join(f.questions, f.want.Name+".json")
	return out, writeOnce(out.Written, text)
}

// writeOnce writes a file that is not there yet, whole or not at all.
func writeOnce(path string, text []byte) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s is there already: give the question another name, or remove the file if it was not asked",
			path)
	}
	part := path + ".part"
	if err := os.WriteFile(part, text, 0o644); err != nil { //nolint:gosec // a question is announced
		return fmt.Errorf("the folder of questions: %w", err)
	}
	return os.Rename(part, path)
}

// past is what the log says of a deployment.
type past struct {
	c     wire.Configuration
	asked []string // names of questions
}

// read reads the analyzer's log: every signature of what it takes from it is verified.
func (f *askFlags) read(ctx context.Context, cmd *cobra.Command) (p past, err error) {
	o, err := f.options()
	if err != nil {
		return p, err
	}
	var args []string
	if f.folder != "" {
		args = []string{f.folder}
	}
	source, _, end, err := f.source(ctx, cmd, args, &o)
	if err != nil {
		return p, err
	}
	defer end()
	party, found, over := o.Trust.AnalyzerParty(), false, false
	err = source.Log(ctx, bus.Analyzer, func(e audit.Entry) error {
		switch e.Kind {
		case wire.KindConfiguration:
			c, _, err := wire.Open[wire.Configuration](e.Signed, party)
			if err == nil && !found {
				p.c, found = *c, true
			}
			return err
		case wire.KindAnnouncement:
			a, _, err := wire.Open[plan.Announcement](e.Signed, party)
			if err == nil && a.Question != nil {
				p.asked = append(p.asked, a.Question.Name)
			}
			over = over || err == nil && a.Final
			return err
		}
		return nil
	})
	switch {
	case err != nil:
		return p, err
	case !found:
		return p, errors.New("the analyzer's log has no configuration yet: start the analyzer, and ask when it has " +
			"announced its first epoch")
	case over:
		return p, errors.New("the deployment is over: its last policy is out, and nobody reports any more")
	}
	return p, nil
}

func answersCommand() *cobra.Command {
	f := &askFlags{}
	cmd := &cobra.Command{
		Use:   "answers [FOLDER]",
		Short: "see what panels answered",
		Long: `
Shows what panels answered to each question so far, with 95 % intervals for sampling and for all
noise. It reads an export in FOLDER, or without one a running deployment, and audits it first, with
the keys of riffle audit. Every number is recomputed from signed counts.

The number of decisions has the interval of its noise alone. Intervals hold each for itself. Where a
report holds several decisions of a person, they are wide enough for decisions that are all alike.

Exit codes: 0 if the audit found nothing wrong, 4 if it did, 1 if it could not be made.
`[1:],
		Example: `  riffle ask answers --keys keys --broker-url nats://127.0.0.1:4222
  riffle ask answers out/audit --trust bundle.json --name ages --out ages.svg`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.answers(cmd, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.want.Name, "name", "", "show this question only")
	flags.StringVar(&f.out, "out", "", "file for a picture of the last answer shown, .png or .svg")
	f.where(flags)
	return cmd
}

// answers audits, and prints what was answered.
func (f *askFlags) answers(cmd *cobra.Command, args []string) error {
	ctx, stop := command.UntilStopped(cmd)
	defer stop()
	done, err := f.check(ctx, cmd, args)
	if err != nil {
		return err
	}
	defer done.end()
	r := &ask.Answers{Deployment: done.report.Deployment, OK: done.report.OK,
		Breaches: len(done.report.Breaches) + done.report.Unlisted, Delta: done.report.Delta, Answers: []ask.Answered{}}
	for _, row := range done.report.Rounds {
		switch {
		case row.Asked == "" || f.want.Name != "" && row.Asked != f.want.Name:
		case row.Answer != nil:
			r.Answers = append(r.Answers, ask.Answered{Answer: row.Answer, Epsilon: row.Epsilon})
		default:
			r.Unanswered = append(r.Unanswered, ask.Unanswered{Name: row.Asked, Epoch: row.Epoch,
				Outcome: row.Outcome})
		}
	}
	if f.want.Name != "" && len(r.Answers)+len(r.Unanswered) == 0 {
		return fmt.Errorf("--name %s: no panel was asked a question of this name so far", f.want.Name)
	}
	if f.out != "" {
		if err := r.Draw(f.out); err != nil {
			return err
		}
	}
	if err := command.Print(cmd, r, f.json); err != nil {
		return err
	}
	if !r.OK {
		return &role.ExitError{Code: command.ExitBreach, Err: fmt.Errorf("%d breaches", r.Breaches)}
	}
	return nil
}
