package standin_test

import (
	"github.com/riffle-dp/riffle/internal/analyzer"
	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/shuffler"
	"github.com/riffle-dp/riffle/internal/testing/standin"
)

// A connection to the stand-in is what each role needs of its broker.
var (
	_ randomizer.Broker     = (*standin.Conn)(nil)
	_ shuffler.Broker       = (*standin.Conn)(nil)
	_ shuffler.WorkerBroker = (*standin.Conn)(nil)
	_ analyzer.Broker       = (*standin.Conn)(nil)
	_ audit.Streams         = (*standin.Conn)(nil)
	_ shares.MixingBroker   = (*standin.Conn)(nil)
	_ shares.CountingBroker = (*standin.Conn)(nil)
)
