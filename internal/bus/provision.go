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
	// DefaultDedupWindow is how long the broker recognises a repeated report by its message id. It covers a
	// publisher's retries over a broker's restart. Past it the copy is stored and the shuffler refuses it, so this
	// bounds waste, not correctness. The broker keeps every id of the window in memory: about 280 bytes per report
	// (measured by BenchmarkDedupMemory).
	DefaultDedupWindow = 10 * time.Minute

	// DefaultAckWait is how long a delivered report or chunk may stay unacknowledged before it is delivered again.
	DefaultAckWait = 30 * time.Second

	// DefaultHostReports is how many reports one host may have waiting at the broker. A host's reports of a cohort
	// wait there until the cohort is released, so a host needs as many as its devices may have in one cohort. It also
	// bounds the junk that a hostile host puts in front of other people's reports: the shuffler needs about 0.17 ms
	// of a processor for each that has 150 bit messages.
	DefaultHostReports = 1 << 13

	// DefaultReportSize is how many bytes a report may have: 2500 bit messages. At epsilon 1 a plan for 20 released
	// numbers takes 150.
	DefaultReportSize = 128 << 10

	// DefaultMaxReportBytes is what two hosts can store that have as many of the largest reports waiting as they may.
	// So one hostile host leaves half of it to the others: room for 130 000 reports of 150 bit messages.
	DefaultMaxReportBytes = 2 * DefaultHostReports * DefaultReportSize

	// ReportHeaders is room for what is around a report in a stored message, besides the report.
	ReportHeaders = 512
	// Bytes on disk of the streams that hold no reports. Each stops one role's credential, if it is stolen, from
	// filling the disk under the others. What a deployment needs is far less: a cohort of 1000 people with 2000 bit
	// messages of 100 bytes each is 200 MB of MIXED, a policy of 20 dimensions some ten kB of announcements.
	DefaultMaxMixedBytes        = 2 << 30
	DefaultMaxPreparedBytes     = 256 << 20 // a report takes 33 bytes of it while its round is under way
	DefaultMaxRetainedBytes     = 1 << 30   // what leaves within a window, where the shuffler retains it
	DefaultMaxMixingBytes       = 2 << 30   // a round on its way between mixing processes, where there are several
	DefaultMaxTaskBytes         = 256 << 20 // tasks that wait for a worker, for each of two roles
	DefaultMaxAuditBytes        = 512 << 20
	DefaultMaxAnnouncementBytes = 256 << 20
	DefaultMaxKeyBytes          = 16 << 20

	// The broker keeps some hundred bytes of memory for each subject of a stream. Where each message has a subject of
	// its own a stream therefore holds only so many messages as its bytes are enough for, at the fewest bytes that
	// messages of it have on average, so that a stolen credential cannot fill the broker's memory with tiny ones. The
	// figures are for the default bytes, and those of --max-...-bytes.
	leastAverageMixed         = 16 << 10 // chunks of 16384 messages of 100 bytes, a manifest for each round: 131 072
	leastAveragePrepared      = 4 << 10  // answers of 33 bytes for each of a chunk's reports: 65 536
	leastAverageRetained      = 16 << 10 // as mixed: 65 536
	leastAverageMixing        = 4 << 10  // segments, of a bucket each: 524 288
	leastAverageAudit         = 512      // statements and checkpoints, ten or so in a round: 1 048 576
	leastAverageAnnouncements = 1 << 10  // a policy each: 262 144
	leastAverageReports       = 512      // a report has 1 kB or more: 4 194 304

	// leastMessages is what a stream may have however few bytes it may: about a megabyte of the broker's memory.
	leastMessages = 4096

	// maxKeySet is the bytes of one key set at most. 16 of each of five roles fit into the stream, so that no role's
	// push out another's.
	maxKeySet = 128 << 10

	// DefaultTaskWait is how long a worker may be silent before its task is given to another one. Workers say three
	// times as often that they live.
	DefaultTaskWait = 6 * time.Second

	// maxTasks is how many tasks may wait for workers; a lead that has more waits.
	maxTasks = 4096

	// maxAckPending bounds what a consumer has delivered but not had acknowledged. Above it the broker waits.
	maxAckPending = 1 << 16
)

