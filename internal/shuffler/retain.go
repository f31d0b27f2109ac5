package shuffler

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// AuditSettings say what the shuffler leaves for an auditor besides the audit log.
type AuditSettings struct {
	Retain time.Duration `key:"retain" doc:"How long what is forwarded of a release is also kept at the broker, each chunk sealed to the auditor's key of the bundle, from 1s to 8784h (a year). 0: not at all. The broker drops it when the time is over. It lets an auditor find a message that was dropped, added or exchanged, and count again together with the analyzer. As long as it is kept, whoever gets the auditor's and the analyzer's keys can open it. Only for the channels shuffle and local: the others must not be among the channels that are served."`
}

// Validate lists what is wrong.
func (s AuditSettings) Validate() (faults []error) {
	if s.Retain != 0 && (s.Retain < bus.MinRetain || s.Retain > bus.MaxRetain) {
		faults = append(faults, config.Wrong("retain", s.Retain,
			fmt.Sprintf("must be 0, or from %s to %s", bus.MinRetain, bus.MaxRetain)))
	}
	return faults
}

// retainable refuses the channels of which nothing may be retained.
func retainable(served []plan.Channel) error {
	for _, c := range served {
		if !shuffle.Retainable(c) {
			return fmt.Errorf("nothing of the channel %s may be retained: serve only channels of which it may "+
				"(channels: shuffle, local), or retain nothing", c)
		}
	}
	return nil
}

// Retention retains what is forwarded for a time, sealed to the auditor; nil where the time is 0. It is refused where
// one of the served channels has nothing that may be retained: a deployment that believes it can be recounted must not
// run a round that cannot.
func Retention(
	window time.Duration, auditor []byte, served []plan.Channel, of Party, store shuffle.RetainedStore,
) (*shuffle.Retention, error) {
	if window == 0 {
		return nil, nil
	}
	err := errors.Join(append(AuditSettings{Retain: window}.Validate(), retainable(served))...)
	if err != nil {
		return nil, fmt.Errorf("shuffler: %w", err)
	}
	if err := seal.CheckHPKEPublic(auditor); err != nil {
		return nil, fmt.Errorf("shuffler: the auditor's key: %w", err)
	}
	for _, own := range of.Keys {
		if bytes.Equal(own.Public(), auditor) {
			return nil, errors.New("shuffler: the auditor's key is one of the shuffler's own, which would open all " +
				"that is retained: run riffle keygen rotate auditor, and give the new bundle.json to the shuffler")
		}
	}
	return &shuffle.Retention{
		Deployment: of.Deployment, Auditor: slices.Clone(auditor), Window: window, Store: store,
	}, nil
}
