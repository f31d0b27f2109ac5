package analyzer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/channel"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/role/status"
	"github.com/riffle-dp/riffle/internal/version"
	"github.com/riffle-dp/riffle/internal/worker"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Settings are the configuration of the analyzer's process. All of it but the folder of keys becomes public in
// announcements.
type Settings struct {
	Keys string `key:"keys" doc:"Folder made by riffle keygen. The bundle and analyzer/ are read." required:"true"`

	State string `key:"state" doc:"Folder of the analyzer's own copy of its transparency log, by which it knows after a restart what it released, whatever the broker shows it; and of what the channels shares and central must remember: which devices were counted, keys that were used, and results on their way. It belongs to one process and must survive restarts. No exact sum is ever written to it." required:"true"`

	Memory int `key:"memory" doc:"MiB of memory that counting may take, whatever the number of messages. What does not fit is kept in a file below the state folder: 36 bytes of each message of a round, sealed with a key that only this process has, and gone when it ends. What grows with people comes on top: nothing in shuffle, and some 200 bytes of each person of a cohort in the other channels."`

	Learner   LearnerSettings   `key:"learner"`
	Privacy   PrivacySettings   `key:"privacy"`
	Admission AdmissionSettings `key:"admission"`
	Timing    TimingSettings    `key:"timing"`
	Rules     RulesSettings     `key:"rules"`

	Features string `key:"features" doc:"File with the schema of features (JSON), by which apps' contexts and arms become vectors of learner.dimension numbers. It is announced, and cannot change during a deployment. Empty: apps send vectors."`

	Questions string `key:"questions" doc:"Folder of questions to panels, as riffle ask writes them, one file each. An epoch that begins asks the first one, by file name, that was not asked, in place of teaching the learner; it costs a person who is drawn one of privacy.records. Whoever can write here decides what panels are asked. Empty: nothing is asked."`

	// A report that the broker does not store is lost, and with enough of them each cohort.
	MaxReportSize int `key:"max_report_size" doc:"Largest report in bytes that the broker stores, as given to riffle broker provision --max-report-size. A plan with larger reports is refused at the start: people would enrol, and every cohort would be destroyed. 0: not checked."`

	Workers worker.LeadSettings `key:"workers"`

	Broker role.BrokerSettings `key:"broker"`
}

