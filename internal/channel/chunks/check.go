package chunks

import (
	"bytes"
	"fmt"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Check compares a manifest with the round's announcement, and with what came. noise is how many messages the plan
// wants of the shuffler. Its errors wrap Rejected.
//
// Of the chunks the analyzer needs no more than their digest. The root of the messages is checked for whoever reads the
// audit log and sees no message: with the counts, the analyzer says that the root is of what it counted.
func Check(r *channel.Round, m *wire.Manifest, sent Sent, noise uint64) error {
	rejected := func(format string, v ...any) error { return fmt.Errorf("%w: %s", Rejected, fmt.Sprintf(format, v...)) }
	hold := uint64(m.Reports) * uint64(r.ReportMessages())
	switch {
	case !bytes.Equal(m.Announcement, r.Digest[:]):
		return rejected("the shuffler admitted reports for another announcement, %x", m.Announcement[:8])
	case m.Reports < r.Cohort.Minimum:
		return rejected("the shuffler released %d reports, below the minimum of %d", m.Reports, r.Cohort.Minimum)
	case m.Reports > r.Cohort.Size:
		return rejected("the shuffler released %d reports from a cohort of %d", m.Reports, r.Cohort.Size)
	case m.NoiseMessages != noise:
		return rejected("the shuffler added %d messages of noise, planned are %d", m.NoiseMessages, noise)
	case !bytes.Equal(m.ChunksDigest, sent.Chunks[:]):
		return rejected("the chunks are not those of the manifest")
	case m.Messages != uint64(sent.Messages) || m.Messages != hold+noise:
		return rejected("%d messages came, the manifest says %d, %d reports hold %d, and %d are noise",
			sent.Messages, m.Messages, m.Reports, hold, noise)
	case sent.Root == nil:
		return rejected("too many messages came to compare those that the manifest names: " +
			"most are in chunks that it does not name")
	case !bytes.Equal(m.MessagesRoot, sent.Root):
		return rejected("the manifest's root is not that of the messages that came")
	}
	return nil
}
