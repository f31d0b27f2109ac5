package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Attempt is one thing that somebody could try at the broker. Its requests are harmless where they succeed: a purge of a round that
// cannot exist, a deletion with a body that the server refuses.
type Attempt struct {
	What     string   // in words
	Subjects []string // tried one after another; reaching one is enough
	Listen   bool     // subscribe instead of publishing
	Queue    string   // with Listen: in this queue group
	Body     string
	Quiet    bool   // nobody answers this: not being refused counts as reached
	Peers    bool   // one user's right against others of its role: permissions keep them apart, and not their accounts
	Allowed  []Role // who may; everyone else must be refused
}

// Allows says whether the role may do this.
func (a Attempt) Allows(r Role) bool { return slices.Contains(a.Allowed, r) }

// ownKey stands in an attempt's subject for the public key of whoever makes it.
const ownKey = "<own key>"

// everyone is every role with an account of its own.
var everyone = []Role{Randomizer, Shuffler, Analyzer, Auditor}

// Attempts is everything that is tried, with who may do it. It is written down apart from Grants on purpose: the tests hold the two
// against each other and against a running broker.
func Attempts() []Attempt {
	var all []Attempt
	api := func(what, call, body string, allowed ...Role) {
		all = append(all, Attempt{What: what, Subjects: []string{apiStreams + "." + call, apiLocal + "." + call}, Body: body, Allowed: allowed})
	}
	readers := map[string][]Role{
		StreamReports:       {Shuffler},
		StreamMixed:         {Analyzer},
		StreamAudit:         {Analyzer, Auditor},
		streamAnnouncements: everyone,
		streamKeys:          everyone,
	}
	for _, s := range []string{StreamReports, StreamMixed, StreamAudit, streamAnnouncements, streamKeys} {
		var purge, own []Role
		leader := readers[s]
		switch s {
		case StreamReports:
			purge = []Role{Shuffler}
		case StreamMixed:
			purge = []Role{Analyzer}
			leader = []Role{Analyzer, Shuffler} // the shuffler compares what it repeats
		}
		durable := consumerReports
		switch s {
		case StreamReports:
			own = []Role{Shuffler}
		case StreamMixed:
			own, durable = []Role{Analyzer}, consumerMixed
		}
		api("create stream "+s, "STREAM.CREATE."+s, "{", Admin)
		api("alter stream "+s, "STREAM.UPDATE."+s, "{", Admin)
		api("delete stream "+s, "STREAM.DELETE."+s, "x", Admin)
		api("look into stream "+s, "STREAM.INFO."+s, "", Admin)
		api("purge "+s, "STREAM.PURGE."+s, `{"filter":"riffle.none"}`, purge...)
		api("delete a message of "+s, "STREAM.MSG.DELETE."+s, `{"seq":999999999}`)
		api("read "+s+" from any replica", "DIRECT.GET."+s, `{"seq":999999999}`, readers[s]...)
		api("read "+s+" from the leader", "STREAM.MSG.GET."+s, `{"seq":999999999}`, leader...)
		api("read the newest of "+s+" by subject", "DIRECT.GET."+s+".riffle.v1.none", "")
		api("copy "+s+" out", "STREAM.SNAPSHOT."+s, "{")
		api("restore over "+s, "STREAM.RESTORE."+s, "{")
		api("create a consumer of "+s, "CONSUMER.CREATE."+s+".spy", "{", Admin)
		api("create a nameless consumer of "+s, "CONSUMER.CREATE."+s, "{", Admin)
		api("create a filtered consumer of "+s, "CONSUMER.CREATE."+s+".spy.riffle.v1.none", "{", Admin)
		api("create a durable consumer of "+s, "CONSUMER.DURABLE.CREATE."+s+".spy", "{")
		api("list the consumers of "+s, "CONSUMER.LIST."+s, "")
		api("name the consumers of "+s, "CONSUMER.NAMES."+s, "")
		api("look into the consumer of "+s, "CONSUMER.INFO."+s+"."+durable, "", append([]Role{Admin}, own...)...)
		api("look into another consumer of "+s, "CONSUMER.INFO."+s+".spy", "", Admin)
		api("delete the consumer of "+s, "CONSUMER.DELETE."+s+"."+durable, "x", Admin)
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
	}
	api("list the streams", "STREAM.LIST", "")
	api("name the streams", "STREAM.NAMES", "")
	api("look into the account", "INFO", "", Admin)
	api("create a stream of one's own", "STREAM.CREATE.SPY", "{", Admin)
	api("make the cluster's leader step down", "META.LEADER.STEPDOWN", "{")
	api("remove a server", "SERVER.REMOVE", "{")
	api("purge the account", "ACCOUNT.PURGE.STREAMS", "{")

	publish := func(what, subject string, allowed ...Role) {
		all = append(all, Attempt{What: what, Subjects: []string{subject}, Body: "junk", Allowed: allowed})
	}
	publish("publish a report", subjectReport(ownKey), Randomizer)
	all = append(all, Attempt{What: "publish a report under another host's name", Subjects: []string{subjectReport("UFORGED")}, Body: "junk", Peers: true})
	publish("publish a chunk", SubjectMixed+".0.0.0", Shuffler)
	publish("publish a manifest", SubjectManifest+".0.0", Shuffler)
	publish("announce", subjectAnnouncements+".0.0.0", Analyzer)
	publish("publish keys of the shuffler", subjectKeys+"."+string(Shuffler), Shuffler)
	publish("publish keys of the analyzer", subjectKeys+"."+string(Analyzer))
	for _, r := range Roles() {
		if r == Shuffler || r == Analyzer {
			publish("append to the audit log as the "+string(r), SubjectAudit+"."+string(r)+".junk.junk", r)
		} else {
			publish("append to the audit log as the "+string(r), SubjectAudit+"."+string(r)+".junk.junk")
		}
	}
	quiet := func(what, subject string, allowed ...Role) {
		all = append(all, Attempt{What: what, Subjects: []string{subject}, Body: "junk", Quiet: true, Allowed: allowed})
	}
	quiet("ask for enrolment", SubjectEnrol, Randomizer)
	quiet("forge a notice of an announcement", SubjectAnnounced+".0.0")
	quiet("forge a notice of a key", SubjectRekeyed+"."+string(Shuffler))
	quiet("forge a reply to a request across accounts", "_R_.forged", Shuffler)
	quiet("ask the server about itself", "$SYS.REQ.SERVER.PING")
	for _, r := range Roles() {
		quiet("forge a reply into an inbox of the "+string(r), inboxPrefix+"."+string(r)+".UFORGED.x")
	}

	listen := func(what, subject string, allowed ...Role) {
		all = append(all, Attempt{What: what, Subjects: []string{subject}, Listen: true, Allowed: allowed})
	}
	listen("listen to everything", ">")
	listen("listen to all of Riffle", "riffle.>")
	listen("listen to arriving reports", SubjectReport+".>")
	listen("listen to arriving chunks", SubjectMixed+".>")
	listen("listen to arriving manifests", SubjectManifest+".>")
	listen("listen to the audit log", SubjectAudit+".>")
	listen("listen to announcements being written", subjectAnnouncements+".>")
	listen("listen to keys being written", subjectKeys+".>")
	listen("listen to notices of announcements", SubjectAnnounced+".>", everyone...)
	listen("listen to notices of keys", SubjectRekeyed+".>", everyone...)
	listen("listen to enrolment requests", SubjectEnrol)
	all = append(all, Attempt{What: "serve enrolment", Subjects: []string{SubjectEnrol}, Listen: true, Queue: queueEnrol, Allowed: []Role{Shuffler}})
	all = append(all, Attempt{What: "serve enrolment in a queue group of one's own", Subjects: []string{SubjectEnrol}, Listen: true, Queue: "spy"})
	listen("listen to replies across accounts", "_R_.>")
	listen("listen to the broker's advisories", "$JS.EVENT.>")
	listen("listen to the JetStream API", "$JS.API.>")
	listen("listen to the server's events", "$SYS.>")
	listen("listen to every inbox", inboxPrefix+".>")
	for _, r := range Roles() {
		listen("listen to the inboxes of every "+string(r), inboxPrefix+"."+string(r)+".>")
	}
	return all
}

