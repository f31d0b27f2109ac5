package progress_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/drive/progress"
)

// sink is a buffer that several goroutines may write to.
type sink struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestPlainLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		p := progress.New(&out, progress.Options{})
		p.Update(func(s *progress.State) { s.Phase = "starting" })
		// Nothing changes, so nothing is written again. The half second keeps updates off the ticks.
		time.Sleep(12*time.Second + 500*time.Millisecond)
		p.Update(func(s *progress.State) { s.Phase, s.Total, s.Epoch, s.Epochs = "learning", 40000, 1, 6 })
		for range 20 {
			time.Sleep(time.Second)
			p.Update(func(s *progress.State) { s.Done += 1000; s.Reports += 1000; s.Messages += 412000 })
		}
		p.Note("cohort %d was lost", 3)
		p.Update(func(s *progress.State) { s.Done = 40000; s.Epoch = 6 })
		p.Close()
		p.Close()
		want := `starting
learning, 0%, epoch 1 of 6, 0 of 40,000 people
learning, 5%, epoch 1 of 6, 48s left, 2,000 of 40,000 people, 2,000 reports, 824,000 messages
`
		if got := out.String(); !strings.HasPrefix(got, want) {
			t.Errorf("wrote\n%s\nwant it to begin with\n%s", got, want)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		last := "learning, 100%, epoch 6 of 6, 40,000 of 40,000 people, 20,000 reports, 8.24M messages"
		if n := len(lines); n != 8 || lines[6] != "cohort 3 was lost" || lines[7] != last {
			t.Errorf("%d lines:\n%s", n, out.String())
		}
	})
}

// The time left is that of the phase at its own speed: what was done before the phase began does not count as speed.
func TestTimeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		p := progress.New(&out, progress.Options{Every: 10 * time.Second})
		p.Update(func(s *progress.State) { s.Phase, s.Done, s.Total = "resumed", 5000, 10000 })
		time.Sleep(9 * time.Second)
		p.Update(func(s *progress.State) { s.Done = 6000 })
		time.Sleep(time.Second)
		synctest.Wait()
		if !strings.Contains(out.String(), "40s left") { // 1000 people in 10 s, 4000 to go
			t.Errorf("wrote %q, want 40s left", out.String())
		}
		p.Close()
	})
}

// Where people are not what takes the time, the bar and the time left are about what does: it moves while no person is
// decided for.
func TestBarIsAboutTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		p := progress.New(&out, progress.Options{Every: 10 * time.Second})
		p.Update(func(s *progress.State) { s.Phase, s.Done, s.Total, s.AllWork = "learning", 1000, 1000, 2000 })
		for range 3 {
			time.Sleep(9 * time.Second)
			p.Update(func(s *progress.State) { s.Work += 400; s.Reports += 300; s.Counted += 100 })
			time.Sleep(time.Second)
			synctest.Wait()
		}
		p.Close()
		want := `learning, 0%, 1,000 of 1,000 people
learning, 20%, 40s left, 1,000 of 1,000 people, 300 reports, 100 counted
learning, 40%, 30s left, 1,000 of 1,000 people, 600 reports, 200 counted
learning, 60%, 20s left, 1,000 of 1,000 people, 900 reports, 300 counted
`
		if got := out.String(); got != want {
			t.Errorf("wrote\n%s\nwant\n%s", got, want)
		}
	})
}

// What was expected of the speed is told at once, and gives way to the speed that is seen.
func TestWhatIsExpectedGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		p := progress.New(&out, progress.Options{Every: 10 * time.Second})
		p.Update(func(s *progress.State) { s.Phase, s.AllWork, s.Unit = "learning", 100, time.Second })
		for range 4 { // twice as slow as expected
			time.Sleep(9 * time.Second)
			p.Update(func(s *progress.State) { s.Work += 20; s.Reports++ })
			time.Sleep(31 * time.Second)
			synctest.Wait()
		}
		p.Close()
		for _, want := range []string{"learning, 0%, 1m40s left\n", "learning, 20%, 2m0s left",
			"learning, 80%, 36s left"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing in\n%s", want, out.String())
			}
		}
	})
}

func TestLiveLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out sink
		p := progress.New(&out, progress.Options{Mode: progress.Live})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 250 {
					p.Update(func(s *progress.State) { s.Phase, s.Total = "learning", 1000; s.Done++ })
				}
			})
		}
		wg.Wait()
		p.Note("a note")
		time.Sleep(400 * time.Millisecond)
		p.Close()
		p.Note("after the end")
		for _, want := range []string{"learning", "100%", "1,000 of 1,000 people", "━━━━", "a note\n",
			"after the end\n"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing in %q", want, out.String())
			}
		}
	})
}

func TestQuiet(t *testing.T) {
	var out sink
	p := progress.New(&out, progress.Options{Mode: progress.Quiet})
	p.Update(func(s *progress.State) { s.Phase = "learning" })
	p.Close()
	if out.String() != "" {
		t.Errorf("wrote %q", out.String())
	}
}
