package demo

import (
	"regexp"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/role/status"
)

// The bar counts a report when it arrives and when its bits are counted, once each, and never goes back.
func TestProgressNeverGoesBack(t *testing.T) {
	ptr := func(n int) *int { return &n }
	released := func(epoch uint64, reports int) status.Round {
		return status.Round{Epoch: epoch, Outcome: status.Released, Reports: reports, Messages: 150 * reports}
	}
	opened := func(messages int) *status.Cohort { return &status.Cohort{Messages: 150, Opened: ptr(messages)} }
	first, second := &status.Cohort{Reports: ptr(40), Messages: 150}, &status.Cohort{Reports: ptr(60), Messages: 150}
	half, over := &status.Cohort{Reports: ptr(20), Messages: 150}, []status.Round{released(1, 40)}
	p := pace{arrive: 2, count: 3, wait: 100, epochs: 2, rounds: 1, bits: true}
	s := progress.State{AllWork: p.all(100)}
	for _, step := range []struct {
		what                             string
		shuffler, analyzer               status.Snapshot
		reports, counted, messages, work int
	}{
		{what: "before"},
		{"half has arrived", status.Snapshot{Epoch: 1, Cohort: half},
			status.Snapshot{Epoch: 1, Epochs: 2, Rounds: 1}, 20, 0, 3000, 40},
		{"the shuffler is started again", status.Snapshot{},
			status.Snapshot{Epoch: 1, Rounds: 1}, 20, 0, 3000, 40},
		{"some are opened", status.Snapshot{Epoch: 1, Cohort: first, Releases: over},
			status.Snapshot{Epoch: 1, Rounds: 1, Cohort: opened(1500)}, 40, 10, 6000, 110},
		{"all are opened, and a server's noise", status.Snapshot{Epoch: 1, Cohort: first, Releases: over},
			status.Snapshot{Epoch: 1, Rounds: 1, Cohort: opened(9000)}, 40, 40, 6000, 200},
		{"all are counted", status.Snapshot{Epoch: 1, Cohort: first, Releases: over},
			status.Snapshot{Epoch: 1, Rounds: 1, Cohort: opened(6000), Releases: over}, 40, 40, 6000, 300},
		{"the next epoch", status.Snapshot{Epoch: 2, Cohort: second, Releases: over},
			status.Snapshot{Epoch: 2, Rounds: 1, Cohort: opened(0), Releases: over}, 100, 40, 15000, 420},
	} {
		advance(&s, p, step.shuffler, step.analyzer)
		got := [4]int{s.Reports, s.Counted, s.Messages, s.Work}
		want := [4]int{step.reports, step.counted, step.messages, step.work}
		if got != want || s.AllWork != 700 {
			t.Errorf("%s: %+v", step.what, s)
		}
	}
	if s.Epochs != 2 {
		t.Errorf("%d epochs", s.Epochs)
	}
}

// moved checks what a run wrote of its progress: the bar moved while no person was decided for, because reports were
// sealed and counted.
func moved(t *testing.T, said string) {
	t.Helper()
	percents := map[string]map[string]bool{} // by people decided for
	line := regexp.MustCompile(`learning, (\d+)%.* (\S+) of 200 people, .*reports`)
	for _, m := range line.FindAllStringSubmatch(said, -1) {
		if percents[m[2]] == nil {
			percents[m[2]] = map[string]bool{}
		}
		percents[m[2]][m[1]] = true
	}
	most := 0
	for _, p := range percents {
		most = max(most, len(p))
	}
	// A bar of people has one percentage for each number of them.
	if most < 2 || !strings.Contains(said, "counted") || !strings.Contains(said, "comparing") {
		t.Errorf("the bar stood still while reports were sealed:\n%s", said)
	}
}
