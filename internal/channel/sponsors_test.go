package channel_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// installed is an installation that an issuer let in.
func installed(n uint32, issuer byte, installations uint32) devices.Present {
	return devices.Present{Participant: devices.Participant{Host: [32]byte{byte(n), byte(n >> 8), 1}},
		Issuer: [32]byte{issuer}, Installations: installations}
}

func roundOf(epoch uint64, size uint32) *channel.Round {
	return &channel.Round{Announcement: &plan.Announcement{Epoch: epoch, Cohort: plan.Cohort{Size: size}}}
}

// counted counts those of a round that may be, and says why others may not.
func counted(t *testing.T, p *channel.Participants, epoch uint64, all []devices.Present) (why []error) {
	t.Helper()
	s := channel.NewSponsors(roundOf(epoch, 100), 1, p)
	var who []devices.Present
	for _, one := range all {
		err := s.Check(one)
		if why = append(why, err); err == nil {
			s.Enter(one)
			who = append(who, one)
		}
	}
	if p != nil {
		if err := p.Add(epoch, 0, who); err != nil {
			t.Fatal(err)
		}
	}
	return why
}

// An issuer's certificate bounds how many installations are counted for it over all epochs, across restarts, each once
// and for the issuer by which it was first counted. An issuer of many epochs could else let in as many in each.
func TestACertificateHoldsOverAllEpochs(t *testing.T) {
	t.Parallel()
	disk := channel.Folder(t.TempDir())
	expect := func(what string, got []error, want ...error) {
		t.Helper()
		for i := range want {
			if len(got) != len(want) || !errors.Is(got[i], want[i]) {
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
	}
	full := channel.ErrIssuerFull
	for range 2 { // a round is judged alike by a process that begins anew
		p := openParticipants(t, disk)
		p.Allow(2, 0)
		expect("the first epoch", counted(t, p, 1, []devices.Present{
			installed(1, 7, 3), installed(2, 7, 3), installed(3, 8, 1), installed(4, 8, 1),
		}), nil, nil, nil, full)
		p = openParticipants(t, disk, 1)
		p.Allow(2, 0)
		expect("the second", counted(t, p, 2, []devices.Present{
			installed(1, 7, 3),                     // counted before: in nobody's way
			installed(5, 7, 3),                     // the third
			installed(6, 7, 3), installed(2, 8, 1), // renewed by a full issuer: counted for its first
			installed(4, 8, 1), installed(6, 7, 4), // of a larger certificate
		}), nil, nil, full, nil, full, nil)
		expect("the third", counted(t, p, 3, []devices.Present{ // 7 let in four, and 8 one
			installed(7, 7, 5), installed(8, 7, 5), installed(9, 8, 2), installed(10, 8, 2),
		}), nil, full, nil, full)
	}
	if got := counted(t, nil, 2, []devices.Present{installed(1, 7, 1), installed(2, 7, 1)}); got[0] != nil ||
		!errors.Is(got[1], full) {
		t.Errorf("where nobody is remembered: %v", got)
	}
}

// What is remembered of issuers is part of what is held against its digest.
func TestWhatIssuersLetInIsNotChanged(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	both := []devices.Present{installed(1, 7, 3), installed(2, 8, 3)}
	counted(t, openParticipants(t, channel.Folder(folder)), 1, both)
	damage(t, folder, "participants-1", func(b []byte) []byte { b[len(b)-1]--; return b })
	_, err := channel.OpenParticipants(channel.Folder(folder), "test", nil)
	if !errors.Is(err, channel.ErrDamagedState) {
		t.Errorf("%v", err)
	}
	damage(t, folder, "participants-1", func(b []byte) []byte { b[len(b)-1]++; return b[:len(b)-36] })
	_, err = channel.OpenParticipants(channel.Folder(folder), "test", nil)
	if !errors.Is(err, channel.ErrDamagedState) {
		t.Errorf("without one issuer: %v", err)
	}
}

// A sponsor may have more of a panel than of a cohort that came as it liked: its share is of the pool.
func TestASponsorsShareIsOfThePool(t *testing.T) {
	t.Parallel()
	most := func(r *channel.Round) (n int) {
		s := channel.NewSponsors(r, 0.5, nil)
		for one := installed(1, 7, 100); s.Check(one) == nil; n++ {
			s.Enter(one)
		}
		return n
	}
	r := roundOf(1, 50)
	if n := most(r); n != 25 {
		t.Errorf("as devices arrive %d of a sponsor", n)
	}
	r.Drawn = &channel.Drawn{Seed: panel.Seed{1}, Registered: 100, Size: 50}
	if n := most(r); n <= 25 || n >= 50 {
		t.Errorf("of a panel %d of a sponsor", n)
	}
}

// damage changes a file.
func damage(t *testing.T, folder, name string, f func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(folder, name)
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, f(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
