package bus_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/riffle-dp/riffle/internal/broker"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// Each role asks the JetStream API of its own account for the worst, with requests that would do it. There are no
// streams there.
func TestBluntForce(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.startWithoutPermissions()
	for _, r := range everyRole {
		activity(t, b.connect(r), 1)
	}
	admin := b.connect(bus.Admin)
	before := look(t, admin)
	for _, r := range everyRole {
		c := b.connect(r)
		for _, s := range []string{bus.StreamReports, bus.StreamMixed, bus.StreamAudit, bus.StreamAnnouncements,
			bus.StreamKeys} {
			for call, body := range map[string]string{
				"STREAM.PURGE." + s:  "",
				"STREAM.DELETE." + s: "",
				"STREAM.UPDATE." + s: `{"name":"` + s +
					`","subjects":["riffle.v1.none"],"retention":"limits","storage":"file"}`,
				"STREAM.CREATE." + s + "2": `{"name":"` + s +
					`2","subjects":["riffle.v1.spy"],"storage":"file","retention":"limits",` +
					`"mirror":{"name":"` + s + `"}}`,
				"CONSUMER.CREATE." + s: `{"stream_name":"` + s +
					`","config":{"deliver_subject":"spy","ack_policy":"none","deliver_policy":"all"}}`,
				"CONSUMER.DELETE." + s + "." + bus.ConsumerReports:   "",
				"STREAM.MSG.DELETE." + s:                             `{"seq":1}`,
				"STREAM.MSG.GET." + s:                                `{"seq":1}`,
				"CONSUMER.MSG.NEXT." + s + "." + bus.ConsumerReports: `{"batch":1}`,
				"CONSUMER.MSG.NEXT." + s + "." + bus.ConsumerMixed:   `{"batch":1}`,
			} {
				reply, err := c.NATS().Request(bus.APIStreams+"."+call, []byte(body), 100*time.Millisecond)
				if err == nil && !strings.Contains(string(reply.Data), `"err_code":10039`) {
					t.Errorf("%s: %s: %s", r, call, reply.Data)
				}
			}
		}
	}
	for name, is := range look(t, admin) {
		if is != before[name] {
			t.Errorf("%s was %+v, is %+v", name, before[name], is)
		}
	}
}

// state is what an intruder could change.
type state struct {
	messages, last uint64
	consumers      int
	acknowledged   uint64
}

func look(t *testing.T, admin *bus.Conn) map[string]state {
	t.Helper()
	out := map[string]state{}
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	defer cancel()
	for _, name := range []string{bus.StreamReports, bus.StreamMixed, bus.StreamRetained, bus.StreamAudit,
		bus.StreamAnnouncements, bus.StreamKeys} {
		s, err := admin.JetStream().Stream(ctx, name)
		if err != nil {
			t.Fatalf("stream %s: %v", name, err)
		}
		in := s.CachedInfo()
		st := state{messages: in.State.Msgs, last: in.State.LastSeq, consumers: in.State.Consumers}
		if durable := map[string]string{bus.StreamReports: bus.ConsumerReports,
			bus.StreamMixed: bus.ConsumerMixed}[name]; durable != "" {
			c, err := s.Consumer(ctx, durable)
			if err != nil {
				t.Fatalf("consumer of %s: %v", name, err)
			}
			st.acknowledged = c.CachedInfo().AckFloor.Stream
		}
		out[name] = st
	}
	return out
}

// lookAtLast looks once nothing changes any more: what one role has set off must not be taken for the next one's.
func lookAtLast(t *testing.T, admin *bus.Conn) (is map[string]state) {
	t.Helper()
	var was map[string]state
	testbed.Eventually(t, "without a change", func() bool {
		time.Sleep(200 * time.Millisecond)
		was, is = is, look(t, admin)
		return maps.Equal(was, is)
	})
	return is
}

