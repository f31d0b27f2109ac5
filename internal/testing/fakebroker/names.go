package fakebroker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/riffle-dp/riffle/internal/bus"
)

// names are the methods of the handles that make a request, by what it does and by what it is about.
var names = map[string]map[string]string{
	"publish": {
		"announcements": "PutAnnouncement", "keys": "PutKeys", "report": "PublishReport", "mixed": "PublishChunk",
		"manifest": "PublishManifest", "prepared": "PublishPrepared", "retained": "PublishRetained",
		"mixing": "PublishSegment", "tasks": "PublishTask", "audit": "AppendAudit",
	},
	"read": {
		"announcements": "PutAnnouncement", "keys": "Keys", "report": "LastReport", "mixed": "ReadChunk",
		"manifest": "ReadManifest", "prepared": "ReadPrepared", "mixing": "ReadSegment", "audit": "Audited",
	},
	"scan": {
		"announcements": "Announcements", "keys": "Keys", "report": "StoredReports", "mixed": "ReadChunks",
		"retained": "ReadRetained", "audit": "ReadAudit",
	},
	"purge": {
		"report": "PurgeReports", "mixed": "PurgeMixed", "prepared": "PurgePrepared", "mixing": "PurgeSegments",
		"tasks": "PurgeTasks",
	},
	"consume": {"report": "Reports", "mixed": "Mixed", "tasks": "Tasks"},
}

func nameOf(does, subject string) string {
	kind := strings.TrimPrefix(strings.TrimPrefix(subject, "riffle.v1."), "$KV.")
	kind, _, _ = strings.Cut(kind, ".")
	name := names[does][kind]
	if name == "" {
		panic(fmt.Sprintf("fakebroker: no method of a handle makes the request %s of %s", does, subject))
	}
	if does == "scan" && kind == "announcements" && !strings.HasSuffix(subject, ".*.*.*") {
		name += "At"
	}
	return name
}

// requestName names the request for one message.
func requestName(ctx context.Context, q bus.Query) (name, subject string) {
	switch {
	case q.Last != "":
		return nameOf("read", q.Last), about(strings.TrimSuffix(q.Last, ".*"))
	case q.Next == "":
		return "GetReport", strconv.FormatUint(q.Sequence, 10)
	case strings.HasPrefix(q.Next, bus.SubjectAudit+".*"):
		return "ReadAudit", q.Next
	case strings.HasPrefix(q.Next, bus.SubjectAudit) && strings.HasSuffix(q.Next, ".*.*"):
		return "SaidSince", q.Next
	case strings.HasPrefix(q.Next, bus.SubjectAudit):
		return "Said", q.Next
	}
	return watchName(ctx, nameOf("scan", q.Next)), q.Next // the end of a scan
}

type watching struct{}

// watchName is the name of a request that is made for a watcher.
func watchName(ctx context.Context, name string) string {
	if ctx.Value(watching{}) != nil {
		return "Watch" + name
	}
	return name
}

// about is a subject without the digest or the random name that it has.
func about(subject string) string {
	tokens := strings.Split(subject, ".")
	switch {
	case strings.HasPrefix(subject, bus.SubjectAnnouncements+"."):
		return strings.Join(tokens[:4], ".")
	case strings.HasPrefix(subject, bus.SubjectAudit+"."):
		return strings.Join(tokens[:5], ".")
	case strings.HasPrefix(subject, bus.SubjectMixing+"."):
		return strings.Join(append(tokens[:5:5], tokens[6]), ".")
	}
	return subject
}
