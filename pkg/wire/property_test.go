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
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/protocol"
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
		t.Errorf("%d valid, %d refused, %d accepted after a change: one case has not been tried", valid, changed, accepted)
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
		{seal.Credential, credential(t, host)},
	}
	opens := 0
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(statements).Draw(t, "statement")
		m := proto.Clone(s.m)
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			changeMessage(t, m.ProtoReflect())
		}
		body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			return // a string that is not UTF-8
		}
		signed, err := proto.MarshalOptions{Deterministic: true}.Marshal(
			&rifflev1.Signed{Body: body, Key: by.Public(), Signature: seal.Sign(s.kind, body, by)})
		if err != nil {
			t.Fatal(err)
		}
		got, digest, err := wire.OpenMessage(s.kind, signed, party(by))
		if err != nil {
			return
		}
		opens++
		again, digest2, err := wire.SignMessage(got, by)
		if err != nil || !bytes.Equal(again, signed) || digest != digest2 {
			t.Fatalf("%v opens and is signed as other bytes: %v", m, err)
		}
	})
	if opens < 10 {
		t.Errorf("only %d changed statements open", opens)
	}
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
		return &plan.Announcement{Deployment: deployment, Epoch: 3, Previous: digestOf(4), Policy: *a.Policy.Clone(), Final: true}
	})
	everyFieldIsCarried(t, func() *wire.KeySet {
		return &wire.KeySet{Deployment: deployment, Number: 3, Keys: [][]byte{hpkeKey(t, 5).Public(), hpkeKey(t, 6).Public()}}
	})
	everyFieldIsCarried(t, func() *wire.Manifest {
		return &wire.Manifest{
			Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Outcome: wire.Released, Enrolled: 120, Reports: 110,
			Messages: 110 * 47, Chunks: 3, ChunksDigest: digestOf(3), ReportsDigest: digestOf(4),
		}
	})
	everyFieldIsCarried(t, func() *wire.Manifest {
		return &wire.Manifest{
			Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Outcome: wire.Destroyed, Enrolled: 120, Reports: 11,
		}
	})
	everyFieldIsCarried(t, func() *wire.Counts {
		return &wire.Counts{
			Deployment: deployment, Epoch: 2, Announcement: digestOf(2), Manifest: digestOf(5), Reports: 110,
			Releases: []wire.ReleaseCounts{{Ones: []uint64{400, 0, 990}}, {Ones: []uint64{1, 1100}}},
		}
	})
	everyFieldIsCarried(t, func() *wire.Credential {
		return &wire.Credential{Deployment: deployment, HostKey: host.Public(), Devices: 10}
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
			0, math.Copysign(0, -1), 1, -1, 1e-300, math.SmallestNonzeroFloat64, math.MaxFloat64, math.Inf(1), math.NaN(),
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
		return protoreflect.ValueOfString(rapid.SampledFrom([]string{"", deployment, "probit", "poisson"}).Draw(t, "string"))
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

// drawAnnouncement draws an announcement in range: final or not, with and without scaling, of 1 to 3 rounds.
func drawAnnouncement(t *rapid.T, key []byte) *plan.Announcement {
	dim := rapid.IntRange(1, 3).Draw(t, "dimension")
	a := &plan.Announcement{
		Deployment: deployment, Epoch: rapid.Uint64Min(2).Draw(t, "epoch"), Previous: digestOf(1),
		Policy: drawPolicy(t, dim), Final: rapid.IntRange(0, 3).Draw(t, "final") == 0,
	}
	if a.Final {
		return a
	}
	if rapid.Bool().Draw(t, "first") {
		a.Epoch, a.Previous = 1, nil
	}
	a.Reference = drawPoint(t, dim)
	a.Plan = plan.Plan{
		Epsilon: rapid.Float64Range(0.01, 10).Draw(t, "epsilon"), Delta: rapid.Float64Range(1e-9, 0.5).Draw(t, "delta"),
		TailDelta: 1e-10,
	}
	kinds := rapid.SampledFrom([]glm.StatisticKind{glm.Hessian, glm.Gradient, glm.Covariance})
	for range rapid.IntRange(1, 3).Draw(t, "rounds") {
		var round plan.Round
		for range rapid.IntRange(1, 2).Draw(t, "releases") {
			round.Releases = append(round.Releases, plan.Release{
				Statistic: kinds.Draw(t, "statistic"), Shift: rapid.Float64Range(1e-3, 100).Draw(t, "shift"),
				NoiseBits: rapid.Uint32Range(1, 1000).Draw(t, "noise bits"),
				Bias:      protocol.Bias(rapid.Uint32Min(1).Draw(t, "bias")),
			})
		}
		a.Plan.Rounds = append(a.Plan.Rounds, round)
	}
	if a.Epoch > 1 {
		a.Round = uint32(rapid.IntRange(0, len(a.Plan.Rounds)-1).Draw(t, "round"))
	}
	for _, r := range a.Plan.Rounds[a.Round].Releases {
		e := protocol.Encoding{Scale: rapid.Float64Range(0.1, 100).Draw(t, "scale"), NoiseBits: r.NoiseBits, Bias: r.Bias}
		for range map[bool]int{true: dim, false: glm.TriangleDim(dim)}[r.Statistic == glm.Gradient] {
			e.Coordinates = append(e.Coordinates, protocol.Coordinate{
				Offset: drawNumber(t), Levels: rapid.Uint32Range(1, 1000).Draw(t, "levels"),
			})
		}
		a.Encodings = append(a.Encodings, e)
	}
	a.Cohort.Minimum = rapid.Uint32Range(1, math.MaxUint32).Draw(t, "minimum")
	a.Cohort.Size = rapid.Uint32Min(a.Cohort.Minimum).Draw(t, "size")
	a.Cohort.MaxDishonest = rapid.Uint32Max(a.Cohort.Minimum-1).Draw(t, "dishonest")
	a.Timing.RoundWindow = time.Millisecond
	for _, d := range []*time.Duration{&a.Timing.RewardWindow, &a.Timing.Jitter, &a.Timing.Grace, &a.Timing.Enrolment} {
		*d = time.Duration(rapid.Uint32Range(0, wire.MaxTiming).Draw(t, "time")) * time.Millisecond
	}
	a.AnalyzerKey = key
	return a
}

func drawPolicy(t *rapid.T, dim int) glm.Policy {
	stage := func() glm.Stage {
		covariance := make(glm.Symmetric, glm.TriangleDim(dim))
		covariance[0] = rapid.Float64Range(0, 2).Draw(t, "covariance")
		return glm.Stage{
			Theta: drawPoint(t, dim), Covariance: covariance, Width: rapid.Float64Range(0, 5).Draw(t, "width"),
		}
	}
	p := glm.Policy{
		Profile: rapid.SampledFrom([]glm.Profile{glm.Practical, glm.Paper}).Draw(t, "profile"),
		Epoch:   int(rapid.Uint32().Draw(t, "cohorts")), Family: "logistic", MaxReward: 1, Dimension: dim, Radius: 3,
		Theta:   drawPoint(t, dim),
		Play:    rapid.SampledFrom([]glm.Play{glm.PlayDesign, glm.PlayGreedy, glm.PlayUniform}).Draw(t, "play"),
		Explore: math.Abs(drawNumber(t)), Pairwise: rapid.Bool().Draw(t, "pairwise"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "stages") {
		p.Stages = append(p.Stages, stage())
	}
	if rapid.Bool().Draw(t, "scaling") {
		p.Scaling = &glm.Scaling{Stage: stage(), Diameter: 6, SelfConcordance: 1, MaxWeight: 0.25}
	}
	return p
}

func drawPoint(t *rapid.T, dim int) []float64 {
	x := make([]float64, dim)
	for i := range x {
		x[i] = drawNumber(t)
	}
	return x
}

// drawNumber draws from [-1, 1], and often a zero of either sign.
func drawNumber(t *rapid.T) float64 {
	return rapid.OneOf(rapid.Just(0.0), rapid.Just(math.Copysign(0, -1)), rapid.Float64Range(-1, 1)).Draw(t, "number")
}
