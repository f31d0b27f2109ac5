package shuffle

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/spill"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/seal"
)

const (
	// partMessages and partBytes bound a part of a release that one task gathers: their digests must fit into a
	// result, and a worker has its messages in memory twice.
	partMessages = 400_000
	partBytes    = 24 << 20
	// partMembers bounds the members of a part, as a task names them all.
	partMembers = 1 << 14
	// segmentBytes bounds a segment: one twice as long must still fit into a message of the broker.
	segmentBytes = 3 << 20
	// bucketBytes is how large a bucket is meant to be: a worker has it in memory twice.
	bucketBytes = 48 << 20
	// tasksEach is how many tasks of a kind each process should have at least, where there is work for that many, so
	// that all end at about the same time.
	tasksEach = 4
	// taskLeast is the fewest messages that are worth a task.
	taskLeast = 4096
)

// parts are a release's messages on their way to the buckets: in segments at the broker that nobody has opened yet. Up
// to the commit all of it may be drawn anew.
type parts struct {
	release *channel.Release // without members
	secret  secret
	buckets uint32
	members int // of a part; 0: by size

	mu  sync.Mutex
	all []*part
}

// part is what one task gathered.
type part struct {
	members []channel.Member // by place in the stream of reports; none of noise
	noise   *shuffle.Part
	name    execution
	counts  []uint32    // messages in each bucket
	prints  *spill.Pile // digests of the messages of members, in their order; nil of noise
}

// of reports whether these are parts of that release.
func (p *parts) of(r *channel.Release) bool {
	return p != nil && p.release.Epoch == r.Epoch && p.release.Round == r.Round &&
		p.release.Announcement == r.Announcement
}

// close gives back what the parts take.
func (p *parts) close() {
	if p != nil {
		for _, one := range p.all {
			one.close()
		}
		p.all = nil
	}
}

func (p *part) close() {
	if p.prints != nil {
		_ = p.prints.Close() // nothing is read of it any more
	}
}

// memberIndex is the place of a member among those of a release, which are ordered by slot; -1 where it is none of
// them.
func memberIndex(members []channel.Member, m channel.Member) int {
	i, ok := slices.BinarySearchFunc(members, m.Slot, bySlot)
	if !ok || members[i] != m {
		return -1
	}
	return i
}

