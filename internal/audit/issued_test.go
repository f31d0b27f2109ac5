package audit_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// issuance is an issuer's log under construction.
type issuance struct {
	issuer   *seal.Identity
	lines    []string
	previous []byte
	n        uint64
}

// issues begins the log of an issuer who may let so many installations in.
func issues(l *ledger.Ledger, name string, installations uint32) (*issuance, error) {
	registrar, err := ledger.Identity(7, "registrar")
	if err != nil {
		return nil, err
	}
	i := &issuance{}
	if i.issuer, err = ledger.Identity(7, name); err != nil {
		return nil, err
	}
	return i, i.line(wire.Sign(&wire.IssuerCertificate{
		Deployment: l.Bundle.Deployment, Key: i.issuer.Public(), First: 1, Last: 99, Installations: installations,
	}, registrar))
}

func (i *issuance) line(signed []byte, _ [32]byte, err error) error {
	i.lines = append(i.lines, base64.StdEncoding.EncodeToString(signed))
	return err
}

// issue appends entries for the keys that begin with these numbers.
func (i *issuance) issue(l *ledger.Ledger, keys ...int) error {
	for _, k := range keys {
		i.n++
		signed, digest, err := wire.Sign(&wire.Issued{
			Deployment: l.Bundle.Deployment, Number: i.n, Previous: i.previous,
			Key: fmt.Appendf(nil, "%032d", k),
		}, i.issuer)
		if err := i.line(signed, digest, err); err != nil {
			return err
		}
		i.previous = digest[:]
	}
	return nil
}

func (i *issuance) log(name string) audit.IssuedLog {
	return audit.IssuedLog{Name: name, From: strings.NewReader(strings.Join(i.lines, "\n") + "\n")}
}

func upTo(n int) (all []int) {
	for k := range n {
		all = append(all, k)
	}
	return all
}

// ofIssuers plants a log of an issuer who may let 50 in, with so many keys, and changes the issuer's lines.
func ofIssuers(keys int, registrar *uint64, f func(*ledger.Ledger, *audit.Options, *issuance) error,
) func(*ledger.Ledger, *audit.Options) error {
	return func(l *ledger.Ledger, o *audit.Options) error {
		i, err := issues(l, "app", 50)
		if err == nil {
			err = i.issue(l, upTo(keys)...)
		}
		if err == nil && f != nil {
			err = f(l, o, i)
		}
		o.Issued, o.RegistrarDevices = append(o.Issued, i.log("issued.log")), registrar
		return err
	}
}

// cut takes lines out of a log.
func cut(from, to int) func(*ledger.Ledger, *audit.Options, *issuance) error {
	return func(_ *ledger.Ledger, _ *audit.Options, i *issuance) error {
		i.lines = slices.Delete(i.lines, from, to)
		return nil
	}
}

// issuedFrauds are frauds of issuers, and of who lets people in beside them. In the deployment 36 devices take part.
var issuedFrauds = []fraud{
	{
		name: "an issuer leaves a key out of the middle of its log", of: joint,
		last: ofIssuers(40, nil, cut(5, 6)),
		want: []audit.What{audit.IssuedUnchained}, entry: "issued.log/6",
	},
	{
		name: "an issuer leaves out its first key", of: joint,
		last: ofIssuers(40, nil, cut(1, 2)),
		want: []audit.What{audit.IssuedUnchained}, entry: "issued.log/2",
	},
	{
		name: "an issuer's log has a line twice", of: joint,
		last: ofIssuers(40, nil, func(_ *ledger.Ledger, _ *audit.Options, i *issuance) error {
			i.lines = slices.Insert(i.lines, 9, i.lines[8])
			return nil
		}),
		want: []audit.What{audit.IssuedUnchained}, entry: "issued.log/10",
	},
	{
		name: "an issuer signs past a number", of: joint,
		last: ofIssuers(4, nil, func(l *ledger.Ledger, _ *audit.Options, i *issuance) error {
			i.n++
			return i.issue(l, 7)
		}),
		want: []audit.What{audit.IssuedUnchained}, entry: "issued.log/6",
	},
	{
		name: "an issuer signs another key in the place of one", of: joint,
		last: ofIssuers(4, nil, func(l *ledger.Ledger, _ *audit.Options, i *issuance) error {
			i.n, i.previous = 3, bytes.Repeat([]byte{1}, 32)
			err := i.issue(l, 7)
			i.lines = slices.Delete(i.lines, 4, 5)
			return err
		}),
		want: []audit.What{audit.IssuedUnchained}, entry: "issued.log/5",
	},
	{
		name: "an issuer credentials more than its certificate says", of: joint,
		last: ofIssuers(51, nil, nil),
		want: []audit.What{audit.IssuedBeyond}, entry: "issued.log/52",
	},
	{
		name: "an issuer writes its log anew", of: joint,
		last: ofIssuers(40, nil, func(l *ledger.Ledger, o *audit.Options, i *issuance) error {
			other, err := issues(l, "app", 50)
			if err == nil {
				err = other.issue(l, 0, 1, 99)
			}
			o.Issued = append(o.Issued, other.log("earlier"))
			return err
		}),
		want: []audit.What{audit.IssuedSplit}, entry: "issued.log",
	},
	{
		name: "an issuer leaves the last key out of its log", of: joint,
		last: ofIssuers(36, new(uint64), cut(36, 37)),
		want: []audit.What{audit.DevicesUnaccounted}, entry: "shuffler/2 manifest",
	},
	{
		name: "an issuer names one key twice in place of two", of: joint,
		last: ofIssuers(35, new(uint64), func(l *ledger.Ledger, _ *audit.Options, i *issuance) error {
			return i.issue(l, 3)
		}),
		want: []audit.What{audit.DevicesUnaccounted}, entry: "shuffler/2 manifest",
	},
	{
		name: "a panel is drawn from more devices than were let in", of: panels,
		last: ofIssuers(40, func() *uint64 { n := uint64(20); return &n }(), nil),
		want: []audit.What{audit.DevicesUnaccounted}, entry: "shuffler/1 manifest",
	},
}

