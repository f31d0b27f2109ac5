package audit

// Explanation says of a kind of breach what it proves, for people.
type Explanation struct {
	What  What
	Means string // a sentence
	By    string // who can have done it
}

// Who can have done what.
const (
	byAnalyzer = "the analyzer"
	byShuffler = "the shuffler"
	byEither   = "the shuffler or the analyzer"
	byRole     = "the role whose log it is, or whoever has its key"
	byAny      = "the role whose log it is, or whoever kept or exported it"
	byRetained = "the shuffler, or whoever kept what is retained"
	byRefusal  = "the shuffler, the analyzer, or devices that do not follow the protocol"
)

// Explanations are those of all kinds of breaches, in the order of the declarations.
func Explanations() []Explanation {
	return []Explanation{
		{ForgedSignature, "An entry of a log is not signed by the role whose log it is.", byAny},
		{ExpiredKey, "A statement is signed with a key that was not good any more for its epoch.", byRole},
		{Malformed, "A role signed something that is no statement of its own, or an export cannot be read.", byRole},
		{CheckpointMissing, "Nobody vouches for the log's length: entries could be missing at its end.", byAny},
		{CheckpointForged, "The checkpoint is not the role's.", byAny},
		{LogAltered, "The entries are not those that the role signed a checkpoint over.", byAny},
		{LogRewound, "The role signed for more entries than there are.", byAny},
		{Uncovered, "Something stands in a log or in an export that no signature and no digest covers.", byAny},
		{SplitView, "The role signed two logs that contradict each other.", byRole},
		{CertificateWrong, "A certificate of an epoch does not verify.", byAny},
		{OutOfOrder, "A statement was made before its turn, or after it.", byEither},
		{ConfigurationMissing, "What the analyzer learns with is not in its log, so that nothing can be recomputed.",
			byAnalyzer},
		{ConfigurationChanged, "The analyzer changed what it learns with, or what it promises.", byAnalyzer},
		{ConfigurationRefused, "No plan that keeps the terms follows from the logged configuration.", byAnalyzer},
		{Unchained, "An announcement does not name the one before it: one was taken out or put in.", byAnalyzer},
		{MoreRounds, "A record is used in more rounds than was planned, or people are asked after the end.",
			byAnalyzer},
		{EndedEarly, "The analyzer stopped where its configuration goes on.", byAnalyzer},
		{WeakPlan, "A plan reveals more about a record than it claims, or than the terms promise.", byAnalyzer},
		{PlanChanged, "A plan is not the one that follows from the configuration.", byAnalyzer},
		{PolicyChanged, "The policy that devices decide with is not the one that was learned.", byAnalyzer},
		{ReferenceChanged, "The point at which devices compute is not the one that was learned.", byAnalyzer},
		{KeyReturned, "Messages are sealed to a key again that had been replaced, and may have been lost.", byAnalyzer},
		{PoolMissing, "A cohort was drawn from devices that the shuffler never fixed, so that it could choose them.",
			byShuffler},
		{SecondPool, "The shuffler fixed two pools of one epoch, and could take the one that suits it.", byShuffler},
		{PoolTooSmall, "A cohort was drawn from fewer devices than announced, so more of it can be dishonest than is counted.",
			byShuffler},
		{PoolReplaced, "The pool in the log is not the one that the analyzer answered.", byEither},
		{DrawMissing, "A cohort was released, and no part of the draw stands in the analyzer's log: the shuffler may " +
			"have drawn it alone.", byEither},
		{SecondDraw, "The analyzer answered one pool twice, or two pools, and could pick the cohort.", byAnalyzer},
		{CommitmentBroken, "The analyzer changed its part of the draw after it saw the pool.", byAnalyzer},
		{ContributionRepeated, "A server's part of a draw was known before, so that the other could choose the cohort.",
			byEither},
		{ManifestMissing, "The analyzer signed counts of a round of which the shuffler's log says nothing.", byEither},
		{DoubledRelease, "The shuffler signed a second end of a round, or the end of one that was over: if both are " +
			"releases, a cohort left twice.", byShuffler},
		{UnannouncedRelease, "The shuffler signed something of a round that was never announced.", byEither},
		{WrongAnnouncement, "A statement is about another announcement than people saw.", byEither},
		{BelowMinimum, "A release hides each person among fewer others than was announced.", byShuffler},
		{CohortExceeded, "More devices took part than the cohort has places.", byShuffler},
		{Accounting, "Devices report in a later round that did not in the one before.", byShuffler},
		{MessageCount, "More or fewer messages left than the reports hold.", byShuffler},
		{NoiseCount, "The shuffler added more or less noise than planned.", byShuffler},
		{SetMissing, "A server did not sign which reports it adds up.", byEither},
		{SecondSet, "A server signed two sets or two sums of one round: their difference shows single people.",
			byEither},
		{SetsDiffer, "The two servers added up different reports.", byEither},
		{RetainedForged, "What is retained of a release does not open, or is not of its place.", byRetained},
		{MessageDropped, "A message that the shuffler committed to is missing.", byRetained},
		{MessageAdded, "A message is there that the shuffler did not commit to.", byRetained},
		{MessageSwapped, "A message was exchanged for another.", byRetained},
		{MessageCopied, "A message stands twice: if it is a person's, that moves the sum without adding noise.",
			byShuffler},
		{ChunksDiffer, "What is retained stands in another order or in other parts than the shuffler signed.",
			byRetained},
		{RecountDiffers, "The analyzer signed other counts than the messages give.", byAnalyzer},
		{DoubledCounts, "The analyzer counted a round twice, or learned from it twice.", byAnalyzer},
		{ManifestReplaced, "The manifest in the log is not the one that was counted under.", byEither},
		{ReportsDiffer, "The analyzer signed for another number of reports than the shuffler.", byEither},
		{DestroyedCounted, "The analyzer counted a cohort that the shuffler says it destroyed.", byEither},
		{ReleaseRefused, "The analyzer refused a cohort that the shuffler released. It had what left, so that this is " +
			"spent, and who refuses what they saw can choose what counts.", byRefusal},
		{CountsShape, "The counts are of other numbers than planned.", byAnalyzer},
		{CountsImpossible, "No reports and no planned noise give these counts.", byAnalyzer},
		{LearnedOther, "The analyzer says that it learned from other counts than it signed.", byAnalyzer},
		{SumsWrong, "The sums are not the counts without the mean of the noise.", byAnalyzer},
		{IterateWrong, "The next point is not the one that follows from the counts.", byAnalyzer},
		{PolicyWrong, "The policy that is said to be learned is not the one that follows, or that was announced.",
			byAnalyzer},
		{EpsilonWrong, "What is said to be spent is not what the plan and the reports give.", byAnalyzer},
		{LiftWrong, "What is said of the policy and the control group does not follow from the counts.", byAnalyzer},
		{ChangeWrong, "Whether the world changed is not what the counts say.", byAnalyzer},
		{ActionWrong, "A policy was taken back, or kept, against the announced rules.", byAnalyzer},
		{PromiseExceeded, "What left of a cohort is bounded by more than was promised.", byEither},
	}
}
