// Package trial starts a deployment on this machine for an app that is being built, or for a notebook: the broker and
// each role as a process of its own, with new keys. Whoever starts it plays the people.
package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/pkg/client"
	"github.com/riffle-dp/riffle/pkg/feature"
)

const (
	name = "trial"
	host = "main" // of all devices
	// grace is how long the shuffler waits for late reports. A complete cohort is released at once, so it matters only
	// on a machine that cannot keep up.
	grace = 5 * time.Minute
	// room is how many devices the host may enrol for each person to learn from: more people than that may decide.
	room = 4
	// look is how often it is seen whether a process ended.
	look = time.Second
)

// Options say what to start.
type Options struct {
	Executable     string // a program that runs the roles: riffle
	Dir            string // keys, streams, state and logs; empty: a folder that is removed at the end
	Features       string // file of the schema
	Config         string // file of further settings of the analyzer; empty: none
	Family         string
	MaxReward      float64
	People         int // to learn from
	Panel          int // of each cohort, drawn from as many registered people or more; 0: who decides first takes part
	Records        int // epochs that one person may report in, with panels
	Trust          string
	Epsilon, Delta float64
	Window         time.Duration // from a decision to its report
	Tied           bool          // it ends when Input ends
	Input          io.Reader
	Started        func(Running) error // called once the first epoch has begun
}

// Running says where everything is. Its JSON form is what riffle trial --json prints.
type Running struct {
	Deployment string `json:"deployment"`
	API        string `json:"api"`      // base URL of the API for apps
	Analyzer   string `json:"analyzer"` // status page
	Shuffler   string `json:"shuffler"` // status page
	Broker     string `json:"broker_url"`
	Keys       string `json:"keys"`
	Folder     string `json:"folder"` // with a log of every process
	// Questions is the folder from which panels are asked: riffle ask --questions. Empty without panels.
	Questions string `json:"questions,omitempty"`
	Dimension int    `json:"dimension"`
}

// flags are those of one role: keys alternate with values.
func flags(pairs ...any) (out []string) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, fmt.Sprintf("--%s=%v", pairs[i], pairs[i+1]))
	}
	return out
}

// cluster is the deployment that the options describe in a folder.
func (o Options) cluster(dimension int, dir string) cluster.Options {
	analyzer := flags("features", o.Features, "learner-dimension", dimension, "learner-horizon", o.People,
		"learner-family", o.Family, "learner-max-reward", o.MaxReward, "privacy-channel", o.Trust,
		"privacy-epsilon", o.Epsilon, "privacy-delta", o.Delta, "timing-reward-window", o.Window,
		"timing-jitter", o.Window/10, "timing-grace", grace, "max-report-size", 0)
	if o.Panel > 0 {
		analyzer = append(analyzer, flags("admission-mode", "panel", "admission-panel", o.Panel,
			"admission-registered", o.Panel, "privacy-records", o.Records, "questions", o.questions(dir))...)
	}
	if o.Config != "" {
		analyzer = append(analyzer, "--config="+o.Config)
	}
	return cluster.Options{
		Name: name, Executable: o.Executable, Dir: dir, Hosts: []string{host}, Devices: uint32(room * o.People),
		Analyzer:   analyzer,
		Randomizer: flags("limits-epsilon", o.Epsilon, "limits-delta", o.Delta, "limits-trust", o.Trust),
	}
}

// questions is the folder of questions in that of a trial.
func (o Options) questions(dir string) string {
	if o.Panel == 0 {
		return ""
	}
	return filepath.Join(dir, "questions")
}

// Check says what is wrong with the options, and how many numbers describe an arm.
func (o Options) Check() (dimension int, err error) {
	switch {
	case o.Features == "":
		return 0, errors.New("--features is missing: give the file of a schema; docs/features.md says how to write one")
	case o.People < 1 || o.People > 1<<20:
		return 0, fmt.Errorf("--people = %d: give the number of people to learn from, from 1 to %d", o.People, 1<<20)
	case o.Panel < 0 || o.Panel > o.People:
		return 0, fmt.Errorf("--panel = %d: give the people of each panel, at most the --people to learn from, or 0 "+
			"for no panels", o.Panel)
	case o.Panel > 0 && o.Records < 1:
		return 0, fmt.Errorf("--records = %d: give the epochs that one person may report in, at least 1", o.Records)
	case o.Window < time.Second/10:
		return 0, fmt.Errorf("--window = %s: give a reward at least 100ms", o.Window)
	}
	text, err := os.ReadFile(filepath.Clean(o.Features))
	if err != nil {
		return 0, fmt.Errorf("--features: %w; docs/features.md says how to write a schema", err)
	}
	schema, err := feature.Parse(bytes.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", o.Features, err)
	}
	return schema.Dimension(), nil
}

// Run starts a deployment and runs it until the context ends, or the input that it is tied to, or a process.
func Run(ctx context.Context, o Options) (err error) {
	dimension, err := o.Check()
	if err != nil {
		return err
	}
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "riffle-trial-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if err := empty(dir); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.Tied {
		go func() { // owned by the input: whoever started this process closes it, or the process ends
			_, _ = io.Copy(io.Discard, o.Input)
			cancel()
		}()
	}
	if folder := o.questions(dir); folder != "" {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
	}
	c, err := cluster.Start(ctx, o.cluster(dimension, dir))
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was asked to end
		}
		return err
	}
	defer c.Stop()
	if err := followed(ctx, c); err != nil || ctx.Err() != nil {
		return err
	}
	running := Running{Deployment: name, API: c.APIs()[0], Analyzer: c.Ops(cluster.Analyzer),
		Shuffler: c.Ops(cluster.Shuffler), Broker: c.URL(), Keys: c.Keys(), Folder: dir, Questions: o.questions(dir),
		Dimension: dimension}
	if err := o.Started(running); err != nil {
		return err
	}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := c.Failed(); err != nil {
				return err
			}
		}
	}
}

// followed waits until the host follows the first epoch, or tells in its status why it does not: what is asked of a
// deployment before that is refused.
func followed(ctx context.Context, c *cluster.Cluster) error {
	host := client.New(client.Options{})
	defer host.Close()
	for {
		s, err := host.Status(ctx, client.At(c.APIs()[0]))
		if err == nil && (s.Epoch > 0 || s.Refused != "") {
			return nil
		}
		if err := c.Failed(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil // it was asked to end
		case <-time.After(look / 10):
		}
	}
}

// empty makes a folder, or sees that nothing is in it.
func empty(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	there, err := os.ReadDir(dir)
	if err == nil && len(there) > 0 {
		err = fmt.Errorf("--dir %s is not empty: a trial begins anew, so give it a new folder", dir)
	}
	return err
}