// ProvisionOptions says how the streams are kept. Zero values mean the documented default.
type ProvisionOptions struct {
	// Workers makes the streams that workers need, too. Where it is false, those that exist are left as they are.
	Workers     bool
	Replicas    int           // copies of every stream, 1, 3 or 5; default 1
	DedupWindow time.Duration // default DefaultDedupWindow
	AckWait     time.Duration // default DefaultAckWait
	TaskWait    time.Duration // default DefaultTaskWait
	HostReports int64         // reports that one host may have waiting, then ErrFull; default DefaultHostReports
	ReportSize  int64         // bytes of one report at most, else ErrTooLarge; default DefaultReportSize
	// reports on disk at most, then ErrFull; default DefaultMaxReportBytes; below 0: no limit
	MaxReportBytes int64
	// Bytes on disk at most, then ErrFull; the default where 0, no limit where negative. The broker reserves them:
	// together they must fit into what it may store.
	MaxMixedBytes        int64 // default DefaultMaxMixedBytes
	MaxPreparedBytes     int64 // default DefaultMaxPreparedBytes
	MaxRetainedBytes     int64 // default DefaultMaxRetainedBytes
	MaxMixingBytes       int64 // default DefaultMaxMixingBytes
	MaxTaskBytes         int64 // of each role that can have workers; default DefaultMaxTaskBytes
	MaxAuditBytes        int64 // default DefaultMaxAuditBytes
	MaxAnnouncementBytes int64 // default DefaultMaxAnnouncementBytes
	MaxKeyBytes          int64 // default DefaultMaxKeyBytes
}

func (o ProvisionOptions) withDefaults() ProvisionOptions {
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.DedupWindow == 0 {
		o.DedupWindow = DefaultDedupWindow
	}
	if o.AckWait == 0 {
		o.AckWait = DefaultAckWait
	}
	if o.TaskWait == 0 {
		o.TaskWait = DefaultTaskWait
	}
	if o.HostReports == 0 {
		o.HostReports = DefaultHostReports
	}
	if o.ReportSize == 0 {
		o.ReportSize = DefaultReportSize
	}
	o.MaxReportBytes = byDefault(o.MaxReportBytes, DefaultMaxReportBytes)
	o.MaxMixedBytes = byDefault(o.MaxMixedBytes, DefaultMaxMixedBytes)
	o.MaxPreparedBytes = byDefault(o.MaxPreparedBytes, DefaultMaxPreparedBytes)
	o.MaxRetainedBytes = byDefault(o.MaxRetainedBytes, DefaultMaxRetainedBytes)
	o.MaxMixingBytes = byDefault(o.MaxMixingBytes, DefaultMaxMixingBytes)
	o.MaxTaskBytes = byDefault(o.MaxTaskBytes, DefaultMaxTaskBytes)
	o.MaxAuditBytes = byDefault(o.MaxAuditBytes, DefaultMaxAuditBytes)
	o.MaxAnnouncementBytes = byDefault(o.MaxAnnouncementBytes, DefaultMaxAnnouncementBytes)
	o.MaxKeyBytes = byDefault(o.MaxKeyBytes, DefaultMaxKeyBytes)
	return o
}

// validate holds the limits against each other: no host alone may fill what all hosts share.
func (o ProvisionOptions) validate() error {
	var faults []error
	if o.HostReports < 1 {
		faults = append(faults, fmt.Errorf("bus: %d reports of one host: must be at least 1", o.HostReports))
	}
	if o.ReportSize < 1 || o.ReportSize > MaxMessage {
		faults = append(faults, fmt.Errorf("bus: reports of %d bytes: must be 1 to %d", o.ReportSize, MaxMessage))
	}
	if len(faults) == 0 && o.MaxReportBytes > 0 && o.HostReports > o.MaxReportBytes/o.ReportSize/2 {
		faults = append(faults, fmt.Errorf("bus: %d reports of one host, each of up to %d bytes, take more than "+
			"half of the %d bytes for all reports: one host could shut out the others. Lower the first or the "+
			"second, or raise the third",
			o.HostReports, o.ReportSize, o.MaxReportBytes))
	}
	return errors.Join(faults...)
}

