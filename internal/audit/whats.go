package audit

// What names a kind of breach. The names are in results, on pages and in docs.
type What string

// The breaches of a log by itself.
const (
	// ForgedSignature is an entry that the role of the log did not sign.
	ForgedSignature What = "forged_signature"
	// ExpiredKey is an entry about an epoch for which the role's signing key was not good any more.
	ExpiredKey What = "expired_key"
	// Malformed is an entry that the role signed and that is no statement of this role: out of range, of another kind
	// or of another deployment.
	Malformed What = "malformed"
	// CheckpointMissing is a log without a checkpoint: nothing vouches for its length.
	CheckpointMissing What = "checkpoint_missing"
	// CheckpointForged is a checkpoint that the role did not sign, or one of another log.
	CheckpointForged What = "checkpoint_forged"
	// LogAltered is a log whose entries do not give the root that the role signed.
	LogAltered What = "log_altered"
	// LogRewound is a log with fewer entries than a signed checkpoint counts.
	LogRewound What = "log_rewound"
	// Uncovered is an entry, or a file of an export, that no signed checkpoint covers.
	Uncovered What = "uncovered"
	// SplitView is a log that shows others another face: two checkpoints of the role contradict each other.
	SplitView What = "split_view"
	// IssuedUnchained is an entry of an issuer's log that does not follow the one before it.
	IssuedUnchained What = "issued_unchained"
	// IssuedBeyond is an issuer's log with more entries than its certificate allows installations.
	IssuedBeyond What = "issued_beyond"
	// IssuedSplit is two logs of one issuer that contradict each other.
	IssuedSplit What = "issued_split"
	// DevicesUnaccounted is a round up to which more devices took part than issuers and registrar let in.
	DevicesUnaccounted What = "devices_unaccounted"
	// CertificateWrong is a certificate of an export that does not verify.
	CertificateWrong What = "certificate_wrong"
	// OutOfOrder is an entry that does not belong at its place: a round before its turn or after it.
	OutOfOrder What = "out_of_order"
)

// The breaches of what the analyzer announced.
const (
	// ConfigurationMissing is an analyzer's log that does not begin with the configuration.
	ConfigurationMissing What = "configuration_missing"
	// ConfigurationChanged is a second configuration.
	ConfigurationChanged What = "configuration_changed"
	// ConfigurationRefused is a configuration from which no plan can be made.
	ConfigurationRefused What = "configuration_refused"
	// Unchained is an announcement that does not name the one before it.
	Unchained What = "unchained"
	// MoreRounds is a round, or a use of a record, beyond what was planned.
	MoreRounds What = "more_rounds"
	// EndedEarly is a last announcement while the configuration goes on.
	EndedEarly What = "ended_early"
	// WeakPlan is an announced plan whose recomputed guarantee is weaker than what was promised.
	WeakPlan What = "weak_plan"
	// PlanChanged is a plan, cohort, encoding or time that does not follow from the configuration.
	PlanChanged What = "plan_changed"
	// PolicyChanged is an announced policy that is not the one that follows from the counts.
	PolicyChanged What = "policy_changed"
	// ReferenceChanged is an announced reference that is not the one that follows from the counts.
	ReferenceChanged What = "reference_changed"
	// KeyReturned is an encryption key of the analyzer that is announced again after another one took its place.
	KeyReturned What = "key_returned"
	// QuestionRefused is a question to a panel that cannot be asked: of a name that was asked before, or of nobody.
	QuestionRefused What = "question_refused"
)

// The breaches of how panels are drawn.
const (
	// PoolMissing is a panel that was drawn from no pool that the shuffler signed.
	PoolMissing What = "pool_missing"
	// SecondPool is a second pool of one epoch, or one of an epoch that is over.
	SecondPool What = "second_pool"
	// PoolTooSmall is a pool of fewer devices than announced.
	PoolTooSmall What = "pool_too_small"
	// PoolReplaced is a pool that is not the one that the analyzer's draw answers.
	PoolReplaced What = "pool_replaced"
	// DrawMissing is a cohort that was released although the analyzer had no part in drawing it.
	DrawMissing What = "draw_missing"
	// SecondDraw is a second draw of one epoch, or one of an epoch that is over.
	SecondDraw What = "second_draw"
	// CommitmentBroken is a draw with another contribution than the announcement commits to.
	CommitmentBroken What = "commitment_broken"
	// ContributionRepeated is a contribution or a commitment that is in an earlier statement: it is no secret.
	ContributionRepeated What = "contribution_repeated"
)

