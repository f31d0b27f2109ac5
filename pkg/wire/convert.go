package wire

import (
	"slices"
	"time"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// The functions named ...Message convert a statement that its check has passed: then the message carries all of it.
// Those named ...Of convert any message, with zero for what is absent or not known. Open refuses a message that came
// out changed.

func announcementMessage(a *plan.Announcement) *rifflev1.Announcement {
	m := &rifflev1.Announcement{
		Deployment: a.Deployment, Epoch: a.Epoch, Round: a.Round, Previous: a.Previous,
		Policy: policyMessage(&a.Policy), Reference: a.Reference, AnalyzerKey: a.AnalyzerKey, Final: a.Final,
		Commitment: a.Commitment, Schema: a.Schema, Normalization: a.Normalization,
		Tree: treeMessage(a.Tree),
	}
	if a.Final {
		return m
	}
	m.Plan = planMessage(a.Plan)
	for _, e := range a.Encodings { // noise bits and bias are those of the planned release
		encoding := &rifflev1.Encoding{Scale: e.Scale}
		for _, c := range e.Coordinates {
			encoding.Coordinates = append(encoding.Coordinates,
				&rifflev1.Coordinate{Offset: c.Offset, Levels: c.Levels})
		}
		m.Encodings = append(m.Encodings, encoding)
	}
	m.Cohort = &rifflev1.Cohort{Size: a.Cohort.Size, Minimum: a.Cohort.Minimum, MaxDishonest: a.Cohort.MaxDishonest}
	m.Timing = timingMessage(a.Timing)
	return m
}

func announcementOf(m *rifflev1.Announcement) *plan.Announcement {
	cohort, timing := m.GetCohort(), m.GetTiming()
	a := &plan.Announcement{
		Deployment: m.Deployment, Epoch: m.Epoch, Round: m.Round, Previous: m.Previous,
		Policy: policyOf(m.Policy), Reference: m.Reference, Plan: planOf(m.Plan),
		Cohort: plan.Cohort{Size: cohort.GetSize(), Minimum: cohort.GetMinimum(),
			MaxDishonest: cohort.GetMaxDishonest()},
		Timing:      timingOf(timing),
		AnalyzerKey: m.AnalyzerKey, Final: m.Final, Commitment: m.Commitment, Schema: m.Schema,
		Normalization: m.Normalization, Tree: treeOf(m.Tree, int(m.GetPolicy().GetDim())),
	}
	releases := announcedReleases(a)
	for i, e := range m.Encodings {
		encoding := protocol.Encoding{Scale: e.Scale}
		if i < len(releases) {
			encoding.NoiseBits, encoding.Bias = releases[i].NoiseBits, releases[i].Bias
		}
		for _, c := range e.Coordinates {
			encoding.Coordinates = append(encoding.Coordinates, protocol.Coordinate{Offset: c.Offset, Levels: c.Levels})
		}
		a.Encodings = append(a.Encodings, encoding)
	}
	return a
}

// announcedReleases returns the planned releases of the announced round, none where the plan has no such round.
func announcedReleases(a *plan.Announcement) []plan.Release {
	if uint64(a.Round) >= uint64(len(a.Plan.Rounds)) {
		return nil
	}
	return a.Plan.Rounds[a.Round].Releases
}

func planMessage(p plan.Plan) *rifflev1.Plan {
	m := &rifflev1.Plan{
		Epsilon: p.Epsilon, Delta: p.Delta, TailDelta: p.TailDelta, Channel: number(channels, p.Channel),
		Decisions: p.Decisions, Records: p.Records, Period: p.Period,
	}
	if q := p.Panel; q != nil {
		m.Panel = &rifflev1.Panel{Registered: q.Registered, Dishonest: q.Dishonest, Tail: q.Tail}
	}
	if c := p.Curator; c != nil {
		m.Curator = &rifflev1.Curator{
			Leaves: c.Leaves, ExplorerNoise: c.ExplorerNoise, OtherNoise: c.OtherNoise, ExplorerFits: c.ExplorerFits,
			OtherFits: c.OtherFits, ExplorerRho: c.ExplorerRho, OtherRho: c.OtherRho,
		}
	}
	for _, round := range p.Rounds {
		r := new(rifflev1.PlannedRound)
		for _, release := range round.Releases {
			r.Releases = append(r.Releases, &rifflev1.PlannedRelease{
				Statistic: number(statistics, release.Statistic), Shift: release.Shift,
				NoiseBits: release.NoiseBits, Bias: uint32(release.Bias),
				ShufflerNoise: release.ShufflerNoise, AnalyzerNoise: release.AnalyzerNoise,
			})
		}
		m.Rounds = append(m.Rounds, r)
	}
	return m
}

func planOf(m *rifflev1.Plan) plan.Plan {
	if m == nil {
		return plan.Plan{}
	}
	p := plan.Plan{
		Epsilon: m.GetEpsilon(), Delta: m.GetDelta(), TailDelta: m.GetTailDelta(), Channel: channelOf(m.GetChannel()),
		Decisions: m.Decisions, Records: m.Records, Period: m.Period,
	}
	if q := m.GetPanel(); q != nil {
		p.Panel = &plan.Panel{Registered: q.Registered, Dishonest: q.Dishonest, Tail: q.Tail}
	}
	if c := m.GetCurator(); c != nil {
		p.Curator = &plan.Curator{
			Leaves: c.Leaves, ExplorerNoise: c.ExplorerNoise, OtherNoise: c.OtherNoise, ExplorerFits: c.ExplorerFits,
			OtherFits: c.OtherFits, ExplorerRho: c.ExplorerRho, OtherRho: c.OtherRho,
		}
	}
	for _, round := range m.GetRounds() {
		var r plan.Round
		for _, release := range round.GetReleases() {
			r.Releases = append(r.Releases, plan.Release{
				Statistic: statisticOf(release.Statistic), Shift: release.Shift,
				NoiseBits: release.NoiseBits, Bias: protocol.Bias(release.Bias),
				ShufflerNoise: release.ShufflerNoise, AnalyzerNoise: release.AnalyzerNoise,
			})
		}
		p.Rounds = append(p.Rounds, r)
	}
	return p
}

func policyMessage(p *glm.Policy) *rifflev1.Policy {
	m := &rifflev1.Policy{
		Profile: number(profiles, p.Profile), Cohorts: uint32(p.Epoch),
		Family: &rifflev1.Family{Name: p.Family, MaxReward: p.MaxReward},
		Dim:    uint32(p.Dimension), NormBound: p.Radius, Theta: p.Theta,
		Play: number(plays, p.Play), DesignTolerance: p.DesignTolerance, Explore: p.Explore,
		Control: p.Control, Caution: p.Caution, Draws: slices.Concat(p.Draws...), Gamma: p.Gamma,
	}
	for _, g := range p.Structure {
		m.Structure = append(m.Structure, &rifflev1.Group{
			From: uint32(g.From), Count: uint32(g.Count), Size: uint32(g.Size), Choice: uint32(g.Choice),
		})
	}
	for _, s := range p.Stages {
		m.Stages = append(m.Stages, stageMessage(s))
	}
	for i := range p.Trees {
		m.Trees = append(m.Trees, treeMessage(&p.Trees[i]))
	}
	if s := p.Scaling; s != nil { // its diameter is twice the norm bound
		m.Scaling = &rifflev1.Scaling{
			Stage: stageMessage(s.Stage), SelfConcordance: s.SelfConcordance, MaxWeight: s.MaxWeight,
		}
	}
	if c := p.Criterion; c != nil {
		m.Criterion = &rifflev1.Criterion{Covariance: c.Covariance, Threshold: c.Threshold}
	}
	if o := p.Optimism; o != nil {
		m.Optimism = stageMessage(*o)
	}
	return m
}

func policyOf(m *rifflev1.Policy) glm.Policy {
	p := glm.Policy{
		Profile: profiles[m.GetProfile()], Epoch: int(m.GetCohorts()),
		Family: m.GetFamily().GetName(), MaxReward: m.GetFamily().GetMaxReward(),
		Dimension: int(m.GetDim()), Radius: m.GetNormBound(), Theta: m.GetTheta(),
		Play: plays[m.GetPlay()], DesignTolerance: m.GetDesignTolerance(),
		Explore: m.GetExplore(), Control: m.GetControl(), Caution: m.GetCaution(),
		Draws: drawsOf(m.GetDraws(), int(m.GetDim())), Gamma: m.GetGamma(),
	}
	for _, g := range m.GetStructure() {
		p.Structure = append(p.Structure,
			structure.Group{From: int(g.From), Count: int(g.Count), Size: int(g.Size), Choice: int(g.Choice)})
	}
	for _, s := range m.GetStages() {
		p.Stages = append(p.Stages, stageOf(s))
	}
	trees := m.GetTrees()
	for _, t := range trees[:min(len(trees), glm.MaxTrees+1)] { // one too many, for the check of the policy to refuse
		p.Trees = append(p.Trees, *treeOf(t, p.Dimension))
	}
	if s := m.GetScaling(); s != nil {
		p.Scaling = &glm.Scaling{
			Stage: stageOf(s.Stage), Diameter: 2 * p.Radius, SelfConcordance: s.SelfConcordance, MaxWeight: s.MaxWeight,
		}
	}
	if c := m.GetCriterion(); c != nil {
		p.Criterion = &glm.Criterion{Covariance: c.Covariance, Threshold: c.Threshold}
	}
	if o := m.GetOptimism(); o != nil {
		stage := stageOf(o)
		p.Optimism = &stage
	}
	return p
}

// drawsOf cuts numbers into vectors of length d. Numbers left over are one more vector, which the check of the policy
// refuses for its length, as it refuses a d below 1.
func drawsOf(numbers []float64, d int) [][]float64 {
	if d < 1 {
		d = max(1, len(numbers))
	}
	return slices.Collect(slices.Chunk(numbers, d))
}

func stageMessage(s glm.Stage) *rifflev1.Stage {
	return &rifflev1.Stage{Theta: s.Theta, Covariance: s.Covariance, Width: s.Width, Means: s.Means}
}

func stageOf(m *rifflev1.Stage) glm.Stage {
	return glm.Stage{Theta: m.GetTheta(), Covariance: m.GetCovariance(), Width: m.GetWidth(), Means: m.GetMeans()}
}

func keySetMessage(s *KeySet) *rifflev1.KeySet {
	return &rifflev1.KeySet{Deployment: s.Deployment, Keys: s.Keys, Number: s.Number}
}

func keySetOf(m *rifflev1.KeySet) *KeySet {
	return &KeySet{Deployment: m.Deployment, Keys: m.Keys, Number: m.Number}
}

func manifestMessage(s *Manifest) *rifflev1.Manifest {
	return &rifflev1.Manifest{
		Deployment: s.Deployment, Epoch: s.Epoch, Round: s.Round, Announcement: s.Announcement,
		Outcome: rifflev1.Outcome(s.Outcome), Enrolled: s.Enrolled, Reports: s.Reports, Messages: s.Messages,
		Chunks: s.Chunks, ChunksDigest: s.ChunksDigest, ReportsDigest: s.ReportsDigest, NoiseMessages: s.NoiseMessages,
		MessagesRoot: s.MessagesRoot, Refused: refusedMessages(s.Refused),
	}
}

func manifestOf(m *rifflev1.Manifest) *Manifest {
	return &Manifest{
		Deployment: m.Deployment, Epoch: m.Epoch, Round: m.Round, Announcement: m.Announcement,
		Outcome: Outcome(m.Outcome), Enrolled: m.Enrolled, Reports: m.Reports, Messages: m.Messages,
		Chunks: m.Chunks, ChunksDigest: m.ChunksDigest, ReportsDigest: m.ReportsDigest, NoiseMessages: m.NoiseMessages,
		MessagesRoot: m.MessagesRoot, Refused: refusedOf(m.Refused),
	}
}

func refusedMessages(all []Refused) (out []*rifflev1.Refused) {
	for _, r := range all {
		out = append(out, &rifflev1.Refused{
			Reason: rifflev1.Refusal(r.Reason), Reports: r.Reports, TakenOut: r.TakenOut,
		})
	}
	return out
}

func refusedOf(all []*rifflev1.Refused) (out []Refused) {
	for _, r := range all {
		out = append(out, Refused{Refusal(r.GetReason()), r.GetReports(), r.GetTakenOut()})
	}
	return out
}

func countsMessage(s *Counts) *rifflev1.Counts {
	m := &rifflev1.Counts{
		Deployment: s.Deployment, Epoch: s.Epoch, Round: s.Round, Announcement: s.Announcement, Manifest: s.Manifest,
		Reports: s.Reports, Destroyed: s.Destroyed,
	}
	for _, r := range s.Releases {
		m.Releases = append(m.Releases, &rifflev1.ReleaseCounts{
			Ones: r.Ones, Curated: r.Curated, Entries: r.Entries})
	}
	return m
}

func countsOf(m *rifflev1.Counts) *Counts {
	s := &Counts{
		Deployment: m.Deployment, Epoch: m.Epoch, Round: m.Round, Announcement: m.Announcement, Manifest: m.Manifest,
		Reports: m.Reports, Destroyed: m.Destroyed,
	}
	for _, r := range m.Releases {
		s.Releases = append(s.Releases, ReleaseCounts{
			Ones: r.GetOnes(), Curated: r.GetCurated(), Entries: r.GetEntries()})
	}
	return s
}

func acceptedMessage(s *Accepted) *rifflev1.Accepted {
	return &rifflev1.Accepted{
		Deployment: s.Deployment, Epoch: s.Epoch, Round: s.Round, Announcement: s.Announcement, Reports: s.Reports,
		Set: s.Set,
	}
}

func acceptedOf(m *rifflev1.Accepted) *Accepted {
	return &Accepted{
		Deployment: m.Deployment, Epoch: m.Epoch, Round: m.Round, Announcement: m.Announcement, Reports: m.Reports,
		Set: m.Set,
	}
}

func summedMessage(s *Summed) *rifflev1.Summed {
	return &rifflev1.Summed{
		Deployment: s.Deployment, Epoch: s.Epoch, Round: s.Round, Announcement: s.Announcement, Reports: s.Reports,
		Set: s.Set, Share: s.Share,
	}
}

func summedOf(m *rifflev1.Summed) *Summed {
	return &Summed{
		Deployment: m.Deployment, Epoch: m.Epoch, Round: m.Round, Announcement: m.Announcement, Reports: m.Reports,
		Set: m.Set, Share: m.Share,
	}
}

// milliseconds is a duration that checkTime has passed, as messages carry it.
func milliseconds(d time.Duration) uint32 { return uint32(d / time.Millisecond) }

func duration(ms uint32) time.Duration { return time.Duration(ms) * time.Millisecond }

func timingMessage(t plan.Timing) *rifflev1.Timing {
	return &rifflev1.Timing{
		RewardWindowMs: milliseconds(t.RewardWindow), JitterMs: milliseconds(t.Jitter),
		GraceMs: milliseconds(t.Grace), RoundWindowMs: milliseconds(t.RoundWindow),
		EnrolmentMs: milliseconds(t.Enrolment), EveryMs: milliseconds(t.Every),
	}
}

func timingOf(m *rifflev1.Timing) plan.Timing {
	return plan.Timing{
		RewardWindow: duration(m.GetRewardWindowMs()), Jitter: duration(m.GetJitterMs()),
		Grace: duration(m.GetGraceMs()), RoundWindow: duration(m.GetRoundWindowMs()),
		Enrolment: duration(m.GetEnrolmentMs()), Every: duration(m.GetEveryMs()),
	}
}
