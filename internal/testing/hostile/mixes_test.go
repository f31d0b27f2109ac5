package hostile_test

import (
	"errors"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/shuffler"
)

// mixes is what the shuffler of a world is made of.
type mixes struct {
	shuffler.Party
	shuffler.Accounts
	folder string
	broker shuffler.Broker
	clock  role.Clock
	log    zerolog.Logger
}

// open makes the shuffler, with the state that the one before left.
func (m mixes) open() (*shuffler.Shuffler, error) {
	by := shuffler.DefaultPolicy()
	by.MinCohort = 4
	files, err := shuffler.OpenFiles(m.folder, shuffler.DefaultMemory, m.Party, m.broker, m.log)
	if err != nil {
		return nil, err
	}
	mixing := shuffler.Mixing{Disk: channel.Folder(m.folder), Source: entropy.New()}
	channels, err := shuffler.NewChannels(m.Party, files, mixing, m.broker, m.Accounts, m.log)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return shuffler.New(m.Party, by, files, channels, m.broker, m.Accounts, m.clock, mixing.Source, m.log)
}
