package bus

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Each role asks the JetStream API of its own account for the worst, with requests that would do it. There are no streams there.
func TestBluntForce(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	b.startWithoutPermissions()
	for _, r := range everyone {
		activity(t, b.connect(r), 1)
	}
	admin := b.connect(Admin)
	before := look(t, admin)
	for _, r := range everyone {
		c := b.connect(r)
		for _, s := range []string{StreamReports, StreamMixed, StreamAudit, streamAnnouncements, streamKeys} {
			for call, body := range map[string]string{
				"STREAM.PURGE." + s:  "",
				"STREAM.DELETE." + s: "",
				"STREAM.UPDATE." + s: `{"name":"` + s + `","subjects":["riffle.v1.none"],"retention":"limits","storage":"file"}`,
				"STREAM.CREATE." + s + "2": `{"name":"` + s + `2","subjects":["riffle.v1.spy"],"storage":"file","retention":"limits",` +
					`"mirror":{"name":"` + s + `"}}`,
				"CONSUMER.CREATE." + s:                           `{"stream_name":"` + s + `","config":{"deliver_subject":"spy","ack_policy":"none","deliver_policy":"all"}}`,
				"CONSUMER.DELETE." + s + "." + consumerReports:   "",
				"STREAM.MSG.DELETE." + s:                         `{"seq":1}`,
				"STREAM.MSG.GET." + s:                            `{"seq":1}`,
				"CONSUMER.MSG.NEXT." + s + "." + consumerReports: `{"batch":1}`,
				"CONSUMER.MSG.NEXT." + s + "." + consumerMixed:   `{"batch":1}`,
			} {
				reply, err := c.nc.Request(apiStreams+"."+call, []byte(body), 100*time.Millisecond)
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

func look(t *testing.T, admin *Conn) map[string]state {
	t.Helper()
	out := map[string]state{}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, name := range []string{StreamReports, StreamMixed, StreamAudit, streamAnnouncements, streamKeys} {
		s, err := admin.js.Stream(ctx, name)
		if err != nil {
			t.Fatalf("stream %s: %v", name, err)
		}
		in := s.CachedInfo()
		st := state{messages: in.State.Msgs, last: in.State.LastSeq, consumers: in.State.Consumers}
		if durable := map[string]string{StreamReports: consumerReports, StreamMixed: consumerMixed}[name]; durable != "" {
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

// levers are the subjects to which an intruder would like the server to send an answer: an empty one purges or deletes, a message
// stores junk.
func levers(b *broker, r Role) []string {
	var out []string
	for _, s := range []string{StreamReports, StreamMixed, StreamAudit, streamAnnouncements, streamKeys} {
		out = append(out, apiStreams+".STREAM.PURGE."+s, apiLocal+".STREAM.PURGE."+s, apiStreams+".STREAM.DELETE."+s,
			apiStreams+".CONSUMER.CREATE."+s, apiStreams+".CONSUMER.DELETE."+s+"."+consumerReports)
	}
	for _, other := range everyone {
		if other != r {
			out = append(out, inbox(other, b.options.Users[other][0])+".forged")
		}
	}
	return append(out, subjectReport(b.options.Users[Randomizer][0]), subjectReport("UFORGED"), SubjectMixed+".7.7.7", SubjectManifest+".7.7", subjectAnnouncements+".7.7.7",
		subjectKeys+".shuffler", SubjectAudit+".shuffler.junk.junk", SubjectAudit+".analyzer.junk.junk",
		"$JS.ACK."+StreamReports+"."+consumerReports+".1.1.1.1.0", SubjectAnnounced+".7.7")
}

// concrete makes a grant's subject one that the user can publish to.
func concrete(g Grant, user string) string {
	if g.Own {
		return strings.TrimSuffix(g.local(), "*") + user
	}
	s := strings.ReplaceAll(g.local(), "*", "8")
	return strings.ReplaceAll(s, ">", "1.1.1.1.0")
}

// answers are request bodies that bring an empty answer, one with a body, an error.
var answers = []string{`{"seq":999999999}`, `{"seq":1}`, `{"batch":1,"no_wait":true}`, ``}

// The server publishes answers to whatever the asker named as reply, without asking whether they may publish there. Every role tries
// every lever with every request that it may make.
func TestForgedReplySubjects(t *testing.T) {
	t.Parallel()
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprintf("permissions %v", !open), func(t *testing.T) {
			b := newBroker(t)
			if open {
				b.startWithoutPermissions()
			}
			conns := map[Role]*Conn{}
			forged := make(chan string, 1000)
			for _, r := range everyone {
				conns[r] = b.connect(r)
				activity(t, conns[r], 1)
				for _, subject := range []string{inbox(r, b.options.Users[r][0]) + ".forged", SubjectAnnounced + ".7.7"} {
					if _, err := conns[r].nc.Subscribe(subject, func(m *nats.Msg) { forged <- string(r) + " at " + m.Subject }); err != nil {
						t.Fatal(err)
					}
				}
				if err := conns[r].nc.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			admin := b.connect(Admin)
			for _, r := range everyone {
				c := conns[r]
				before := look(t, admin)
				tried := 0
				for _, g := range Grants() {
					if g.Role != r || g.Access == Watch || g.Access == Serve {
						continue
					}
					for _, lever := range levers(b, r) {
						if strings.HasPrefix(lever, "$JS.ACK.") {
							if err := c.nc.PublishRequest(concrete(g, c.user), lever, nil); err != nil {
								t.Fatal(err)
							}
							continue
						}
						if g.Access == Call && strings.Contains(g.Subject, ".PURGE.") {
							// The role's own right to purge must not be mistaken for somebody else's.
							if err := c.nc.PublishRequest(concrete(g, c.user), lever, []byte(`{"filter":"none"}`)); err != nil {
								t.Fatal(err)
							}
							continue
						}
						for _, body := range answers {
							if err := c.nc.PublishRequest(concrete(g, c.user), lever, []byte(body)); err != nil {
								t.Fatal(err)
							}
							tried++
						}
					}
				}
				if err := c.nc.Flush(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(200 * time.Millisecond)
				after := look(t, admin)
				for name, was := range before {
					is := after[name]
					if is.messages < was.messages && !mayPurge(r, name) {
						t.Errorf("%s made %s lose messages: %+v, then %+v", r, name, was, is)
					}
					if is.last != was.last && !mayWrite(r, name) {
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

func drainForged(t *testing.T, r Role, forged <-chan string) {
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

func mayWrite(r Role, stream string) bool {
	switch stream {
	case StreamReports:
		return r == Randomizer
	case StreamMixed, streamKeys:
		return r == Shuffler
	case StreamAudit:
		return r == Shuffler || r == Analyzer
	}
	return r == Analyzer
}

// mayPurge: by name as well as through a reply, each only what is its own.
func mayPurge(r Role, stream string) bool {
	return r == Shuffler && stream == StreamReports || r == Analyzer && stream == StreamMixed
}

// Why there is an account per role: with the same permissions in one account, a device purges the reports with the one right to read an
// announcement. Asked for one that does not exist, the server sends an empty answer to the reply subject, and an empty purge request
// purges everything. If this fails because NATS has begun to check reply subjects, the accounts are still right.
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
	if !s.ReadyForConnections(10 * time.Second) {
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
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: StreamReports, Subjects: []string{SubjectReport + ".>"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := js.Publish(ctx, subjectReport("one"), []byte("somebody's report")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: BucketAnnouncements}); err != nil {
		t.Fatal(err)
	}
	device, err := nats.Connect(s.ClientURL(), nats.UserInfo("device", "device"), nats.CustomInboxPrefix("_INBOX.device"))
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	if err := device.PublishRequest("$JS.API.DIRECT.GET.KV_announcements", "$JS.API.STREAM.PURGE."+StreamReports, []byte(`{"seq":99}`)); err != nil {
		t.Fatal(err)
	}
	if err := device.Flush(); err != nil {
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
