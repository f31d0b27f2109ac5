package guards

// analyzerGuards are those of what the analyzer makes of released sums, and of priors.
var analyzerGuards = []guard{
	{
		what: "exchanges of a spanner after which coefficients of 2 will do",
		file: "pkg/glm/design/spanner.go",
		old:  "if exchanges >= opts.MaxSteps {",
		new:  "if false {",
		at:   "pkg/glm/design", test: "TestExchangesAreBounded",
	}, {
		what: "entries of an announced estimate, finite and bounded",
		file: "pkg/glm/policy.go",
		old:  "if !(math.Abs(v) <= symmetric.MaxEntry) {",
		new:  "if false {",
		at:   "pkg/glm", test: "TestValidateRefusesBadPolicies",
	}, {
		what: "gamma of inverse gaps, finite and not negative",
		file: "pkg/glm/policy.go",
		old:  "!(g >= 0 && g <= symmetric.MaxEntry) || math.Signbit(g) || ",
		new:  "",
		at:   "pkg/glm", test: "TestValidateRefusesBadPolicies",
	}, {
		what: "deviations that an arm must be better by, of caution",
		file: "pkg/glm/lottery.go",
		old:  "return gain > p.Caution*Stage{",
		new:  "return gain > 0*Stage{",
		at:   "pkg/glm", test: "TestChoicesHaveTheirProbabilities",
	}, {
		what: "coin of the control group",
		file: "pkg/glm/decide.go",
		old:  "&& protocol.Uniform(src) < p.Control",
		new:  "&& protocol.Uniform(src) < 0",
		at:   "pkg/glm", test: "TestChoicesHaveTheirProbabilities",
	}, {
		what: "threshold of the alarm",
		file: "pkg/glm/learner/practical.go",
		old:  "if next.unchanged > 0 && next.unchanged < p.Alarm {",
		new:  "if false {",
		at:   "pkg/glm/learner", test: "TestAnAlarmForgets",
	}, {
		what: "noise of the control group's release in its interval",
		file: "pkg/glm/learner/lift.go",
		old:  "variance := l.sampling + l.treated.noise + l.control.noise",
		new:  "variance := l.sampling",
		at:   "pkg/glm/learner", test: "TestIntervalsOfTheLiftCover",
	}, {
		what: "noise of a prior",
		file: "internal/evaluate/prior.go",
		old:  "	return play.Planned(t)",
		new:  "	_ = play.Planned(t)\n	return play.Exact",
		at:   "internal/evaluate", test: "TestPriorsHaveTheNoiseOfTheirEpsilon",
	}, {
		what: "epsilon of a prior's noise",
		file: "internal/evaluate/prior.go",
		old:  "t.Epsilon, t.Delta, t.DishonestReports, t.DropOut, t.MinCohort = o.Epsilon,",
		new:  "t.Epsilon, t.Delta, t.DishonestReports, t.DropOut, t.MinCohort = 2*o.Epsilon,",
		at:   "internal/evaluate", test: "TestPriorsHaveTheNoiseOfTheirEpsilon",
	}, {
		what: "epsilon of the prior that riffle evaluate writes",
		file: "cmd/riffle/evaluate_prior.go",
		old:  "Radius: p.radius, Epsilon: p.epsilon,",
		new:  "Radius: p.radius, Epsilon: 0 * p.epsilon,",
		at:   "cmd/riffle", test: "TestWrittenPriorsAreNoised",
	}, {
		what: "estimate projected into its ball, profile paper",
		file: "pkg/convex/shuffle_optimizer.go",
		old:  "next, err := Ball{o.cfg.Radius}.Project(next, next)",
		new:  "next, err := Ball{o.cfg.Radius * 1e9}.Project(next, next)",
		at:   "pkg/convex", test: "TestOptimizerDescendsOnTheMeanLoss",
	},
}

