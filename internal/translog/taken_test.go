package translog_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/translog"
)

// A holder of the role's broker credential can store what the role said before under a name of its own, where the
// broker takes it. That is no fork: the role goes on, and so does one that reads all again.
func TestOwnWordsUnderOtherNamesAreSkipped(t *testing.T) {
	each(t, func(t *testing.T, w writer) {
		s := &stream{t: t}
		l := w.open(s)
		w.appends(l, 1, 2, 3)
		for _, old := range s.said() {
			s.put(bus.Shuffler, old.Kind, old.Payload)
			s.entries[len(s.entries)-1].Misnamed = true
		}
		w.appends(l, 4)
		w.check(s, 1, 2, 3, 4)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		w.appends(w.open(s), 5)
		w.check(s, 1, 2, 3, 4, 5)
	})
}

// A role whose state folder was lost takes in a long log in few writes, and says so in as many lines.
func TestALongLogIsTakenInAtOnce(t *testing.T) {
	t.Parallel()
	w, s := writer{t, filepath.Join(t.TempDir(), "log"), identity(t, 1)}, &stream{t: t}
	var epochs []uint64
	for epoch := range uint64(40) {
		epochs = append(epochs, epoch+1)
	}
	w.appends(w.open(s), epochs...)
	again := writer{t, filepath.Join(t.TempDir(), "log"), w.id}
	var said bytes.Buffer
	c := again.config(s)
	c.Log = zerolog.New(&said)
	l, err := translog.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(said.Bytes(), []byte("state folder lacks")); n != 1 || l.Size() != 40 {
		t.Errorf("%d lines about %d entries", n, l.Size())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = translog.New(again.config(s)); err != nil || l.Size() != 40 {
		t.Errorf("%v", err)
	}
	_ = l.Close()
}
