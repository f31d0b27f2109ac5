package shuffler

import (
	"io"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/shuffler/cohort"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A cohort of a channel that this shuffler does not serve is not opened.
func TestAnotherChannelIsNotServed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.config.Channels = []plan.Channel{plan.Shares}
	s.config.Announcements = testbed.Account(t, "announcement", nil, Reasons())
	s.start()
	s.opened = s.announcement()
	s.digest = s.Announce(s.analyzer, s.opened)
	s.eventually("refused", func() bool {
		return testbed.Refused(s.config.Announcements, cohort.Reason(wire.RefusalWeakPlan)) == 1
	})
	if _, ok := s.shuffler.Filling(); ok {
		t.Error("opened")
	}
}

// A list of channels with none, or with a word that is no channel, stops the start and says which there are.
func TestChannelsAreChecked(t *testing.T) {
	t.Parallel()
	for list, want := range map[string]string{
		"shuffle,smoke": `must be a list of channels, of shuffle, shares, local and central: "smoke" is none`,
		"":              "must be a list of channels, of shuffle, shares, local and central",
	} {
		c := role.Command(Role())
		c.SetArgs([]string{"--keys", "nowhere", "--state", "nowhere", "--check-config", "--channels=" + list})
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("channels %q: %v", list, err)
		}
	}
}
