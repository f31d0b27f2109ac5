package wire_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"
)

// codec is a type of statement: its message in the schema, and what pkg/wire reads of bytes and writes again.
type codec struct {
	message proto.Message
	again   func(body []byte) ([]byte, error)
	lossy   bool // some messages that are well formed mean what no statement says: they do not come back
}

// again wipes what it read, whose memory a statement does not share, before it writes.
func again[T wire.Statement](body []byte) ([]byte, error) {
	body = bytes.Clone(body)
	s, err := wire.Read[T](body)
	if err != nil {
		return nil, err
	}
	clear(body)
	switch s := any(s).(type) { // a Signed inside is bytes until it is checked
	case *wire.Credential:
		err = wire.CheckSealed(s.Issuer)
	case *wire.EnrolRequest:
		err = wire.CheckSealed(s.Credential)
	}
	if err != nil {
		return nil, err
	}
	return wire.Written(s)
}

var codecs = []codec{
	{new(rifflev1.Announcement), again[plan.Announcement], true},
	{new(rifflev1.KeySet), again[wire.KeySet], false},
	{new(rifflev1.Manifest), again[wire.Manifest], false},
	{new(rifflev1.Counts), again[wire.Counts], false},
	{new(rifflev1.Credential), again[wire.Credential], true},
	{new(rifflev1.IssuerCertificate), again[wire.IssuerCertificate], false},
	{new(rifflev1.Issued), again[wire.Issued], false},
	{new(rifflev1.Accepted), again[wire.Accepted], false},
	{new(rifflev1.Summed), again[wire.Summed], false},
	{new(rifflev1.Configuration), again[wire.Configuration], true},
	{new(rifflev1.Learned), again[wire.Learned], false},
	{new(rifflev1.Pool), again[wire.Pool], false},
	{new(rifflev1.Draw), again[wire.Draw], false},
	{new(rifflev1.EnrolRequest), again[wire.EnrolRequest], true},
	{new(rifflev1.EnrolReply), again[wire.EnrolReply], false},
}

// filled has a value in every field, at every depth, and two entries in every list: each value is of its own, and enum
// is the number in each enumeration.
func filled(m protoreflect.Message, next *uint32, enum func(protoreflect.EnumDescriptor) int32) protoreflect.Message {
	value := func(f protoreflect.FieldDescriptor) protoreflect.Value {
		*next++
		n := *next
		switch f.Kind() {
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(true)
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(fmt.Sprint(n))
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes(fmt.Append(nil, n))
		case protoreflect.EnumKind:
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(enum(f.Enum())))
		case protoreflect.DoubleKind:
			return protoreflect.ValueOfFloat64(-float64(n) / 16)
		case protoreflect.Sint64Kind:
			return protoreflect.ValueOfInt64(-int64(n) << 40)
		case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
			return protoreflect.ValueOfUint64(uint64(n) << 40)
		case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
			if f.Name() == "dim" {
				return protoreflect.ValueOfUint32(1)
			}
			return protoreflect.ValueOfUint32(1<<31 + n)
		}
		panic(f.Kind())
	}
	for i := range m.Descriptor().Fields().Len() {
		switch f := m.Descriptor().Fields().Get(i); {
		case f.IsList() && f.Message() != nil:
			list := m.Mutable(f).List()
			for range 2 {
				filled(list.AppendMutable().Message(), next, enum)
			}
		case f.IsList():
			list := m.Mutable(f).List()
			for range 2 {
				list.Append(value(f))
			}
		case f.Message() != nil:
			filled(m.Mutable(f).Message(), next, enum)
		default:
			m.Set(f, value(f))
		}
	}
	return m
}

// What the generated code writes of a message with every field of the schema is read, and written again as the same
// bytes: the numbers, types and order of the fields are the schema's. So is what it writes with each number that an
// enumeration has, and with no other.
func TestTheSchemaIsWhatIsReadAndWritten(t *testing.T) {
	full := func(c codec, enum func(protoreflect.EnumDescriptor) int32) []byte {
		m := c.message.ProtoReflect().New()
		filled(m, new(uint32), enum)
		if x, ok := m.Interface().(*rifflev1.Configuration); ok { // what is JSON
			from := lastingConfiguration(t)
			x.Learner, x.Terms, x.Rules = from.Learner, from.Terms, from.Rules
		}
		if x, ok := m.Interface().(*rifflev1.Announcement); ok { // a final one has nothing to report on
			x.Final = false
		}
		return encode(t, m.Interface())
	}
	unspecified := func(d protoreflect.EnumDescriptor) int32 { return int32(d.Values().Len()) }
	for _, c := range codecs {
		name := c.message.ProtoReflect().Descriptor().Name()
		for n := range int32(64) {
			known := true // every enumeration has the number
			b := full(c, func(d protoreflect.EnumDescriptor) int32 {
				known = known && d.Values().ByNumber(protoreflect.EnumNumber(n)) != nil
				return min(n, unspecified(d))
			})
			got, err := c.again(b)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if known && !bytes.Equal(got, b) {
				t.Errorf("%s with %d in each enumeration:\n%x is read, and written as\n%x", name, n, b, got)
			}
			if !known && c.lossy && strings.Contains(string(name), "Announcement") && bytes.Equal(got, b) {
				t.Errorf("%s: a number that no enumeration has is carried", name)
			}
		}
	}
}