// LearnerSettings say what is learnt.
type LearnerSettings struct {
	Profile   string  `key:"profile" doc:"practical (one report of each device in an epoch), paper (Algorithm 1, several rounds), joint (Algorithm 2: the analyzer reads each record, which needs privacy.channel central), or a learner of another paper, for learner.family linear: linucb (optimistic play in batches), online-linucb or online-linucb-combiner (from each person's own noisy report, which needs privacy.channel local), elimination-reweighted, elimination-linear, squarecb or regcb."`
	Family    string  `key:"family" doc:"Reward model: logistic, probit, linear, poisson or gaussian."`
	MaxReward float64 `key:"max_reward" doc:"Largest reward R; 1 for logistic, probit and linear."`
	Dimension int     `key:"dimension" doc:"Length of an arm's vector. 0: options times context."`

	Options   int      `key:"options" doc:"Options that have weights of their own: an arm is the context in one option's coordinates, and zeros elsewhere. Only products of two numbers of one option are then released. 0: nothing is known of arms."`
	Context   int      `key:"context" doc:"Numbers of that context, with the constant."`
	Structure []string `key:"structure" doc:"Groups FROM:COUNTxSIZE: of COUNT runs of SIZE coordinates, from coordinate FROM on, an arm has one other than 0. 6:4x1 is a category of four values. With =N behind it, groups of the same N are in the same run. A decision with an arm that does not fit is refused. With features it follows from the schema."`

	Radius  float64 `key:"radius" doc:"Bound on the parameter's norm. Too large a bound costs little; too small a bound biases the estimate."`
	Horizon int     `key:"horizon" doc:"People to learn from, over all cohorts; of panels, reports: it is divided by admission.panel to give the number of epochs." required:"true"`
	Anytime bool    `key:"anytime" doc:"Whether to go on when horizon people have come: for twice as many, then four times, and so on, without a last policy. Cohorts keep growing, but panels keep their size. What is promised to each person stays the same. For deployments that do not know how many people will come (practical)."`

	FirstCohort int     `key:"first_cohort" doc:"People of the first cohort (practical). 0: by epsilon and dimension."`
	Batch       int     `key:"batch" doc:"People of a cohort (joint): the policy stays as it is for so many. 0: a fiftieth of the horizon, or min_cohort where that is more."`
	Growth      float64 `key:"growth" doc:"Ratio of successive cohorts (practical, arrival). 0: the default."`

	Sampling      float64 `key:"sampling" doc:"How widely people explore: by how many standard deviations the announced draws are spread around the estimate (practical). 0: the default; negative: greedy play after the first cohort."`
	ExplorerShare float64 `key:"explorer_share" doc:"Share of decisions that explore where there is caution (practical). 0: the default; negative: none."`
	Width         float64 `key:"width" doc:"Multiplier of confidence widths (paper). 0: the default."`
	Rounds        int     `key:"rounds" doc:"Gradient rounds of each cohort (paper). 0: the default."`

	Arms     int      `key:"arms" doc:"The most arms that a decision has (learners of other papers). 0: 10."`
	Failure  float64  `key:"failure" doc:"Probability with which confidence sets may fail (learners of other papers). 0: 0.02."`
	Variant  string   `key:"variant" doc:"Another form of the algorithm (learners of other papers). Empty: the default."`
	Tunables []string `key:"tunables" doc:"NAME=NUMBER, of the algorithm (learners of other papers). linucb: first (people of the first cohort), growth (ratio of successive cohorts; 1: cohorts of one size), width (factor of the confidence width), noise (by which rewards are sub-Gaussian), theory (1: the width that is proved). online-linucb and its combiner: batch (people of a cohort), width, debiased (1: the estimate is least squares with the noise's share taken out), ogd (convexity, for online gradient descent in place of Maler). elimination-reweighted and elimination-linear: first_epoch (people of the first one), exploit (share of people who play what looks best). squarecb: first, c_sq (factor of gamma: more explores less)."`

	HalfLife     float64 `key:"half_life" doc:"After how many cohorts an observation counts half, for worlds that change (practical). 0: never."`
	Alarm        float64 `key:"alarm" doc:"Significance at which a test that the world has not changed makes the learner forget what it knew, up to 0.5 (practical). Without any change it does so in this share of epochs. 0: never."`
	Prior        string  `key:"prior" doc:"File with what is known before the first person: what riffle policy export wrote of a deployment with the same features, or JSON in which theta is an estimate of the parameter, and precision the inverse of the covariance of its error, as rows or as its upper triangle (practical). It must come from public data: it is announced. Empty: nothing is known."`
	Control      float64 `key:"control" doc:"Share of decisions that a coin on the device gives the default arm, up to 0.99, so that the policy can be compared with it (practical). 0: no control group."`
	ControlShare float64 `key:"control_share" doc:"Part of the privacy budget for the release that compares the policy with the control group, up to 0.99. 0: the default."`
	Caution      float64 `key:"caution" doc:"By how many standard deviations of the estimate the best arm must be better than the default arm to be played in its place; exploration goes on (practical). 0: the best arm is always played."`
}

// AdmissionSettings say whose reports are counted, where the analyzer sees who took part.
type AdmissionSettings struct {
	Mode         string  `key:"mode" doc:"How a cohort is formed: arrival (whoever decides first, each person once in the deployment) or panel (drawn from the registered devices by a seed of both servers, before anybody acts)."`
	Panel        int     `key:"panel" doc:"Devices of each cohort (panel)."`
	Registered   int     `key:"registered" doc:"Fewest registered devices that a panel is drawn from (panel). With fewer the shuffler waits."`
	Tail         float64 `key:"tail" doc:"Part of privacy.delta, of all epochs of one person together, that pays for panels with more dishonest devices than are counted, when the share privacy.dishonest of the registered ones is dishonest (panel). 0: 1e-9; nothing where privacy.dishonest is 0."`
	SponsorShare float64 `key:"sponsor_share" doc:"Largest share of a cohort that may be devices of one sponsor (the issuer of their credentials, or else their host), above 0 and up to 1, in the channels in which the analyzer verifies for itself who took part: shares, local and central. What is above it is not counted. Of panels it is the share of the devices that they are drawn from, and a sponsor may have as many as chance gives it. 1: no limit."`
}

