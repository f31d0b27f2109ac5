package analyzer

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
)

// journal is a log that a test reads while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// An analyzer that is started again says in one line what it went through, and logs no old round as if it were new.
func TestReplayIsOneLine(t *testing.T) {
	t.Parallel()
	s := newScene(t, glm.Practical)
	first, second := &journal{}, &journal{}
	s.config.Log = zerolog.New(first)
	s.start()
	for epoch := uint64(1); epoch <= 2; epoch++ {
		a, digest := s.announcement(epoch, 0)
		if epoch == 1 {
			s.publish(destroyed(a, digest))
		} else {
			r, _ := s.honest(a, digest, cohort)
			s.publish(r)
		}
		s.counts(epoch, 0)
	}
	s.announcement(3, 0)
	testbed.Eventually(t, "the third epoch in the log", func() bool { return strings.Count(first.String(), `"message":"announced"`) == 3 })
	s.must(s.stop())
	if log := first.String(); strings.Contains(log, "resumed") || strings.Count(log, "round absorbed") != 1 || strings.Count(log, "the cohort was destroyed") != 1 {
		t.Errorf("a first run logged\n%s", log)
	}

	s.config.Log = zerolog.New(second)
	s.start()
	testbed.Eventually(t, "resumed", func() bool { return strings.Contains(second.String(), `"message":"resumed"`) })
	s.must(s.stop())
	log := second.String()
	for _, old := range []string{"round absorbed", "announced", "the cohort was destroyed"} {
		if strings.Contains(log, old) {
			t.Errorf("%q is logged again:\n%s", old, log)
		}
	}
	if want := `"epochs":2,"rounds":2,"reports":12,"destroyed":1,"message":"resumed"`; strings.Count(log, want) != 1 {
		t.Errorf("%s is not once in\n%s", want, log)
	}
	if n := len(s.analyzer.Progress().Releases); n != 2 {
		t.Errorf("%d rounds after the replay", n)
	}
}
