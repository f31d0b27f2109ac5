package cohort

import (
	"strings"
	"testing"
)

// A journal that was tampered with, or is another shuffler's, is not worked on.
func TestAForeignJournalIsRefused(t *testing.T) {
	t.Parallel()
	opened := func(digest string) string {
		return `{"opened":{"at_ms":1,"epoch":1,"digest":"` + digest + `","size":1,"minimum":1,"rounds":1,"messages":1}}`
	}
	whole := strings.Repeat("A", 43) + "="
	for name, entries := range map[string][]string{
		"not an event":        {`{`},
		"unknown kind":        {opened(whole), `{}`},
		"out of order":        {`{"enrolled":{"host":"AA==","device":1,"report_at_ms":1}}`},
		"a digest cut short":  {opened("AA==")},
		"a round from beyond": {opened(whole), `{"committed":{"round":3,"outcome":1}}`},
	} {
		state := NewState(Admission{Minimum: 1})
		var err error
		for _, e := range entries {
			var ev *Event
			if ev, err = DecodeEvent([]byte(e)); err == nil {
				err = state.Apply(ev)
			}
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
