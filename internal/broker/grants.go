package broker

import (
	"strings"

	"github.com/riffle-dp/riffle/internal/bus"
)

// Access is the way in which a role touches a subject.
type Access string

// The ways in which a role touches a subject.
const (
	// store or acknowledge: a message into the streams' account, which the broker acknowledges
	Publish Access = "publish"
	Call    Access = "call"  // a JetStream API call, Subject without its prefix
	Watch   Access = "watch" // receive what the streams' account sends out
	Ask     Access = "ask"   // send a request to another role and receive its reply
	Serve   Access = "serve" // answer requests of another role, in a queue group
	// request, and answer in a queue group, within the role's own account: the lead and its workers
	Within Access = "within"
)

// Grant is one line of the table of rights. What no line grants is refused.
type Grant struct {
	Role    bus.Role
	Access  Access
	Subject string
	Own     bool     // Publish: in place of the last token, a *, a user may put its own public key and no other
	Peer    bus.Role // Ask: the role that serves; Serve: the role that may ask
}

// many reports whether one request of this grant has many replies.
func (g Grant) many() bool {
	return strings.HasPrefix(g.Subject, "DIRECT.GET.") || strings.HasPrefix(g.Subject, "CONSUMER.MSG.NEXT.")
}

// remote is the grant's subject in the streams' account.
func (g Grant) remote() string {
	if g.Access == Call {
		return bus.APIStreams + "." + g.Subject
	}
	return g.Subject
}

// local is the subject that the role uses.
func (g Grant) local() string {
	if g.Access == Call {
		return bus.APILocal + "." + g.Subject
	}
	return g.Subject
}

// public is what every role but the admin may read.
func public(r bus.Role) []Grant {
	return []Grant{
		// Announcements are public. They are read in batches, from whichever replica answers.
		{Role: r, Access: Call, Subject: "DIRECT.GET." + bus.StreamAnnouncements},
		// A replica may lag: the leader is asked whether there is more.
		{Role: r, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamAnnouncements},
		// A notice of a new announcement saves polling. It is a hint only: what counts is read with the calls above.
		{Role: r, Access: Watch, Subject: bus.SubjectAnnounced + ".>"},
		// The public keys of the shuffler, to seal reports and check its signatures.
		{Role: r, Access: Call, Subject: "DIRECT.GET." + bus.StreamKeys},
		{Role: r, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamKeys},
		{Role: r, Access: Watch, Subject: bus.SubjectRekeyed + ".>"},
	}
}

// consumer is what the reader of a durable consumer may do: look at its state to attach to it, receive messages, and
// acknowledge them. The second form of the acknowledgement is that of servers that put domain and account first.
func consumer(r bus.Role, stream, durable string) []Grant {
	return []Grant{
		{Role: r, Access: Call, Subject: "CONSUMER.INFO." + stream + "." + durable},
		{Role: r, Access: Call, Subject: "CONSUMER.MSG.NEXT." + stream + "." + durable},
		{Role: r, Access: Publish, Subject: "$JS.ACK." + stream + "." + durable + ".>"},
		{Role: r, Access: Publish, Subject: "$JS.ACK.*.*." + stream + "." + durable + ".>"},
	}
}

// working is what lead and workers of a role may do, who are one user of the broker. The lead stores tasks, and drops
// those of an earlier lead; workers take them; everything else they say to each other within the role's account.
func working(r bus.Role) []Grant {
	stream := bus.StreamTasks + string(r)
	return append(consumer(r, stream, bus.ConsumerTasks),
		Grant{Role: r, Access: Publish, Subject: bus.SubjectTasks + "." + string(r)},
		Grant{Role: r, Access: Call, Subject: "STREAM.PURGE." + stream},
		Grant{Role: r, Access: Within, Subject: bus.SubjectLead + "." + string(r)},
	)
}

