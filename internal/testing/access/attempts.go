package access

import (
	"slices"

	"github.com/riffle-dp/riffle/internal/bus"
)

// Attempt is one thing that could be tried at the broker. Its requests are harmless where they succeed: a purge
// of a round that cannot exist, a deletion with a body that the server refuses.
type Attempt struct {
	What     string   // in words
	Stream   string   // the stream that this is about; empty: none
	Subjects []string // tried one after another; reaching one is enough
	Listen   bool     // subscribe instead of publishing
	Queue    string   // with Listen: in this queue group
	Body     string
	Quiet    bool       // this has no answer: not being refused counts as reached
	Peers    bool       // what users of one role could do to each other: permissions prevent it, accounts do not
	Allowed  []bus.Role // who may; every other role must be refused
}

// Allows reports whether the role may do this.
func (a Attempt) Allows(r bus.Role) bool { return slices.Contains(a.Allowed, r) }

// ownKey is in an attempt's subject for the public key of the user who makes it.
const ownKey = "<own key>"

// The streams of tasks for workers.
const (
	tasksShuffler = bus.StreamTasks + string(bus.Shuffler)
	tasksAnalyzer = bus.StreamTasks + string(bus.Analyzer)
)

// everyRole is every role with an account of its own.
var everyRole = []bus.Role{bus.Randomizer, bus.Ingress, bus.Shuffler, bus.Analyzer, bus.Auditor}