// An honest issuer's log has no breach, beside an earlier copy and another issuer's; what it says is in the report. An
// issuer that was withdrawn is told of.
func TestIssuersLogsAreCompared(t *testing.T) {
	l := made(t, configuration(joint))
	first, err := issues(l, "app", 50)
	must(t, err)
	empty := first.log("before the first")
	must(t, first.issue(l, upTo(10)...))
	earlier := first.log("earlier")
	must(t, first.issue(l, 10, 11, 12))
	other, err := issues(l, "other", 30)
	must(t, err, other.issue(l, 12, 13, 14)) // 12 is one device
	l.Bundle.Hosts = []keyring.HostKeysOf{{Name: "issuer-other", First: other.issuer.Public(), Withdrawn: true}}
	hosts := uint64(21)
	logs := func() []audit.IssuedLog {
		return []audit.IssuedLog{first.log("issued.log"), other.log("other.log")}
	}
	r := check(t, l, audit.Options{Issued: append(logs(), earlier, empty), RegistrarDevices: &hosts})
	if !r.OK || len(r.Issuers) != 4 || r.Issuers[0].Issued != 13 || r.Issuers[0].Withdrawn || !r.Issuers[1].Withdrawn ||
		r.TookPart == nil || r.TookPart.Devices != 36 || r.TookPart.Issued != 15 {
		t.Errorf("%+v %+v%s", r.Issuers, r.TookPart, list(r))
	}
	r = check(t, l, audit.Options{Issued: logs()})
	notes := strings.Join(r.Notes, " ")
	if !r.OK || !strings.Contains(notes, "21 or more were let in by the registrar") {
		t.Errorf("%s%s", notes, list(r))
	}
	hosts = 20
	if r = check(t, l, audit.Options{Issued: logs(), RegistrarDevices: &hosts}); r.OK {
		t.Error("a device too many is no breach")
	}
	if r = check(t, l, audit.Options{}); r.Issuers != nil || r.TookPart != nil {
		t.Errorf("without logs: %+v %+v", r.Issuers, r.TookPart)
	}
}

// A device is one device in all rounds of an epoch, and in as many epochs of a period as its plan says.
func TestADeviceIsCountedOnceAmongThoseThatTookPart(t *testing.T) {
	periodic := configuration(twice)
	periodic.Configuration.Terms.Period = 2
	for name, c := range map[string]struct {
		options ledger.Options
		want    uint64
	}{
		"three rounds in each of two epochs":    {configuration(sums), 24},
		"panels, of whose pool nobody is twice": {periodic, 62},
	} {
		l := made(t, c.options)
		i, err := issues(l, "app", 99)
		must(t, err)
		r := check(t, l, audit.Options{Issued: []audit.IssuedLog{i.log("issued.log")}})
		if !r.OK || r.TookPart.Devices != c.want {
			t.Errorf("%s: %+v, want %d%s", name, r.TookPart, c.want, list(r))
		}
	}
}

func must(t *testing.T, all ...error) {
	t.Helper()
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
}

// What is no issuer's log is an error that says so, and no breach: anybody can have made it.
func TestWhatIsNoIssuersLogIsRefused(t *testing.T) {
	l := made(t, configuration(joint))
	i, err := issues(l, "app", 50)
	must(t, err, i.issue(l, upTo(3)...))
	stranger, err := issues(l, "stranger", 50)
	must(t, err, stranger.issue(l, 0))
	own := &issuance{issuer: i.issuer}
	must(t, own.line(wire.Sign(&wire.IssuerCertificate{
		Deployment: l.Bundle.Deployment, Key: i.issuer.Public(), First: 1, Last: 99, Installations: 5000,
	}, i.issuer)))
	whole := strings.Join(i.lines, "\n")
	for name, c := range map[string]struct{ text, want string }{
		"empty":                           {"", "line 1"},
		"another file":                    {"{\"format\": 1}\n", "line 1"},
		"without a certificate":           {strings.Join(i.lines[1:], "\n"), "line 1: it must be"},
		"a certificate of its own making": {own.lines[0], "line 1: it must be"},
		"cut":                             {whole[:len(whole)-10], "line 4"},
		"another issuer's entry":          {whole + "\n" + stranger.lines[1], "line 5: it is no entry"},
		"a blank line":                    {i.lines[0] + "\n\n" + i.lines[1], "line 2"},
		"endless":                         {whole + "\n" + strings.Repeat("A", 1<<20), "line 5"},
	} {
		log := audit.IssuedLog{Name: "issued.log", From: strings.NewReader(c.text)}
		o := audit.Options{Trust: l.Bundle, Issued: []audit.IssuedLog{log}}
		_, err := audit.Check(context.Background(), l, o)
		if !errors.Is(err, audit.ErrIssued) || !strings.Contains(err.Error(), "issued.log, "+c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
