package randomizer

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A broker that kept an old set of the shuffler's keys shows it again, genuine as it is: no report is sealed to a
// retired key, neither by a host that has seen the newer set, nor after its restart, nor where a set of the same number
// has other keys.
func TestRetiredKeysStayRetired(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	account := func() { s.config.KeySets = testbed.Account(t, "key_set", nil, KeySetReasons()) }
	account()
	s.start()
	retired := s.ShufflerKey.Public()
	set := func(number uint64, keys ...[]byte) []byte {
		signed, _ := s.Sign(&wire.KeySet{Deployment: testbed.Deployment, Number: number, Keys: keys}, s.Shuffler)
		return signed
	}
	s.ShufflerKey = testbed.NewKey(t) // reports are opened with it below
	current := s.ShufflerKey.Public()
	sealsTo := func() []byte {
		return s.host.shufflerKey()
	}
	refused := func(n int) {
		t.Helper()
		testbed.Eventually(t, "refused", func() bool { return testbed.Refused(s.config.KeySets, api.Rewound) >= n })
		if got := testbed.Refused(s.config.KeySets, api.Rewound); got != n || !bytes.Equal(sealsTo(), current) {
			t.Errorf("%d key sets were refused, want %d; sealing to the retired key: %v", got, n,
				bytes.Equal(sealsTo(), retired))
		}
		s.must(s.config.KeySets.Check())
	}
	newer := set(2, current, retired)
	s.must(s.shuffler.Keys.PutKeys(s.Context(), newer))
	testbed.Eventually(t, "in the newer set", func() bool { return bytes.Equal(sealsTo(), current) })
	if testbed.Refused(s.config.KeySets, api.Rewound) != 0 {
		t.Error("the keys' history is refused")
	}
	s.must(s.shuffler.Keys.PutKeys(s.Context(), set(2, retired))) // the same number, other keys
	refused(1)
	s.must(s.shuffler.Keys.PutKeys(s.Context(), set(1, retired)))
	refused(2)
	s.must(s.stop())

	account()
	s.start()
	if !bytes.Equal(sealsTo(), current) {
		t.Error("after a restart the host does not know the keys that it has seen")
	}
	testbed.Eventually(t, "refused", func() bool { return testbed.Refused(s.config.KeySets, api.Rewound) >= 2 })
	if !bytes.Equal(sealsTo(), current) {
		t.Error("after a restart the host seals to a retired key")
	}
	s.open(s.Announcement(glm.Practical, 12))
	s.decide("x", twoArms)
	s.Open(s.reports(1)[0].envelope, s.announced)
	if !strings.Contains(s.logged.String(), "set 2 was seen before") {
		t.Error("the log does not say so")
	}
	s.must(s.shuffler.Keys.PutKeys(s.Context(), set(3, retired))) // the shuffler may do so
	testbed.Eventually(t, "in the third set", func() bool { return bytes.Equal(sealsTo(), retired) })
	s.must(s.stop())

	account()
	s.start() // what is older than the newest is history now; only the fork is none
	testbed.Eventually(t, "caught up", func() bool { return s.config.KeySets.Balance().Received >= 3 })
	time.Sleep(100 * time.Millisecond)
	if n := testbed.Refused(s.config.KeySets, api.Rewound); n != 0 || !bytes.Equal(sealsTo(), retired) {
		t.Errorf("%d sets of the history are refused", n)
	}
}
