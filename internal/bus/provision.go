package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Defaults of ProvisionOptions.
const (
	// DefaultDedupWindow is how long the broker recognises a repeated report by its message id. It covers a publisher's retries over a
	// broker's restart. Past it the copy is stored and the shuffler refuses it, so this bounds waste, not correctness. The broker keeps
	// every id of the window in memory: about 280 bytes per report (measured by BenchmarkDedupMemory).
	DefaultDedupWindow = 10 * time.Minute

	// DefaultAckWait is how long a delivered report or chunk may stay unacknowledged before it is delivered again.
	DefaultAckWait = 30 * time.Second

	// maxAckPending bounds what a consumer has delivered but not had acknowledged. Above it the broker waits.
	maxAckPending = 1 << 16
)

// ProvisionOptions says how the streams are kept. Zero values mean the documented default.
type ProvisionOptions struct {
	Replicas       int           // copies of every stream, 1, 3 or 5; default 1
	DedupWindow    time.Duration // default DefaultDedupWindow
	AckWait        time.Duration // default DefaultAckWait
	MaxReportBytes int64         // reports on disk at most, then ErrFull; 0: no limit
	MaxMixedBytes  int64         // mixed messages on disk at most, then ErrFull; 0: no limit
}

// Provision creates the streams, buckets and durable consumers, or brings existing ones to these options. Repeating it changes nothing,
// and it never drops a message. The connection must be the admin's.
//
// Errors: ErrForbidden for another role; ErrUnknown where the context ended first; what the broker said where an existing stream cannot
// be brought to the options. After an error some of the streams may exist: run it again.
func Provision(ctx context.Context, admin *Conn, o ProvisionOptions) error {
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.DedupWindow == 0 {
		o.DedupWindow = DefaultDedupWindow
	}
	if o.AckWait == 0 {
		o.AckWait = DefaultAckWait
	}
	if admin.role != Admin {
		return fmt.Errorf("%w: provisioning needs the admin's key, this is the %s's", ErrForbidden, admin.role)
	}
	for _, s := range o.streams() {
		err := admin.do(ctx, apiStreams+".STREAM.CREATE."+s.Name, func(ctx context.Context) error {
			_, err := admin.js.CreateOrUpdateStream(ctx, s)
			return err
		})
		if err != nil {
			return fmt.Errorf("bus: stream %s: %w", s.Name, err)
		}
	}
	for stream, c := range o.consumers() {
		err := admin.do(ctx, apiStreams+".CONSUMER.CREATE."+stream, func(ctx context.Context) error {
			_, err := admin.js.CreateOrUpdateConsumer(ctx, stream, c)
			return err
		})
		if err != nil {
			return fmt.Errorf("bus: consumer %s of %s: %w", c.Durable, stream, err)
		}
	}
	return nil
}

// once makes a stream hold one message per subject for ever: the broker itself refuses a second one, a rollup, and the deletion of one.
func once(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.MaxMsgsPerSubject = 1
	c.DiscardNewPerSubject = true
	c.DenyDelete = true
	return c
}

func (o ProvisionOptions) streams() []jetstream.StreamConfig {
	base := func(name, description string, subjects ...string) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: name, Description: description, Subjects: subjects,
			Storage:     jetstream.FileStorage,
			Retention:   jetstream.LimitsPolicy,
			Discard:     jetstream.DiscardNew, // a full stream refuses what is new and never drops what it acknowledged
			Replicas:    o.Replicas,
			AllowDirect: true,
			MaxMsgs:     -1, MaxBytes: -1, MaxMsgsPerSubject: -1,
			MaxMsgSize: MaxPayload,
			Duplicates: 2 * time.Minute,
		}
	}
	limit := func(n int64) int64 {
		if n <= 0 {
			return -1
		}
		return n
	}
	reports := base(StreamReports, "sealed reports", SubjectReport+".*.*")
	reports.Duplicates = o.DedupWindow
	reports.MaxBytes = limit(o.MaxReportBytes)

	mixed := once(base(StreamMixed, "mixed bit messages and manifests", SubjectMixed+".*.*.*", SubjectManifest+".*.*"))
	mixed.MaxBytes = limit(o.MaxMixedBytes)

	audit := once(base(StreamAudit, "signed statements", SubjectAudit+".*.*.*"))
	audit.DenyPurge = true

	announcements := once(base(streamAnnouncements, "announcements", subjectAnnouncements+".*.*"))
	announcements.DenyPurge = true
	announcements.RePublish = &jetstream.RePublish{Source: subjectAnnouncements + ".*.*", Destination: SubjectAnnounced + ".{{wildcard(1)}}.{{wildcard(2)}}", HeadersOnly: true}

	keys := base(streamKeys, "public keys", subjectKeys+".*")
	keys.MaxMsgsPerSubject = 16 // old key sets stay readable for a while, for people who look into a rotation
	keys.Discard = jetstream.DiscardOld
	keys.DenyDelete = true
	keys.RePublish = &jetstream.RePublish{Source: subjectKeys + ".*", Destination: SubjectRekeyed + ".{{wildcard(1)}}", HeadersOnly: true}

	return []jetstream.StreamConfig{reports, mixed, audit, announcements, keys}
}

func (o ProvisionOptions) consumers() map[string]jetstream.ConsumerConfig {
	durable := func(name, description string) jetstream.ConsumerConfig {
		return jetstream.ConsumerConfig{
			Durable: name, Description: description,
			DeliverPolicy: jetstream.DeliverAllPolicy,
			AckPolicy:     jetstream.AckExplicitPolicy,
			AckWait:       o.AckWait,
			MaxDeliver:    -1, // nothing is given up on: the handler decides
			MaxAckPending: maxAckPending,
		}
	}
	return map[string]jetstream.ConsumerConfig{
		StreamReports: durable(consumerReports, "the shuffler's place in the reports"),
		StreamMixed:   durable(consumerMixed, "the analyzer's place in the mixed messages"),
	}
}
