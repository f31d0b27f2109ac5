package bus_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/access"
)

// An entry is appended behind the role's newest one, of any kind, or not at all; what others said does not count.
func TestAnEntryStandsBehindTheNewestThatIsKnown(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	shuf, ana := b.connect(bus.Shuffler), b.connect(bus.Analyzer)
	ctx := b.ctx()
	after := func(kind, payload string, last uint64) (uint64, error) {
		if err := ana.Audit.AppendAudit(ctx, "counts", fmt.Append(nil, kind, payload, last)); err != nil {
			t.Fatal(err)
		}
		return shuf.Audit.AppendAuditAfter(ctx, kind, []byte(payload), last)
	}
	var last uint64
	for i := range 3 {
		for _, kind := range []string{"manifest", "checkpoint"} {
			for _, wrong := range []uint64{last + 1, last - 1} {
				if _, err := after(kind, fmt.Sprint(i), wrong); !errors.Is(err, bus.ErrMoved) {
					t.Fatalf("entry %d, %s, behind %d in place of %d: %v", i, kind, wrong, last, err)
				}
			}
			sequence, err := after(kind, fmt.Sprint(i), last)
			if err != nil || sequence <= last {
				t.Fatalf("entry %d, %s: %d, %v", i, kind, sequence, err)
			}
			for _, at := range []uint64{last, sequence} { // the same again
				if _, err := after(kind, fmt.Sprint(i), at); !errors.Is(err, bus.ErrMoved) {
					t.Fatalf("entry %d, %s, again: %v", i, kind, err)
				}
			}
			last = sequence
		}
	}
	if _, err := after("a.b", "x", last); !errors.Is(err, bus.ErrBadName) {
		t.Error(err)
	}
	read := func(c *bus.Conn, from uint64) (all []string) {
		t.Helper()
		if err := c.Audit.SaidSince(ctx, bus.Shuffler, from, func(s bus.Statement) error {
			if s.Role != bus.Shuffler || s.Sequence < from {
				t.Errorf("%+v", s)
			}
			all = append(all, s.Kind+string(s.Payload))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	want := []string{"manifest0", "checkpoint0", "manifest1", "checkpoint1", "manifest2", "checkpoint2"}
	if got := read(shuf, 0); !slices.Equal(got, want) {
		t.Errorf("from the beginning: %v", got)
	}
	if got := read(ana, last); !slices.Equal(got, want[5:]) {
		t.Errorf("from the last: %v", got)
	}
	if got := read(shuf, last+1); got != nil {
		t.Errorf("behind the last: %v", got)
	}
	stop := errors.New("stop")
	if err := shuf.Audit.SaidSince(ctx, bus.Shuffler, 0, func(bus.Statement) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a handler that stops: %v", err)
	}
	if err := shuf.Audit.SaidSince(ctx, "*", 0, nil); !errors.Is(err, bus.ErrBadName) {
		t.Errorf("every role: %v", err)
	}
}

// What a role said stands under its digest. A thief of its credential can store the same again under another name, and
// every reader is told.
func TestACopyOfAStatementIsMisnamed(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	shuf, ctx := b.connect(bus.Shuffler), b.ctx()
	if err := shuf.Audit.AppendAudit(ctx, "manifest", []byte("said")); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"manifest", "checkpoint"} {
		put := access.Attempt{Subjects: []string{bus.SubjectAudit + ".shuffler." + kind + ".copy"}, Body: "said"}
		if out, err := b.thief(bus.Shuffler).Try(ctx, put); err != nil || !out.Reached {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	var all []string
	note := func(s bus.Statement) error {
		all = append(all, fmt.Sprint(s.Kind, string(s.Payload), s.Misnamed))
		return nil
	}
	err := errors.Join(shuf.Audit.SaidSince(ctx, bus.Shuffler, 0, note),
		b.connect(bus.Auditor).Audit.ReadAudit(ctx, bus.AuditFilter{}, note))
	want := []string{"manifestsaidfalse", "manifestsaidtrue", "checkpointsaidtrue"}
	if err != nil || !slices.Equal(all, append(want, want...)) {
		t.Errorf("%v, %v", all, err)
	}
}

// Of many that append behind one entry at the same time one does.
func TestOneOfManyIsNext(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	ctx := b.ctx()
	results := make(chan error)
	for i := range 4 {
		c := b.connect(bus.Shuffler)
		go func() {
			_, err := c.Audit.AppendAuditAfter(ctx, "manifest", fmt.Append(nil, i), 0)
			results <- err
		}()
	}
	stored := 0
	for range 4 {
		if err := <-results; err == nil {
			stored++
		} else if !errors.Is(err, bus.ErrMoved) {
			t.Error(err)
		}
	}
	if stored != 1 {
		t.Errorf("%d entries were stored as the first", stored)
	}
}
