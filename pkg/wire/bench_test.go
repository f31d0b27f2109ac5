package wire_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
)

// Each type of statement with all its fields is read and written, by this package and by the code that is generated
// from the schema. The metric of-protobuf is the ratio of their times; a ratio above the bound fails.
func BenchmarkCodec(b *testing.B) {
	const bound = 2
	for _, c := range codecs {
		if _, has := c.message.(*rifflev1.Configuration); has { // holds JSON, which both pass on
			continue
		}
		b.Run(string(c.message.ProtoReflect().Descriptor().Name()), func(b *testing.B) {
			m := filled(c.message.ProtoReflect().New(), new(uint32),
				func(protoreflect.EnumDescriptor) int32 { return 1 }).Interface()
			switch m := m.(type) { // a Signed inside, which again looks at
			case *rifflev1.Credential:
				m.Issuer = nil
			case *rifflev1.EnrolRequest:
				m.Credential = nil
			case *rifflev1.Announcement: // a final one has nothing to report on
				m.Final = false
			}
			body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := c.again(body); err != nil {
				b.Fatal(err)
			}
			ours, theirs := leastOf(b.N, func() { _, _ = c.again(body) }, func() {
				into := m.ProtoReflect().New().Interface()
				if err := proto.Unmarshal(body, into); err == nil {
					_, _ = proto.MarshalOptions{Deterministic: true}.Marshal(into)
				}
			})
			ratio := float64(ours) / float64(theirs)
			if b.ReportMetric(ratio, "of-protobuf"); b.N >= 100 && ratio > bound {
				b.Errorf("%v in place of protobuf's %v", ours, theirs)
			}
		})
	}
}

// leastOf is the least time of a call of each, of n that take turns: other work on the machine disturbs their ratio
// least.
func leastOf(n int, f, g func()) (of, og time.Duration) {
	of, og = time.Hour, time.Hour
	for range n {
		start := time.Now()
		f()
		middle := time.Now()
		g()
		of, og = min(of, middle.Sub(start)), min(og, time.Since(middle))
	}
	return of, og
}
