package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"
)

// Whatever announcement Sign accepts, Open returns one that is equal in every field, with the same digest, and Sign
// makes the same bytes of it. Half of the announcements have one field changed at random.
func TestAnnouncementThatSignAcceptsOpensEqual(t *testing.T) {
	by, key := signer(t, 1), hpkeKey(t, 9).Public()
	valid, changed, accepted := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		a := drawAnnouncement(t, key)
		damaged := rapid.Bool().Draw(t, "damaged")
		if damaged {
			leaves := leavesOf(reflect.ValueOf(a).Elem(), "")
			rapid.SampledFrom(leaves).Draw(t, "leaf").set(t)
		}
		signed, digest, err := wire.Sign(a, by)
		var f *wire.FieldError
		switch {
		case err != nil && (!damaged || !errors.As(err, &f)):
			t.Fatalf("%+v: %v", a, err)
		case err != nil:
			changed++
			return
		case damaged:
			accepted++
		default:
			valid++
		}
		got, again, err := wire.Open[plan.Announcement](signed, wire.Party{Deployment: a.Deployment, Key: by.Public()})
		if err != nil || again != digest {
			t.Fatalf("%+v: digest %x, opened %x, %v", a, digest, again, err)
		}
		if fmt.Sprintf("%+v", got.Policy.Scaling) != fmt.Sprintf("%+v", a.Policy.Scaling) ||
			!reflect.DeepEqual(canonical(got), canonical(a)) {
			t.Fatalf("signed %+v\nopened %+v", a, got)
		}
		if resigned, _, err := wire.Sign(got, by); err != nil || !bytes.Equal(resigned, signed) {
			t.Fatalf("%+v is signed as other bytes than before: %v", got, err)
		}
	})
	if valid == 0 || changed == 0 || accepted == 0 {
		t.Errorf("%d valid, %d refused, %d accepted after a change: one case has not been tried",
			valid, changed, accepted)
	}
}

// Whatever bytes Open accepts are those that Sign makes of the statement that it returns. The bytes are golden
// statements of every kind with up to three fields of the message changed, below the checks of Sign.
func TestBytesThatOpenAcceptsAreWhatSignMakes(t *testing.T) {
	by, host := signer(t, goldenSigner), signer(t, goldenHost)
	statements := []struct {
		kind seal.Kind
		m    proto.Message
	}{
		{seal.Announcement, announcement(t)}, {seal.Announcement, finalAnnouncement(t)}, {seal.KeySet, keySet(t)},
		{seal.Manifest, manifest()}, {seal.Manifest, destroyedManifest()}, {seal.Counts, counts()},
		{seal.Credential, credential(t, host)}, {seal.Accepted, acceptedSet()}, {seal.Summed, summed()},
		{seal.Configuration, configuration(t)}, {seal.Learned, learned()}, {seal.Learned, destroyedLearned()},
		{seal.Manifest, auditedManifest()}, {seal.Announcement, panelAnnouncement(t)}, {seal.Pool, pool()},
		{seal.Announcement, structuredAnnouncement(t)}, {seal.Announcement, reweightedAnnouncement(t)},
		{seal.Announcement, meanAnnouncement(t)}, {seal.Announcement, histogramAnnouncement(t)},
		{seal.Announcement, sampledAnnouncement(t)},
		{seal.Draw, draw()}, {seal.Configuration, lastingConfiguration(t)}, {seal.Learned, comparedLearned()},
	}
	opens, tried := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(statements).Draw(t, "statement")
		for range 20 {
			tried++
			m := proto.Clone(s.m)
			for range rapid.IntRange(1, 3).Draw(t, "changes") {
				changeMessage(t, m.ProtoReflect())
			}
			if opensAsSigned(t, s.kind, m, by) {
				opens++
			}
		}
	})
	if 20*opens < tried {
		t.Errorf("only %d of %d changed statements open", opens, tried)
	}
}