// Attempts is everything that is tried, with who may do it. It is written down apart from Grants on purpose: the
// tests hold the two against each other and against a running broker.
func Attempts() []Attempt {
	var all []Attempt
	api := func(what, call, body string, allowed ...bus.Role) {
		all = append(all, Attempt{What: what, Subjects: []string{bus.APIStreams + "." + call,
			bus.APILocal + "." + call}, Body: body, Allowed: allowed})
	}
	readers := map[string][]bus.Role{
		bus.StreamReports:       {bus.Shuffler},
		bus.StreamMixed:         {bus.Analyzer, bus.Shuffler}, // the shuffler reads what it stored
		bus.StreamPrepared:      nil,                          // answers are few and are read from the leader alone
		bus.StreamRetained:      {bus.Auditor},
		bus.StreamMixing:        {bus.Shuffler}, // its processes hand each other what is mixed
		tasksShuffler:           nil,            // a task is taken, or it is not read at all
		tasksAnalyzer:           nil,
		bus.StreamAudit:         {bus.Analyzer, bus.Auditor},
		bus.StreamAnnouncements: everyRole,
		bus.StreamKeys:          everyRole,
	}
	for _, s := range []string{bus.StreamReports, bus.StreamMixed, bus.StreamPrepared,
		bus.StreamRetained, bus.StreamMixing, tasksShuffler, tasksAnalyzer, bus.StreamAudit, bus.StreamAnnouncements,
		bus.StreamKeys} {
		first := len(all)
		var purge, own []bus.Role
		look := []bus.Role{bus.Admin}
		leader := readers[s]
		switch s {
		case bus.StreamReports:
			purge = []bus.Role{bus.Shuffler}
			look = append(look, bus.Shuffler) // it looks for how many reports of a host there is room
		case bus.StreamMixed:
			purge = []bus.Role{bus.Analyzer}
			leader = []bus.Role{bus.Analyzer, bus.Shuffler} // the shuffler compares what it repeats
		case bus.StreamPrepared:
			purge = []bus.Role{bus.Analyzer}
			leader = []bus.Role{bus.Analyzer, bus.Shuffler} // the analyzer compares what it repeats
		case bus.StreamRetained:
			look = append(look, bus.Shuffler) // it looks whether the broker drops in time what it retains
		case bus.StreamMixing:
			purge = []bus.Role{bus.Shuffler}
		case tasksShuffler:
			purge = []bus.Role{bus.Shuffler} // a new lead knows none of them
		case tasksAnalyzer:
			purge = []bus.Role{bus.Analyzer}
		case bus.StreamAudit:
			leader = []bus.Role{bus.Analyzer, bus.Auditor, bus.Shuffler} // the shuffler asks for a statement
		}
		durable := bus.ConsumerReports
		switch s {
		case bus.StreamReports:
			own = []bus.Role{bus.Shuffler}
		case bus.StreamMixed:
			own, durable = []bus.Role{bus.Analyzer}, bus.ConsumerMixed
		case tasksShuffler:
			own, durable = []bus.Role{bus.Shuffler}, bus.ConsumerTasks
		case tasksAnalyzer:
			own, durable = []bus.Role{bus.Analyzer}, bus.ConsumerTasks
		}
		api("create stream "+s, "STREAM.CREATE."+s, "{", bus.Admin)
		api("alter stream "+s, "STREAM.UPDATE."+s, "{", bus.Admin)
		api("delete stream "+s, "STREAM.DELETE."+s, "x", bus.Admin)
		api("look into stream "+s, "STREAM.INFO."+s, "", look...)
		api("purge "+s, "STREAM.PURGE."+s, `{"filter":"riffle.none"}`, purge...)
		api("delete a message of "+s, "STREAM.MSG.DELETE."+s, `{"seq":999999999}`)
		api("read "+s+" from any replica", "DIRECT.GET."+s, `{"seq":999999999}`, readers[s]...)
		api("read "+s+" from the leader", "STREAM.MSG.GET."+s, `{"seq":999999999}`, leader...)
		api("read the newest of "+s+" by subject", "DIRECT.GET."+s+".riffle.v1.none", "")
		api("copy "+s+" out", "STREAM.SNAPSHOT."+s, "{")
		api("restore over "+s, "STREAM.RESTORE."+s, "{")
		api("create a consumer of "+s, "CONSUMER.CREATE."+s+".spy", "{", bus.Admin)
		api("create a nameless consumer of "+s, "CONSUMER.CREATE."+s, "{", bus.Admin)
		api("create a filtered consumer of "+s, "CONSUMER.CREATE."+s+".spy.riffle.v1.none", "{", bus.Admin)
		api("create a durable consumer of "+s, "CONSUMER.DURABLE.CREATE."+s+".spy", "{")
		api("list the consumers of "+s, "CONSUMER.LIST."+s, "")
		api("name the consumers of "+s, "CONSUMER.NAMES."+s, "")
		api("look into the consumer of "+s, "CONSUMER.INFO."+s+"."+durable, "",
			append([]bus.Role{bus.Admin}, own...)...)
		api("look into another consumer of "+s, "CONSUMER.INFO."+s+".spy", "", bus.Admin)
		api("delete the consumer of "+s, "CONSUMER.DELETE."+s+"."+durable, "x", bus.Admin)
		api("pause the consumer of "+s, "CONSUMER.PAUSE."+s+"."+durable, "{")
		api("rewind the consumer of "+s, "CONSUMER.RESET."+s+"."+durable, "{")
		api("unpin the consumer of "+s, "CONSUMER.UNPIN."+s+"."+durable, "{")
		api("move the leader of "+s, "STREAM.LEADER.STEPDOWN."+s, "{")
		api("remove a replica of "+s, "STREAM.PEER.REMOVE."+s, "{")
		if own != nil {
			api("take messages of "+s, "CONSUMER.MSG.NEXT."+s+"."+durable, `{"batch":1,"no_wait":true}`, own...)
		} else {
			api("take messages of "+s, "CONSUMER.MSG.NEXT."+s+"."+durable, `{"batch":1,"no_wait":true}`)
		}
		all = append(all, Attempt{What: "acknowledge messages of " + s, Quiet: true, Allowed: own,
			Subjects: []string{"$JS.ACK." + s + "." + durable + ".1.999999999.1.1.0"}, Body: "+ACK"})
		for i := first; i < len(all); i++ {
			all[i].Stream = s
		}
	}
	api("list the streams", "STREAM.LIST", "")
	api("name the streams", "STREAM.NAMES", "")
	api("look into the account", "INFO", "", bus.Admin)
	api("create a stream of one's own", "STREAM.CREATE.SPY", "{", bus.Admin)
	api("make the cluster's leader step down", "META.LEADER.STEPDOWN", "{")
	api("remove a server", "SERVER.REMOVE", "{")
	api("purge the account", "ACCOUNT.PURGE.STREAMS", "{")

	publish := func(what, subject string, allowed ...bus.Role) {
		all = append(all, Attempt{What: what, Subjects: []string{subject}, Body: "junk", Allowed: allowed})
	}
	publish("publish a report", bus.SubjectReport+"."+ownKey, bus.Randomizer, bus.Ingress)
	all = append(all, Attempt{What: "publish a report under another host's name",
		Subjects: []string{bus.SubjectReport + ".UFORGED"}, Body: "junk", Peers: true})
	publish("publish a chunk", bus.SubjectMixed+".0.0.0", bus.Shuffler)
	publish("publish a manifest", bus.SubjectManifest+".0.0", bus.Shuffler)
	publish("retain a chunk", bus.SubjectRetained+".0.0.0", bus.Shuffler)
	publish("answer the shuffler", bus.SubjectPrepared+".0.0.0", bus.Analyzer)
	publish("hand a segment to another mixing process", bus.SubjectMixing+".0.0.junk.0", bus.Shuffler)
	for _, r := range []bus.Role{bus.Shuffler, bus.Analyzer} {
		publish("store a task for workers of the "+string(r), bus.SubjectTasks+"."+string(r), r)
	}
	publish("announce", bus.SubjectAnnouncements+".0.0.0", bus.Analyzer)
	publish("publish keys of the shuffler", bus.SubjectKeys+"."+string(bus.Shuffler), bus.Shuffler)
	publish("publish keys of the analyzer", bus.SubjectKeys+"."+string(bus.Analyzer))
	for _, r := range bus.Roles() {
		if r == bus.Shuffler || r == bus.Analyzer {
			publish("append to the audit log as the "+string(r), bus.SubjectAudit+"."+string(r)+".junk.junk", r)
		} else {
			publish("append to the audit log as the "+string(r), bus.SubjectAudit+"."+string(r)+".junk.junk")
		}
	}
	quiet := func(what, subject string, allowed ...bus.Role) {
		all = append(all, Attempt{What: what, Subjects: []string{subject}, Body: "junk", Quiet: true, Allowed: allowed})
	}
	quiet("ask for enrolment", bus.SubjectEnrol, bus.Randomizer, bus.Ingress)
	quiet("forge a notice of an announcement", bus.SubjectAnnounced+".0.0")
	quiet("forge a notice of an answer", bus.SubjectAnswered+".0.0")
	quiet("forge a notice of a key", bus.SubjectRekeyed+"."+string(bus.Shuffler))
	quiet("forge a reply to a request across accounts", "_R_.forged", bus.Shuffler)
	for _, r := range []bus.Role{bus.Shuffler, bus.Analyzer} {
		quiet("speak to the lead of the "+string(r)+" as its worker", bus.SubjectLead+"."+string(r), r)
	}
	quiet("ask the server about itself", "$SYS.REQ.SERVER.PING")
	for _, r := range bus.Roles() {
		quiet("forge a reply into an inbox of the "+string(r), bus.InboxPrefix+"."+string(r)+".UFORGED.x")
	}

	listen := func(what, subject string, allowed ...bus.Role) {
		all = append(all, Attempt{What: what, Subjects: []string{subject}, Listen: true, Allowed: allowed})
	}
	listen("listen to everything", ">")
	listen("listen to all of Riffle", "riffle.>")
	listen("listen to arriving reports", bus.SubjectReport+".>")
	listen("listen to arriving chunks", bus.SubjectMixed+".>")
	listen("listen to arriving manifests", bus.SubjectManifest+".>")
	listen("listen to chunks being retained", bus.SubjectRetained+".>")
	listen("listen to answers being written", bus.SubjectPrepared+".>")
	listen("listen to notices of answers", bus.SubjectAnswered+".>", bus.Shuffler)
	listen("listen to the audit log", bus.SubjectAudit+".>")
	listen("listen to announcements being written", bus.SubjectAnnouncements+".>")
	listen("listen to keys being written", bus.SubjectKeys+".>")
	listen("listen to notices of announcements", bus.SubjectAnnounced+".>", everyRole...)
	listen("listen to notices of keys", bus.SubjectRekeyed+".>", everyRole...)
	listen("listen to enrolment requests", bus.SubjectEnrol)
	all = append(all, Attempt{What: "serve enrolment", Subjects: []string{bus.SubjectEnrol}, Listen: true,
		Queue: bus.QueueEnrol, Allowed: []bus.Role{bus.Shuffler}})
	all = append(all, Attempt{What: "serve enrolment in a queue group of one's own",
		Subjects: []string{bus.SubjectEnrol}, Listen: true, Queue: "spy"})
	for _, r := range []bus.Role{bus.Shuffler, bus.Analyzer} {
		subject := bus.SubjectLead + "." + string(r)
		all = append(all, Attempt{What: "answer workers of the " + string(r) + " as its lead",
			Subjects: []string{subject}, Listen: true, Queue: bus.QueueLead, Allowed: []bus.Role{r}})
		listen("listen to what workers tell the lead of the "+string(r), subject)
		listen("listen to tasks being stored for workers of the "+string(r), bus.SubjectTasks+"."+string(r))
	}
	listen("listen to segments being handed over", bus.SubjectMixing+".>")
	listen("listen to replies across accounts", "_R_.>")
	listen("listen to the broker's advisories", "$JS.EVENT.>")
	listen("listen to the JetStream API", "$JS.API.>")
	listen("listen to the server's events", "$SYS.>")
	listen("listen to every inbox", bus.InboxPrefix+".>")
	for _, r := range bus.Roles() {
		listen("listen to the inboxes of every "+string(r), bus.InboxPrefix+"."+string(r)+".>")
	}
	return all
}