// levers are the subjects to which an intruder would like the server to send an answer: an empty one purges or
// deletes, a message stores junk.
func levers(b *bed, r bus.Role) []string {
	var out []string
	for _, s := range []string{bus.StreamReports, bus.StreamMixed, bus.StreamRetained, bus.StreamAudit,
		bus.StreamAnnouncements, bus.StreamKeys} {
		out = append(out, bus.APIStreams+".STREAM.PURGE."+s, bus.APILocal+".STREAM.PURGE."+s,
			bus.APIStreams+".STREAM.DELETE."+s,
			bus.APIStreams+".CONSUMER.CREATE."+s, bus.APIStreams+".CONSUMER.DELETE."+s+"."+bus.ConsumerReports)
	}
	for _, other := range everyRole {
		if other != r {
			out = append(out, bus.Inbox(other, b.options.Users[other][0])+".forged")
		}
	}
	return append(out, bus.ReportSubject(b.options.Users[bus.Randomizer][0]), bus.ReportSubject("UFORGED"),
		bus.SubjectMixed+".7.7.7", bus.SubjectRetained+".7.7.7", bus.SubjectManifest+".7.7",
		bus.SubjectAnnouncements+".7.7.7", bus.SubjectKeys+".shuffler", bus.SubjectAudit+".shuffler.junk.junk",
		bus.SubjectAudit+".analyzer.junk.junk",
		"$JS.ACK."+bus.StreamReports+"."+bus.ConsumerReports+".1.1.1.1.0", bus.SubjectAnnounced+".7.7")
}

// local is the subject that a grant's role uses.
func local(g broker.Grant) string {
	if g.Access == broker.Call {
		return bus.APILocal + "." + g.Subject
	}
	return g.Subject
}

// concrete makes a grant's subject one that the user can publish to.
func concrete(g broker.Grant, user string) string {
	if g.Own {
		return strings.TrimSuffix(local(g), "*") + user
	}
	s := strings.ReplaceAll(local(g), "*", "8")
	return strings.ReplaceAll(s, ">", "1.1.1.1.0")
}

// pastEnd is a place that no stream here comes to. As the body of a purge it drops all that is there.
const pastEnd = 999999999

// answers are request bodies that bring an empty answer, one with a body, an error.
var answers = []string{fmt.Sprintf(`{"seq":%d}`, pastEnd), `{"seq":1}`, `{"batch":1,"no_wait":true}`, ``}

// The server publishes answers to whatever the asker named as reply, without asking whether they may publish there.
// Every role tries every lever with every request that it may make.
func TestForgedReplySubjectsReachNothing(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprintf("permissions %v", !open), func(t *testing.T) {
			b := newBroker(t)
			if open {
				b.startWithoutPermissions()
			}
			conns := map[bus.Role]*bus.Conn{}
			forged := make(chan string, 1000)
			for _, r := range everyRole {
				conns[r] = b.connect(r)
				activity(t, conns[r], 1)
				for _, subject := range []string{bus.Inbox(r, b.options.Users[r][0]) + ".forged",
					bus.SubjectAnnounced + ".7.7"} {
					if _, err := conns[r].NATS().Subscribe(subject,
						func(m *nats.Msg) { forged <- string(r) + " at " + m.Subject }); err != nil {
						t.Fatal(err)
					}
				}
				if err := conns[r].NATS().FlushWithContext(b.ctx()); err != nil {
					t.Fatal(err)
				}
			}
			admin := b.connect(bus.Admin)
			for _, r := range everyRole {
				c := conns[r]
				before := look(t, admin)
				tried := 0
				for _, g := range broker.Grants() {
					if g.Role != r || g.Access == broker.Watch || g.Access == broker.Serve {
						continue
					}
					for _, lever := range levers(b, r) {
						if strings.HasPrefix(lever, "$JS.ACK.") {
							if err := c.NATS().PublishRequest(concrete(g, c.User()), lever, nil); err != nil {
								t.Fatal(err)
							}
							continue
						}
						if g.Access == broker.Call && strings.Contains(g.Subject, ".PURGE.") {
							// The role's own right to purge must not be mistaken for another's.
							if err := c.NATS().PublishRequest(concrete(g, c.User()), lever,
								[]byte(`{"filter":"none"}`)); err != nil {
								t.Fatal(err)
							}
							continue
						}
						for _, body := range answers {
							if err := c.NATS().PublishRequest(concrete(g, c.User()), lever, []byte(body)); err != nil {
								t.Fatal(err)
							}
							tried++
						}
					}
				}
				if err := c.NATS().FlushWithContext(b.ctx()); err != nil {
					t.Fatal(err)
				}
				after := lookAtLast(t, admin)
				for name, was := range before {
					is := after[name]
					if is.messages < was.messages && !mayPurge(r, name) {
						t.Errorf("%s made %s lose messages: %+v, then %+v", r, name, was, is)
					}
					// A role may also have what it stored handed to its own right to purge, as the body of that
					// request.
					purged := mayPurge(r, name) && is.messages == 0 && is.last == pastEnd-1
					if is.last != was.last && !mayWrite(r, name) && !purged {
						t.Errorf("%s wrote into %s: %+v, then %+v", r, name, was, is)
					}
					if is.consumers != was.consumers || is.acknowledged != was.acknowledged && !mayPurge(r, name) {
						t.Errorf("%s changed the consumers of %s: %+v, then %+v", r, name, was, is)
					}
				}
				t.Logf("%s: %d requests", r, tried)
				drainForged(t, r, forged)
			}
		})
	}
}

