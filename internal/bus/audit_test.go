package bus_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/access"
)

// What a role said is under its digest. A thief of its credential can store the same again under another name, and
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
