package audit

import (
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// statement is an entry that the log's role signed.
type statement struct {
	value  any // *wire.Configuration, *plan.Announcement and so on
	digest [32]byte
	name   string // of the entry, in breaches
}

// kind opens statements of one kind.
type kind struct {
	open func(signed []byte, from wire.Party) (any, [32]byte, error)
	kind func(any) string // under which one is appended
}

func kindOf[T plan.Announcement | wire.Manifest | wire.Counts | wire.Accepted | wire.Summed | wire.Configuration |
	wire.Learned | wire.Pool | wire.Draw](name func(*T) string) kind {
	return kind{
		func(signed []byte, from wire.Party) (any, [32]byte, error) { return wire.Open[T](signed, from) },
		func(v any) string { return name(v.(*T)) },
	}
}

func always[T any](name string) func(*T) string { return func(*T) string { return name } }

// kinds are those of the roles' logs.
var kinds = map[bus.Role][]kind{
	bus.Analyzer: {
		kindOf(always[plan.Announcement](wire.KindAnnouncement)), kindOf(always[wire.Counts](wire.KindCounts)),
		kindOf(always[wire.Learned](wire.KindLearned)), kindOf(always[wire.Configuration](wire.KindConfiguration)),
		kindOf(func(a *wire.Accepted) string { return wire.AcceptedKind(a.Epoch, a.Round) }),
		kindOf(always[wire.Draw](wire.KindDraw)),
	},
	bus.Shuffler: {
		kindOf(always[wire.Manifest](wire.KindManifest)),
		kindOf(func(s *wire.Summed) string { return wire.SummedKind(s.Epoch, s.Round) }),
		kindOf(always[wire.Pool](wire.KindPool)),
	},
}

// at is the round that a statement is about; a configuration is about none.
func (s *statement) at() (epoch uint64, round uint32, ok bool) {
	switch v := s.value.(type) {
	case *plan.Announcement:
		return v.Epoch, v.Round, true
	case *wire.Accepted:
		return v.Epoch, v.Round, true
	case *wire.Summed:
		return v.Epoch, v.Round, true
	case *wire.Manifest:
		return v.Epoch, v.Round, true
	case *wire.Counts:
		return v.Epoch, v.Round, true
	case *wire.Learned:
		return v.Epoch, v.Round, true
	case *wire.Pool:
		return v.Epoch, 0, true
	case *wire.Draw:
		return v.Epoch, 0, true
	}
	return 0, 0, false
}

// release is at in words.
func (s *statement) release() string {
	if epoch, round, ok := s.at(); ok {
		return place(epoch, round)
	}
	return ""
}
