package audit_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// stream is an audit stream in memory.
type stream struct {
	all      []bus.Statement
	retained []bus.Retained
}

func (s *stream) append(role bus.Role, kind string, b []byte) {
	s.all = append(s.all, bus.Statement{Role: role, Kind: kind, Sequence: uint64(len(s.all) + 1), Payload: b})
}

// misnamed stores what a role said before as a holder of its broker credential can: under a name of their own.
func (s *stream) misnamed(role bus.Role, e audit.Entry) {
	s.append(role, e.Kind, e.Signed)
	s.all[len(s.all)-1].Misnamed = true
}

func (s *stream) ReadAudit(_ context.Context, f bus.AuditFilter, handler func(bus.Statement) error) error {
	for _, one := range s.all {
		if f.Role != "" && one.Role != f.Role || one.Sequence <= f.After {
			continue
		}
		if err := handler(one); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) ReadRetained(_ context.Context, _ uint64, _ uint32, f func(bus.Retained) error) error {
	for _, r := range s.retained {
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// streamed is a deployment's statements as its roles append them, a checkpoint after each, with what others can put
// there.
func streamed(t *testing.T, l *ledger.Ledger) *stream {
	t.Helper()
	s := &stream{}
	other := made(t, ledger.Options{Configuration: ledger.Small(glm.Practical, plan.Shares, 1), Seed: 99})
	at := map[bus.Role]int{}
	next := func(role bus.Role) {
		e := l.Logs[role][at[role]]
		at[role]++
		s.append(role, e.Kind, e.Signed)
		c, err := l.CheckpointAt(role, at[role])
		if err != nil {
			t.Fatal(err)
		}
		s.append(role, wire.KindCheckpoint, c)
	}
	for _, e := range l.Logs[bus.Analyzer] {
		if e.Kind == wire.KindCounts {
			next(bus.Shuffler)
			next(bus.Shuffler)
		}
		next(bus.Analyzer)
		// Junk: of another deployment, of another kind than it says, of the other role, checkpoints of another log, old
		// words under other names.
		s.append(bus.Analyzer, e.Kind, other.Logs[bus.Analyzer][0].Signed)
		s.append(bus.Analyzer, wire.KindManifest, e.Signed)
		s.append(bus.Shuffler, e.Kind, e.Signed)
		s.append(bus.Randomizer, e.Kind, e.Signed)
		s.append(bus.Shuffler, wire.KindCheckpoint, l.Checkpoints[bus.Analyzer])
		s.append(bus.Analyzer, wire.KindCheckpoint, []byte("junk"))
		s.misnamed(bus.Analyzer, l.Logs[bus.Analyzer][0])
		s.misnamed(bus.Analyzer, audit.Entry{Kind: wire.KindCheckpoint, Signed: s.all[1].Payload})
	}
	return s
}

// Live shows the leaves and the checkpoints as the roles wrote them, whatever others put into the stream, and goes on
// showing the same moment when the stream grows.
func TestLiveShowsOneMoment(t *testing.T) {
	l := made(t, ledger.Options{Configuration: ledger.Small(glm.Practical, plan.Shares, 2), Seed: 4})
	whole := streamed(t, l)
	now := &stream{all: whole.all[:len(whole.all):len(whole.all)]}
	live, err := audit.NewLive(context.Background(), now, l.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, role := range []bus.Role{bus.Analyzer, bus.Shuffler} {
			all, checkpoint := logs(t, live, role)
			if !reflect.DeepEqual(all, l.Logs[role]) || !reflect.DeepEqual(checkpoint, l.Checkpoints[role]) ||
				live.Uncovered(role) != 0 {
				t.Errorf("%d entries of the %s, there are %d", len(all), role, len(l.Logs[role]))
			}
		}
		now.append(bus.Analyzer, wire.KindCounts, l.Logs[bus.Analyzer][l.Find(bus.Analyzer, wire.KindCounts, 0)].Signed)
	}
	report, err := audit.Check(context.Background(), live, audit.Options{Trust: l.Bundle})
	if err != nil || !report.OK {
		t.Errorf("%+v, %v", report, err)
	}
	n := 0
	now.retained = make([]bus.Retained, 2)
	if err := live.Retained(context.Background(), 1, 0, func(uint32, []byte) error { n++; return nil }); err != nil ||
		n != 2 {
		t.Errorf("%d chunks, %v", n, err)
	}
}

// An entry that the role is still signing a checkpoint over is left out, and told of. Without any checkpoint all
// entries are shown, so that the audit says what is missing.
func TestLiveLeavesOutWhatNoCheckpointCovers(t *testing.T) {
	l := made(t, ledger.Options{Configuration: ledger.Small(glm.Practical, plan.Shuffle, 1), Seed: 4})
	all := l.Logs[bus.Analyzer]
	s, bare := &stream{}, &stream{}
	for i, e := range all {
		s.append(bus.Analyzer, e.Kind, e.Signed)
		bare.append(bus.Analyzer, e.Kind, e.Signed)
		if c, err := l.CheckpointAt(bus.Analyzer, i+1); err != nil {
			t.Fatal(err)
		} else if i+2 < len(all) {
			s.append(bus.Analyzer, wire.KindCheckpoint, c)
		}
	}
	live, err := audit.NewLive(context.Background(), s, l.Bundle)
	if err != nil {
		t.Fatal(err)
	}
	if found, _ := logs(t, live, bus.Analyzer); len(found) != len(all)-2 || live.Uncovered(bus.Analyzer) != 2 {
		t.Errorf("%d of %d entries are shown, %d are told of", len(found), len(all), live.Uncovered(bus.Analyzer))
	}
	if live, err = audit.NewLive(context.Background(), bare, l.Bundle); err != nil {
		t.Fatal(err)
	}
	if found, c := logs(t, live, bus.Analyzer); len(found) != len(all) || c != nil ||
		live.Uncovered(bus.Analyzer) != 0 {
		t.Errorf("%d of %d entries are shown", len(found), len(all))
	}
}