// Grants returns the table of rights of every role but the admin, whose users live in the streams' account (see
// adminPublish).
func Grants() []Grant {
	var table []Grant
	// An ingress may do what a host may, for the devices that send over it.
	for _, r := range []bus.Role{bus.Randomizer, bus.Ingress} {
		table = append(table,
			// A device hands in its report, and nothing ever gives it one back. It does so under its host's name: the
			// broker counts by it.
			Grant{Role: r, Access: Publish, Subject: bus.SubjectReport + ".*", Own: true},
			// A device enrols, and has its slot before the reward exists.
			Grant{Role: r, Access: Ask, Subject: bus.SubjectEnrol, Peer: bus.Shuffler},
			// The shuffler answers, in a queue group only, so that each request is answered by one worker.
			Grant{Role: bus.Shuffler, Access: Serve, Subject: bus.SubjectEnrol, Peer: r},
		)
		table = append(table, public(r)...)
	}

	// It acknowledges a report after the durable commit of its admission.
	table = append(table, consumer(bus.Shuffler, bus.StreamReports, bus.ConsumerReports)...)
	table = append(table,
		// Reports are read again, by sequence number, when the cohort is released: from the leader where a replica
		// lags.
		Grant{Role: bus.Shuffler, Access: Call, Subject: "DIRECT.GET." + bus.StreamReports},
		Grant{Role: bus.Shuffler, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamReports},
		// It looks how many reports the broker keeps, so that it enrols nobody whose report would find no room.
		Grant{Role: bus.Shuffler, Access: Call, Subject: "STREAM.INFO." + bus.StreamReports},
		// Forgetting is part of the contract: once a round is out its reports go, and what was refused goes with them.
		Grant{Role: bus.Shuffler, Access: Call, Subject: "STREAM.PURGE." + bus.StreamReports},
		// It forwards mixed bit messages and their manifests.
		Grant{Role: bus.Shuffler, Access: Publish, Subject: bus.SubjectMixed + ".*.*.*"},
		Grant{Role: bus.Shuffler, Access: Publish, Subject: bus.SubjectManifest + ".*.*"},
		// After a crash it must see whether a chunk that it repeats is the one that it stored, and with several mixing
		// processes what the others stored: its own words, nothing new.
		Grant{Role: bus.Shuffler, Access: Call, Subject: "DIRECT.GET." + bus.StreamMixed},
		Grant{Role: bus.Shuffler, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamMixed},
		// Where it retains what it forwards, it seals that to the auditor and does not read it again. It looks whether
		// the broker will drop it in time.
		Grant{Role: bus.Shuffler, Access: Publish, Subject: bus.SubjectRetained + ".*.*.*"},
		Grant{Role: bus.Shuffler, Access: Call, Subject: "STREAM.INFO." + bus.StreamRetained},
		// In the channel of shares it reads the analyzer's answers, and whether what the analyzer signed is in the log.
		// There it also finds the analyzer's contributions to the draws of panels, and its own pools.
		Grant{Role: bus.Shuffler, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamPrepared},
		Grant{Role: bus.Shuffler, Access: Watch, Subject: bus.SubjectAnswered + ".>"},
		Grant{Role: bus.Shuffler, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamAudit},
		Grant{Role: bus.Shuffler, Access: Publish, Subject: bus.SubjectKeys + "." + string(bus.Shuffler)},
		Grant{Role: bus.Shuffler, Access: Publish, Subject: bus.SubjectAudit + "." + string(bus.Shuffler) + ".*.*"},
	)
	// Mixing processes hand each other segments of a round, sealed to each other, and drop them when the round is out.
	// The leader is asked where a replica lags, and whether what is repeated is what is stored.
	table = append(table,
		Grant{Role: bus.Shuffler, Access: Publish, Subject: bus.SubjectMixing + ".*.*.*.*"},
		Grant{Role: bus.Shuffler, Access: Call, Subject: "DIRECT.GET." + bus.StreamMixing},
		Grant{Role: bus.Shuffler, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamMixing},
		Grant{Role: bus.Shuffler, Access: Call, Subject: "STREAM.PURGE." + bus.StreamMixing},
	)
	table = append(table, working(bus.Shuffler)...)
	table = append(table, public(bus.Shuffler)...)

	table = append(table, consumer(bus.Analyzer, bus.StreamMixed, bus.ConsumerMixed)...)
	table = append(table,
		// A restart counts a release again from the start, and asks the leader that no chunk is missed.
		Grant{Role: bus.Analyzer, Access: Call, Subject: "DIRECT.GET." + bus.StreamMixed},
		Grant{Role: bus.Analyzer, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamMixed},
		// It drops chunks that are counted.
		Grant{Role: bus.Analyzer, Access: Call, Subject: "STREAM.PURGE." + bus.StreamMixed},
		// It answers the shuffler, compares what it repeats, and drops its answers when the round is over.
		Grant{Role: bus.Analyzer, Access: Publish, Subject: bus.SubjectPrepared + ".*.*.*"},
		Grant{Role: bus.Analyzer, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamPrepared},
		Grant{Role: bus.Analyzer, Access: Call, Subject: "STREAM.PURGE." + bus.StreamPrepared},
		// The bucket takes each key once, with the digest in it: the analyzer cannot take back or alter what it
		// announced, nor can a thief of its credential occupy a place.
		Grant{Role: bus.Analyzer, Access: Publish, Subject: bus.SubjectAnnouncements + ".*.*.*"},
		Grant{Role: bus.Analyzer, Access: Publish, Subject: bus.SubjectAudit + "." + string(bus.Analyzer) + ".*.*"},
		Grant{Role: bus.Analyzer, Access: Call, Subject: "DIRECT.GET." + bus.StreamAudit},
		Grant{Role: bus.Analyzer, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamAudit},
	)
	table = append(table, working(bus.Analyzer)...)
	table = append(table, public(bus.Analyzer)...)

	// The auditor reads what is public, what was signed, and what is retained for it; it writes nothing at all.
	table = append(table,
		Grant{Role: bus.Auditor, Access: Call, Subject: "DIRECT.GET." + bus.StreamRetained},
		Grant{Role: bus.Auditor, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamRetained},
		Grant{Role: bus.Auditor, Access: Call, Subject: "DIRECT.GET." + bus.StreamAudit},
		Grant{Role: bus.Auditor, Access: Call, Subject: "STREAM.MSG.GET." + bus.StreamAudit},
	)
	return append(table, public(bus.Auditor)...)
}

