package channel_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/channel"
	devices "github.com/riffle-dp/riffle/pkg/channel"
)

// crowd are the devices from one number up to another, of one host.
func crowd(from, to uint32) (all []devices.Present) {
	for i := from; i < to; i++ {
		all = append(all, devices.Present{Participant: devices.Participant{Host: [32]byte{7, 7}, Number: i}})
	}
	return all
}

func openParticipants(t *testing.T, d channel.Disk, counted ...uint64) *channel.Participants {
	t.Helper()
	p, err := channel.OpenParticipants(d, "test", counted)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Who was counted in an epoch is not counted in another, before and after a restart, and later rounds of an epoch count
// only those of its first.
func TestADeviceIsCountedInOneEpoch(t *testing.T) {
	t.Parallel()
	disk := channel.Folder(t.TempDir())
	add := func(p *channel.Participants, epoch uint64, round, from, to uint32, want error) {
		t.Helper()
		if err := p.Add(epoch, round, crowd(from, to)); !errors.Is(err, want) {
			t.Errorf("round %d of epoch %d, devices %d to %d: %v, want %v", round, epoch, from, to, err, want)
		}
	}
	p := openParticipants(t, disk)
	add(p, 1, 0, 0, 100, nil)
	add(p, 1, 1, 10, 90, nil)
	for range 2 {
		add(p, 1, 0, 0, 100, nil)
		add(p, 1, 1, 10, 90, nil)
		add(p, 1, 0, 0, 99, channel.ErrSecondSet)
		add(p, 1, 1, 10, 91, channel.ErrSecondSet)
		add(p, 1, 2, 90, 101, channel.ErrNewcomer)
		add(p, 2, 0, 99, 200, channel.ErrEarlier)
		for number, want := range map[uint32]error{50: channel.ErrEarlier, 100: nil} {
			if err := p.Check(2, crowd(number, number+1)[0].Participant); !errors.Is(err, want) {
				t.Errorf("device %d in epoch 2: %v, want %v", number, err, want)
			}
		}
		for number, want := range map[uint32]error{50: nil, 100: channel.ErrNewcomer} {
			if err := p.Check(1, crowd(number, number+1)[0].Participant); !errors.Is(err, want) {
				t.Errorf("device %d in epoch 1: %v, want %v", number, err, want)
			}
		}
		if err := p.Add(3, 0, append(crowd(200, 300), crowd(250, 251)...)); err == nil {
			t.Error("a device is counted twice in a round")
		}
		if err := p.Add(3, 0, nil); err == nil {
			t.Error("no devices are counted")
		}
		if p.Devices(1) != 100 || p.Devices(3) != 0 {
			t.Errorf("%d and %d devices, want 100 and 0", p.Devices(1), p.Devices(3))
		}
		p = openParticipants(t, disk, 1)
	}
	add(p, 2, 0, 100, 200, nil)
	openParticipants(t, disk, 1, 2)
}

// An analyzer does not go on with files that are older than what it signed, of another deployment, or changed.
func TestOldOrDamagedMemoryIsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	disk := channel.Folder(folder)
	if _, err := channel.OpenParticipants(disk, "test", []uint64{1}); !errors.Is(err, channel.ErrOldState) ||
		!strings.Contains(err.Error(), "older than what this analyzer has signed") {
		t.Errorf("an empty folder after epoch 1: %v", err)
	}
	p := openParticipants(t, disk)
	if err := p.Add(1, 0, crowd(0, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := channel.OpenParticipants(disk, "test", []uint64{1, 2}); !errors.Is(err, channel.ErrOldState) {
		t.Errorf("a folder of epoch 1 after epoch 2: %v", err)
	}
	if _, err := channel.OpenParticipants(disk, "toast", nil); !errors.Is(err, channel.ErrDamagedState) {
		t.Errorf("another deployment: %v", err)
	}
	for _, name := range []string{"participants", "participants-1"} {
		path := filepath.Join(folder, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := append([]byte(nil), whole...)
		changed[len(changed)/2] ^= 1
		for _, other := range [][]byte{changed, whole[:len(whole)-16], whole[:5], append(changed, whole...)} {
			if err := os.WriteFile(path, other, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := channel.OpenParticipants(disk, "test", []uint64{1}); !errors.Is(err, channel.ErrDamagedState) {
				t.Errorf("%s of %d bytes instead of %d: %v", name, len(other), len(whole), err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		_, err = channel.OpenParticipants(disk, "test", []uint64{1})
		if !errors.Is(err, channel.ErrDamagedState) && !errors.Is(err, channel.ErrOldState) {
			t.Errorf("without %s: %v", name, err)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	openParticipants(t, disk, 1)
}

// failing is a disk on which one file cannot be stored.
type failing struct {
	channel.Folder
	name string
}

func (f failing) Store(name string, write func(io.Writer) error) error {
	if name == f.name {
		return errors.New("disk full")
	}
	return f.Folder.Store(name, write)
}

// What could not be made durable is not remembered: another set may take its place.
func TestASetThatIsNotDurableDoesNotCount(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"participants", "participants-1"} {
		folder := channel.Folder(t.TempDir())
		p := openParticipants(t, failing{folder, name})
		if err := p.Add(1, 0, crowd(0, 10)); err == nil {
			t.Fatalf("%s cannot be stored, and Add does not say so", name)
		}
		if p.Devices(1) != 0 {
			t.Errorf("%s cannot be stored, and its devices count", name)
		}
		if err := openParticipants(t, folder).Add(1, 0, crowd(5, 20)); err != nil {
			t.Errorf("after %s could not be stored: %v", name, err)
		}
		openParticipants(t, folder, 1)
	}
}

// Who may be counted in several epochs is counted in so many of every period, whatever was stored before, and not in
// one more.
func TestADeviceIsCountedInAsManyEpochsAsAllowed(t *testing.T) {
	t.Parallel()
	who := crowd(0, 1)
	for _, c := range []struct {
		records, period int
		epochs          []uint64 // that are asked for, in this order
		want            string   // of them: y where the device is counted
	}{
		{0, 0, []uint64{1, 2}, "yn"}, {1, 0, []uint64{3, 99}, "yn"}, {2, 0, []uint64{1, 2, 3, 1000}, "yynn"},
		{2, 4, []uint64{1, 3, 4, 5, 6, 7}, "yynyny"}, {1, 3, []uint64{1, 2, 3, 4, 5, 7}, "ynnyny"},
		{1, 1, []uint64{1, 2, 3}, "yyy"}, {3, 3, []uint64{1, 2, 3, 4}, "yyyy"},
	} {
		disk := channel.Folder(t.TempDir())
		got := ""
		for _, epoch := range c.epochs {
			p := openParticipants(t, disk) // each epoch after a restart
			p.Allow(c.records, c.period)
			err := p.Add(epoch, 0, who)
			if known := p.Check(epoch, who[0].Participant); (err == nil) != (known == nil) {
				t.Errorf("epoch %d: added with %v, checked with %v", epoch, err, known)
			}
			switch {
			case err == nil:
				got += "y"
			case errors.Is(err, channel.ErrEarlier):
				got += "n"
			default:
				t.Fatal(err)
			}
		}
		if got != c.want {
			t.Errorf("%d epochs of %d, asked for in %v: counted %s, want %s",
				c.records, c.period, c.epochs, got, c.want)
		}
	}
}
