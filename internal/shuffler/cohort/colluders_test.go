package cohort

import (
	"fmt"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Where devices enrol as they arrive, a host that comes first with many devices fills the cohort: all but one slot are
// its own, and the one honest person is alone among them. This is why several operators need panels, or a small
// sponsor_share.
func TestOneHostFillsACohortAsItArrives(t *testing.T) {
	s := newScript(t, 100)
	d := digest(1)
	s.must(s.open(announcement(1, 0, 200, 150, 1), d))
	for n := range 199 {
		_, _, err := s.enrol(n, 1, d)
		s.must(err)
	}
	_, _, ev, err := s.state.Enrol(DeviceID{[32]byte{2}, 0}, nil, 1, d, s.now)
	s.must(err)
	s.apply(ev)
	if f, _ := s.state.Filling(); f.Largest != 199 || f.Enrolled != 200 {
		t.Errorf("one host holds %d of %d slots", f.Largest, f.Enrolled)
	}
}

// The same host, with 1 % of the registered devices, which registered before all others and ask before all others, gets
// no more of a panel than the number m that plans count with at a tail of 1e-9. Over the 60 draws here an
// honest shuffler fails with a probability below 1e-7. Panels of whoever came first, or of the lowest numbers, fail in
// the first draw: the host would have all 100 slots.
func TestOneHostDoesNotFillAPanel(t *testing.T) {
	const registered, own, size, draws = 5000, 50, 100, 60
	most := privacy.PanelDishonest(float64(own)/registered, size, 1e-9)
	s := newScript(t, 10)
	s.registers(1, 0, own)
	for host := 2; host < 51; host++ {
		s.registers(byte(host), 0, (registered-own)/49)
	}
	for n := s.state.count; n < registered; n++ {
		s.registers(99, n, n+1)
	}
	largest, sum := 0, 0
	for epoch := uint64(1); epoch <= draws; epoch++ {
		s.must(s.open(panelled(epoch, size, 10, plan.Panel{Registered: registered}, draws, 0), digest(byte(epoch))))
		s.draw()
		n := s.state.holds(s.state.epoch, DeviceID{Host: [32]byte{1}}, nil)
		largest, sum = max(largest, n), sum+n
		s.now = s.now.Add(1e12)
		s.commit()
		s.finish(0)
	}
	t.Logf("%d of %d registered devices: at most %d of %d slots in %d draws, %.2f in the mean; m = %d",
		own, s.state.count, largest, size, draws, float64(sum)/draws, most)
	if largest > most {
		t.Errorf("one host got %d slots of a panel, m is %d", largest, most)
	}
	// 60 draws have 60 in the mean, and a standard deviation of 7.7: 6 of them are 46.
	if sum < draws*own*size/registered-46 || sum > draws*own*size/registered+46 {
		t.Errorf("%d slots in %d draws", sum, draws)
	}
}

// admission.sponsor_share of panels: of a host no more devices are drawn from than its share of the pool. Those that
// are left out are told why, and the number is in the journal, so that another setting after a restart changes nothing.
func TestAHostHasItsShareOfThePool(t *testing.T) {
	for name, c := range map[string]struct {
		share float64
		hosts []int
		want  int
	}{
		"no limit":           {1, []int{50, 5, 5}, 60},
		"one half":           {0.5, []int{50, 5, 5}, 20}, // 10 of 20, and 5 and 5
		"a third, all alike": {1. / 3, []int{10, 10, 10}, 30},
		"a third":            {1. / 3, []int{10, 20, 30}, 30},
		"a tenth of a few":   {0.1, []int{9, 9, 9, 1}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, 1)
			s.state = NewState(Admission{Minimum: 1, SponsorShare: c.share})
			most := 0
			for i, n := range c.hosts {
				s.registers(byte(i+1), 0, n)
				most = max(most, n)
			}
			d := digest(1)
			s.must(s.open(panelled(1, 2, 1, plan.Panel{Registered: 4}, 1, 0), d))
			n, fixed := s.pool()
			if !fixed || n != c.want {
				t.Fatalf("pool of %d, fixed %v", n, fixed)
			}
			quota := most
			if c.share < 1 {
				if quota = channel.SponsorQuota(c.share, uint32(n)); int(s.state.epoch.drawing.pool.Quota) != quota {
					t.Errorf("quota %d, of a pool of %d", s.state.epoch.drawing.pool.Quota, n)
				}
			}
			ev, err := s.state.Draw(s.said(), []byte("draw"), s.now)
			s.must(err)
			s.apply(ev)
			for i, n := range c.hosts {
				for k := range n {
					_, _, why := s.asks(DeviceID{[32]byte{byte(i + 1)}, uint32(k)}, 1, d)
					if (why == wire.RefusalSponsorShare) != (k >= quota) {
						t.Errorf("device %d of the host with %d: %v", k, n, why)
					}
				}
			}
			s.reopened()
			other := NewState(Admission{Minimum: 1, SponsorShare: 0.9})
			for _, b := range s.journal {
				ev, err := DecodeEvent(b)
				s.must(err)
				s.must(other.Apply(ev))
			}
			if a, b := fmt.Sprint(other.epoch.slots), fmt.Sprint(s.state.epoch.slots); a != b {
				t.Error("another sponsor_share after a restart changes the panel")
			}
		})
	}
}
