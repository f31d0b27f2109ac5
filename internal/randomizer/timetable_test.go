package randomizer

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/role"
)

// Jobs come out when they are due, the earliest first, each once, also those that are entered while others wait to be
// taken; and many that are due together do not hold each other up: no time passes while they are taken.
func TestTimetable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, runTimetable)
}

func runTimetable(t *testing.T) {
	table := newTimetable(role.SystemClock())
	ctx, cancel := context.WithCancel(t.Context())
	due, ended := make(chan job), make(chan error, 1)
	go func() { ended <- table.run(ctx, due) }()
	const n = 20_000
	now := time.Now()
	r := rand.New(rand.NewPCG(1, 2))
	for _, i := range r.Perm(n) {
		table.enter(job{at: now.Add(-time.Duration(i) * time.Millisecond), session: new(session)})
	}
	later := new(session)
	table.enter(job{at: now.Add(300 * time.Millisecond), session: later})
	begin, seen, last := time.Now(), map[*session]bool{}, time.Time{}
	for range n {
		j := <-due
		if seen[j.session] || j.session == later {
			t.Fatal("a job came out twice, or before its time")
		}
		if len(seen) > 0 && j.at.Before(last) { // the first may have been offered before the others were entered
			if len(seen) > 1 {
				t.Fatal("a later job came out first")
			}
		}
		seen[j.session], last = true, j.at
	}
	if took := time.Since(begin); took != 0 {
		t.Errorf("%d jobs waited for %v", n, took)
	}
	if j := <-due; j.session != later || time.Now().Before(j.at) {
		t.Error("the last job came out early, or is another one")
	}
	earlier := new(session) // entered behind one that is due much later
	table.enter(job{at: time.Now().Add(time.Hour), session: new(session)})
	table.enter(job{at: time.Now().Add(20 * time.Millisecond), session: earlier})
	if j := <-due; j.session != earlier {
		t.Error("a job that was entered later and is due earlier does not come out")
	}
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Error(err)
	}
}
