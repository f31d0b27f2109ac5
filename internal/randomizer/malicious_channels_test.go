package randomizer

import (
	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// channelAttacks is what a malicious analyzer may announce about channels and servers' noise.
func channelAttacks() map[string]attack {
	unchanged := func(*rifflev1.Announcement, [32]byte) {}
	noise := func(device uint32, shuffler, analyzer uint64) func(*rifflev1.Announcement, [32]byte) {
		return func(a *rifflev1.Announcement, _ [32]byte) {
			for _, r := range a.Plan.Rounds[0].Releases {
				r.NoiseBits, r.ShufflerNoise, r.AnalyzerNoise = device, shuffler, analyzer
			}
		}
	}
	// Pairs are what counts hold report by report in the channel local: elsewhere one person's report would be seen.
	pairs := func(channel rifflev1.Channel, device uint32, analyzer uint64) func(*rifflev1.Announcement, [32]byte) {
		return func(a *rifflev1.Announcement, _ [32]byte) {
			e := &rifflev1.Encoding{Scale: 1}
			for range a.Policy.Dim + 1 {
				e.Coordinates = append(e.Coordinates, &rifflev1.Coordinate{Offset: -1, Levels: 2})
			}
			a.Plan.Channel, a.Encodings = channel, []*rifflev1.Encoding{e}
			a.Plan.Rounds = []*rifflev1.PlannedRound{{Releases: []*rifflev1.PlannedRelease{{
				Statistic: rifflev1.Statistic_STATISTIC_PAIR, Shift: 3, NoiseBits: device, Bias: 1 << 31,
				AnalyzerNoise: analyzer}}}}
		}
	}
	anybody := func(l *device.Limits) { l.Epsilon, l.Trust = 1e6, plan.Channels() }
	all := map[string]attack{
		"pairs in shuffle": {change: pairs(rifflev1.Channel_CHANNEL_SHUFFLE, 50, 0), limits: anybody},
		"pairs in shares":  {change: pairs(rifflev1.Channel_CHANNEL_SHARES, 50, 0), limits: anybody},
		"pairs in central": {change: pairs(rifflev1.Channel_CHANNEL_CENTRAL, 0, 1<<20), limits: anybody},
		// the guarantee would be that of a whole cohort's noise, and everyone sees each report
		"pairs in local with a cohort's noise": {change: pairs(rifflev1.Channel_CHANNEL_LOCAL, 30, 0)},
		"pairs in local beside sums": {limits: anybody, change: func(a *rifflev1.Announcement, first [32]byte) {
			round, encodings := a.Plan.Rounds[0].Releases, a.Encodings
			pairs(rifflev1.Channel_CHANNEL_LOCAL, 50, 0)(a, first)
			a.Plan.Rounds[0].Releases = append(a.Plan.Rounds[0].Releases, round...)
			a.Encodings = append(a.Encodings, encodings...)
		}},
		"central": {channel: plan.Central, change: unchanged},
		"central, whatever the limits on epsilon": {channel: plan.Central, change: unchanged,
			limits: func(l *device.Limits) { l.Epsilon = 1e6 }},
		"central with devices' noise": {channel: plan.Central, change: noise(100, 0, 100)},
		"central without noise":       {channel: plan.Central, change: noise(0, 0, 0)},
		"a channel that is none": {change: func(a *rifflev1.Announcement, _ [32]byte) {
			a.Plan.Channel = 9
		}},
		"shares without noise": {channel: plan.Shares, change: noise(0, 0, 0)},
		// the analyzer is itself the one whose noise does not count against it, and so is the shuffler
		"shares with noise of the shuffler only": {channel: plan.Shares, change: noise(0, 1<<20, 0)},
		"shares with noise of the analyzer only": {channel: plan.Shares, change: noise(0, 0, 1<<20)},
		"shuffle with noise of the analyzer":     {change: noise(0, 0, 1<<20)},
		"local with noise of servers":            {channel: plan.Local, change: noise(1000, 1<<20, 0)},
		"endless noise of a server":              {channel: plan.Shares, change: noise(1, 1<<41, 1<<41)},
		// the guarantee would be that of a whole cohort's noise, and everyone sees each person's own values
		"local with a cohort's noise": {channel: plan.Local, change: noise(3, 0, 0)},
		"nothing is left alone": {change: unchanged,
			limits: func(l *device.Limits) { l.EpsilonAlone = 8 }},
		// the shuffler knows its own noise
		"little is left alone": {channel: plan.Shares, change: noise(3, 1<<20, 20),
			limits: func(l *device.Limits) { l.EpsilonAlone = 2 }},
		"own number of dishonest": {change: unchanged, limits: func(l *device.Limits) { l.MaxDishonest = 10 }},
		"shares, too long a report": {channel: plan.Shares, change: unchanged,
			limits: func(l *device.Limits) { l.MaxReportSize = 1000 }},
		"shuffle, and these people trust shares only": {change: unchanged,
			limits: func(l *device.Limits) { l.Trust = []plan.Channel{plan.Shares} }},
		"another channel between rounds": {profile: glm.Paper, channel: plan.Shares, honest: true,
			change: func(a *rifflev1.Announcement, first [32]byte) {
				a.Round, a.Previous, a.Encodings = 1, first[:], a.Encodings[1:]
				a.Plan.Channel = rifflev1.Channel_CHANNEL_SHUFFLE
			}},
		"servers' noise taken away between rounds": {profile: glm.Paper, channel: plan.Shares, honest: true,
			change: func(a *rifflev1.Announcement, first [32]byte) {
				a.Round, a.Previous, a.Encodings = 1, first[:], a.Encodings[1:]
				a.Plan.Rounds[1].Releases[0].ShufflerNoise = 0
			}, noised: true},
	}
	numbers := map[plan.Channel]rifflev1.Channel{
		plan.Shuffle: rifflev1.Channel_CHANNEL_SHUFFLE, plan.Shares: rifflev1.Channel_CHANNEL_SHARES,
		plan.Local: rifflev1.Channel_CHANNEL_LOCAL, plan.Central: rifflev1.Channel_CHANNEL_CENTRAL,
	}
	for _, from := range []plan.Channel{plan.Shuffle, plan.Shares} {
		for to, number := range numbers {
			if from == to {
				continue
			}
			all["from "+string(from)+" to "+string(to)] = attack{channel: from, honest: true,
				change: func(a *rifflev1.Announcement, first [32]byte) {
					a.Epoch, a.Previous, a.Plan.Channel = 2, first[:], number
					for _, r := range a.Plan.Rounds[0].Releases {
						if to == plan.Central {
							r.NoiseBits, r.AnalyzerNoise = 0, 1<<20
						} else if to == plan.Local {
							r.NoiseBits = 1000
						}
					}
				}}
		}
	}
	return all
}

// moved is the honest announcement in a channel, with noise that this channel has.
func moved(a *plan.Announcement, k attack) *plan.Announcement {
	out := a.Clone()
	if k.channel != "" {
		out.Plan.Channel = k.channel
	}
	for i := range out.Plan.Rounds {
		for j := range out.Plan.Rounds[i].Releases {
			r := &out.Plan.Rounds[i].Releases[j]
			if k.channel == plan.Central {
				r.NoiseBits, r.AnalyzerNoise = 0, 1<<20
			}
			if k.noised {
				r.ShufflerNoise, r.AnalyzerNoise = 1<<10, 1<<10
			}
		}
	}
	for j := range out.Encodings {
		out.Encodings[j].NoiseBits = out.Plan.Rounds[out.Round].Releases[j].NoiseBits
	}
	return out
}
