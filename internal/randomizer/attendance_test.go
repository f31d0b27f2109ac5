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
	a := p.next(16 * time.Minute) // so that one of them asks every 2.4 seconds: all in turn would take a minute
	for i := range devices {
		p.name(fmt.Sprint("d", i))
	}
	testbed.Eventually(t, "waiting", func() bool {
		s.host.panels.attendance.mu.Lock()
		defer s.host.panels.attendance.mu.Unlock()
		return len(s.host.panels.attendance.waiting) >= devices-1
	})
	begun, before := time.Now(), asked()
	testbed.Eventually(t, "asked again", func() bool { return asked() > before })
	if n, most := asked()-before, int(time.Since(begun)/(2400*time.Millisecond))+2; n > most {
		t.Errorf("asked %d times in %v, at most %d", n, time.Since(begun), most)
	}
	p.drawNow(a)
	p.settled(0)
	for i := range devices {
		p.mu.Lock()
		n := p.asks[[2]uint64{uint64(s.host.State(fmt.Sprint("d", i)).Number), 1}]
		p.mu.Unlock()
		if n == 0 {
			t.Errorf("d%d never asked", i)
		}
	}
}
