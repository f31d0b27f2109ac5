package certificate_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The certificate of a panel names the seed that follows from both servers' statements, and what is protected; that of
// a destroyed one holds, too.
func TestACertificateShowsItsPanel(t *testing.T) {
	c := ledger.Living(plan.Central, 2)
	c.Terms.Dishonest, c.Terms.Period = 0.01, 3
	l, err := ledger.Make(ledger.Options{Configuration: c, Seed: 7,
		Destroyed: func(epoch uint64, _ uint32) bool { return epoch == 2 }})
	if err != nil {
		t.Fatal(err)
	}
	for epoch := range uint64(2) {
		b, why := certify(t, l, epoch+1)
		if why != nil {
			t.Fatal(why)
		}
		f, err := certificate.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		v, err := certificate.Verify(f, l.Bundle)
		if err != nil {
			t.Fatal(err)
		}
		_, digest, err := wire.Open[wire.Pool](l.Logs[bus.Shuffler][2*epoch].Signed, l.Bundle.ShufflerParty())
		if err != nil {
			t.Fatal(err)
		}
		draw, err := ledger.Open[wire.Draw](l, bus.Analyzer, 2+4*int(epoch))
		if err != nil {
			t.Fatal(err)
		}
		seed, p := panel.NewSeed(digest, draw.Contribution), v.Panel
		if p == nil || p.Registered != 61+uint32(epoch) || p.Least != 60 || p.Records != 2 || p.Period != 3 ||
			p.Decisions != 3 || !(p.Tail > 0) || !bytes.Equal(p.Seed, seed[:]) || !bytes.Equal(p.Pool, digest[:]) ||
			!strings.Contains(p.Unit, "2 of any 3 epochs") {
			t.Errorf("epoch %d: %+v", epoch+1, p)
		}
		if epoch == 0 && !(v.Rounds[0].Epsilon < v.Epsilon && float64(v.Epsilon) <= v.PromisedEpsilon) {
			t.Errorf("an epoch spends %v, all %v of %v", v.Rounds[0].Epsilon, v.Epsilon, v.PromisedEpsilon)
		}
		f.Summary.Panel.Records = 1
		if _, err := certificate.Verify(f, l.Bundle); !errors.Is(err, certificate.ErrRefused) ||
			!strings.Contains(err.Error(), "panel.records") {
			t.Errorf("a summary that lies of its panel: %v", err)
		}
		f.Summary.Panel = nil
		if _, err := certificate.Verify(f, l.Bundle); !errors.Is(err, certificate.ErrRefused) {
			t.Errorf("a summary without its panel: %v", err)
		}
	}
}

// A panel that was not drawn as announced gets no certificate, and the reason says why.
func TestPanelsThatWereNotDrawnGetNoCertificate(t *testing.T) {
	one := bytes.Repeat([]byte{1}, 32)
	missing := "lacks the shuffler's pool or the analyzer's draw"
	dropped := func(role bus.Role, index int) func(*ledger.Ledger) {
		return func(l *ledger.Ledger) { l.Logs[role] = slices.Delete(l.Logs[role], index, index+1) }
	}
	for _, x := range []struct {
		what, reason string
		tamper       ledger.Tamper
		after        func(*ledger.Ledger)
	}{
		{"no pool", missing, ledger.Tamper{}, dropped(bus.Shuffler, 0)},
		{"no draw", missing, ledger.Tamper{}, dropped(bus.Analyzer, 2)},
		{"a draw after the counts", "does not belong here", ledger.Tamper{}, func(l *ledger.Ledger) {
			log := l.Logs[bus.Analyzer]
			log[2], log[3] = log[3], log[2]
		}},
		{"a pool of another announcement", "of another announcement", ledger.Tamper{
			Pool: func(p *wire.Pool) { p.Announcement = one }}, nil},
		{"a draw of another announcement", "of another announcement", ledger.Tamper{
			Draw: func(d *wire.Draw) { d.Announcement = one }}, nil},
		{"a draw for another pool", "answers another pool", ledger.Tamper{
			Draw: func(d *wire.Draw) { d.Pool = one }}, nil},
		{"another contribution", "not what the announcement commits to", ledger.Tamper{
			Draw: func(d *wire.Draw) { d.Contribution = one }}, nil},
		{"too few registered devices", "announced are at least 60", ledger.Tamper{
			Pool: func(p *wire.Pool) { p.Registered = 59 }}, nil},
		{"another period than in the terms", "are not those of the terms", ledger.Tamper{
			Configuration: func(c *wire.Configuration) { c.Terms.Period = 7 }}, nil},
		{"fewer registered devices than in the terms", "are not those of the terms", ledger.Tamper{
			Configuration: func(c *wire.Configuration) { c.Terms.Registered++ }}, nil},
		{"fewer records in the terms", "are not those of the terms", ledger.Tamper{
			Configuration: func(c *wire.Configuration) { c.Terms.Records-- }}, nil},
		{"more dishonest devices in the terms", "are not those of the terms", ledger.Tamper{
			Configuration: func(c *wire.Configuration) { c.Terms.Dishonest = 0.5 }}, nil},
		{"a panel that the terms do not speak of", "are not those of the terms", ledger.Tamper{
			Configuration: func(c *wire.Configuration) {
				c.Terms.Registered, c.Terms.Records, c.Terms.Decisions, c.Terms.Tail = 0, 0, 0, 0
			}}, nil},
	} {
		l, err := ledger.Make(ledger.Options{Configuration: ledger.Living(plan.Central, 1), Seed: 7, Tamper: x.tamper})
		if err == nil && x.after != nil {
			x.after(l)
			err = l.Seal()
		}
		if err != nil {
			t.Errorf("%s: %v", x.what, err)
			continue
		}
		if _, why := certify(t, l, 1); !errors.Is(why, certificate.ErrRefused) ||
			!strings.Contains(why.Error(), x.reason) {
			t.Errorf("%s: %v, which does not say %q", x.what, why, x.reason)
		}
	}
}
