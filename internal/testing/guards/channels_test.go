package guards

// deviceGuards are those of a device: what it sends, and the limits that it holds a plan to.
var deviceGuards = []guard{
	{
		what: "noise of a device in the channels local and central",
		file: "pkg/channel/envelope/device.go",
		old:  "e.Encode(entries, vectors[i], src)",
		new:  "e.Round(entries, vectors[i], src)",
		at:   "pkg/channel/envelope", test: "TestAnEnvelopeHoldsTheEncodedVectors",
	}, {
		what: "noise of a device in the channel shares",
		file: "pkg/channel/shares/device.go",
		old:  "e.Encode(ones, vectors[i], src)",
		new:  "e.Round(ones, vectors[i], src)",
		at:   "pkg/channel/shares", test: "TestTheCountsAreEncodedEntriesAndBothServersNoise",
	}, {
		what: "noise of a device in the channel shuffle",
		file: "pkg/channel/shuffle/device.go",
		old:  "e.Encode(",
		new:  "e.Round(",
		at:   "pkg/channel/shuffle", test: "TestThePayloadHoldsTheEncodedBits",
	}, {
		what: "least size of a cohort",
		file: "pkg/device/limits.go",
		old:  "n < l.MinCohort {",
		new:  "n < 0 {",
		at:   "internal/randomizer", test: "TestMaliciousAnalyzer",
	}, {
		what: "most releases of one record",
		file: "pkg/device/limits.go",
		old:  "if releases > l.MaxReleases {",
		new:  "if releases < 0 {",
		at:   "internal/randomizer", test: "TestMaliciousAnalyzer",
	}, {
		what: "bound of the parameter's norm",
		file: "pkg/device/limits.go",
		old:  "!(s <= l.MaxNorm) {",
		new:  "s < 0 {",
		at:   "internal/randomizer", test: "TestMaliciousAnalyzer",
	}, {
		what: "most dishonest devices that a device counts on",
		file: "pkg/device/limits.go",
		old:  "plan.Guarantee(a, max(l.MaxDishonest, a.Dishonest(l.Dishonest)))",
		new:  "plan.Guarantee(a, 0)",
		at:   "internal/randomizer", test: "TestMaliciousAnalyzer",
	}, {
		what: "largest epsilon",
		file: "pkg/device/limits.go",
		old:  "case !(eps <= l.Epsilon):",
		new:  "case eps < 0:",
		at:   "internal/randomizer", test: "TestMaliciousAnalyzer",
	}, {
		what: "largest epsilon if no other device is honest",
		file: "pkg/device/limits.go",
		old:  "l.EpsilonAlone > 0 && !(eps <= l.EpsilonAlone) {",
		new:  "eps < 0 {",
		at:   "pkg/device", test: "TestWhatIsLeftAloneIsLimited",
	}, {
		what: "several epochs of one person added up",
		file: "pkg/device/limits.go",
		old:  "privacy.Repeat(g, times).Epsilon(l.Delta)",
		new:  "privacy.Repeat(g, min(1, times)).Epsilon(l.Delta)",
		at:   "pkg/device", test: "TestLimitsAreForAllEpochsOfAPanelPlan",
	}, {
		what: "answer to a reward out of range",
		file: "pkg/device/record.go",
		old:  "used := max(least, min(reward, most))",
		new:  "used := reward + 0*(least+most)",
		at:   "internal/randomizer", test: "TestClippedRewardsAreCalledClipped",
	}, {
		what: "most decisions of a record",
		file: "pkg/device/record.go",
		old:  "if h.over || h.reported > 0 || n == h.most {",
		new:  "if h.over || h.reported > 0 {",
		at:   "pkg/device", test: "TestRewardsOfARecord",
	},
}

