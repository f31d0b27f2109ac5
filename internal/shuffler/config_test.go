package shuffler

import (
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// testConfig is what the tests change of a shuffler.
type testConfig struct {
	Party
	Policy
	Accounts
	StateDir string
	Source   protocol.Source
	Retain   time.Duration
	Auditor  []byte
	Clock    role.Clock
	Bus      Broker
	Log      zerolog.Logger
	Workers  worker.Pool
}

// newConfig is that of a shuffler with its state in a folder, whose cohorts may be small.
func newConfig(of Party, folder string) testConfig {
	c := testConfig{
		Party: of, Policy: DefaultPolicy(), StateDir: folder, Source: testbed.Source(), Clock: role.SystemClock(),
		Log: testbed.Log(),
	}
	c.MinCohort = 4
	return c
}

// open makes the shuffler.
func (c testConfig) open() (*Shuffler, error) {
	retention, err := Retention(c.Retain, c.Auditor, c.Channels, c.Party, c.Bus)
	if err != nil {
		return nil, err
	}
	files, err := OpenFiles(c.StateDir, DefaultMemory, c.Party, c.Bus, c.Log)
	if err != nil {
		return nil, err
	}
	channels, err := NewChannels(c.Party, files, Mixing{
		Disk: channel.Folder(c.StateDir), Source: c.Source, Workers: c.Workers, Retention: retention,
	}, c.Bus, c.Accounts, c.Log)
	if err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return New(c.Party, c.Policy, files, channels, c.Bus, c.Accounts, c.Clock, c.Source, c.Log)
}
