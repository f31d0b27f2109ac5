package wire

import (
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

// Limits on what is decoded. They bound memory; a deployment stays far below them.
const (
	// MaxStatement bounds the bytes of a signed statement: what a broker with a payload limit of 8 MiB carries, headers
	// included.
	MaxStatement = 8<<20 - 4096
	// MaxEnrolment bounds the bytes of an enrolment request or reply, which any host can send.
	MaxEnrolment = 4 << 10
	// MaxFurther bounds how many devices a request for enrolment is for besides the first.
	MaxFurther = 63
	// TicketSize is the length in bytes of a ticket.
	TicketSize = 16
	// MaxContribution bounds the bytes of a signed Pool or Draw.
	MaxContribution = 512
	// MaxSchema bounds the bytes of a schema of features.
	MaxSchema = 64 << 10
	// MaxDecisions bounds the decisions of one report.
	MaxDecisions = plan.MaxDecisions
	// MaxChunkMessages bounds the messages of one chunk.
	MaxChunkMessages = 1 << 17
	// MaxChunk bounds the bytes of a chunk's payload: as many bit messages.
	MaxChunk = MaxChunkMessages * seal.BitSize
	// MaxPayload bounds the bytes of a report's payload: what the broker carries in one message.
	MaxPayload = plan.MaxReportMessages * seal.BitSize
	// MaxRounds bounds the rounds of a plan.
	MaxRounds = 1 << 10
	// MaxReleases bounds the releases of a round; a bit message names its release in one byte.
	MaxReleases = 1 << 8
	// MaxCoordinates bounds the coordinates of a release; a bit message names its coordinate in two bytes.
	MaxCoordinates = 1 << 16
	// MaxEntries bounds the numbers in the counts of a round of pairs, so that they fit into a statement.
	MaxEntries = plan.MaxEntries
	// MaxTiming bounds each time of an announcement, in milliseconds: 24 days. The sum of two fits into 32 bits.
	MaxTiming = 1<<31 - 1
	// MaxStages bounds the elimination stages of a policy.
	MaxStages = 1 << 10
	// MaxKeys bounds the keys of a key set.
	MaxKeys = 16
	// MaxDeployment bounds the bytes of a deployment's name.
	MaxDeployment = 63
)

const (
	digestSize = 32
	keySize    = seal.IdentitySize
)