// opensAsSigned reports whether a message opens, signed without a check, and fails where its bytes are not those that
// Sign makes of what Open returns.
func opensAsSigned(t *rapid.T, kind seal.Kind, m proto.Message, by *seal.Identity) bool {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := proto.MarshalOptions{Deterministic: true}.Marshal(
		&rifflev1.Signed{Body: body, Key: by.Public(), Signature: signature(kind, body, by)})
	if err != nil {
		t.Fatal(err)
	}
	got, digest, err := wire.OpenMessage(kind, signed, party(by))
	if err != nil {
		return false
	}
	again, digest2, err := wire.SignMessage(got, by)
	if err != nil || !bytes.Equal(again, signed) || digest != digest2 {
		t.Fatalf("%v opens and is signed as other bytes: %v", m, err)
	}
	return true
}

// A change of any field of any statement changes the digest, or Sign refuses it: no field is left behind, also none
// that is added later.
func TestEveryFieldOfAStatementIsCarried(t *testing.T) {
	host := signer(t, goldenHost)
	request, err := wire.OpenEnrolRequest(forge(t, seal.EnrolRequest,
		enrolRequest(t, host, signer(t, goldenRegistry)), host), party(signer(t, goldenRegistry)))
	if err != nil {
		t.Fatal(err)
	}
	a := opened(t)
	everyFieldIsCarried(t, func() *plan.Announcement { return a.Clone() })
	everyFieldIsCarried(t, func() *plan.Announcement {
		return &plan.Announcement{Deployment: deployment, Epoch: 3, Previous: digestOf(4),
			Policy: *a.Policy.Clone(), Final: true}
	})
	everyFieldIsCarried(t, func() *wire.KeySet {
		return &wire.KeySet{Deployment: deployment, Number: 3,
			Keys: [][]byte{hpkeKey(t, 5).Public(), hpkeKey(t, 6).Public()}}
	})
	everyFieldIsCarried(t, func() *wire.Manifest {
		return &wire.Manifest{
			Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Outcome: wire.Released, Enrolled: 120,
			Reports: 110, Messages: 110 * 47, Chunks: 3, ChunksDigest: digestOf(3), ReportsDigest: digestOf(4),
			MessagesRoot: digestOf(6),
		}
	})
	everyFieldIsCarried(t, func() *wire.Manifest {
		return &wire.Manifest{
			Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Outcome: wire.Destroyed, Enrolled: 120,
			Reports: 11,
		}
	})
	everyFieldIsCarried(t, func() *wire.Accepted {
		return &wire.Accepted{
			Deployment: deployment, Epoch: 2, Round: 1, Announcement: digestOf(2), Reports: 110, Set: digestOf(8),
		}
	})
	everyFieldIsCarried(t, func() *wire.Summed {
		return &wire.Summed{
			Deployment: deployment, Epoch: 2, Round: 1, Announcement: digestOf(2), Reports: 110, Set: digestOf(8),
			Share: digestOf(9),
		}
	})
	everyFieldIsCarried(t, func() *wire.Counts {
		return &wire.Counts{
			Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Manifest: digestOf(5), Reports: 110,
			Releases: []wire.ReleaseCounts{{Ones: []uint64{400, 0, 990}}, {Ones: []uint64{1, 1100}}},
		}
	})
	everyFieldIsCarried(t, func() *wire.Credential {
		return &wire.Credential{Deployment: deployment, HostKey: host.Public(), Devices: 10, FirstKey: digestOf(4)}
	})
	everyFieldIsCarried(t, func() *wire.Issued {
		return &wire.Issued{Deployment: deployment, Number: 2, Previous: digestOf(4), Key: digestOf(3)}
	})
	everyFieldIsCarried(t, func() *wire.IssuerCertificate {
		return &wire.IssuerCertificate{Deployment: deployment, Key: host.Public(), First: 2, Last: 9, Installations: 5}
	})
	everyFieldIsCarried(t, func() *wire.Credential {
		return &wire.Credential{Deployment: deployment, HostKey: host.Public(), Devices: 1, NotAfter: 8,
			Issuer: forge(t, seal.IssuerCertificate, certificate(host), host)}
	})
	everyFieldIsCarried(t, func() *wire.EnrolReply {
		return &wire.EnrolReply{Request: digestOf(7), Enrolled: true, Ticket: digestOf(6)[:wire.TicketSize]}
	})
	everyFieldIsCarried(t, func() *wire.EnrolRequest {
		r := *request.Request
		r.Announcement, r.Credential = bytes.Clone(r.Announcement), bytes.Clone(r.Credential)
		return &r
	})
	everyFieldIsCarried(t, func() *wire.EnrolReply {
		return &wire.EnrolReply{Request: digestOf(7), Enrolled: true, Slot: 3, ReportAfter: time.Minute}
	})
	everyFieldIsCarried(t, func() *wire.EnrolReply {
		return &wire.EnrolReply{Request: digestOf(7), Refusal: wire.RefusalLate}
	})
	everyFieldIsCarried(t, func() *wire.EnrolReply {
		return &wire.EnrolReply{Request: digestOf(7), Refusal: wire.RefusalNotDrawn, Pool: []byte("p"),
			Draw: []byte("d")}
	})
	everyFieldIsCarried(t, func() *wire.EnrolRequest {
		r := *request.Request
		r.Epoch, r.Announcement, r.Credential = 0, nil, bytes.Clone(r.Credential)
		return &r
	})
	everyFieldIsCarried(t, func() *wire.EnrolReply {
		return &wire.EnrolReply{Request: digestOf(7), Refusal: wire.RefusalLate, Further: []wire.FurtherReply{
			{Enrolled: true, Slot: 4, ReportAfter: time.Minute, Commitment: digestOf(8)}, {Refusal: wire.RefusalLate},
		}}
	})
	everyFieldIsCarried(t, func() *wire.Pool {
		return &wire.Pool{Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Registered: 5100,
			Root: digestOf(12), Contribution: digestOf(13)}
	})
	everyFieldIsCarried(t, func() *wire.Draw {
		return &wire.Draw{Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Pool: digestOf(14),
			Contribution: digestOf(15)}
	})
	p := openedOf(t, panelAnnouncement(t))
	everyFieldIsCarried(t, func() *plan.Announcement { return p.Clone() })
}