// PrivacySettings say what is promised, and what it may cost.
type PrivacySettings struct {
	Channel     string  `key:"channel" doc:"How sums reach the analyzer, and whom people must trust for it: shuffle (an honest shuffler), shares (that shuffler and analyzer are not both dishonest), local (nobody) or central (the analyzer; devices refuse it unless their people allow it). It cannot change during a deployment."`
	ServerNoise float64 `key:"server_noise" doc:"Noise that servers add to each release, in [0, 1], as a share of what alone gives epsilon. It is what is left of the promise if all other devices are dishonest. In shuffle the shuffler adds it, in shares both servers do, each all of it. In central the analyzer always adds all of it, and in local there is none."`
	DeviceNoise bool    `key:"device_noise" doc:"Whether devices add noise of their own. false needs server_noise 1, in shuffle or shares: the promise then rests on the servers' noise alone, and in shuffle nothing protects from a shuffler that remembers its noise."`

	Epsilon float64 `key:"epsilon" doc:"Largest epsilon of one person's guarantee."`
	Delta   float64 `key:"delta" doc:"The delta of that guarantee."`
	DropOut float64 `key:"drop_out" doc:"Share of a cohort that may fail to report before the cohort is destroyed, while at least min_cohort report. Their noise is not counted."`

	Dishonest float64 `key:"dishonest" doc:"Share of a cohort that may be dishonest, or of the registered devices where cohorts are panels. Their noise is not counted, and as many malformed bit messages as their reports hold are tolerated."`
	// One is what one broken or malicious device can do to a cohort. It costs 1/(n-1) of the noise, which is little
	// next to a drop-out of 5 %.
	DishonestReports int `key:"dishonest_reports" doc:"Least number of dishonest reports that every cohort tolerates, whatever number the share dishonest gives. 0: one malformed bit message destroys a cohort, unless dishonest is set."`

	Records   int `key:"records" doc:"Epochs that one person may report in (panel). epsilon and delta are for all of them together."`
	Period    int `key:"period" doc:"Epochs in a row within which records holds (panel): the promise is then one for each such period. 0: the whole deployment."`
	Decisions int `key:"decisions" doc:"Most decisions of one person in one report (panel). The promise covers all of them together; the noise grows with this number, so choose no more than the mean: riffle plan --mean-decisions says what each number costs."`

	MinCohort   int `key:"min_cohort" doc:"Fewest reports of any release."`
	MaxMessages int `key:"max_messages" doc:"Most bit messages of one person over all releases. -1: 150 in up to 5 dimensions, and in more 7.5 for each number released, which keeps the noise about the same; 0: no limit. Only shuffle has bit messages."`

	VarianceRatio float64 `key:"variance_ratio" doc:"Noise variance allowed, divided by that of a trusted curator's Gaussian mechanism. 0: the least that max_messages allows."`
	MaxShift      float64 `key:"max_shift" doc:"Most levels by which one record can move a release; with more, sampling error dominates. -1: 16 in shuffle, and no limit in other channels, where more levels cost no messages; 0: no limit."`
}

// TimingSettings say when devices report.
type TimingSettings struct {
	RewardWindow time.Duration `key:"reward_window" doc:"Time from decision to report; of a panel, from its draw to its reports. Later rewards are lost."`
	Jitter       time.Duration `key:"jitter" doc:"Public spread of report times."`
	Grace        time.Duration `key:"grace" doc:"Time from the last report time to the cohort's deadline."`
	RoundWindow  time.Duration `key:"round_window" doc:"Length of each round after the first (paper profile)."`
	Enrolment    time.Duration `key:"enrolment" doc:"Longest time that a cohort is open (arrival). 0: until it is full."`
	Every        time.Duration `key:"every" doc:"Least time from one epoch's announcement to the next one's, such as 24h. 0: the next one comes as soon as the last one is learnt from; with privacy.period, 24h more than reward_window, jitter and grace, as hosts refuse a period of epochs below their limits.min_epoch (24h by default)."`
}