// channelGuards are those of both servers, and of what a plan counts of their noise.
var channelGuards = []guard{
	{
		what: "refusal of a release without noise",
		file: "pkg/wire/announcement.go",
		old:  "if r.NoiseBits == 0 && r.ServerNoise() == 0 {",
		new:  "if false {",
		at:   "pkg/wire", test: "TestAnnouncementOutOfRangeIsRefused",
	}, {
		what: "refusal of noise that the channel does not have",
		file: "pkg/wire/announcement.go",
		old:  "if f.n > 0 && !slices.Contains(f.in, c) {",
		new:  "if f.n > 0 && !slices.Contains(f.in, c) && false {",
		at:   "pkg/wire", test: "TestAnnouncementOutOfRangeIsRefused",
	}, {
		what: "noise of the shuffler",
		file: "pkg/channel/shuffle/noise.go",
		old:  "ones := protocol.Binomial(r.ShufflerNoise, r.Bias, src)",
		new:  "ones := r.ShufflerNoise / 2",
		at:   "pkg/channel/shuffle", test: "TestTheShufflersNoiseIsTheWholeBinomial",
	}, {
		what: "noise of the shuffler's workers",
		file: "pkg/channel/shuffle/noise_part.go",
		old:  "ones := protocol.Binomial(to-from, r.Bias, src)",
		new:  "ones := (to - from) / 2",
		at:   "pkg/channel/shuffle", test: "TestPartsOfTheNoiseAreTheWholeBinomial",
	}, {
		what: "noise of the servers in the channel shares",
		file: "pkg/channel/shares/sum.go",
		old:  "noise.SetUint64(protocol.Binomial(bitsOf(release), release.Bias, src))",
		new:  "noise.SetUint64(bitsOf(release) / 2)",
		at:   "pkg/channel/shares", test: "TestTheCountsAreEncodedEntriesAndBothServersNoise",
	}, {
		what: "the shuffler's noise in the channel shares",
		file: "pkg/channel/shares/sum.go",
		old:  "return r.ShufflerNoise }, src)",
		new:  "return 0 * r.ShufflerNoise }, src)",
		at:   "pkg/channel/shares", test: "TestTheCountsAreEncodedEntriesAndBothServersNoise",
	}, {
		what: "the analyzer's noise in the channel shares",
		file: "pkg/channel/shares/sum.go",
		old:  "return r.AnalyzerNoise }, src)",
		new:  "return 0 * r.AnalyzerNoise }, src)",
		at:   "pkg/channel/shares", test: "TestTheCountsAreEncodedEntriesAndBothServersNoise",
	}, {
		what: "refusal of a sum that no reports make",
		file: "pkg/channel/shares/sum.go",
		old:  "if err != nil || count > most(s.reports, 1<<s.round.bits-1, server) {",
		new:  "if err != nil {",
		at:   "pkg/channel/shares", test: "TestSumsOutOfRangeMakeNoCounts",
	}, {
		what: "count cut to what the encoding makes",
		file: "pkg/channel/shares/sum.go",
		old:  "counts[i][k] = min(count, most(s.reports, uint64(e.MessagesAt(k)), server))",
		new:  "counts[i][k] = count",
		at:   "pkg/channel/shares", test: "TestSumsOutOfRangeMakeNoCounts",
	}, {
		what: "noise of the analyzer in the channel central",
		file: "internal/channel/envelope/noise.go",
		old:  "sums[i].Ones[j] += protocol.Binomial(release.AnalyzerNoise, release.Bias, c.Source)",
		new:  "sums[i].Ones[j] += 0 * protocol.Binomial(1, release.Bias, c.Source)",
		at:   "internal/channel/envelope", test: "TestTheAnalyzersNoiseIsTheWholeBinomial",
	}, {
		what: "refusal of a plan without the analyzer's noise",
		file: "internal/channel/envelope/noise.go",
		old:  "if release.AnalyzerNoise == 0 {",
		new:  "if false {",
		at:   "internal/channel/envelope", test: "TestExactSumsNeverLeave",
	}, {
		what: "noise that was drawn is not drawn again",
		file: "internal/channel/envelope/count.go",
		old:  "if known, err := c.readNoised(of, m); err != nil || known != nil {",
		new:  "if known, err := c.readNoised(of, m); err != nil || known != nil && false {",
		at:   "internal/channel/envelope", test: "TestNoisedSumsOutliveTheirRound",
	}, {
		what: "error of retention by workers",
		file: "internal/channel/shuffle/mix_exchange_bucket.go",
		old:  "if err := keep.keep(ctx, r, index, chunk); err != nil {",
		new:  "if err := keep.keep(ctx, r, index, chunk); err != nil && index == t.First+1<<30 {",
		at:   "internal/channel/shuffle", test: "TestAReleaseOfWorkersWaitsUntilItIsRetained",
	}, {
		what: "error of retention by one process",
		file: "internal/channel/shuffle/mix.go",
		old:  "err = m.Retain.keep(ctx, r, index, chunk)",
		new:  "_ = m.Retain.keep(ctx, r, index, chunk)",
		at:   "internal/channel/shuffle", test: "TestAReleaseWaitsUntilItIsRetained",
	}, {
		what: "pairs in the channel local alone",
		file: "pkg/plan/pairs.go",
		old:  "if c == Local {",
		new:  "if c != \"\" {",
		at:   "pkg/plan", test: "TestPairsGiveNoGuaranteeElsewhere",
	}, {
		what: "entries of pairs do not come out of central",
		file: "internal/channel/envelope/count.go",
		old:  "pairs := of.Plan.Channel == plan.Local && of.Plan.Pairs()",
		new:  "pairs := of.Plan.Pairs()",
		at:   "internal/channel/envelope", test: "TestPairsDoNotLeaveCentral",
	}, {
		what: "the order of reports that counts list",
		file: "pkg/channel/envelope/each.go",
		old:  "slices.SortFunc(sorted, slices.Compare[[]uint32])",
		new:  "_ = slices.Compare[[]uint32]",
		at:   "internal/channel/envelope", test: "TestPairsAreListedInAnOrderOfTheirOwn",
	}, {
		what: "an order of listed reports that may say who sent which",
		file: "pkg/deployment/pairs.go",
		old:  "if !slices.IsSortedFunc(rows, slices.Compare[[]uint32]) {",
		new:  "if false {",
		at:   "pkg/deployment", test: "TestImpossiblePairsAreRefused",
	}, {
		what: "dishonest devices left out of the noise that a plan counts",
		file: "pkg/plan/check.go",
		old:  "honest := int(a.Cohort.Minimum) - m",
		new:  "honest := int(a.Cohort.Minimum) - 0*m",
		at:   "pkg/plan", test: "TestWeakerAnnouncementShowsOrIsRefused",
	}, {
		what: "the worst placed observer",
		file: "pkg/plan/check.go",
		old:  "least = min(least, of.unknown(r, honest))",
		new:  "least = of.unknown(r, honest)",
		at:   "pkg/plan", test: "TestNoiseThatDoesNotProtectDoesNotCount",
	}, {
		what: "noise of servers in a proposal",
		file: "pkg/plan/sums.go",
		old:  "n = uint64(math.Ceil(t.ServerNoise * float64(honest*uint64(r.NoiseBits))))",
		new:  "n = uint64(t.ServerNoise) + 0*honest",
		at:   "pkg/plan", test: "TestDevicesAcceptEveryProposalOfEveryChannel",
	}, {
		what: "distance of two leaves of explorers in a curator's plan",
		file: "pkg/plan/curator.go",
		old:  "nodes(math.Sqrt2, c.ExplorerNoise)+explorers,",
		new:  "nodes(1, c.ExplorerNoise)+explorers,",
		at:   "pkg/plan", test: "TestEachPartOfACuratorsGuaranteeCounts",
	}, {
		what: "distance of two leaves of others in a curator's plan",
		file: "pkg/plan/curator.go",
		old:  "nodes(math.Sqrt2*maxWeight, c.OtherNoise)+others,",
		new:  "nodes(maxWeight, c.OtherNoise)+others,",
		at:   "pkg/plan", test: "TestEachPartOfACuratorsGuaranteeCounts",
	}, {
		what: "a record that changes its kind in a curator's plan",
		file: "pkg/plan/curator.go",
		old:  "nodes(1, c.ExplorerNoise)+nodes(maxWeight, c.OtherNoise)+(explorers+others)/2*(1+movedSlack),",
		new:  "",
		at:   "pkg/plan", test: "TestEachPartOfACuratorsGuaranteeCounts",
	}, {
		what: "grid in a curator's plan",
		file: "pkg/plan/curator.go",
		old:  " + math.Sqrt(float64(symmetric.Dim(dimension)))/nodeSteps",
		new:  "",
		at:   "pkg/plan", test: "TestEachPartOfACuratorsGuaranteeCounts",
	}, {
		what: "record of a curator brought into the unit ball",
		file: "pkg/plan/curator.go",
		old:  "arm, _ = convex.ToUnitBall(arm)",
		new:  "",
		at:   "pkg/plan", test: "TestRecordsAreEncodedFinely",
	},
}