// labGuards are those of simulations: a comparison in which noise is missing shows privacy as free.
var labGuards = []guard{
	{
		what: "noise of devices, channels in integers",
		file: "pkg/channel/simulated/integer.go",
		old:  "e.AddNoise(ones[s], uint64(reports), src)",
		new:  "e.AddNoise(ones[s], 0*uint64(reports), src)",
		at:   "pkg/channel/simulated", test: "TestChannelsAreUnbiased",
	}, {
		what: "noise of servers, channels in integers",
		file: "pkg/channel/simulated/integer.go",
		old:  "e.AddServerNoise(ones[s], servers, src)",
		new:  "e.AddServerNoise(ones[s], 0*servers, src)",
		at:   "pkg/channel/simulated", test: "TestChannelsAreUnbiased",
	}, {
		what: "least cohort, channels in integers",
		file: "pkg/channel/simulated/integer.go",
		old:  "if reports < c.MinCohort {",
		new:  "if reports < 0 {",
		at:   "pkg/channel/simulated", test: "TestChannelsRefuseWhatDoesNotFit",
	}, {
		what: "vectors clamped, Gaussian channels",
		file: "pkg/channel/simulated/gaussian.go",
		old:  "clamped[s][j] = min(max(value, g.statistics[s].Lower[j]), g.statistics[s].Upper[j])",
		new:  "clamped[s][j] = value",
		at:   "pkg/channel/simulated", test: "TestGaussianChannelsClamp",
	}, {
		what: "noise, Gaussian channels",
		file: "pkg/channel/simulated/gaussian.go",
		old:  "x[j] += g.sigmas[s] * normal.NormFloat64()",
		new:  "x[j] += 0 * normal.NormFloat64()",
		at:   "pkg/channel/simulated", test: "TestGaussianNoiseHasItsVariance",
	}, {
		what: "noise of each device, Gaussian local channel",
		file: "pkg/channel/simulated/gaussian_local.go",
		old:  "c.sum(cohort, c.noise(src))",
		new:  "c.sum(cohort, nil)",
		at:   "pkg/channel/simulated", test: "TestGaussianNoiseHasItsVariance",
	}, {
		what: "noise of the curator, Gaussian central channel",
		file: "pkg/channel/simulated/gaussian_central.go",
		old:  "noise(s, aggregates[s].Sum)",
		new:  "_, _ = noise, s",
		at:   "pkg/channel/simulated", test: "TestGaussianNoiseHasItsVariance",
	}, {
		what: "shares of the budget, Gaussian channels",
		file: "pkg/channel/simulated/gaussian.go",
		old:  "statistic.Diameter/(mu*math.Sqrt(statistic.Share/shares))",
		new:  "statistic.Diameter/(mu*math.Sqrt(shares/shares))",
		at:   "pkg/channel/simulated", test: "TestGaussianNoiseSpendsTheBudget",
	}, {
		what: "noise of devices, answers in integers",
		file: "internal/play/integers.go",
		old:  "e.AddNoise(ones[i], uint64(a.People), c.Noise)",
		new:  "e.AddNoise(ones[i], 0*uint64(a.People), c.Noise)",
		at:   "internal/play", test: "TestSumsAreUnbiasedAndStateTheirVariance",
	}, {
		what: "noise of a report",
		file: "internal/play/answer.go",
		old:  "noises[i].Add(report[i], c.Noise)",
		new:  "_ = noises",
		at:   "internal/play", test: "TestReportsHaveTheirNoise",
	}, {
		what: "noise of a sum",
		file: "internal/play/answer.go",
		old:  "if err := addDraws(a.Sums[i].Values, noise, draws, c.Noise); err != nil {",
		new:  "if err := addDraws(nil, noise, draws, c.Noise); err != nil {",
		at:   "internal/play", test: "TestSumsAreUnbiasedAndStateTheirVariance",
	}, {
		what: "noise of each of many people",
		file: "internal/play/answer.go",
		old:  "mechanism.Gaussian{Sigma: n.Sigma * math.Sqrt(float64(draws))}.Add(x, src)",
		new:  "mechanism.Gaussian{Sigma: n.Sigma * math.Sqrt(1)}.Add(x, src)",
		at:   "internal/play", test: "TestSumsAreUnbiasedAndStateTheirVariance",
	}, {
		what: "Laplace noise of each of many people",
		file: "internal/play/answer.go",
		old:  "x[i] += half.Rand() - half.Rand()",
		new:  "x[i] += 0 * half.Rand()",
		at:   "internal/play", test: "TestSumsAreUnbiasedAndStateTheirVariance",
	}, {
		what: "shares of the budget, zCDP",
		file: "internal/play/answer.go",
		old:  "mechanism.ForRho(of, budget*share(s)/total)",
		new:  "mechanism.ForRho(of, budget*share(s))",
		at:   "internal/play", test: "TestStatisticsShareTheBudget",
	}, {
		what: "shares of the budget, pure",
		file: "internal/play/answer.go",
		old:  "mechanism.ForEpsilon(of, budget*share(s)/total)",
		new:  "mechanism.ForEpsilon(of, budget*share(s))",
		at:   "internal/play", test: "TestStatisticsShareTheBudget",
	}, {
		what: "several rounds share the budget, Gaussian channels",
		file: "internal/play/trust.go",
		old:  "b.Diameter * math.Sqrt(total/round)",
		new:  "b.Diameter * math.Sqrt(total/total+0*round)",
		at:   "internal/play", test: "TestRoundsShareTheBudget",
	}, {
		what: "noise of servers in planned channels",
		file: "internal/play/trust.go",
		old:  "c.ServerNoise = append(c.ServerNoise, r.ServerNoise())",
		new:  "c.ServerNoise = append(c.ServerNoise, 0*r.ServerNoise())",
		at:   "internal/play", test: "TestPlannedChannelsHaveTheNoiseOfTheirPlan",
	}, {
		what: "noise of the channels that riffle replay plays",
		file: "internal/evaluate/replay/replay.go",
		old:  "tried.first, tried.trust = play.PlannedOnce(t)",
		new:  "_, tried.first, tried.trust = t, play.Exact, play.Exact",
		at:   "internal/evaluate/replay", test: "TestIntervalsHoldLiveRuns",
	}, {
		what: "noise in lives of panels and of arrivals",
		file: "lab/life/run.go",
		old:  "p.trust = play.Planned(terms(s, m, p.schedule))",
		new:  "_ = play.Planned(terms(s, m, p.schedule))",
		at:   "lab/life", test: "TestLivesHaveTheirNoise",
	}, {
		what: "noise of a learner in an experiment",
		file: "lab/experiment/algorithm.go",
		old:  "return j.learner(info, play.Planned(terms), devices, noise)",
		new:  "_, _ = terms, noise\n\t\treturn j.learner(info, play.Exact, devices, nil)",
		at:   "lab/experiment", test: "TestChannelsAreNamedAndPriced",
	}, {
		what: "noise of honest devices beside dishonest ones",
		file: "lab/poison/poison.go",
		old:  "e.AddNoise(ones[i], honest, src)",
		new:  "e.AddNoise(ones[i], 0*honest, src)",
		at:   "lab/poison", test: "TestHonestDevicesGiveTheChannelsSums",
	}, {
		what: "noise of servers beside dishonest devices",
		file: "lab/poison/poison.go",
		old:  "e.AddServerNoise(ones[i], servers, src))",
		new:  "e.AddServerNoise(ones[i], 0*servers, src))",
		at:   "lab/poison", test: "TestHonestDevicesGiveTheChannelsSums",
	}, {
		what: "arm of a file scaled into the unit ball",
		file: "internal/population/file.go",
		old:  "x[i] = v / top / root",
		new:  "x[i] = v",
		at:   "internal/population", test: "TestFileClipsLongArms",
	}, {
		what: "features of the census clipped",
		file: "internal/population/features.go",
		old:  "return math.Min(math.Max(v, low), high)",
		new:  "return v",
		at:   "internal/population", test: "TestFeaturesOfEveryGroupAndRangeEnd",
	}, {
		what: "noise of the scores of Fresh",
		file: "lab/baseline/fresh.go",
		old:  "+f.noise*f.normal.NormFloat64())",
		new:  ")",
		at:   "lab/baseline", test: "TestTheYardstickHasItsNoise",
	},
}
