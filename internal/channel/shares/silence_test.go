package shares

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// mute is a broker that hides the analyzer's answers, and what it says in the audit log, until it is heard.
type mute struct {
	MixingBroker
	answers, log *atomic.Bool // are heard
}

func (m mute) ReadPrepared(ctx context.Context, epoch uint64, round, index uint32) ([]byte, error) {
	if !m.answers.Load() {
		return nil, bus.ErrGone
	}
	return m.MixingBroker.ReadPrepared(ctx, epoch, round, index)
}

func (m mute) Audited(ctx context.Context, role bus.Role, kind string, payload []byte) (bool, error) {
	if !m.log.Load() {
		return false, nil
	}
	return m.MixingBroker.Audited(ctx, role, kind, payload)
}

// A shuffler that waits for a silent analyzer says so, once for each thing that it waits for, and takes it back when
// that comes. The round goes on as if nothing had been.
func TestASilentAnalyzerIsToldOf(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	var answers, log atomic.Bool
	var told []string
	s.mixing = func(m *Mixing) {
		m.patience = 2 * time.Second
		m.Silent = func(err error) {
			if err == nil {
				told = append(told, "")
				return
			}
			told = append(told, err.Error())
			if strings.Contains(err.Error(), "audit log") {
				log.Store(true)
			} else {
				answers.Store(true)
			}
		}
	}
	s.exact(s.released(s.runOn(s.mixDisk, mute{s.toMix(), &answers, &log}, s.countDisk, s.toCount()), nil))
	seen := map[string]bool{} // on a busy machine an answer that is given may take as long too
	for i, said := range told {
		if (i%2 == 1) != (said == "") || said != "" && seen[said] {
			t.Errorf("told %q: number %d", told, i)
		}
		seen[said] = true
	}
	last := len(told) - 2
	if last < 2 || !seen[""] ||
		!strings.Contains(told[0], "round 0 of epoch 1 has waited for its answer to chunk 1 of 3") ||
		!strings.Contains(told[0], "see that the analyzer runs") ||
		!strings.Contains(told[last], "its statement of the set that it accepts, in the audit log") {
		t.Errorf("told %q", told)
	}
}

// What the analyzer answers in time is not told of.
func TestAnAnalyzerThatAnswersIsNotSilent(t *testing.T) {
	t.Parallel()
	s := newDeployment(t).newScene(size)
	s.mixing = func(m *Mixing) {
		m.patience = testbed.Patience // however busy the machine is
		m.Silent = func(err error) { t.Errorf("told %v", err) }
	}
	s.exact(s.released(s.run(), nil))
}