// Outcome is what came of an attempt.
type Outcome struct {
	Reached bool   // somebody took it: the role can do this
	Reason  string // the refusal's, or what answered
}

// Try makes one attempt with the connection's credentials.
func (c *Conn) Try(ctx context.Context, a Attempt) (Outcome, error) {
	var reasons []string
	for _, subject := range a.Subjects {
		out, err := c.trySubject(ctx, a, strings.ReplaceAll(subject, ownKey, c.user))
		if err != nil || out.Reached {
			return out, err
		}
		reasons = append(reasons, out.Reason)
	}
	return Outcome{Reason: strings.Join(reasons, "; ")}, nil
}

const (
	refusalTime = 200 * time.Millisecond // for a refusal of what nobody answers; the server sends it before it answers the next ping
	answerTime  = 2 * time.Second
)

func (c *Conn) trySubject(ctx context.Context, a Attempt, subject string) (Outcome, error) {
	guarded, release := c.guard(ctx, subject)
	defer release()
	limit := answerTime
	var sub *nats.Subscription
	var err error
	switch {
	case a.Listen && a.Queue != "":
		sub, err = c.nc.QueueSubscribeSync(subject, a.Queue)
	case a.Listen:
		sub, err = c.nc.SubscribeSync(subject)
	case a.Quiet:
		err = c.nc.Publish(subject, []byte(a.Body))
	}
	if sub != nil {
		defer func() { _ = sub.Unsubscribe() }()
	}
	if a.Listen || a.Quiet {
		limit = refusalTime
		if err == nil {
			flush, cancel := context.WithTimeout(guarded, answerTime)
			err = c.nc.FlushWithContext(flush)
			cancel()
		}
		if err != nil && guarded.Err() == nil {
			return Outcome{}, fmt.Errorf("bus: try %s: %w", subject, err)
		}
	}
	limited, cancel := context.WithTimeout(guarded, limit)
	defer cancel()
	if a.Listen || a.Quiet {
		<-limited.Done()
		if errors.Is(context.Cause(guarded), ErrForbidden) {
			return Outcome{Reason: "no permission"}, nil
		}
		return Outcome{Reached: true, Reason: "not refused"}, ctx.Err()
	}
	reply, err := c.nc.RequestWithContext(limited, subject, []byte(a.Body))
	switch {
	case errors.Is(context.Cause(guarded), ErrForbidden):
		return Outcome{Reason: "no permission"}, nil
	case errors.Is(err, nats.ErrNoResponders):
		return Outcome{Reason: "nobody there"}, nil
	case ctx.Err() != nil:
		return Outcome{}, fmt.Errorf("bus: try %s: %w", subject, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return Outcome{Reason: "no answer"}, nil
	case err != nil:
		return Outcome{}, fmt.Errorf("bus: try %s: %w", subject, err)
	}
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if json.Unmarshal(reply.Data, &answer) == nil && answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabledForAccount {
		return Outcome{Reason: "no streams in this account"}, nil
	}
	return Outcome{Reached: true, Reason: "answered"}, nil
}

// AccessTable writes attempts and their outcomes by role as a Markdown table: "yes" where it was reached, "-" where it was refused.
func AccessTable(attempts []Attempt, outcomes map[Role][]Outcome) string {
	var w strings.Builder
	w.WriteString("| attempt | subject |")
	rule := "|---|---|"
	var roles []Role
	for _, r := range Roles() {
		if len(outcomes[r]) == len(attempts) {
			roles = append(roles, r)
			fmt.Fprintf(&w, " %s |", r)
			rule += "---|"
		}
	}
	w.WriteString("\n" + rule + "\n")
	for i, a := range attempts {
		fmt.Fprintf(&w, "| %s | `%s` |", a.What, a.Subjects[0])
		for _, r := range roles {
			mark := "-"
			if outcomes[r][i].Reached {
				mark = "yes"
			}
			fmt.Fprintf(&w, " %s |", mark)
		}
		w.WriteByte('\n')
	}
	return w.String()
}
