package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/riffle-dp/riffle/internal/chart"
	"github.com/riffle-dp/riffle/pkg/deployment/policyfile"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/family"
)

// shownPolicy is a policy as riffle policy show prints it.
type shownPolicy struct {
	*policyfile.File
	audited bool // it is of logs that were; else a file says all of it
}

// WriteJSON implements command.Result.
func (p shownPolicy) WriteJSON(w io.Writer) error {
	encoded, err := p.Encode()
	if err != nil {
		return err
	}
	_, err = w.Write(encoded)
	return err
}

// WriteTable implements command.Result.
func (p shownPolicy) WriteTable(w io.Writer) error {
	state := "The deployment goes on."
	if p.Final {
		state = "It is the last: the deployment learns no more."
	}
	fmt.Fprintf(w, "%s\n%s\n\n", wrapped(fmt.Sprintf("Policy of epoch %d of the deployment %s, learnt from %s. %s",
		p.Epoch, p.Deployment, counted(p.Cohorts, "cohort"), state)), wrapped(plays(&p.Policy)))
	head := []any{"term", "coefficient"}
	intervals := slices.ContainsFunc(p.Terms, func(t policyfile.Term) bool { return t.Low != nil })
	if intervals {
		head = append(head, "from", "to", "")
	}
	t := chart.Columns{Left: 1}.Table(head...)
	draw := barOf(p.Terms)
	for _, one := range p.Terms {
		row := []any{printableName(one.Name), fmt.Sprintf("%.4f", one.Coefficient)}
		if one.Low != nil {
			row = append(row, fmt.Sprintf("%.4f", *one.Low), fmt.Sprintf("%.4f", *one.High), draw(one))
		}
		t.AppendRow(row)
	}
	fmt.Fprintln(w, t.Render())
	unit := "mean reward of an arm is"
	switch p.Policy.Family {
	case family.NameLogistic:
		unit = "log odds of an arm's reward are"
	case family.NamePoisson:
		unit = fmt.Sprintf("log rate of an arm's reward (a Poisson count, given that it is at most %g) is",
			p.Policy.MaxReward)
	case family.NameGaussian:
		unit = "score of an arm, which is 0 where the mean reward is the middle of its range, is"
	case family.NameProbit:
		unit = "probit of an arm's reward is"
	}
	times := "each times the arm's number at its place."
	if s, err := p.Features(); err == nil && s != nil {
		times = fmt.Sprintf("each times %.4[1]g where it holds (of a number from -%.4[1]g at its low end to "+
			"%.4[1]g at its high end, of a flag -%.4[1]g for false).", s.Scale())
	}
	fmt.Fprintf(w, "\n%s\n%s\n", wrapped(fmt.Sprintf("The %s the sum of the coefficients, %s", unit, times)),
		wrapped("Intervals: "+p.Interval))
	if !p.audited {
		fmt.Fprintf(w, "\n%s\n", wrapped("All of this is what the file says. Nothing in it is signed, and no log was "+
			"audited here: compare the digest with the one in the epoch's certificate (riffle audit export)."))
	}
	c := p.Certificate
	_, err := fmt.Fprintf(w, `
Protected     %s
Certificate   epsilon %s at delta %g (channel %s);
              %s if no other device is honest;
              the guarantee %s
              %s counted, %s recomputed
Digest        %x
`, c.Unit, policyfile.Spell(c.Epsilon), c.Delta, c.Channel, policyfile.Spell(c.EpsilonAlone), c.RestsOn,
		counted(c.Releases, "release"), counted(c.Recomputed, "policy"), []byte(p.Digest))
	return err
}

// terminal is the length of a line, in characters.
const terminal = 80

// wrapped is text in lines of a terminal. WrapSoft fills what it breaks with blanks.
func wrapped(s string) string {
	lines := strings.Split(text.WrapSoft(s, terminal), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// counted is a number of things in words.
func counted(n int, of string) string {
	switch {
	case n == 1:
		return "1 " + of
	case strings.HasSuffix(of, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(of, "y"))
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// plays says how devices play by a policy.
func plays(p *glm.Policy) string {
	out := map[glm.Play]string{
		glm.PlayDesign:     "Devices explore: they draw from an optimal design of the arms.",
		glm.PlayGreedy:     "Devices play the arm with the largest estimated reward.",
		glm.PlayUniform:    "Devices draw any arm.",
		glm.PlayOptimistic: "Devices play the arm with the largest upper confidence bound.",
		glm.PlayDefault:    "Devices play the default arm.",
		glm.PlaySampled: fmt.Sprintf("Devices play the best arm under one of %d draws of the estimate.",
			len(p.Draws)),
		glm.PlaySpanner:    "Devices explore: they draw from a spanner of the arms.",
		glm.PlayInverseGap: "Devices play every arm, the more often the better it is estimated to be.",
	}[p.Play]
	if p.Explore > 0 && p.Explore < 1 {
		out += fmt.Sprintf(" That is for %.3g %% of decisions; the others take the best by the estimate.",
			100*p.Explore)
	}
	if p.Caution > 0 {
		out += fmt.Sprintf(" The default arm is played unless another is better by more than %.3g "+
			"times the standard deviation of the difference.",
			p.Caution)
	}
	if p.Control > 0 {
		out += fmt.Sprintf(" A coin gives %.3g %% of decisions the default arm, as a control group.", 100*p.Control)
	}
	return out
}

// Lengths in characters of the picture of an interval in a terminal, and what numbers beside it take of a line.
const (
	leastBar, mostBar = 11, 33
	besideBar         = 43
)

// barOf gives what draws a term: its interval on an axis that all share, with a mark at 0.
func barOf(terms []policyfile.Term) func(policyfile.Term) string {
	low, high, longest := 0.0, 0.0, 0
	for _, t := range terms {
		longest = max(longest, utf8.RuneCountInString(t.Name))
		if t.Low != nil {
			low, high = math.Min(low, *t.Low), math.Max(high, *t.High)
		}
	}
	barWidth := max(leastBar, min(terminal-besideBar-longest, mostBar))
	at := func(v float64) int {
		if !(high > low) {
			return 0
		}
		return int(math.Round(float64(barWidth-1) * (v - low) / (high - low)))
	}
	return func(t policyfile.Term) string {
		bar := []rune(strings.Repeat(" ", barWidth))
		for i := at(*t.Low); i <= at(*t.High); i++ {
			bar[i] = '─'
		}
		bar[at(0)] = '│'
		bar[at(t.Coefficient)] = '●'
		return string(bar)
	}
}

// printableName is a name as a terminal may show it: a category's value can be any text.
func printableName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '�'
	}, name)
}

// Picture is the terms with their intervals.
func (p shownPolicy) Picture() chart.Intervals {
	out := chart.Intervals{Title: "Coefficients of the policy",
		Subtitle: fmt.Sprintf("%s, epoch %d, learnt from %s", p.Deployment, p.Epoch, counted(p.Cohorts, "cohort")),
		X:        "coefficient, with its interval"}
	for _, t := range p.Terms {
		row := chart.Interval{Name: printableName(t.Name), Value: t.Coefficient, Low: math.NaN(), High: math.NaN()}
		if t.Low != nil {
			row.Low, row.High = *t.Low, *t.High
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}
