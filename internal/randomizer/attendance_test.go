package randomizer

import (
	"fmt"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// While a panel is not drawn one device of a host asks for all of them, in turn; with the first answer all ask.
func TestOneDeviceAsksForAll(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	p := ofPanels(s)
	s.start()
	const devices = 25
	asked := func() (all int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for of, n := range p.asks {
			if of[1] == 1 {
				all += n
			}
		}
		return all
	}
	p.mu.Lock()
	p.registered[1<<31] = true // there is somebody else, of another host
	p.mu.Unlock()
	a := p.next(testbed.Long) // so that one of them asks every 2.4 seconds: all in turn would take a minute
	for i := range devices {
		p.name(fmt.Sprint("d", i))
	}
	testbed.Eventually(t, "waiting", func() bool {
		s.host.panels.attendance.mu.Lock()
		defer s.host.panels.attendance.mu.Unlock()
		return len(s.host.panels.attendance.waiting) >= devices-1
	})
	const pause = 2400 * time.Millisecond
	begun, before := s.clock.Now(), asked()
	for range 4 {
		last := asked()
		s.clock.Pass(pause)
		testbed.Eventually(t, "asked again", func() bool { return asked() > last })
	}
	took := s.clock.Now().Sub(begun)
	if n, most := asked()-before, int(took/pause)+2; n > most {
		t.Errorf("asked %d times in %v, at most %d", n, took, most)
	}
	p.drawNow(a)
	p.awaitDraw(0)
	for i := range devices {
		p.mu.Lock()
		n := p.asks[[2]uint64{uint64(s.host.State(fmt.Sprint("d", i)).Number), 1}]
		p.mu.Unlock()
		if n == 0 {
			t.Errorf("d%d never asked", i)
		}
	}
}