func drainForged(t *testing.T, r bus.Role, forged <-chan string) {
	t.Helper()
	for {
		select {
		case s := <-forged:
			// In its own account a role may be told by itself; a notice is only a hint.
			if !strings.HasPrefix(s, string(r)+" at") {
				t.Errorf("%s reached %s", r, s)
			}
		default:
			return
		}
	}
}

func mayWrite(r bus.Role, stream string) bool {
	switch stream {
	case bus.StreamReports:
		return r == bus.Randomizer || r == bus.Ingress
	case bus.StreamMixed, bus.StreamRetained, bus.StreamKeys:
		return r == bus.Shuffler
	case bus.StreamAudit:
		return r == bus.Shuffler || r == bus.Analyzer
	}
	return r == bus.Analyzer
}

// mayPurge: by name as well as through a reply, each only what is its own.
func mayPurge(r bus.Role, stream string) bool {
	return r == bus.Shuffler && stream == bus.StreamReports || r == bus.Analyzer && stream == bus.StreamMixed
}

// Why there is an account per role: with the same permissions in one account, a device purges the reports with the
// one right to read an announcement. Asked for one that does not exist, the server sends an empty answer to the reply
// subject, and an empty purge request purges everything. If this fails because NATS has begun to check reply
// subjects, the accounts are still right.
func TestOneAccountWouldNotDo(t *testing.T) {
	t.Parallel()
	conf := fmt.Sprintf(`
listen: "127.0.0.1:-1"
jetstream { store_dir: %q }
authorization { users: [
  {user: admin, password: admin}
  {user: device, password: device, permissions: {
    publish: {allow: ["$JS.API.DIRECT.GET.KV_announcements"]}, subscribe: {allow: ["_INBOX.device.>"]}}}
]}`, t.TempDir())
	var o server.Options
	if err := o.ProcessConfigString(conf); err != nil {
		t.Fatal(err)
	}
	o.NoSigs = true
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(testbed.Patience) {
		t.Fatal("server did not start")
	}
	admin, err := nats.Connect(s.ClientURL(), nats.UserInfo("admin", "admin"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	js, err := jetstream.New(admin)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	defer cancel()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: bus.StreamReports,
		Subjects: []string{bus.SubjectReport + ".>"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := js.Publish(ctx, bus.ReportSubject("one"), []byte("another host's report")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bus.BucketAnnouncements}); err != nil {
		t.Fatal(err)
	}
	device, err := nats.Connect(s.ClientURL(), nats.UserInfo("device", "device"),
		nats.CustomInboxPrefix("_INBOX.device"))
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	if err := device.PublishRequest("$JS.API.DIRECT.GET.KV_announcements", "$JS.API.STREAM.PURGE."+bus.StreamReports,
		[]byte(`{"seq":99}`)); err != nil {
		t.Fatal(err)
	}
	if err := device.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	in, err := stream.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if in.State.Msgs >= 5 {
		t.Skipf("%d reports are left: this server checks reply subjects", in.State.Msgs)
	}
}
