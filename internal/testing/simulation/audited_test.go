package simulation

import (
	"context"
	"time"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// auditEvery is of how many seeds one has its logs audited: an audit computes every guarantee and policy anew, and
// takes as long as a list.
const auditEvery = 8

// audit has an auditor look at the logs of the healed deployment: an honest one is never accused.
func (w *World) audit() {
	if w.list.Seed%auditEvery != 0 {
		return
	}
	conn := w.broker.Connect(bus.Auditor, "auditor")
	ctx, cancel := context.WithCancel(context.Background())
	type found struct {
		*audit.Report
		error
	}
	done := make(chan found, 1)
	go func() {
		report, err := w.audited(ctx, audit.Over(conn.Streams))
		done <- found{report, err}
	}()
	for range int(recovery / time.Second) {
		w.advance(time.Second)
		select {
		case f := <-done:
			cancel()
			conn.Close()
			switch {
			case f.error != nil:
				w.violated("audit", "%v", f.error)
			case !f.OK:
				w.violated("audit", "an honest deployment is accused: %+v", f.Breaches)
			}
			return
		default:
		}
	}
	cancel()
	conn.Close()
	<-done
	w.violated("audit", "it does not end")
}

func (w *World) audited(ctx context.Context, streams audit.Streams) (*audit.Report, error) {
	trust := keyring.Bundle{
		Deployment: testbed.Deployment, Analyzer: w.keys.analyzer.Public(), Shuffler: w.keys.shuffler.Public(),
		Registrar: w.keys.registrar.Public(), Auditor: w.keys.auditor.Public(),
	}
	live, err := audit.NewLive(ctx, streams, trust)
	if err != nil {
		return nil, err
	}
	return audit.Check(ctx, live, audit.Options{Trust: trust, AnalyzerKeys: w.keys.messages})
}