// byChannel as a limit stands for the default of the channel.
const byChannel = -1

// DefaultSettings are the settings of a deployment that says nothing else.
func DefaultSettings() Settings {
	terms := plan.DefaultTerms()
	return Settings{
		Learner: LearnerSettings{Profile: string(glm.Practical), Family: "logistic", MaxReward: 1,
			Radius: learner.DefaultRadius},
		Privacy: PrivacySettings{
			Epsilon: terms.Epsilon, Delta: terms.Delta, DropOut: terms.DropOut, Dishonest: terms.Dishonest,
			DishonestReports: terms.DishonestReports, MinCohort: terms.MinCohort, MaxMessages: terms.MaxMessages,
			VarianceRatio: terms.VarianceRatio, MaxShift: byChannel,
			Records: 1, Decisions: 1,
			Channel: string(terms.Channel), ServerNoise: terms.ServerNoise, DeviceNoise: !terms.NoDeviceNoise,
		},
		Admission: AdmissionSettings{Mode: arrival, SponsorShare: 1},
		Rules:     RulesSettings{Window: 1},
		Timing: TimingSettings{
			RewardWindow: time.Hour, Jitter: time.Minute, Grace: 5 * time.Minute, RoundWindow: 5 * time.Minute,
		},
		MaxReportSize: bus.DefaultReportSize,
		Memory:        DefaultMemory >> 20,
		Workers:       worker.DefaultLead(),
		Broker:        role.DefaultBroker(),
	}
}

// Validate lists what is wrong.
func (s Settings) Validate() (faults []error) {
	if s.MaxReportSize < 0 || s.MaxReportSize > bus.MaxMessage {
		must := fmt.Sprintf("must be between 0 and %d", bus.MaxMessage)
		faults = append(faults, config.Wrong("max_report_size", s.MaxReportSize, must))
	}
	if s.Memory < leastMemory>>20 || s.Memory > mostMemory>>20 {
		must := fmt.Sprintf("must be between %d and %d MiB", leastMemory>>20, mostMemory>>20)
		faults = append(faults, config.Wrong("memory", s.Memory, must))
	}
	return append(append(faults, s.channelFaults()...), s.lifeFaults()...)
}

// Validate lists what is wrong.
func (t TimingSettings) Validate() (faults []error) {
	for _, of := range []struct {
		key string
		d   time.Duration
	}{
		{"reward_window", t.RewardWindow}, {"jitter", t.Jitter}, {"grace", t.Grace}, {"round_window", t.RoundWindow},
		{"enrolment", t.Enrolment}, {"every", t.Every},
	} {
		if of.d < 0 || of.d.Milliseconds() > wire.MaxTiming {
			faults = append(faults, config.Wrong(of.key, of.d, "must be between 0 and 24 days"))
		}
	}
	return faults
}

// Validate lists what is wrong with values by themselves; planning finds out whether a plan exists.
func (p PrivacySettings) Validate() (faults []error) {
	faults = append(p.promise(), p.channelFaults()...)
	for key, v := range map[string]float64{"drop_out": p.DropOut, "dishonest": p.Dishonest} {
		if !(v >= 0 && v < 1) {
			faults = append(faults, config.Wrong(key, v, "must be a share in [0, 1)"))
		}
	}
	if p.MaxMessages < plan.ByCoordinates {
		faults = append(faults, config.Wrong("max_messages", p.MaxMessages, "must be at least -1"))
	}
	for _, of := range []struct {
		key      string
		n, least int
	}{{"records", p.Records, 1}, {"period", p.Period, 0}, {"decisions", p.Decisions, 1}} {
		if of.n < of.least || of.n > wire.MaxDecisions {
			must := fmt.Sprintf("must be between %d and %d", of.least, wire.MaxDecisions)
			faults = append(faults, config.Wrong(of.key, of.n, must))
		}
	}
	if p.DishonestReports < 0 {
		faults = append(faults, config.Wrong("dishonest_reports", p.DishonestReports, "must be at least 0"))
	}
	if p.MinCohort < 1 {
		faults = append(faults, config.Wrong("min_cohort", p.MinCohort, "must be at least 1"))
	}
	if p.DropOut+p.Dishonest >= 1 {
		conflict := config.Conflict("drop_out", p.DropOut, "must sum to less than 1 with", "dishonest", p.Dishonest)
		faults = append(faults, conflict)
	}
	return faults
}

