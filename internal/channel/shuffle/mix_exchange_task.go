package shuffle

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The kinds of tasks of mixing.
const (
	GatherTask = "gather"
	MixTask    = "mix"
)

// mixingTask is what both kinds of tasks say of the release. The length of a task, and that of its result, follow from
// the plan, from the number of members, from how they are divided into parts, and from how many messages a bucket has
// in all. It never follows from where a part's messages go: numbers of messages travel in a fixed width, because the
// broker sees how long a sealed task is.
type mixingTask struct {
	Epoch        uint64         `json:"epoch"`
	Round        uint32         `json:"round"`
	Announcement []byte         `json:"announcement"`
	Layout       channel.Layout `json:"layout"`
	Secret       secret         `json:"secret"`
}

// What a task can be at most: far above what any lead asks for, and such that a malformed task cannot take the worker's
// memory.
const (
	maxBuckets     = 1 << 20
	maxBucketBytes = 1 << 30
)

// errTask says that a task is none that a lead of this version makes.
var errTask = errors.New("shuffle: a task of mixing is malformed: run lead and workers of one version")

// check refuses a task whose sizes no release has.
func (t *mixingTask) check() error {
	l := t.Layout
	if len(t.Announcement) != 32 || len(t.Secret) != secretSize || l.Messages < 1 ||
		l.Messages > plan.MaxReportMessages || l.Payload < 0 || l.Size() > wire.MaxPayload ||
		messageSize(l) < seal.EncapsulatedSize || l.Size()%l.Messages != 0 {
		return errTask
	}
	return nil
}

func taskOf(r *channel.Release, s secret) mixingTask {
	return mixingTask{r.Epoch, r.Round, r.Announcement[:], r.Layout, s}
}

// release is the release without its members.
func (t *mixingTask) release() *channel.Release {
	r := &channel.Release{Epoch: t.Epoch, Round: t.Round, Layout: t.Layout}
	copy(r.Announcement[:], t.Announcement)
	return r
}

// gatherTask asks for the messages of a part of the release to be scattered to the buckets.
type gatherTask struct {
	mixingTask
	Buckets uint32        `json:"buckets"`
	Members []byte        `json:"members,omitempty"` // memberSize bytes each
	Noise   *shuffle.Part `json:"noise,omitempty"`   // in place of members
}

func packMembers(members []channel.Member) []byte {
	b := make([]byte, 0, len(members)*memberSize)
	for _, m := range members {
		one := memberBytes(m)
		b = append(b, one[:]...)
	}
	return b
}

// unpackMembers reads what packMembers wrote. The error is errTask.
func unpackMembers(b []byte) ([]channel.Member, error) {
	if len(b)%memberSize != 0 {
		return nil, errTask
	}
	members := make([]channel.Member, len(b)/memberSize)
	for i := range members {
		at := b[i*memberSize:]
		m := channel.Member{Slot: binary.BigEndian.Uint32(at), Sequence: binary.BigEndian.Uint64(at[4:])}
		copy(m.Digest[:], at[12:])
		members[i] = m
	}
	return members, nil
}

// check refuses a task without buckets or members, or with more of them than fit into memory. It returns the members.
func (t *gatherTask) check() ([]channel.Member, error) {
	members, err := unpackMembers(t.Members)
	switch {
	case err != nil:
		return nil, err
	case t.mixingTask.check() != nil, t.Buckets < 1, t.Buckets > maxBuckets, (t.Noise == nil) == (len(members) == 0),
		len(members) > maxBucketBytes/t.Layout.Size():
		return nil, errTask
	}
	return members, nil
}

// mixTask asks for one bucket to be put into a uniformly random order and to be forwarded.
type mixTask struct {
	mixingTask
	Bucket   uint32        `json:"bucket"`
	Names    []byte        `json:"names"`  // of the executions that scattered to it
	Counts   []byte        `json:"counts"` // messages that each of them put there, 4 bytes each
	First    uint32        `json:"first"`  // index of the bucket's first chunk
	Chunk    int           `json:"chunk"`  // messages of a chunk
	Auditor  []byte        `json:"auditor,omitempty"`
	Retained time.Duration `json:"retained,omitempty"`
}

// check refuses a task whose executions are not whole, or whose messages do not fit into memory. It returns how many
// messages each execution put into the bucket.
func (t *mixTask) check() (counts []uint32, err error) {
	if err := t.mixingTask.check(); err != nil {
		return nil, err
	}
	if counts, err = countsOf(t.Counts); err != nil {
		return nil, err
	}
	total := uint64(0)
	for _, n := range counts {
		total += uint64(n)
	}
	if len(t.Names) != len(counts)*len(execution{}) || t.Chunk < 1 || t.Retained < 0 ||
		total > uint64(maxBucketBytes/messageSize(t.Layout)) {
		return nil, errTask
	}
	return counts, nil
}

// What a result begins with.
const (
	complete   = 0 // what was asked for follows
	impossible = 1 // the release cannot leave, for the reason that follows in words
)

var errResult = errors.New("shuffle: a worker's result is not one of its task: lead and workers are of different " +
	"versions")

// encodeResult makes a handler's result: impossible where err says so.
func encodeResult(result []byte, err error) ([]byte, error) {
	if errors.Is(err, channel.ErrImpossible) {
		return append([]byte{impossible}, err.Error()...), nil
	}
	if err != nil {
		return nil, err
	}
	return append([]byte{complete}, result...), nil
}

// decodeResult returns the rest of a result, which must have this many bytes.
func decodeResult(result []byte, want int) ([]byte, error) {
	switch {
	case len(result) > 0 && result[0] == impossible:
		return nil, fmt.Errorf("%w: a worker says: %s", channel.ErrImpossible, result[1:])
	case len(result) != 1+want || result[0] != complete:
		return nil, errResult
	}
	return result[1:], nil
}

func encodeTask(t any) []byte {
	b, err := json.Marshal(t)
	if err != nil { // no field of a task can fail to marshal
		panic(err)
	}
	return b
}

func appendCounts(b []byte, counts []uint32) []byte {
	for _, n := range counts {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}

// countsOf reads what appendCounts wrote. The error is errTask.
func countsOf(b []byte) ([]uint32, error) {
	if len(b)%4 != 0 {
		return nil, errTask
	}
	counts := make([]uint32, len(b)/4)
	for i := range counts {
		counts[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	return counts, nil
}
