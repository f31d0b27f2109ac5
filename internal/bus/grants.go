package bus

import "strings"

// Access is the way in which a role touches a subject.
type Access string

const (
	Publish Access = "publish" // store or acknowledge: a message into the streams' account, with the broker's acknowledgement as reply
	Call    Access = "call"    // a JetStream API call, Subject without its prefix
	Watch   Access = "watch"   // be told: receive what the streams' account sends out
	Ask     Access = "ask"     // send a request to another role and receive its reply
	Serve   Access = "serve"   // answer requests of another role, in a queue group
)

// Grant is one line of the table of rights. What no line grants is refused.
type Grant struct {
	Role    Role
	Access  Access
	Subject string
	Own     bool   // Publish: for the last token, a *, a user may put its own public key and no other
	Peer    Role   // Ask: who serves; Serve: who may ask
	Why     string // one clause, for the documentation
}

// many says whether one request of this grant has many replies.
func (g Grant) many() bool {
	return strings.HasPrefix(g.Subject, "DIRECT.GET.") || strings.HasPrefix(g.Subject, "CONSUMER.MSG.NEXT.")
}

// public is what every role but the admin may read.
func public(r Role) []Grant {
	return []Grant{
		// Announcements are public. Read in batches, from whichever replica answers.
		{Role: r, Access: Call, Subject: "DIRECT.GET." + streamAnnouncements, Why: "read announcements"},
		// A replica may lag: the leader is asked whether there is more.
		{Role: r, Access: Call, Subject: "STREAM.MSG.GET." + streamAnnouncements, Why: "make sure that no announcement is missed"},
		// A notice saves polling. It is a hint only: what counts is read with the calls above.
		{Role: r, Access: Watch, Subject: SubjectAnnounced + ".>", Why: "learn at once of a new announcement"},
		// The shuffler's public keys, to seal reports and check its signatures.
		{Role: r, Access: Call, Subject: "DIRECT.GET." + streamKeys, Why: "read public keys"},
		{Role: r, Access: Call, Subject: "STREAM.MSG.GET." + streamKeys, Why: "make sure that no key is missed"},
		{Role: r, Access: Watch, Subject: SubjectRekeyed + ".>", Why: "learn at once of a new key"},
	}
}