// Provision creates the streams, buckets and durable consumers, or brings existing ones to these options. Repeating
// it changes nothing, and it never drops a message. The connection must be the admin's.
//
// Errors: faults of the options, all at once, and nothing was done; ErrForbidden for another role; ErrUnknown where
// the context ended first; ErrFull where the broker's disk does not have what the limits reserve; what the broker
// said where an existing stream cannot be brought to the options. After an error some of the streams may exist: run
// it again.
func Provision(ctx context.Context, admin *Conn, o ProvisionOptions) error {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return err
	}
	if admin.link.role != Admin {
		return fmt.Errorf("%w: provisioning needs the admin's key, this is the %s's", ErrForbidden, admin.link.role)
	}
	if err := o.keepsWhatWaits(ctx, admin); err != nil {
		return err
	}
	for _, s := range o.streams() {
		err := admin.link.do(ctx, APIStreams+".STREAM.CREATE."+s.Name, func(ctx context.Context) error {
			// The broker checks the limits of an update as those of a new stream, against a disk that the stream
			// itself may have filled: one that is as it should be is left alone.
			if is, err := admin.link.js.Stream(ctx, s.Name); err == nil && follows(is.CachedInfo().Config, s) {
				return nil
			}
			_, err := admin.link.js.CreateOrUpdateStream(ctx, s)
			return err
		})
		if errors.Is(err, ErrFull) && s.MaxBytes > 0 {
			err = fmt.Errorf("%w; it reserves %d bytes, and with the other streams that is more than the broker may "+
				"store: give smaller limits, or the broker more (max_file_store; without it, three quarters of what "+
				"was free on its disk when it started)",
				err, s.MaxBytes)
		}
		if err != nil {
			return fmt.Errorf("bus: stream %s: %w", s.Name, err)
		}
	}
	for stream, c := range o.consumers() {
		err := admin.link.do(ctx, APIStreams+".CONSUMER.CREATE."+stream, func(ctx context.Context) error {
			_, err := admin.link.js.CreateOrUpdateConsumer(ctx, stream, c)
			return err
		})
		if err != nil {
			return fmt.Errorf("bus: consumer %s of %s: %w", c.Durable, stream, err)
		}
	}
	return nil
}

// keepsWhatWaits refuses a share that is less than what a host has waiting already: the broker would drop the oldest
// of it.
func (o ProvisionOptions) keepsWhatWaits(ctx context.Context, admin *Conn) error {
	var waiting map[string]uint64
	err := admin.link.do(ctx, APIStreams+".STREAM.INFO."+StreamReports, func(ctx context.Context) error {
		stream, err := admin.link.js.Stream(ctx, StreamReports)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(">"))
		if err != nil {
			return err
		}
		waiting = info.State.Subjects
		return nil
	})
	if err != nil {
		return fmt.Errorf("bus: stream %s: %w", StreamReports, err)
	}
	for subject, n := range waiting {
		if n > uint64(o.HostReports) {
			return fmt.Errorf("bus: %d reports wait under %s: no host's share can be lowered to %d before they are "+
				"released", n, subject, o.HostReports)
		}
	}
	return nil
}

// follows reports whether a stream's configuration is the wanted one, in all that is wanted of it. What the broker adds
// does not count.
func follows(is, want jetstream.StreamConfig) bool {
	want.MaxConsumers, want.Metadata, want.ConsumerLimits = is.MaxConsumers, is.Metadata, is.ConsumerLimits
	return reflect.DeepEqual(is, want)
}

// once makes a stream hold one message per subject for ever: the broker itself refuses a second one, a rollup, and
// the deletion of one.
func once(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.MaxMsgsPerSubject = 1
	c.DiscardNewPerSubject = true
	c.DenyDelete = true
	return c
}

// Streams are the streams that Provision makes.
func (o ProvisionOptions) Streams() []jetstream.StreamConfig { return o.withDefaults().streams() }