// learner is the learner's configuration. A prior that cannot be read is left out; Validate names it.
func (s Settings) learner() learner.Config {
	l := s.Learner
	c := learner.Config{
		Profile: glm.Profile(l.Profile), Family: l.Family, MaxReward: l.MaxReward, Dimension: l.dimension(),
		Radius: l.Radius, Horizon: l.Horizon, Epsilon: s.Privacy.Epsilon, Delta: s.Privacy.Delta,
		MinCohort: s.Privacy.MinCohort,
		Practical: learner.PracticalConfig{
			FirstCohort: l.FirstCohort, Growth: l.Growth, Sampling: l.Sampling,
			ExplorerShare: l.ExplorerShare,
		},
		Paper:   learner.PaperConfig{Width: l.Width, Rounds: l.Rounds},
		Program: l.program(),
	}
	p := &c.Practical
	p.HalfLife, p.Alarm, p.Control, p.ControlShare, p.Caution = l.HalfLife, l.Alarm, l.Control, l.ControlShare,
		l.Caution
	if s.Admission.draws() {
		p.Panel, p.Decisions = s.Admission.Panel, s.Privacy.Decisions
	}
	c.Structure, _ = s.structure() // Validate tells
	if known, err := l.prior(); err == nil {
		p.PriorTheta, p.PriorPrecision = known.theta, known.precision
	}
	return c
}

// terms are what is asked of every plan. Limits that are the channel's are its defaults.
func (s Settings) terms() plan.Terms {
	p := s.Privacy
	t := plan.DefaultTermsFor(p.channel())
	t.Epsilon, t.Delta, t.DropOut, t.Dishonest = p.Epsilon, p.Delta, p.DropOut, p.Dishonest
	t.DishonestReports, t.MinCohort, t.VarianceRatio = p.DishonestReports, p.MinCohort, p.VarianceRatio
	if p.MaxMessages != byChannel {
		t.MaxMessages = p.MaxMessages
	}
	if p.MaxShift != byChannel {
		t.MaxShift = p.MaxShift
	}
	t.ServerNoise, t.NoDeviceNoise = p.ServerNoise, !p.DeviceNoise
	if p.channel() == plan.Central { // whose noise is the analyzer's, all of it
		t.ServerNoise, t.NoDeviceNoise = 0, false
	}
	if a := s.Admission; a.draws() {
		t.Registered, t.Tail = a.Registered, a.Tail
		t.Decisions, t.Records, t.Period = p.Decisions, p.Records, p.Period
	}
	return t
}

// timing is announced. Where the budget begins anew every period and nothing is said of how long epochs are, they are
// so long that hosts with the default least length allow it: that, and as long as the reports of an epoch may take.
func (s Settings) timing() plan.Timing {
	t := s.Timing
	if s.Admission.draws() && s.Privacy.Period > 0 && t.Every == 0 {
		t.Every = min(plan.DefaultMinEpoch+t.RewardWindow+t.Jitter+t.Grace, wire.MaxTiming*time.Millisecond)
	}
	whole := func(d time.Duration) time.Duration { return d.Truncate(time.Millisecond) }
	return plan.Timing{
		RewardWindow: whole(t.RewardWindow), Jitter: whole(t.Jitter), Grace: whole(t.Grace),
		RoundWindow: whole(t.RoundWindow), Enrolment: whole(t.Enrolment), Every: whole(t.Every),
	}
}

