package composetest

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// TestComposeWorkers gives the shuffler and the analyzer two workers each, which do all of the work that workers can
// do, and kills one of each in every epoch: a shuffler's while reports are opened, an analyzer's and another shuffler's
// when the cohort is released. Nothing may be lost. Then it tries what no role may do at a broker for workers.
func TestComposeWorkers(t *testing.T) {
	t.Parallel()
	s := newStack(t, "w")
	s.env = append(s.env, "RIFFLE_MIXING_WORKERS=2", "RIFFLE_COUNTING_WORKERS=2")
	for file, text := range map[string]string{
		"analyzer.yaml": channelAnalyzerYAML + "workers: {inside: 0}\n",
		"shuffler.yaml": shufflerYAML + "workers: {inside: 0}\n",
	} {
		if err := os.WriteFile(filepath.Join(s.dir, "config", file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.up()
	ctx, cancel := context.WithTimeout(t.Context(), stuck)
	defer cancel()
	c := newCrowd(t, s.apis)
	for now, err := c.next(ctx, 0); !now.Final; now, err = c.next(ctx, now.Epoch) {
		if err != nil {
			t.Fatal(err)
		}
		if err := c.fill(ctx, now, nil); err != nil {
			t.Fatal(err)
		}
		for c.pending(ctx) > now.Cohort/2 && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		again := []string{s.killOne("shuffler-worker", 0)}
		for c.pending(ctx) > 0 && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		again = append(again, s.killOne("analyzer-worker", 1))
		for _, id := range again {
			s.must("docker", "start", id)
		}
	}
	auditor, err := s.connect(ctx, s.broker(), bus.Auditor)
	if err != nil {
		t.Fatal(err)
	}
	defer auditor.Close()
	s.checkChannel(ctx, auditor, c, plan.Shuffle)
	for service := range s.ops {
		if lost := s.lost(service); len(lost) > 0 {
			t.Errorf("%s: %v", service, lost)
		}
	}
	for _, service := range []string{"shuffler", "analyzer"} {
		done := regexp.MustCompile(`riffle_worker_tasks_total\{outcome="done",role="` + service + `"\} [1-9]`)
		if !done.MatchString(s.metrics(service)) {
			t.Errorf("no worker of the %s did a task", service)
		}
	}
	t.Run("access", s.testAccess) // last: what it may write it does write
}

// killOne ends one of a service's containers as a power cut would.
func (s *stack) killOne(service string, which int) (id string) {
	s.t.Helper()
	all := strings.Fields(s.must("docker", "ps", "-q", "--no-trunc",
		"--filter", "label=com.docker.compose.project="+s.project, "--filter",
		"label=com.docker.compose.service="+service))
	if len(all) != 2 {
		s.t.Fatalf("%s has %d containers, not 2", service, len(all))
	}
	s.must("docker", "kill", all[which])
	return all[which]
}