// Consumers are the durable consumers that Provision makes, by stream.
func (o ProvisionOptions) Consumers() map[string]jetstream.ConsumerConfig {
	return o.withDefaults().consumers()
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
	reports := base(StreamReports, "sealed reports", SubjectReport+".*")
	reports.MaxMsgsPerSubject = o.HostReports // a host has one subject
	reports.DiscardNewPerSubject = true
	reports.MaxMsgSize = int32(o.ReportSize + ReportHeaders)
	reports.Duplicates = o.DedupWindow
	reports.MaxBytes = o.MaxReportBytes
	reports.AllowAtomicPublish = true // an ingress stores many with one sync
	reports.MaxMsgs = messages(o.MaxReportBytes, leastAverageReports)

	mixed := once(base(StreamMixed, "mixed bit messages and manifests", SubjectMixed+".*.*.*", SubjectManifest+".*.*"))
	mixed.MaxBytes = o.MaxMixedBytes
	mixed.MaxMsgs = messages(o.MaxMixedBytes, leastAverageMixed)

	prepared := once(base(StreamPrepared, "answers about rounds that are prepared", SubjectPrepared+".*.*.*"))
	prepared.MaxBytes = o.MaxPreparedBytes
	prepared.MaxMsgs = messages(o.MaxPreparedBytes, leastAveragePrepared)
	prepared.RePublish = &jetstream.RePublish{Source: SubjectPrepared + ".*.*.*",
		Destination: SubjectAnswered + ".{{wildcard(1)}}.{{wildcard(2)}}", HeadersOnly: true}

	// What is retained is gone when the time in the message is over, and the broker sees to it. The
	// stream's own age bounds what comes without a time.
	retained := once(base(StreamRetained, "forwarded chunks, sealed to the auditor", SubjectRetained+".*.*.*"))
	retained.AllowMsgTTL = true
	retained.MaxAge = MaxRetain
	retained.MaxBytes = o.MaxRetainedBytes
	retained.MaxMsgs = messages(o.MaxRetainedBytes, leastAverageRetained)

	audit := once(base(StreamAudit, "signed statements", SubjectAudit+".*.*.*"))
	audit.DenyPurge = true
	audit.MaxBytes = o.MaxAuditBytes
	audit.MaxMsgs = messages(o.MaxAuditBytes, leastAverageAudit)

	announcements := once(base(StreamAnnouncements, "announcements", SubjectAnnouncements+".*.*.*"))
	announcements.DenyPurge = true
	announcements.MaxBytes = o.MaxAnnouncementBytes
	announcements.MaxMsgs = messages(o.MaxAnnouncementBytes, leastAverageAnnouncements)
	announcements.RePublish = &jetstream.RePublish{Source: SubjectAnnouncements + ".*.*.*",
		Destination: SubjectAnnounced + ".{{wildcard(1)}}.{{wildcard(2)}}", HeadersOnly: true}

	keys := base(StreamKeys, "public keys", SubjectKeys+".*")
	keys.MaxMsgsPerSubject = 16 // old key sets stay readable for a while, for people who look into a rotation
	keys.Discard = jetstream.DiscardOld
	keys.DenyDelete = true
	keys.MaxBytes = o.MaxKeyBytes
	keys.MaxMsgSize = maxKeySet
	keys.RePublish = &jetstream.RePublish{Source: SubjectKeys + ".*", Destination: SubjectRekeyed + ".{{wildcard(1)}}",
		HeadersOnly: true}

	all := []jetstream.StreamConfig{reports, mixed, prepared, retained, audit, announcements, keys}
	if !o.Workers {
		return all
	}
	mixing := once(base(StreamMixing, "what mixing processes hand each other", SubjectMixing+".*.*.*.*"))
	mixing.MaxBytes = o.MaxMixingBytes
	mixing.MaxMsgs = messages(o.MaxMixingBytes, leastAverageMixing)

	all = append(all, mixing)
	for _, r := range leading() {
		tasks := base(tasksOf(r), "tasks for workers of the "+string(r), subjectTasks(r))
		tasks.Retention = jetstream.WorkQueuePolicy // a task that is done is gone
		tasks.AllowDirect = false                   // nobody reads tasks but to do them
		tasks.MaxMsgs = maxTasks
		tasks.Duplicates = min(tasks.Duplicates, o.DedupWindow)
		tasks.MaxBytes = o.MaxTaskBytes
		all = append(all, tasks)
	}
	return all
}

// messages is how many messages a stream of so many bytes may have; without a limit of bytes it has none of messages.
func messages(bytes, leastAverage int64) int64 {
	if bytes < 0 {
		return -1
	}
	return max(leastMessages, bytes/leastAverage)
}

// byDefault is a limit as the broker writes it, whatever the caller wrote: -1 is none.
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
	all := map[string]jetstream.ConsumerConfig{
		StreamReports: durable(ConsumerReports, "the shuffler's place in the reports"),
		StreamMixed:   durable(ConsumerMixed, "the analyzer's place in the mixed messages"),
	}
	if !o.Workers {
		return all
	}
	for _, r := range leading() {
		tasks := durable(ConsumerTasks, "what workers of the "+string(r)+" have taken")
		tasks.AckWait = o.TaskWait
		tasks.MaxAckPending = maxTasks
		all[tasksOf(r)] = tasks
	}
	return all
}