// Role describes the analyzer to the start-up shell.
func Role() role.Role[Settings] {
	return role.Role[Settings]{
		Name:  "analyzer",
		Short: "announce policies, count noisy reports, learn",
		Long: `The analyzer announces with which policy people's devices decide and how they report. It counts what the
shuffler forwards of a cohort, removes the bias of the noise and announces the next policy. How a cohort's sum reaches
it, and whom people must trust for that, is the deployment's channel (privacy.channel). It can be restarted at any time:
its state is a function of what it released and of what its channel keeps in the state folder.`,
		Defaults:  DefaultSettings(),
		OpsListen: "127.0.0.1:9402",
		Prepare:   prepare,
		Faults:    Settings.faults,
	}
}

func (s Settings) keys() (*keyring.ServerKeys, error) {
	keys, err := keyring.LoadAnalyzer(s.Keys)
	if err != nil {
		return nil, config.Wrong("keys", s.Keys, "cannot be used").From(err)
	}
	return keys, nil
}

// logFile keeps the transparency log in the state folder.
const logFile = "log"

// scratchFolder holds in the state folder what does not fit into memory, while the process runs.
const scratchFolder = "scratch"

// build says which program this is, as statements name it.
func build() string {
	b := version.Read()
	return strings.TrimSpace(b.Version + " " + b.Commit)
}

func prepare(env *role.Env, s Settings) (role.Serve, error) {
	keys, err := s.keys()
	if err != nil {
		return nil, errors.Join(s.faults()...) // this error is one of them
	}
	messages, err := outcome.New(env.Metrics, env.Name, shuffle.Item, nil, Reasons()...)
	if err != nil {
		return nil, err
	}
	env.Account(messages)
	if s.Privacy.channel() != plan.Central { // in every other channel the guarantee covers all that comes here
		if err := env.ShowProcess(); err != nil {
			return nil, err
		}
	}
	steps, err := role.NewSteps(env, Steps()...)
	if err != nil {
		return nil, err
	}
	z, err := New(Config{
		Disk: channel.Folder(s.State), LogPath: filepath.Join(s.State, logFile), Version: build(),
		SponsorShare: s.Admission.SponsorShare, Memory: int64(s.Memory) << 20,
		Scratch:    filepath.Join(s.State, scratchFolder),
		Deployment: keys.Bundle.Deployment, Identity: keys.Identity, Keys: keys.HPKE, Shuffler: keys.Bundle.Shuffler,
		Registrar: keys.Bundle.Registrar, Hosts: keys.Bundle.RegistrarParty().Hosts, Source: entropy.New(),
		Learner: s.learner(), Anytime: s.Learner.Anytime, Batch: s.Learner.Batch, Terms: s.terms(),
		Timing: s.timing(), Questions: s.questions(), MaxReport: s.MaxReportSize, Rules: s.Rules.rules(),
		Schema: s.announcedSchema(),
		Log:    env.Log, Messages: messages, Steps: steps, Clock: env.Clock,
		Notice: func(condition string, err error) { env.Health.Condition(condition).Set(err) },
	})
	if err != nil {
		return nil, infeasible(err)
	}
	people := max(s.Learner.Horizon, s.Admission.Registered)
	if privacy.WarnDelta(s.Privacy.Delta, people) != "" {
		env.Log.Warn().Float64("delta", s.Privacy.Delta).Float64("take", privacy.DeltaFor(people)).
			Msg("privacy.delta is more than 1 divided by the number of people")
	}
	if err := errors.Join(s.sizeFaults(z.machine.LargestPayload())...); err != nil {
		return nil, err
	}
	if err := status.Mount(env, z.Snapshot); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := keyfile.Folder(s.State); err != nil {
			return fmt.Errorf("state: %w", err)
		}
		conn, err := role.Attach(ctx, env, bus.Analyzer, s.Broker, keys.Seed)
		if err != nil {
			return err
		}
		defer conn.Close()
		z.c.Bus = Over(conn.Streams)
		lead, err := s.lead(env, conn.Streams, keys, &z.c)
		if err != nil {
			return err
		}
		return lead.Beside(ctx, nil, z.Run)
	}, nil
}
