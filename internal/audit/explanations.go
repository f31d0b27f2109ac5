package audit

// Explanation says of a kind of breach what it proves and what to do, for people.
type Explanation struct {
	What  What
	Means string // a sentence
	By    string // who can have done it, as far as the entry proves
	Do    string // what to do about it
}

// Who can have done what.
const (
	byAnalyzer  = "the analyzer"
	byShuffler  = "the shuffler"
	byEither    = "the shuffler or the analyzer"
	byRole      = "the role whose log it is, or whoever has its key"
	byAny       = "the role whose log it is, or whoever kept or exported it"
	byRetained  = "the shuffler, or whoever kept what is retained"
	byIssuer    = "the issuer, or whoever kept or copied its log"
	byIssuerKey = "the issuer, or whoever has its key"
	byDevices   = "the shuffler, an issuer that leaves keys out of its log, or the registrar"
	byRefusal   = "the shuffler, the analyzer, or devices that do not follow the protocol"
)

// What to do about breaches that several kinds share.
const (
	doAgain = "Get the export again, another way, best from the broker with your own credential. If it stays, ask the" +
		" operator."
	doPolicy = "The policy in force is not what the sums say. Ask for the reason before you rely on any decision " +
		"made with it."
	doDropped = "Ask for the broker's log: a chunk may be lost there. If not, the shuffler's release is not what it " +
		"signed."
	doSums = "If the audit ran on another kind of processor and the difference is tiny, use --tolerance 1e-9. Else " +
		"the result is wrong."
)