// Grants returns the table of rights of every role but the admin, whose users live in the streams' account (see adminPublish).
func Grants() []Grant {
	table := []Grant{
		// A device gives its report, and nothing ever gives it one back. It does so under its host's name: the broker counts by it.
		{Role: Randomizer, Access: Publish, Subject: SubjectReport + ".*", Own: true, Why: "hand in a sealed report"},
		// The slot is given before the reward exists.
		{Role: Randomizer, Access: Ask, Subject: SubjectEnrol, Peer: Shuffler, Why: "enrol a device in the current cohort"},
	}
	table = append(table, public(Randomizer)...)

	table = append(table,
		// In a queue group only, so that each request is answered by one worker.
		Grant{Role: Shuffler, Access: Serve, Subject: SubjectEnrol, Peer: Randomizer, Why: "answer enrolment requests"},
		// The durable consumer's state, to attach to it.
		Grant{Role: Shuffler, Access: Call, Subject: "CONSUMER.INFO." + StreamReports + "." + consumerReports, Why: "attach to the durable consumer of reports"},
		Grant{Role: Shuffler, Access: Call, Subject: "CONSUMER.MSG.NEXT." + StreamReports + "." + consumerReports, Why: "receive reports"},
		// An acknowledgement follows the durable commit of the admission. Second form: servers that put domain and account first.
		Grant{Role: Shuffler, Access: Publish, Subject: "$JS.ACK." + StreamReports + "." + consumerReports + ".>", Why: "acknowledge reports"},
		Grant{Role: Shuffler, Access: Publish, Subject: "$JS.ACK.*.*." + StreamReports + "." + consumerReports + ".>", Why: "acknowledge reports (newer subject form)"},
		// Reports are read again, by sequence number, when the cohort is released.
		Grant{Role: Shuffler, Access: Call, Subject: "DIRECT.GET." + StreamReports, Why: "read an admitted report again"},
		Grant{Role: Shuffler, Access: Call, Subject: "STREAM.MSG.GET." + StreamReports, Why: "the same from the leader, where a replica lags"},
		// Forgetting is part of the contract: once a round is out its reports go, and what was refused goes with them.
		Grant{Role: Shuffler, Access: Call, Subject: "STREAM.PURGE." + StreamReports, Why: "forget the reports that nobody needs any more"},
		Grant{Role: Shuffler, Access: Publish, Subject: SubjectMixed + ".*.*.*", Why: "forward mixed bit messages"},
		Grant{Role: Shuffler, Access: Publish, Subject: SubjectManifest + ".*.*", Why: "forward manifests"},
		// After a crash the shuffler must see whether a chunk that it repeats is the one that it stored: its own words, nothing new.
		Grant{Role: Shuffler, Access: Call, Subject: "STREAM.MSG.GET." + StreamMixed, Why: "compare a repeated chunk with the stored one"},
		Grant{Role: Shuffler, Access: Publish, Subject: subjectKeys + "." + string(Shuffler), Why: "publish its public keys"},
		Grant{Role: Shuffler, Access: Publish, Subject: SubjectAudit + "." + string(Shuffler) + ".*.*", Why: "append to the audit log"},
	)
	table = append(table, public(Shuffler)...)

	table = append(table,
		Grant{Role: Analyzer, Access: Call, Subject: "CONSUMER.INFO." + StreamMixed + "." + consumerMixed, Why: "attach to the durable consumer of mixed messages"},
		Grant{Role: Analyzer, Access: Call, Subject: "CONSUMER.MSG.NEXT." + StreamMixed + "." + consumerMixed, Why: "receive mixed messages"},
		Grant{Role: Analyzer, Access: Publish, Subject: "$JS.ACK." + StreamMixed + "." + consumerMixed + ".>", Why: "acknowledge mixed messages"},
		Grant{Role: Analyzer, Access: Publish, Subject: "$JS.ACK.*.*." + StreamMixed + "." + consumerMixed + ".>", Why: "acknowledge mixed messages (newer subject form)"},
		// A restart counts a release again from the start.
		Grant{Role: Analyzer, Access: Call, Subject: "DIRECT.GET." + StreamMixed, Why: "read a release's chunks again"},
		Grant{Role: Analyzer, Access: Call, Subject: "STREAM.MSG.GET." + StreamMixed, Why: "make sure that no chunk is missed"},
		Grant{Role: Analyzer, Access: Call, Subject: "STREAM.PURGE." + StreamMixed, Why: "drop chunks that are counted"},
		// The bucket takes each key once, with the digest in it: the analyzer cannot take back or alter what it announced, nor can anybody
		// who has its credential occupy a place.
		Grant{Role: Analyzer, Access: Publish, Subject: subjectAnnouncements + ".*.*.*", Why: "announce"},
		Grant{Role: Analyzer, Access: Publish, Subject: SubjectAudit + "." + string(Analyzer) + ".*.*", Why: "append to the audit log"},
		Grant{Role: Analyzer, Access: Call, Subject: "DIRECT.GET." + StreamAudit, Why: "read the audit log"},
		Grant{Role: Analyzer, Access: Call, Subject: "STREAM.MSG.GET." + StreamAudit, Why: "make sure that no statement is missed"},
	)
	table = append(table, public(Analyzer)...)

	// The auditor reads what is public and what was signed; it writes nothing at all.
	table = append(table,
		Grant{Role: Auditor, Access: Call, Subject: "DIRECT.GET." + StreamAudit, Why: "read the audit log"},
		Grant{Role: Auditor, Access: Call, Subject: "STREAM.MSG.GET." + StreamAudit, Why: "make sure that no statement is missed"},
	)
	return append(table, public(Auditor)...)
}

// adminPublish is what the admin's users may publish in the streams' account. They can create consumers and so see every ciphertext that
// the broker holds: the admin is the broker's operator, and is trusted with exactly what the broker is trusted with. Its key is needed
// for provisioning only.
var adminPublish = []string{
	apiStreams + ".INFO",
	apiStreams + ".STREAM.CREATE.*",
	apiStreams + ".STREAM.UPDATE.*",
	apiStreams + ".STREAM.INFO.*",
	apiStreams + ".STREAM.DELETE.*",
	apiStreams + ".CONSUMER.CREATE.>",
	apiStreams + ".CONSUMER.INFO.*.*",
	apiStreams + ".CONSUMER.DELETE.*.*",
}