// The words of refusals and outcomes are the schema's.
func TestWordsAreTheSchemas(t *testing.T) {
	if n := len(rifflev1.Refusal_name); len(wire.Refusals()) != n-1 {
		t.Errorf("%d refusals, the schema has %d", len(wire.Refusals()), n-1)
	}
	for n, name := range rifflev1.Refusal_name {
		if got := wire.Refusal(n).String(); "REFUSAL_"+strings.ToUpper(got) != name {
			t.Errorf("refusal %d is %q, the schema says %s", n, got, name)
		}
	}
	for _, o := range []wire.Outcome{wire.Released, wire.Destroyed} {
		if "OUTCOME_"+strings.ToUpper(o.String()) != rifflev1.Outcome(o).String() {
			t.Errorf("outcome %d is %q, the schema says %s", o, o, rifflev1.Outcome(o))
		}
	}
	if wire.Refusal(99).String() != "99" || wire.Refusal(-1).String() != "-1" || wire.Outcome(7).String() != "7" {
		t.Error("a number without a word")
	}
}

// agrees compares what is read of any bytes with what the generated code makes of them. What comes back as it was is
// one encoding of a message of the schema; and every such encoding comes back, but where a statement cannot say it.
func agrees(t interface {
	Fatalf(format string, args ...any)
}, c codec, body []byte) (taken bool) {
	m := c.message.ProtoReflect().New().Interface()
	oracle := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, m) == nil
	if oracle {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		oracle = err == nil && bytes.Equal(b, body)
	}
	got, err := c.again(body)
	taken = err == nil && bytes.Equal(got, body)
	if taken && !oracle {
		t.Fatalf("%x is no %T, and is taken", body, m)
	}
	if oracle && !taken && !c.lossy && !long(m.ProtoReflect()) {
		t.Fatalf("%x is a %T, and comes back as %x, %v", body, m, got, err)
	}
	return taken
}

// long reports whether a message has a list of more messages than some list may have.
func long(m protoreflect.Message) (found bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		found = found || f.IsList() && f.Message() != nil && v.List().Len() > len(wire.Refusals())
		return !found
	})
	return found
}

// Messages with some fields changed at random, some of them damaged as bytes too.
func TestBytesAreReadAsTheGeneratedCodeReadsThem(t *testing.T) {
	taken, tried := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(codecs).Draw(t, "codec")
		m := c.message.ProtoReflect().New()
		if rapid.Bool().Draw(t, "filled") {
			filled(m, new(uint32), func(protoreflect.EnumDescriptor) int32 { return 1 })
		}
		for range 20 {
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				changeMessage(t, m)
			}
			body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.Interface())
			if err != nil {
				t.Fatal(err)
			}
			if len(body) > 0 && rapid.IntRange(0, 3).Draw(t, "damaged") == 0 {
				at := rapid.IntRange(0, len(body)-1).Draw(t, "at")
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0:
					body[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
				case 1:
					body = append(body[:at], body[at+1:]...)
				default:
					body = append(body, body[at:]...)
				}
			}
			tried++
			if agrees(t, c, body) {
				taken++
			}
		}
	})
	if 10*taken < tried || taken == tried {
		t.Errorf("%d of %d come back as they were", taken, tried)
	}
}

func FuzzCodec(f *testing.F) {
	for i, c := range codecs {
		m := filled(c.message.ProtoReflect().New(), new(uint32), func(protoreflect.EnumDescriptor) int32 { return 1 })
		f.Add(byte(i), encode(f, m.Interface()))
	}
	f.Fuzz(func(t *testing.T, of byte, body []byte) { agrees(t, codecs[int(of)%len(codecs)], body) })
}
