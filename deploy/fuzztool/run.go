package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"text/tabwriter"
	"time"
)

// runner runs targets.
type runner struct {
	out, log io.Writer
	time     time.Duration
	parallel int
	most     int     // inputs that a target may keep
	record   *record // the file of --json, or nil
	// fuzz runs one target; output is what the go command says. It is a field so that tests have another one.
	fuzz func(ctx context.Context, t target) (o outcome, output []byte)
}

// minimize is how often a target is run to make one input smaller. Go's default is a minute for each input, also for
// those that only reach new code, so that a short run would do little else.
const minimize = "100x"

// outcome is what came of a target.
type outcome struct {
	elapsed           time.Duration // in whole seconds
	executions, fresh int
	failed            bool
}

// passed is the result of a target that was fuzzed and did not fail.
const passed = "ok"

// progress is a line of the go command: "fuzz: elapsed: 3s, execs: 102 (34/sec), new interesting: 2 (total: 7)".
var progress = regexp.MustCompile(`(?m)^fuzz: elapsed: (.*), execs: (\d+) .*, new interesting: (\d+) `)

// read takes the last word of the go command's output on time, executions and new inputs.
func (o *outcome) read(output []byte) {
	for _, m := range progress.FindAllSubmatch(output, -1) {
		o.elapsed, _ = time.ParseDuration(string(m[1])) // what is none counts as no time
		o.executions, _ = strconv.Atoi(string(m[2]))    // digits
		o.fresh, _ = strconv.Atoi(string(m[3]))
	}
}

// result is the outcome in a word. A target that made no execution of its own was not fuzzed, and passes nothing.
func (o outcome) result() string {
	switch {
	case o.failed:
		return "FAILED"
	case o.executions == 0:
		return "NOT RUN"
	}
	return passed
}

// run fuzzes every target for the time and prints the table, also of a run that is stopped. The error is errFound if
// one did not pass. A target that the record says passed is not fuzzed again; the table has what the record says.
func (r *runner) run(ctx context.Context, targets []target) (err error) {
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\ttarget\tseconds\texecutions\tnew inputs\tresult")
	defer func() { err = errors.Join(err, table.Flush()) }()
	bad := false
	for i, t := range targets {
		fmt.Fprintf(r.log, "%d of %d: %s\n", i+1, len(targets), t)
		e, before, err := r.one(ctx, t)
		if err != nil {
			return err
		}
		bad = bad || e.Result != passed
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%s%s\n",
			e.Package, e.Target, e.Seconds, e.Executions, e.NewInputs, e.Result, before)
	}
	if bad {
		return errFound
	}
	return nil
}

// one fuzzes one target and records it, unless it was fuzzed before: then before says so.
func (r *runner) one(ctx context.Context, t target) (e entry, before string, err error) {
	var at source
	if r.record != nil {
		if at, err = sourceHere(ctx, r.record.path); err != nil {
			return e, "", err
		}
		e, reason, ok := r.record.done(t, at, r.time)
		if ok {
			fmt.Fprintf(r.log, "%s was fuzzed before, at this commit\n", t)
			return e, " (before)", nil
		}
		if reason != "" {
			fmt.Fprintf(r.log, "%s is fuzzed again: %s\n", t, reason)
		}
	}
	o, output := r.fuzz(ctx, t)
	if ctx.Err() != nil {
		return e, "", context.Cause(ctx)
	}
	e = entry{
		Package: t.folder, Target: t.name, Result: o.result(), Commit: at.commit,
		Seconds: int(o.elapsed / time.Second), Executions: o.executions, NewInputs: o.fresh,
	}
	if e.Result != passed {
		_, _ = r.log.Write(output) // the table says so, too
	}
	if r.record == nil {
		return e, "", nil
	}
	after, err := sourceHere(ctx, r.record.path)
	if err != nil {
		return e, "", err
	}
	if e.Modified = at.differs != "" || after != at; e.Modified {
		fmt.Fprintf(r.log, "%s will be fuzzed again by a later run: %s is not as in commit %s\n",
			t, cmp.Or(at.differs, after.differs, "HEAD"), short(at.commit))
	}
	return e, "", r.record.put(e)
}

// goTest is fuzz with the go command.
func (r *runner) goTest(ctx context.Context, t target) (o outcome, output []byte) {
	args := []string{
		"test", "-run=^$", "-fuzz=^" + t.name + "$", "-fuzztime=" + r.time.String(), "-fuzzminimizetime=" + minimize,
		"-timeout=0",
	}
	if r.parallel > 0 {
		args = append(args, "-parallel="+strconv.Itoa(r.parallel))
	}
	var b bytes.Buffer
	c := exec.CommandContext(ctx, "go", append(args, t.pattern())...)
	c.Stdout, c.Stderr = &b, &b
	err := c.Run()
	o.read(b.Bytes())
	o.failed = err != nil && !late(b.Bytes())
	return o, b.Bytes()
}

// end is how the go command says that the time of a target is over where it should say nothing: a race in Go before 1.27,
// which shows on a busy machine. What a target finds is said in other words.
var end = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \(.*\)\n    context deadline exceeded\nFAIL$`)

// late tells whether a target failed for nothing but that its time was over.
func late(output []byte) bool {
	return end.Match(output) && !bytes.Contains(output, []byte("Failing input written"))
}
