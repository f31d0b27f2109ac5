package shuffler

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/role/journal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// A journal of the first version, which knows of no passed time, exclusions, adoptions or key sets, is replayed to the
// same decisions, and the shuffler's time goes on from the latest that it tells.
func TestAJournalOfTheFirstVersionIsReplayed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	key := func(b byte) string {
		var k [32]byte
		k[0] = b
		return base64.StdEncoding.EncodeToString(k[:])
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()
	opened := func(epoch int) string {
		return fmt.Sprintf(`{"opened":{"at_ms":%d,"epoch":%d,"round":0,"digest":"%s","size":5,"minimum":4,"rounds":1,`+
			`"messages":7,"timing":{"reward_window":1000,"jitter":0,"grace":60000,"round_window":0,"enrolment":0}}}`,
			at+int64(epoch)*100_000, epoch, key(byte(epoch)))
	}
	if ev, err := DecodeEvent([]byte(opened(1))); err != nil || string(ev.Encode()) != opened(1) {
		t.Errorf("the journal's form changed: %s (%v)", ev.Encode(), err)
	}
	lines := []string{opened(1)}
	for i := range 5 {
		lines = append(lines, fmt.Sprintf(`{"enrolled":{"host":"%s","device":%d,"report_at_ms":%d}}`,
			key(9), i, at+101_000))
	}
	for i := range 4 {
		lines = append(lines, fmt.Sprintf(`{"admitted":{"round":0,"slot":%d,"digest":"%s","sequence":%d}}`,
			i, key(byte(20+i)), i+1))
	}
	lines = append(lines, `{"committed":{"round":0,"outcome":1}}`, `{"finished":{"round":0}}`, opened(2),
		fmt.Sprintf(`{"enrolled":{"host":"%s","device":7,"report_at_ms":%d}}`, key(9), at+206_000),
		fmt.Sprintf(`{"admitted":{"round":0,"slot":0,"digest":"%s","sequence":5}}`, key(30)))
	j, err := journal.Open(filepath.Join(s.config.StateDir, "journal"))
	s.must(err)
	s.must(j.Replay(func([]byte) error { return nil }))
	for _, line := range lines {
		s.must(j.Append([]byte(line))())
	}
	s.must(j.Close())
	sh := s.idle()
	f, ok := sh.Filling()
	if !ok || f.Epoch != 2 || f.Enrolled != 1 || f.Reports != 1 || f.Largest != 1 || f.Destroyed {
		t.Errorf("%+v", f)
	}
	view := sh.Snapshot()
	if len(view.Releases) != 1 || view.Releases[0].Reports != 4 || *view.Releases[0].Enrolled != 5 {
		t.Errorf("%+v", view.Releases)
	}
	if now, _ := sh.clock.now(); now.Sub(time.UnixMilli(at+205_000)).Abs() > time.Minute {
		t.Errorf("the time is %v", now)
	}
	host := DeviceID{Number: 3}
	host.Host[0] = 9
	var second Digest
	second[0] = 2
	now, _ := sh.clock.now()
	_, _, _, err = sh.state.Enrol(host, 2, second, now)
	if no, ok := err.(*Refused); !ok || no.Reason != wire.RefusalAlreadyEnrolled {
		t.Errorf("a device of the first cohort: %v", err)
	}
}