// keep drops the parts of which a member is not in the release any more, and returns the members that are in no part,
// by their place in the stream of reports: so one task reads a run of that stream.
func (p *parts) keep(members []channel.Member) (missing []channel.Member) {
	there := make([]bool, len(members))
	p.all = slices.DeleteFunc(p.all, func(one *part) bool {
		for _, m := range one.members {
			if memberIndex(members, m) < 0 {
				one.close()
				return true
			}
		}
		for _, m := range one.members {
			there[memberIndex(members, m)] = true
		}
		return false
	})
	for i, m := range members {
		if !there[i] {
			missing = append(missing, m)
		}
	}
	slices.SortFunc(missing, func(a, b channel.Member) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return missing
}

// bucketsFor is how many buckets so many messages of this size are scattered to.
func bucketsFor(messages uint64, size, workers int) uint32 {
	bySize := (messages*uint64(size) + bucketBytes - 1) / bucketBytes
	byWork := min(uint64(tasksEach*workers), messages/taskLeast)
	return uint32(max(bySize, byWork, 1))
}

// membersOf is how many members a part has at most, of reports of this layout.
func (p *parts) membersOf(l channel.Layout, missing, workers int) int {
	if p.members > 0 {
		return p.members
	}
	fair := (missing + tasksEach*workers - 1) / (tasksEach * workers)
	n := min(partMembers, partMessages/l.Messages, partBytes/l.Size(), max(fair, taskLeast/l.Messages))
	for n > 1 && capacity(n*l.Messages, int(p.buckets))*messageSize(l) > segmentBytes {
		n -= (n + 3) / 4
	}
	return max(n, 1)
}

// noiseOf is how many messages of noise a part makes at most.
func (p *parts) noiseOf(l channel.Layout) uint64 {
	n := min(partMessages/8, partBytes/messageSize(l)) // sealing takes longer than reading again
	for n > 1 && capacity(n, int(p.buckets))*messageSize(l) > segmentBytes {
		n -= (n + 3) / 4
	}
	return uint64(n)
}

// gather has everything gathered that is in no part yet. What was gathered before an error stays.
func (p *parts) gather(ctx context.Context, pool worker.Pool, store *spill.Store, r *channel.Release) error {
	var todo []*part
	missing := p.keep(r.Members)
	if len(missing) > 0 {
		for members := range slices.Chunk(missing, p.membersOf(r.Layout, len(missing), pool.Workers())) {
			todo = append(todo, &part{members: members})
		}
	}
	noise := slices.ContainsFunc(p.all, func(one *part) bool { return one.noise != nil })
	if r.Announced != nil && !noise {
		for _, n := range shuffle.NoiseParts(r.Announced, r.Announcement, p.noiseOf(r.Layout)) {
			todo = append(todo, &part{noise: &n})
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(2 * tasksEach * pool.Workers())
	var made []*part // of noise, which counts only if it is whole
	for _, one := range todo {
		g.Go(func() error {
			if err := p.have(ctx, pool, store, r, one); err != nil {
				return err
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if one.noise != nil {
				made = append(made, one)
			} else {
				p.all = append(p.all, one)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	p.all = append(p.all, made...)
	return nil
}

// have has one part gathered.
func (p *parts) have(
	ctx context.Context, pool worker.Pool, store *spill.Store, r *channel.Release, one *part,
) error {
	t := gatherTask{
		mixingTask: taskOf(r, p.secret), Buckets: p.buckets, Members: packMembers(one.members), Noise: one.noise,
	}
	messages := len(one.members) * r.Layout.Messages
	prints := messages * digested
	if one.noise != nil {
		messages = int(one.noise.To - one.noise.From)
	}
	result, err := pool.Do(ctx, worker.Task{Kind: GatherTask, Body: encodeTask(t)})
	if err != nil {
		return err
	}
	fixed := len(one.name) + 4*int(p.buckets)
	if result, err = decodeResult(result, fixed+prints); err != nil {
		return err
	}
	one.name = execution(result)
	if one.counts, err = countsOf(result[len(one.name):fixed]); err != nil {
		return err
	}
	total := 0
	for _, n := range one.counts {
		total += int(n)
	}
	if total != messages {
		return errResult
	}
	if one.noise != nil {
		return nil
	}
	one.prints = store.Pile()
	return one.prints.Append(result[fixed:])
}

// findRepeated returns the slots of the members that repeat a message, as Mixing.scatter says which those are: in
// ascending order, each once. Messages of one digest are suspects, and their reports are read again, so that nobody is
// excluded because two keys look alike.
func (p *parts) findRepeated(
	ctx context.Context, store *spill.Store, r *channel.Release, read channel.Reports,
) (slots []uint32, err error) {
	suspects, members, err := p.suspects(store, r)
	if err != nil || len(members) == 0 {
		return nil, err
	}
	digester, err := p.secret.digester()
	if err != nil {
		return nil, err
	}
	size := messageSize(r.Layout)
	first := map[string]uint32{} // slot by encapsulated key
	for _, i := range members {
		m := r.Members[i]
		report, err := read(ctx, r, m)
		if err != nil {
			return nil, err
		}
		for at := report.Payload; len(at) >= size; at = at[size:] {
			if !suspects[digester.digest(at)] {
				continue
			}
			key := string(at[:seal.EncapsulatedSize])
			if other, ok := first[key]; ok {
				slots = append(slots, other, m.Slot)
			} else {
				first[key] = m.Slot
			}
		}
	}
	slices.Sort(slots)
	return slices.Compact(slots), nil
}

// suspects are the duplicate digests, and the places in r.Members of the members that have them, in
// ascending order.
func (p *parts) suspects(
	store *spill.Store, r *channel.Release,
) (twice map[uint64]bool, members []uint32, err error) {
	const entry = digested + 4
	sorter := store.Sorter(entry)
	defer sorter.Close()
	for _, one := range p.all {
		if one.prints == nil {
			continue
		}
		at, member, entries := 0, 0, []byte(nil)
		err := one.prints.Read(digested, func(b []byte) error {
			entries = entries[:0]
			for ; len(b) > 0; b = b[digested:] {
				if at%r.Layout.Messages == 0 {
					member = memberIndex(r.Members, one.members[at/r.Layout.Messages])
				}
				entries = append(entries, b[:digested]...)
				entries = binary.BigEndian.AppendUint32(entries, uint32(member))
				at++
			}
			return sorter.Append(entries)
		})
		if err != nil {
			return nil, nil, err
		}
	}
	twice = map[uint64]bool{}
	last := make([]byte, entry)
	begun := false
	err = sorter.Sorted(func(entries []byte) error {
		for ; len(entries) > 0; entries = entries[entry:] {
			if begun && bytes.Equal(last[:digested], entries[:digested]) {
				twice[binary.BigEndian.Uint64(last)] = true
				members = append(members, binary.BigEndian.Uint32(last[digested:]),
					binary.BigEndian.Uint32(entries[digested:]))
			}
			copy(last, entries[:entry])
			begun = true
		}
		return nil
	})
	slices.Sort(members)
	return twice, slices.Compact(members), err
}