func everyFieldIsCarried[T wire.Statement](t *testing.T, fresh func() *T) {
	t.Helper()
	by := signer(t, goldenSigner)
	_, unchanged, err := wire.Sign(fresh(), by)
	if err != nil {
		t.Fatalf("the unchanged %T is refused: %v", fresh(), err)
	}
	for i := range leavesOf(reflect.ValueOf(fresh()).Elem(), "") {
		s := fresh()
		leaf := leavesOf(reflect.ValueOf(s).Elem(), "")[i]
		leaf.step()
		if _, digest, err := wire.Sign(s, by); err == nil && digest == unchanged {
			t.Errorf("%T%s is changed and the digest is not", s, leaf.path)
		}
	}
}

// leaf is a number, string, flag or slice in a statement.
type leaf struct {
	path  string
	value reflect.Value
}

func (l leaf) String() string { return l.path }

// leavesOf returns every leaf of a value. A nil pointer to a struct counts as one that may be set.
func leavesOf(v reflect.Value, path string) (all []leaf) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			all = append(all, leavesOf(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
	case reflect.Pointer:
		all = append(all, leaf{path, v})
		if !v.IsNil() {
			all = append(all, leavesOf(v.Elem(), path)...)
		}
	case reflect.Slice:
		all = append(all, leaf{path, v})
		for i := range v.Len() {
			all = append(all, leavesOf(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
	default:
		all = append(all, leaf{path, v})
	}
	return all
}

// step changes a leaf to a value that is near: the next number, one entry more.
func (l leaf) step() {
	switch v := l.value; v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(v.Uint() ^ 1)
	case reflect.Float64:
		v.SetFloat(math.Nextafter(v.Float(), math.Inf(-1)))
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		} else {
			v.SetZero()
		}
	default:
		panic("a statement has a field of kind " + v.Kind().String())
	}
}

// set changes a leaf to a value at the edge of its range, or near it.
func (l leaf) set(t *rapid.T) {
	switch v := l.value; v.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(rapid.SampledFrom([]int64{
			-1, 0, 1, 1 << 31, 1 << 32, int64(time.Millisecond), wire.MaxTiming * int64(time.Millisecond),
			(wire.MaxTiming + 1) * int64(time.Millisecond), math.MinInt64, math.MaxInt64,
		}).Draw(t, "int"))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(rapid.SampledFrom([]uint64{0, 1, 2, math.MaxUint8, math.MaxUint32, math.MaxUint64}).Draw(t, "uint"))
	case reflect.Float64:
		v.SetFloat(rapid.SampledFrom([]float64{
			0, math.Copysign(0,
				-1), 1, -1, 1e-300, math.SmallestNonzeroFloat64, math.MaxFloat64, math.Inf(1), math.NaN(),
		}).Draw(t, "float"))
	case reflect.Slice:
		n := rapid.IntRange(0, v.Len()).Draw(t, "length")
		if n == 0 && rapid.Bool().Draw(t, "nil") {
			v.SetZero()
			return
		}
		v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, n), v.Slice(0, n)))
	default:
		l.step()
	}
}

