package analyzer

import (
	"github.com/riffle-dp/riffle/internal/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/learn/joint"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// newReader is a new curator. Its noise comes from src.
func newReader(public *deployment.Curated, src protocol.Source) envelope.Curator {
	return reader{public, joint.NewCurator(public.Config(), src)}
}

// reader is a joint.Curator whose releases are whole numbers.
type reader struct {
	public  *deployment.Curated
	curator *joint.Curator
}

// Absorb implements envelope.Curator.
func (r reader) Absorb(records []learn.Record) ([]int64, error) {
	release, err := r.curator.Absorb(records)
	if err != nil {
		return nil, err
	}
	values := release.Values()
	given := make([]int64, len(values))
	for i, v := range values {
		given[i] = int64(v)
	}
	return given, nil
}

// Replay implements envelope.Curator.
func (r reader) Replay(records []learn.Record, given []int64) error {
	release, err := r.public.ParseRelease(given)
	if err != nil {
		return err
	}
	return r.curator.Replay(records, release)
}
