package bus

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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

	// Bytes on disk of the streams that hold no reports. Each stops one role's credential, if it is stolen, from filling the disk under the
	// others. What a deployment needs is far less: a cohort of 1000 people with 2000 bit messages of 100 bytes each is 200 MB of MIXED, a
	// policy of 20 dimensions some ten kB of announcements.
	DefaultMaxMixedBytes        = 2 << 30
	DefaultMaxAuditBytes        = 512 << 20
	DefaultMaxAnnouncementBytes = 256 << 20
	DefaultMaxKeyBytes          = 16 << 20

	// maxAckPending bounds what a consumer has delivered but not had acknowledged. Above it the broker waits.
	maxAckPending = 1 << 16
)

// ProvisionOptions says how the streams are kept. Zero values mean the documented default.
type ProvisionOptions struct {
	Replicas       int           // copies of every stream, 1, 3 or 5; default 1
	DedupWindow    time.Duration // default DefaultDedupWindow
	AckWait        time.Duration // default DefaultAckWait
	MaxReportBytes int64         // reports on disk at most, then ErrFull; 0: no limit
	// Bytes on disk at most, then ErrFull; the default where 0, no limit where negative. The broker reserves them: together they must fit
	// into what it may store.
	MaxMixedBytes        int64 // default DefaultMaxMixedBytes
	MaxAuditBytes        int64 // default DefaultMaxAuditBytes
	MaxAnnouncementBytes int64 // default DefaultMaxAnnouncementBytes
	MaxKeyBytes          int64 // default DefaultMaxKeyBytes
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
			// The broker checks the limits of an update as those of a new stream, against a disk that the stream itself may have filled: one
			// that is as it should be is left alone.
			if is, err := admin.js.Stream(ctx, s.Name); err == nil && follows(is.CachedInfo().Config, s) {
				return nil
			}
			_, err := admin.js.CreateOrUpdateStream(ctx, s)
			return err
		})
		if err != nil {
			if errors.Is(err, ErrFull) {
				err = fmt.Errorf("%w; its limit of %d bytes and those of the other streams are more than the broker may store: give smaller limits, or the broker more (max_file_store; without it, three quarters of what was free on its disk when it started)",
					err, s.MaxBytes)
			}
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

// follows tells whether a stream's configuration is the wanted one, in all that is wanted of it. What the broker adds does not count.
func follows(is, want jetstream.StreamConfig) bool {
	want.MaxConsumers, want.Metadata, want.ConsumerLimits = is.MaxConsumers, is.Metadata, is.ConsumerLimits
	return reflect.DeepEqual(is, want)
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
	mixed.MaxBytes = byDefault(o.MaxMixedBytes, DefaultMaxMixedBytes)

	audit := once(base(StreamAudit, "signed statements", SubjectAudit+".*.*.*"))
	audit.DenyPurge = true
	audit.MaxBytes = byDefault(o.MaxAuditBytes, DefaultMaxAuditBytes)

	announcements := once(base(streamAnnouncements, "announcements", subjectAnnouncements+".*.*.*"))
	announcements.DenyPurge = true
	announcements.MaxBytes = byDefault(o.MaxAnnouncementBytes, DefaultMaxAnnouncementBytes)
	announcements.RePublish = &jetstream.RePublish{Source: subjectAnnouncements + ".*.*.*", Destination: SubjectAnnounced + ".{{wildcard(1)}}.{{wildcard(2)}}", HeadersOnly: true}

	keys := base(streamKeys, "public keys", subjectKeys+".*")
	keys.MaxMsgsPerSubject = 16 // old key sets stay readable for a while, for people who look into a rotation
	keys.Discard = jetstream.DiscardOld
	keys.DenyDelete = true
	keys.MaxBytes = byDefault(o.MaxKeyBytes, DefaultMaxKeyBytes)
	keys.RePublish = &jetstream.RePublish{Source: subjectKeys + ".*", Destination: SubjectRekeyed + ".{{wildcard(1)}}", HeadersOnly: true}

	return []jetstream.StreamConfig{reports, mixed, audit, announcements, keys}
}

// byDefault is a limit as the broker writes it: -1 is none.
func byDefault(n, usual int64) int64 {
	switch {
	case n == 0:
		return usual
	case n < 0:
		return -1
	}
	return n
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
