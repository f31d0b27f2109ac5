package empirical

import (
	"testing"

	"github.com/riffle-dp/riffle/pkg/plan"
)

func TestSealedReportsGiveTheCountsThatAreMeasured(t *testing.T) {
	for _, c := range plan.Channels() {
		t.Run(string(c), func(t *testing.T) {
			o := DefaultOptions()
			o.Channel = c
			g, err := newGame(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.compare(t.Context(), worlds); err != nil {
				t.Error(err)
			}
		})
	}
}
