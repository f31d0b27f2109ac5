package shares

import (
	"cmp"
	"fmt"
	"time"
)

// silence is one wait for something of the analyzer.
type silence struct {
	x     *exchange
	what  string // is waited for
	since time.Time
	told  bool
}

// listen begins a wait.
func (x *exchange) listen(what string) *silence { return &silence{x: x, what: what, since: time.Now()} }

// look says, once, that the wait takes longer than it should.
func (s *silence) look() {
	patience := cmp.Or(s.x.patience, Patience)
	if s.told || time.Since(s.since) < patience {
		return
	}
	s.told = true
	err := fmt.Errorf("the analyzer is silent: round %d of epoch %d has waited for %s for longer than %v. The round "+
		"goes on when it comes: see that the analyzer runs and is ready, and that it is of this deployment; its "+
		"log says why it does not answer", s.x.r.Round, s.x.r.Epoch, s.what, patience)
	s.x.Log.Warn().Err(err).Uint64("epoch", s.x.r.Epoch).Uint32("round", s.x.r.Round).
		Msg("the release waits for the analyzer")
	s.tell(err)
}

// end is called when what was waited for came, or is waited for no longer.
func (s *silence) end() {
	if s.told {
		s.tell(nil)
	}
}

func (s *silence) tell(err error) {
	if s.x.Silent != nil {
		s.x.Silent(err)
	}
}