// canonical is a copy of an announcement in which empty slices are nil.
func canonical(a *plan.Announcement) *plan.Announcement {
	a = a.Clone()
	for _, l := range leavesOf(reflect.ValueOf(a).Elem(), "") {
		if l.value.Kind() == reflect.Slice && l.value.Len() == 0 {
			l.value.SetZero()
		}
	}
	return a
}

// changeMessage sets, clears or empties one field of a message, at any depth.
func changeMessage(t *rapid.T, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	f := fields.Get(rapid.IntRange(0, fields.Len()-1).Draw(t, "field"))
	switch {
	case rapid.IntRange(0, 9).Draw(t, "clear") == 0:
		m.Clear(f)
	case f.IsList():
		changeList(t, f, m.Mutable(f).List())
	case f.Message() == nil:
		m.Set(f, edge(t, f))
	case rapid.IntRange(0, 4).Draw(t, "empty") == 0:
		m.Set(f, m.NewField(f)) // present and empty
	default:
		changeMessage(t, m.Mutable(f).Message())
	}
}

func changeList(t *rapid.T, f protoreflect.FieldDescriptor, list protoreflect.List) {
	n := list.Len()
	switch {
	case n == 0 || rapid.IntRange(0, 4).Draw(t, "append") == 0:
		if n > 0 {
			list.Append(list.Get(n - 1))
		} else {
			list.Append(list.NewElement())
		}
	case rapid.IntRange(0, 4).Draw(t, "cut") == 0:
		list.Truncate(n - 1)
	case f.Message() == nil:
		list.Set(rapid.IntRange(0, n-1).Draw(t, "index"), edge(t, f))
	default:
		changeMessage(t, list.Get(rapid.IntRange(0, n-1).Draw(t, "index")).Message())
	}
}

// edge is a value of a scalar field, often one at the edge of its range.
func edge(t *rapid.T, f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.SampledFrom([]string{"", deployment, "probit", "poisson"}).Draw(t,
			"string"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(make([]byte, rapid.SampledFrom([]int{0, 31, 32, 33}).Draw(t, "bytes")))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.Int32Range(-1, 20).Draw(t, "enum")))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.SampledFrom([]float64{
			0, math.Copysign(0, -1), 1, 0.5, -0.5, math.MaxFloat64, math.Inf(-1), math.NaN(),
		}).Draw(t, "double"))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "uint64"))
	}
	return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "uint32"))
}
