package device

import (
	"bytes"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// FuzzSavedDevice opens a device with any bytes as its saved state, and has it go on. What opens is saved so that it
// opens to the same again; its limits are never weaker than the configured ones, and nothing that it is asked to do
// panics.
func FuzzSavedDevice(f *testing.F) {
	fix := newFixture(f)
	d, a := fix.device(glm.Practical)
	f.Add(must(d.Save()))
	fix.enrol(d)
	f.Add(must(d.Save()))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"state":{"number":3,"ledger":{"epsilon":100,"delta":0.5}},"due":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"state":{"number":3,"registration":{"since":1}},"due":"2026-01-01T00:00:00Z"}`))
	config, announced, keys := fix.config(), fix.announce(a), fix.keys(1, fix.shufflerKey)
	f.Fuzz(func(t *testing.T, save []byte) {
		d, err := Open(config, 3, save)
		if err != nil {
			if d != nil {
				t.Fatal("a device with an error")
			}
			return
		}
		if l := d.state.Ledger; !(l.Epsilon <= config.Limits.Epsilon) || !(l.Delta <= config.Limits.Delta) ||
			l.Records > config.Limits.Records {
			t.Fatalf("limits %+v, configured are %+v", l, config.Limits)
		}
		saved, err := d.Save()
		if err != nil {
			t.Fatalf("what opened cannot be saved: %v", err)
		}
		again, err := Open(config, 3, saved)
		if err != nil {
			t.Fatalf("what was saved does not open: %v", err)
		}
		if twice, err := again.Save(); err != nil || !bytes.Equal(twice, saved) {
			t.Fatalf("saved is %s, and then %s, %v", saved, twice, err)
		}
		_, _ = again.Follow(announced, start)
		_ = again.Keys(keys)
		_ = again.Status()
		if request, err := again.Enrol(start); err == nil {
			yes := wire.EnrolReply{Enrolled: true, Slot: 7, ReportAfter: time.Minute}
			_, _ = again.Answer(fix.reply(request, yes), start)
		}
		_, _ = again.Decide([][]float64{{0.6, 0.2}, {-0.3, 0.5}}, source(1))
		_, _ = again.Report(start.Add(time.Hour))
	})
}

// FuzzDeviceHears shows a device that has a slot any bytes as each of the statements that others send it. It believes
// none, and what it saves stays as it was. As nothing changes it, all inputs are shown to one device: to open it anew
// takes nearly all of the time, for the guarantee of the plan that it follows.
func FuzzDeviceHears(f *testing.F) {
	fix := newFixture(f)
	d, a := fix.device(glm.Practical)
	fix.enrol(d)
	before := must(d.Save())
	known := [][]byte{fix.announce(a), fix.keys(1, fix.shufflerKey)}
	for _, b := range known {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, signed []byte) {
		fresh, _ := d.Follow(signed, start)
		_, _ = d.Answer(signed, start)
		_, _, _ = d.Registered(signed)
		_ = d.Keys(signed)
		if after := must(d.Save()); fresh || !bytes.Equal(after, before) {
			t.Fatalf("%x changes the device: %s", signed, after)
		}
	})
}
