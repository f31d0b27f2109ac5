package analyzer

import (
	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/pkg/wire"
)

// replay is what of the past this process has gone through again. A reader of the log sees one line of it: the rounds
// themselves were logged when they were counted.
type replay struct {
	epoch                      uint64
	rounds, reports, destroyed int
	over                       bool
}

// noteReplay notes a round whose counts were signed before this process began.
func (p *past) noteReplay(c *wire.Counts) {
	p.replay.epoch = c.Epoch
	p.replay.rounds++
	if c.Destroyed {
		p.replay.destroyed++
	} else {
		p.replay.reports += int(c.Reports)
	}
}

// endReplay ends the replay, once. In a deployment that was never announced anything to there was none.
func (p *past) endReplay(log zerolog.Logger) {
	if r := p.replay; !r.over && len(p.announced) > 0 {
		log.Info().Uint64("epochs", r.epoch).Int("rounds", r.rounds).Int("reports", r.reports).
			Int("destroyed", r.destroyed).Msg("resumed")
	}
	p.replay.over = true
}
