package main

import (
	"bytes"
	"context"
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
	most     int // inputs that a target may keep
}

// minimize is how often a target is run to make one input smaller. Go's default is a minute for each input, also for
// those that only reach new code, so that a short run would do little else.
const minimize = "100x"

// outcome is what came of a target.
type outcome struct {
	executions, fresh int
	failed            bool
}

// progress is a line of the go command: "fuzz: elapsed: 3s, execs: 102 (34/sec), new interesting: 2 (total: 7)".
var progress = regexp.MustCompile(`(?m)^fuzz: elapsed: .*, execs: (\d+) .*, new interesting: (\d+) `)

// read takes the last word of the go command's output on executions and new inputs.
func (o *outcome) read(output []byte) {
	for _, m := range progress.FindAllSubmatch(output, -1) {
		o.executions, _ = strconv.Atoi(string(m[1])) // digits
		o.fresh, _ = strconv.Atoi(string(m[2]))
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
	return "ok"
}

// run fuzzes every target for the time and prints the table. The error is errFound if one did not pass.
func (r *runner) run(ctx context.Context, targets []target) error {
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\ttarget\texecutions\tnew inputs\tresult")
	bad := false
	for i, t := range targets {
		fmt.Fprintf(r.log, "%d of %d: %s\n", i+1, len(targets), t)
		o, output := r.fuzz(ctx, t)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if o.result() != "ok" {
			bad = true
			_, _ = r.log.Write(output) // the table says so, too
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%s\n", t.folder, t.name, o.executions, o.fresh, o.result())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if bad {
		return errFound
	}
	return nil
}

// fuzz runs one target; output is what the go command says.
func (r *runner) fuzz(ctx context.Context, t target) (o outcome, output []byte) {
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