// The breaches of what was mixed.
const (
	// ManifestMissing is a round with counts and without a manifest.
	ManifestMissing What = "manifest_missing"
	// DoubledRelease is a second manifest of a round: its cohort was released twice.
	DoubledRelease What = "doubled_release"
	// UnannouncedRelease is a manifest of a round that was never announced.
	UnannouncedRelease What = "unannounced_release"
	// WrongAnnouncement is a statement about a round under another announcement than the one in the log.
	WrongAnnouncement What = "wrong_announcement"
	// BelowMinimum is a release of fewer reports than the announced minimum.
	BelowMinimum What = "below_minimum"
	// CohortExceeded is a cohort with more devices than it has slots.
	CohortExceeded What = "cohort_exceeded"
	// Accounting is a round whose devices are not those of the round before, less those that were taken out.
	Accounting What = "accounting"
	// MessageCount is a release with another number of messages than its reports and the planned noise hold.
	MessageCount What = "message_count"
	// NoiseCount is a release with another number of the shuffler's noise messages than planned.
	NoiseCount What = "noise_count"
	// SetMissing is a release of the channel shares without the set that a server must have signed before.
	SetMissing What = "set_missing"
	// SecondSet is a second accepted set, or a second share of the sums, of one round in the channel shares.
	SecondSet What = "second_set"
	// SetsDiffer is a release of the channel shares in which the two servers name different sets of reports.
	SetsDiffer What = "sets_differ"
)

// The breaches of what left the shuffler, where it was retained.
const (
	// RetainedForged is a retained chunk that does not open, or is not a chunk of its round.
	RetainedForged What = "retained_forged"
	// MessageDropped is a release of which fewer messages were retained than the manifest commits to.
	MessageDropped What = "message_dropped"
	// MessageAdded is a release of which more messages were retained than the manifest commits to.
	MessageAdded What = "message_added"
	// MessageSwapped is a release of which other messages were retained than the manifest commits to.
	MessageSwapped What = "message_swapped"
	// MessageCopied is a duplicate message in a release.
	MessageCopied What = "message_copied"
	// ChunksDiffer is a release whose messages are those of the manifest, in chunks that are not.
	ChunksDiffer What = "chunks_differ"
	// RecountDiffers is a release whose messages, opened with the analyzer's key, give other counts than were signed.
	RecountDiffers What = "recount_differs"
)

// The breaches of what was counted and learned.
const (
	// DoubledCounts is a second statement of counts, or of what was learned, of one round.
	DoubledCounts What = "doubled_counts"
	// ManifestReplaced is a manifest that is not the one that the counts name.
	ManifestReplaced What = "manifest_replaced"
	// ReportsDiffer is a statement of counts with another number of reports than the manifest's.
	ReportsDiffer What = "reports_differ"
	// DestroyedCounted is a cohort that the shuffler destroyed and the analyzer counted.
	DestroyedCounted What = "destroyed_counted"
	// ReleaseRefused is a cohort that the shuffler released and of which the analyzer signed that it counts nothing.
	ReleaseRefused What = "release_refused"
	// CountsShape is counts of other releases or coordinates than planned.
	CountsShape What = "counts_shape"
	// CountsImpossible is counts that the reports and the planned noise cannot give.
	CountsImpossible What = "counts_impossible"
	// LearnedOther is a statement of what was learned that names other counts, or another outcome.
	LearnedOther What = "learned_other"
	// SumsWrong is sums that do not follow from the counts: the noise's mean was removed wrongly.
	SumsWrong What = "sums_wrong"
	// IterateWrong is a next reference that does not follow from the counts.
	IterateWrong What = "iterate_wrong"
	// PolicyWrong is a digest of the next policy that does not follow from the counts, or is not what was announced.
	PolicyWrong What = "policy_wrong"
	// EpsilonWrong is a stated epsilon that is not the recomputed one.
	EpsilonWrong What = "epsilon_wrong"
	// LiftWrong is a comparison with the control group that does not follow from the counts.
	LiftWrong What = "lift_wrong"
	// ChangeWrong is a test of whether the world changed that does not follow from the counts.
	ChangeWrong What = "change_wrong"
	// ActionWrong is another action than the announced rules ask for.
	ActionWrong What = "action_wrong"
	// PromiseExceeded is a release that revealed more about a record than was promised.
	PromiseExceeded What = "promise_exceeded"
)
