package hostile_test

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
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

// startServers starts shuffler and analyzer, or starts them again with the state that they left.
func (d *world) startServers() {
	d.t.Helper()
	var sh *shuffler.Shuffler
	d.mixes.Reports = testbed.Account(d.t, "report", func() int64 { return sh.Held() }, shuffler.Reasons())
	d.accounts["received"] = d.mixes.Reports
	sh, err := d.mixes.open()
	d.must(err)
	d.analyzer, err = analyzer.New(d.counts)
	d.must(err)
	ctx, cancel := context.WithCancel(d.ctx)
	mixed, counted := d.run(bus.Shuffler, ctx, sh.Run), d.run(bus.Analyzer, ctx, d.analyzer.Run)
	d.stopServers = func() { cancel(); <-mixed; <-counted }
}