// adminPublish is what the admin's users may publish in the streams' account. They can create consumers and so see
// every ciphertext that the broker holds: the admin is the broker's operator, and is trusted with exactly what the
// broker is trusted with. Its key is needed for provisioning only.
var adminPublish = []string{
	bus.APIStreams + ".INFO",
	bus.APIStreams + ".STREAM.CREATE.*",
	bus.APIStreams + ".STREAM.UPDATE.*",
	bus.APIStreams + ".STREAM.INFO.*",
	bus.APIStreams + ".STREAM.DELETE.*",
	bus.APIStreams + ".CONSUMER.CREATE.>",
	bus.APIStreams + ".CONSUMER.INFO.*.*",
	bus.APIStreams + ".CONSUMER.DELETE.*.*",
}

// streamsAccount holds every stream. No role but the admin has a user in it.
const streamsAccount = "STREAMS"

// account is one account with its users' public keys.
type account struct {
	name  string
	users []string
}

// accountsOf returns a role's accounts on the broker. The admin lives in the account that holds the streams. Every
// host has an account of its own: the answer to a request goes to whatever subject in the asker's account it names,
// so that in a common one a host could have answers sent to another host's inbox.
func accountsOf(r bus.Role, users []string) []account {
	switch r {
	case bus.Admin:
		return []account{{streamsAccount, users}}
	case bus.Randomizer:
		all := make([]account, len(users))
		for i, u := range users {
			all[i] = account{strings.ToUpper(string(r)) + "_" + u, []string{u}}
		}
		return all
	}
	return []account{{strings.ToUpper(string(r)), users}}
}