// Explanations are those of all kinds of breaches, in the order of the declarations.
func Explanations() []Explanation {
	return []Explanation{
		{ForgedSignature, "An entry of a log is not signed by the role whose log it is.", byAny,
			doAgain},
		{ExpiredKey, "A statement is signed with a key that was not good any more for its epoch.", byRole,
			"Ask when the key was rotated, and who still had the old one. Trust no statement of that key since."},
		{Malformed, "A role signed something that is no statement of its own, or an export cannot be read.", byRole,
			"If the detail says that nothing can be read after an entry, get the export again. Else ask the " +
				"role's operator which version wrote it."},
		{CheckpointMissing, "Nobody vouches for the log's length: entries could be missing at its end.", byAny,
			"Ask for the checkpoint. Without it entries may be missing at the end."},
		{CheckpointForged, "The checkpoint is not the role's.", byAny,
			"Compare your bundle with another copy: it may be of another deployment, or the key was rotated. " +
				"Else get the export again."},
		{LogAltered, "The entries are not those that the role signed a checkpoint over.", byAny,
			doAgain},
		{LogRewound, "The role signed for more entries than there are.", byAny,
			"Ask for the entries that are gone. Compare with what a witness saw. An older export beside a newer" +
				" checkpoint looks the same: compare dates first."},
		{Uncovered, "A log or an export has something that no signature and no digest covers.", byAny,
			"Take the extra file away, and use nothing of it. If the log itself is longer than its checkpoint, " +
				"export again."},
		{SplitView, "The role signed two logs that contradict each other.", byRole,
			"Keep both files: two signatures of one role over different logs are proof against it. Tell the " +
				"other reviewers."},
		{CertificateWrong, "A certificate of an epoch does not verify.", byAny,
			"Do not use the certificate. Make it again from the logs: riffle audit export --from."},
		{IssuedUnchained, "An entry of an issuer's log does not follow the one before it: entries are gone, doubled " +
			"or exchanged.", byIssuer,
			"Get issued.log from the issuer again. If it stays, the issuer lost its state, or hides keys: have the " +
				"registrar withdraw it until that is explained."},
		{IssuedBeyond, "An issuer credentialed more keys than its certificate allows.", byIssuerKey,
			"Have the registrar withdraw the issuer. Servers refuse installations beyond the number: ask them for " +
				"their count of issuer_full."},
		{IssuedSplit, "An issuer signed two logs that contradict each other.", byIssuerKey,
			"Keep both files: they are proof. Have the registrar withdraw the issuer."},
		{DevicesUnaccounted, "More devices took part than the issuers' logs and the registrar account for.", byDevices,
			"Get issued.log of every issuer, newer than the servers' logs, and the registrar's number. If it stays, " +
				"treat the devices too many as dishonest: read *alone*."},
		{OutOfOrder, "A statement was made before its turn, or after it.", byEither,
			"Ask the analyzer's operator for its log of that time: a restored backup can cause it."},
		{ConfigurationMissing, "What the analyzer learns with is not in its log, so that nothing can be recomputed.",
			byAnalyzer,
			"The first entry is gone: get the export again. Without it nothing is recomputed."},
		{ConfigurationChanged, "The analyzer changed what it learns with, or what it promises.", byAnalyzer,
			"Stop and ask what was changed, and why. People were promised the first one."},
		{ConfigurationRefused, "No plan that keeps the terms follows from the logged configuration.", byAnalyzer,
			"Use the version of riffle that the analyzer ran. If it is the same, the terms were never kept by " +
				"any plan."},
		{Unchained, "An announcement does not name the one before it: one was taken out or put in.", byAnalyzer,
			"Compare the announcements with another export. One of the two shows what was left out."},
		{MoreRounds, "A record is used in more rounds than was planned, or people are asked after the end.",
			byAnalyzer,
			"Count how often a record was used, and compute what that reveals. Devices that follow the protocol" +
				" refuse."},
		{EndedEarly, "The analyzer stopped where its configuration goes on.", byAnalyzer,
			"Ask why it stopped. It harms no one's privacy by itself; it can be a way to pick a result."},
		{WeakPlan, "A plan reveals more about a record than it claims, or than the terms promise.", byAnalyzer,
			"Treat the promise as broken for that epoch. Devices that follow the protocol refuse such a plan."},
		{PlanChanged, "A plan is not the one that follows from the configuration.", byAnalyzer,
			"The detail names the field. Ask for the configuration that gave it, and the program's version."},
		{PolicyChanged, "The policy that devices decide with is not the one that was learned.", byAnalyzer,
			doPolicy},
		{ReferenceChanged, "The point at which devices compute is not the one that was learned.", byAnalyzer,
			doPolicy},
		{KeyReturned, "Messages are sealed to a key again that had been replaced, and may have been lost.",
			byAnalyzer,
			"Ask whether the old key was compromised. Messages sealed to it can be opened by whoever has it."},
		{QuestionRefused, "People's devices were asked what no panel of this deployment may be asked.", byAnalyzer,
			"Ask which question it was, and why the analyzer's program let it pass. Rely on no answer after it."},
		{PoolMissing, "A cohort was drawn from devices that the shuffler never fixed, so that it could choose them.",
			byShuffler,
			"Export again. If it stays, do not rely on the number of dishonest devices that the plan counts: " +
				"read *alone*."},
		{SecondPool, "The shuffler fixed two pools of one epoch, and could take the one that suits it.", byShuffler,
			"Find out whether the shuffler's state was set back. Treat the cohort as chosen by the shuffler."},
		{PoolTooSmall, "A cohort was drawn from fewer devices than announced, so more of it can be dishonest than is " +
			"counted.", byShuffler,
			"Honest devices refuse such a pool. Ask the shuffler's operator, and treat the promise as broken " +
				"for that epoch."},
		{PoolReplaced, "The pool in the log is not the one that the analyzer answered.", byEither,
			"Compare with another export, and with what devices were shown: one of the two pools was signed " +
				"later."},
		{DrawMissing, "A cohort was released, and the analyzer's log has no part of the draw: the shuffler may have " +
			"drawn it alone.", byEither,
			"Export again. If it stays, treat the cohort as chosen by the shuffler."},
		{SecondDraw, "The analyzer answered one pool twice, or two pools, and could pick the cohort.", byAnalyzer,
			"Find out whether the analyzer's state was set back, and which draw devices were shown."},
		{CommitmentBroken, "The analyzer changed its part of the draw after it saw the pool.", byAnalyzer,
			"Devices refuse such a draw. If the shuffler contributes nothing random, the analyzer chose the " +
				"cohort."},
		{ContributionRepeated, "A server's part of a draw was known before, so that the other could choose the cohort.",
			byEither,
			"Ask where the server takes its random bits from: a copied machine or a state that was set back can" +
				" cause it."},
		{ManifestMissing, "The analyzer signed counts of a round of which the shuffler's log says nothing.", byEither,
			"Export again. If it stays, the analyzer counted messages that the shuffler can deny."},
		{DoubledRelease, "The shuffler signed a second end of a round, or the end of one that was over: if both are " +
			"releases, a cohort left twice.", byShuffler,
			"Serious: the difference of two releases can show single people. Find out whether the shuffler's " +
				"state was set back."},
		{UnannouncedRelease, "The shuffler signed something of a round that was never announced.", byEither,
			"Serious: people were not told of it. Ask both operators."},
		{WrongAnnouncement, "A statement is about another announcement than people saw.", byEither,
			"Compare announcements with another export: somebody saw another one."},
		{BelowMinimum, "A release hides each person among fewer others than was announced.", byShuffler,
			"Treat the promise as broken for that cohort, and compute epsilon with the reports that came."},
		{CohortExceeded, "More devices took part than the cohort has places.", byShuffler,
			"Ask the shuffler's operator: enrolment is not as announced."},
		{Accounting, "Devices report in a later round that did not in the one before.", byShuffler,
			"Ask the shuffler's operator for its account of refusals in that round."},
		{MessageCount, "More or fewer messages left than the reports hold.", byShuffler,
			"Ask whether messages were lost or made up. The counts of the round cannot be relied on."},
		{NoiseCount, "The shuffler added more or less noise than planned.", byShuffler,
			"Less noise is less privacy: treat epsilon_alone of that round as broken."},
		{SetMissing, "A server did not sign which reports it adds up.", byEither,
			"Export again. If it stays, sums left without the check that protects people in shares."},
		{SecondSet, "A server signed two sets or two sums of one round: their difference shows single people.",
			byEither,
			"Serious: the difference of two sums can show one person. Treat the round as not protected."},
		{SetsDiffer, "The two servers added up different reports.", byEither,
			"The sums are of different people and mean nothing. Ask both operators."},
		{RetainedForged, "What is retained of a release does not open, or is not of its place.", byRetained,
			"Try the other auditor's keys, if the key was rotated. Else get the chunks again from the broker."},
		{MessageDropped, "A message that the shuffler committed to is missing.", byRetained,
			doDropped},
		{MessageAdded, "A message is there that the shuffler did not commit to.", byRetained,
			doDropped},
		{MessageSwapped, "A message was exchanged for another.", byRetained,
			doDropped + " The release is not the one that was committed to."},
		{MessageCopied, "A message occurs twice: if it is a person's, that moves the sum without adding noise.",
			byShuffler,
			"Serious: one person's bits count several times. Treat the round as not protected."},
		{ChunksDiffer, "What is retained has another order or other parts than the shuffler signed.", byRetained,
			"Ask the shuffler's operator. The set of messages is right, so the counts are not affected."},
		{RecountDiffers, "The analyzer signed other counts than the messages give.", byAnalyzer,
			"The analyzer signed false counts, or your keys are not those of the round. In local it may have " +
				"refused envelopes for its own limits: ask for its account."},
		{DoubledCounts, "The analyzer counted a round twice, or learned from it twice.", byAnalyzer,
			"Find out whether the analyzer's state was set back. Use neither until it is known."},
		{ManifestReplaced, "The manifest in the log is not the one that was counted under.", byEither,
			"Compare with another export: one of the two manifests was signed later."},
		{ReportsDiffer, "The analyzer signed for another number of reports than the shuffler.", byEither,
			"Believe the manifest, and ask the analyzer's operator."},
		{DestroyedCounted, "The analyzer counted a cohort that the shuffler says it destroyed.", byEither,
			"Serious: a cohort below the minimum may have been opened. Ask both operators."},
		{ReleaseRefused, "The analyzer refused a cohort that the shuffler released. It had what left, so that this " +
			"is spent, and who refuses what they saw can choose what counts.", byRefusal,
			"Count the cohort as spent, as the audit does. Ask the analyzer's operator for its log of that " +
				"time, which has its reason, and count what is retained again. One refusal can be one broken device" +
				" (privacy.dishonest_reports: 0); several, or of cohorts that would have said something unwelcome, " +
				"are not."},
		{CountsShape, "The counts are of other numbers than planned.", byAnalyzer,
			"Ask which version of the program counted. Nothing after it is recomputed."},
		{CountsImpossible, "No reports and no planned noise give these counts.", byAnalyzer,
			"The counts were not made by counting. Nothing after them is recomputed."},
		{LearnedOther, "The analyzer says that it learned from other counts than it signed.", byAnalyzer,
			"Ask the analyzer's operator. The policy does not rest on the signed counts."},
		{SumsWrong, "The sums are not the counts without the mean of the noise.", byAnalyzer,
			doSums},
		{IterateWrong, "The next point is not the one that follows from the counts.", byAnalyzer,
			doSums},
		{PolicyWrong, "The policy that is said to be learned is not the one that follows, or that was announced.",
			byAnalyzer,
			doSums + " The policy was not learned from these counts."},
		{EpsilonWrong, "What is said to be spent is not what the plan and the reports give.", byAnalyzer,
			"Believe the recomputed number, and ask what people were told."},
		{LiftWrong, "What is said of the policy and the control group does not follow from the counts.", byAnalyzer,
			doSums + " Believe riffle report, which computes it again."},
		{ChangeWrong, "Whether the world changed is not what the counts say.", byAnalyzer,
			doSums},
		{ActionWrong, "A policy was taken back, or kept, against the announced rules.", byAnalyzer,
			"Ask why the rules were not kept, and which policy devices decided with."},
		{PromiseExceeded, "What left of a cohort is bounded by more than was promised.", byEither,
			"Treat the promise as broken for that cohort."},
	}
}
