package channel

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/allocated"
	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/plan"
)

// files is a Disk in memory.
type files map[string][]byte

func (d files) Store(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	d[name] = b.Bytes()
	return nil
}

func (d files) Open(name string) (io.ReadCloser, error) {
	b, ok := d[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (d files) Remove(name string) error { delete(d, name); return nil }

// FuzzOutline reads any JSON as the outline of a round. What is accepted is the outline of the announcement that it
// gives, and takes no more memory than the outline has entries.
func FuzzOutline(f *testing.F) {
	f.Add([]byte(`{"channel":"shuffle","epoch":1,"round":1,"announcement":"` +
		`AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=","key":"AA==","releases":[{"levels":[1,2],"noise_bits":3}]}`))
	f.Add([]byte(`{"announcement":"AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=","round":4294967295,"releases":[{}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var o Outline
		if json.Unmarshal(text, &o) != nil {
			return
		}
		var a *plan.Announcement
		var digest [32]byte
		var err error
		allocated.ForInput(t, len(text), func() { a, digest, err = o.Announced() })
		if err != nil {
			if a != nil || !errors.Is(err, ErrOutline) {
				t.Fatalf("%+v, %v", a, err)
			}
			return
		}
		again := NewOutline(a, digest)
		for i := range again.Releases { // JSON tells an empty list from none
			if len(again.Releases[i].Levels)+len(o.Releases[i].Levels) == 0 {
				again.Releases[i].Levels = o.Releases[i].Levels
			}
		}
		if !reflect.DeepEqual(again, o) {
			t.Fatalf("%+v gives the outline %+v", o, again)
		}
		if _, err := o.Open(nil); err == nil {
			t.Fatal("a round without its key opens")
		}
	})
}

// FuzzParticipants opens any bytes as the files of the devices that were counted, as they are and with the checksums
// that they should have. What opens says of its own devices that they were counted, and is written as the same list.
func FuzzParticipants(f *testing.F) {
	const deployment = "test"
	disk := files{}
	p, err := OpenParticipants(disk, deployment, nil)
	if err != nil {
		f.Fatal(err)
	}
	devices := []channel.Present{
		{Participant: channel.Participant{Host: [32]byte{7}, Number: 1}},
		{Participant: channel.Participant{Host: [32]byte{7}, Number: 2}, Issuer: [32]byte{9}, Installations: 5},
	}
	for round := range uint32(2) {
		if err := p.Add(1, round, devices[round:]); err != nil {
			f.Fatal(err)
		}
	}
	head := len(roundsDomain) + 1 + len(deployment)
	list := disk[roundsFile]
	f.Add(list[head:len(list)-sha256.Size], disk[epochFile(1)])
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, list, marks []byte) {
		whole := append((&Participants{deployment: deployment}).encode(nil)[:head], list...)
		sum := sha256.Sum256(whole)
		whole = append(whole, sum[:]...)
		for _, b := range [][]byte{list, whole} {
			disk := files{roundsFile: b, epochFile(1): marks}
			p, err := OpenParticipants(disk, deployment, nil)
			if err != nil {
				if p != nil || !errors.Is(err, ErrDamagedState) {
					t.Fatalf("%+v, %v", p, err)
				}
				continue
			}
			if again := p.encode(p.rounds); !bytes.Equal(again, b) {
				t.Fatalf("%x is written as %x", b, again)
			}
			for _, r := range p.rounds {
				if known := p.epochs[r.Epoch]; r.Epoch != 1 ||
					p.Devices(1)*len(mark{})+len(p.issuers[1])*issuerTallySize != len(marks) ||
					digestOf(known, p.issuers[1]) != p.rounds[0].Digest {
					t.Fatalf("%+v of %d bytes of marks", r, len(marks))
				}
			}
		}
	})
}
