package main

import (
	"context"
	"fmt"
	"math"
	"os"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/drive/cluster"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/lab/marked"
	"github.com/riffle-dp/riffle/lab/uniform"
)

// The deployment of riffle-lab shufflecheck --wire.
const (
	wireName   = "shufflecheck"
	wireHost   = "host1"
	wirePeople = 20 // of a cohort
)

// overTheWire judges a shuffler that runs as a process of a deployment on this machine. The analyzer's process and the
// host's do not run: this one plays them.
func (f *shuffleFlags) overTheWire(ctx context.Context) ([]*uniform.Sample, []uniform.Finding, error) {
	releases := f.releases
	if releases == 0 {
		releases = defaultWireReleases
	}
	if releases > math.MaxUint32/wirePeople {
		return nil, nil, fmt.Errorf("--releases %d: with --wire at most %d, each with devices of its own", releases,
			math.MaxUint32/wirePeople)
	}
	folder, err := os.MkdirTemp("", "riffle-shufflecheck-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(folder)
	executable, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	f.progress.Update(func(s *progress.State) { s.Phase = "starting" })
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: folder, Name: wireName, Executable: executable, Hosts: []string{wireHost},
		Devices: uint32(releases * wirePeople), Idle: true, Without: []string{cluster.Analyzer},
		Shuffler: []string{fmt.Sprintf("--min-cohort=%d", marked.MinCohort)},
	})
	if err != nil {
		return nil, nil, err
	}
	defer c.Stop()
	d, err := deploymentOf(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		for _, conn := range d.Connect {
			conn.Close()
		}
	}()
	run, err := marked.Open(ctx, *d, marked.Options{People: wirePeople, Source: entropy.New()})
	if err != nil {
		return nil, nil, err
	}
	defer run.Close()
	names := marked.Views()
	samples, waited := uniform.Samples(0, names[:]...), true
	f.progress.Update(func(s *progress.State) { *s = progress.State{Phase: "releasing", AllWork: releases} })
	for range releases {
		r, err := run.Round(ctx)
		if err != nil {
			if failed := c.Failed(); failed != nil {
				err = fmt.Errorf("%w; %w", err, failed)
			}
			return nil, nil, err
		}
		waited = waited && r.Waited
		for view, sample := range samples {
			if err := sample.Add(r.Orders[view], r.Shape); err != nil {
				return nil, nil, err
			}
		}
		f.progress.Update(func(s *progress.State) { s.Work++; s.Messages += len(r.Orders[0].Order) })
	}
	return samples, []uniform.Finding{uniform.Rule("timing: nothing leaves before the last report came", waited)}, nil
}

// deploymentOf connects to a cluster as its host and as its analyzer.
func deploymentOf(ctx context.Context, c *cluster.Cluster) (*marked.Deployment, error) {
	host, err := keyring.LoadRandomizer(c.Keys(), wireHost)
	if err != nil {
		return nil, err
	}
	analyzer, err := keyring.LoadAnalyzer(c.Keys())
	if err != nil {
		return nil, err
	}
	d := &marked.Deployment{
		Name: wireName, Analyzer: analyzer.Identity, AnalyzerKey: analyzer.HPKE[0].Public(),
		Shuffler: host.Bundle.Shuffler, Host: host.Identity, Credential: host.Credential,
		Connect: map[bus.Role]*bus.Conn{},
	}
	for role, seed := range map[bus.Role][]byte{bus.Randomizer: host.Seed, bus.Analyzer: analyzer.Seed} {
		conn, err := bus.Connect(ctx, bus.Options{URL: c.URL(), Role: role, Seed: seed, Name: "riffle-shufflecheck"})
		if err != nil {
			for _, open := range d.Connect {
				open.Close()
			}
			return nil, err
		}
		d.Connect[role] = conn
	}
	return d, nil
}
