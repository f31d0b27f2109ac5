package ledger

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/envelope"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shuffle"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// people are the reports of a round: the counts as the channel delivers them, and where messages are retained these.
func (m *maker) people(a *plan.Announcement, digest [32]byte, reports int) (
	counts []wire.ReleaseCounts, messages [][]byte, err error,
) {
	if m.curator != nil {
		counts, err = m.curatorsSums(a, reports)
		return counts, nil, err
	}
	round, err := plan.CheckRound(a)
	if err != nil {
		return nil, nil, err
	}
	var device channel.Device
	var by channel.Sender
	if m.o.Retain {
		if device, err = registry.NewDevice(a, digest); err != nil {
			return nil, nil, err
		}
		if by, err = m.sender(reports); err != nil {
			return nil, nil, err
		}
	}
	counts = make([]wire.ReleaseCounts, len(round.Encodings))
	for i, e := range round.Encodings {
		counts[i].Ones = make([]uint64, len(e.Coordinates))
	}
	var each [][]uint32 // of pairs
	for n := range reports {
		vectors, err := m.vectors(a, round.Statistics)
		if err != nil {
			return nil, nil, err
		}
		if m.o.Retain {
			by.Number = uint32(n)
			payload, err := device.Append(nil, by, vectors, m.src)
			if err != nil {
				return nil, nil, err
			}
			messages = slices.AppendSeq(messages, slices.Chunk(payload, len(payload)/a.ReportMessages()))
			continue
		}
		for i, e := range round.Encodings {
			ones, err := e.Encode(nil, vectors[i], m.src)
			if err != nil {
				return nil, nil, err
			}
			each = append(each, ones)
			for j, one := range ones {
				counts[i].Ones[j] += uint64(one)
			}
		}
	}
	if a.Plan.Pairs() && !m.o.Retain {
		return []wire.ReleaseCounts{{Entries: envelope.Each(each)}}, nil, nil
	}
	if m.o.Retain {
		return m.mixAndCount(a, digest, messages)
	}
	for i, r := range a.Releases() {
		if err := round.Encodings[i].AddServerNoise(counts[i].Ones, r.ServerNoise(), m.src); err != nil {
			return nil, nil, err
		}
	}
	return counts, nil, nil
}

// vectors are what a person reports: of one record, or in panels of several decisions together.
func (m *maker) vectors(a *plan.Announcement, statistics []statistic.Statistic) (all [][]float64, err error) {
	records := []statistic.Record{m.record(a)}
	if a.Plan.Panel != nil {
		records = records[:0]
		for range m.src.Uint64() % uint64(a.Plan.PerReport()+1) {
			r := m.record(a)
			if r.Control = m.uniform() < a.Policy.Control; r.Control {
				r.Weight = 0
			}
			records = append(records, r)
		}
	}
	all = make([][]float64, len(statistics))
	for i, s := range statistics {
		if a.Plan.Panel != nil {
			all[i], err = s.Report(nil, records, a.Plan.PerReport())
		} else {
			all[i], err = s.Vector(nil, records[0])
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// record is that of a person who plays a random arm.
func (m *maker) record(a *plan.Announcement) statistic.Record {
	arm := make([]float64, a.Policy.Dimension)
	for i := range arm {
		arm[i] = (2*m.uniform() - 1) / math.Sqrt(float64(len(arm)))
	}
	r := statistic.Record{Arm: arm, Weight: 1, Explored: m.uniform() < 0.5}
	if m.uniform() < 1/(1+math.Exp(-2*arm[0])) {
		r.Reward = 1
	}
	return r
}

func (m *maker) uniform() float64 { return protocol.Uniform(m.src) }

// curatorsSums is what the curator of the profile joint gives out.
func (m *maker) curatorsSums(a *plan.Announcement, reports int) ([]wire.ReleaseCounts, error) {
	records := make([]learn.Record, reports)
	for i := range records {
		r := m.record(a)
		records[i] = learn.Record{Arm: r.Arm, Reward: r.Reward}
		if r.Explored {
			records[i].Tag = learn.Explored
		}
	}
	out, err := m.curator.Absorb(records)
	if err != nil {
		return nil, err
	}
	var given []int64
	for _, v := range out.Values() {
		given = append(given, int64(v))
	}
	return []wire.ReleaseCounts{{Curated: given}}, nil
}

// sender is a host with so many devices.
func (m *maker) sender(devices int) (by channel.Sender, err error) {
	if by.Identity, err = Identity(m.o.Seed, "host"); err != nil {
		return by, err
	}
	by.Credential, _, err = wire.Sign(&wire.Credential{
		Deployment: Deployment, HostKey: by.Identity.Public(), Devices: uint32(devices),
	}, m.registrar)
	return by, err
}

// mixAndCount adds the shuffler's noise to messages, puts them into a random order, and counts them.
func (m *maker) mixAndCount(a *plan.Announcement, digest [32]byte, messages [][]byte) (
	[]wire.ReleaseCounts, [][]byte, error,
) {
	counts := make([]wire.ReleaseCounts, len(a.Encodings))
	switch a.Plan.Channel {
	case plan.Shuffle:
		noise, err := shuffle.AppendNoise(context.Background(), nil, a, digest, m.src)
		if err != nil {
			return nil, nil, err
		}
		messages = slices.AppendSeq(messages, slices.Chunk(noise, seal.BitSize))
		tally := shuffle.NewTally(a.Encodings)
		tally.Open(seal.NewBitOpener(m.key, digest), slices.Concat(messages...))
		server := make([]uint64, len(a.Encodings))
		for i, r := range a.Releases() {
			server[i] = r.ShufflerNoise
		}
		ones, odd := tally.Counts(uint64(len(messages)), server)
		if odd > 0 {
			return nil, nil, fmt.Errorf("%d messages do not open", odd)
		}
		for i := range ones {
			counts[i].Ones = ones[i]
		}
	case plan.Local:
		opener, err := envelope.NewOpener(a, digest, m.key, channel.NewVerifier(wire.Party{
			Deployment: Deployment, Key: m.registrar.Public()}))
		if err != nil {
			return nil, nil, err
		}
		sums := make([]uint64, opener.Entries())
		var each [][]uint32
		for _, b := range messages {
			entries, _, err := opener.Open(nil, b)
			if err != nil {
				return nil, nil, err
			}
			each = append(each, entries)
			for i, entry := range entries {
				sums[i] += uint64(entry)
			}
		}
		if a.Plan.Pairs() {
			counts[0].Entries = envelope.Each(each)
			break
		}
		for i, e := range a.Encodings {
			counts[i].Ones, sums = sums[:len(e.Coordinates):len(e.Coordinates)], sums[len(e.Coordinates):]
		}
	default:
		return nil, nil, fmt.Errorf("nothing of the channel %s is retained", a.Plan.Channel)
	}
	protocol.Permute(messages, m.src)
	return counts, messages, nil
}
