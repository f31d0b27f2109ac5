package certificate_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

var update = flag.Bool("update", false, "write the golden certificate instead of comparing it")

var golden = filepath.Join("testdata", "epoch-2.json")

// honest is a deployment of shares: all kinds of statements are in its certificates.
var honest = ledger.Once(ledger.Options{Configuration: ledger.Small(glm.Practical, plan.Shares, 2), Seed: 7})

func deployment(t testing.TB) *ledger.Ledger {
	t.Helper()
	l, err := honest()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// certify is what Certify makes of an epoch.
func certify(t testing.TB, l *ledger.Ledger, epoch uint64) (b []byte, why error) {
	t.Helper()
	err := audit.Certify(context.Background(), l, l.Bundle, func(of uint64, made []byte, no error) error {
		if of == epoch {
			b, why = made, no
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if b == nil && why == nil {
		t.Fatalf("nothing is said of epoch %d", epoch)
	}
	return b, why
}

// The format does not change unseen, and a stored certificate still holds.
func TestGoldenCertificate(t *testing.T) {
	l := deployment(t)
	b, why := certify(t, l, 2)
	if why != nil {
		t.Fatal(why)
	}
	if *update {
		if err := os.WriteFile(golden, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	f, err := certificate.Decode(want)
	if err != nil {
		t.Fatal(err)
	}
	v, err := certificate.Verify(f, l.Bundle)
	if err != nil || v.Epoch != 2 || v.Channel != plan.Shares || len(v.Rounds) != 1 ||
		v.Rounds[0].Outcome != "released" || v.Versions[0] != ledger.Version ||
		!(v.Epsilon > 3 && float64(v.Epsilon) <= v.PromisedEpsilon) {
		t.Errorf("%+v, %v", v, err)
	}
	// Signatures are deterministic, and all numbers of this deployment are the same on every processor but the last
	// bits of guarantees and sums.
	if !bytes.Equal(b, want) {
		t.Logf("this machine makes other bytes of it")
		again, err := certificate.Decode(b)
		if err != nil || len(again.Analyzer.Statements) != len(f.Analyzer.Statements) {
			t.Errorf("the certificate is another one: run with -update if that is intended, %v", err)
		}
	}
}

// A certificate that was changed anywhere is refused, and the reason says where.
func TestTamperedCertificatesAreRefused(t *testing.T) {
	l := deployment(t)
	b, why := certify(t, l, 2)
	if why != nil {
		t.Fatal(why)
	}
	first, why := certify(t, l, 1)
	if why != nil {
		t.Fatal(why)
	}
	decode := func(b []byte) *certificate.File {
		f, err := certificate.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	unknown, err := ledger.Identity(8, "unknown")
	if err != nil {
		t.Fatal(err)
	}
	short, err := l.CheckpointAt(bus.Analyzer, 6)
	if err != nil {
		t.Fatal(err)
	}
	drop := func(of *[]certificate.Statement, i int) { *of = slices.Delete(*of, i, i+1) }
	for _, x := range []struct {
		what, reason string
		change       func(f *certificate.File, keys *keyring.Bundle)
	}{
		{"a summary with a smaller epsilon", "summary lies: epsilon ",
			func(f *certificate.File, _ *keyring.Bundle) { f.Summary.Epsilon /= 2 }},
		{"a summary that bounds what nothing bounds", "summary lies: epsilon_alone",
			func(f *certificate.File, _ *keyring.Bundle) { f.Summary.EpsilonAlone = privacy.Epsilon(1) }},
		{"a summary with more reports", "summary lies: rounds.reports",
			func(f *certificate.File, _ *keyring.Bundle) { f.Summary.Rounds[0].Reports++ }},
		{"a summary with another channel", "summary lies: channel",
			func(f *certificate.File, _ *keyring.Bundle) { f.Summary.Channel = plan.Local }},
		{"a summary with a round more", "summary lies: rounds",
			func(f *certificate.File, _ *keyring.Bundle) {
				f.Summary.Rounds = append(f.Summary.Rounds, f.Summary.Rounds[0])
			}},
		{"a summary with another root", "summary lies: shuffler.root",
			func(f *certificate.File, _ *keyring.Bundle) { f.Summary.Shuffler.Root[0] ^= 1 }},
		{"a statement with another bit", "not shown to be in the log",
			func(f *certificate.File, _ *keyring.Bundle) { f.Shuffler.Statements[1].Signed[40] ^= 1 }},
		{"a proof with another bit", "analyzer/5 announcement",
			func(f *certificate.File, _ *keyring.Bundle) { f.Analyzer.Statements[1].Proof[0][0] ^= 1 }},
		{"another place", "not shown to be in the log",
			func(f *certificate.File, _ *keyring.Bundle) { f.Analyzer.Statements[2].Index++ }},
		{"a statement of another epoch", "shuffler",
			func(f *certificate.File, _ *keyring.Bundle) {
				f.Shuffler.Statements = decode(first).Shuffler.Statements
			}},
		{"a manifest left out", "lacks a manifest",
			func(f *certificate.File, _ *keyring.Bundle) { drop(&f.Shuffler.Statements, 1) }},
		{"an accepted set left out", "must follow entry",
			func(f *certificate.File, _ *keyring.Bundle) { drop(&f.Analyzer.Statements, 2) }},
		{"a summed set left out", "without an accepted set of either server",
			func(f *certificate.File, _ *keyring.Bundle) { drop(&f.Shuffler.Statements, 0) }},
		{"no configuration", "must be its configuration",
			func(f *certificate.File, _ *keyring.Bundle) { drop(&f.Analyzer.Statements, 0) }},
		{"counts twice", "must follow entry",
			func(f *certificate.File, _ *keyring.Bundle) {
				f.Analyzer.Statements = slices.Insert(f.Analyzer.Statements, 4, f.Analyzer.Statements[3])
			}},
		{"another kind", "does not belong here",
			func(f *certificate.File, _ *keyring.Bundle) { f.Analyzer.Statements[3].Kind = "manifest" }},
		{"an older checkpoint", "not shown to be in the log",
			func(f *certificate.File, _ *keyring.Bundle) { f.Analyzer.Checkpoint = string(short) }},
		{"a checkpoint of the other log", "the checkpoint of the analyzer",
			func(f *certificate.File, _ *keyring.Bundle) { f.Analyzer.Checkpoint = f.Shuffler.Checkpoint }},
		{"a checkpoint with another root", "the checkpoint of the shuffler",
			func(f *certificate.File, _ *keyring.Bundle) {
				f.Shuffler.Checkpoint = strings.Replace(f.Shuffler.Checkpoint, "\n4\n", "\n5\n", 1)
			}},
		{"keys that are not trusted", "other keys than those that are trusted",
			func(_ *certificate.File, keys *keyring.Bundle) { keys.Analyzer = unknown.Public() }},
		{"keys that signed nothing", "the checkpoint of the analyzer",
			func(f *certificate.File, keys *keyring.Bundle) {
				keys.Analyzer = unknown.Public()
				f.Keys = *keys
			}},
		{"another deployment", `the keys of "other"`,
			func(_ *certificate.File, keys *keyring.Bundle) { keys.Deployment = "other" }},
		{"a key that was good before", "good until epoch 1",
			func(_ *certificate.File, keys *keyring.Bundle) { keys.Until = map[string]uint64{"analyzer": 1} }},
	} {
		f, keys := decode(b), l.Bundle
		x.change(f, &keys)
		_, err := certificate.Verify(f, keys)
		if err == nil || !strings.Contains(err.Error(), x.reason) {
			t.Errorf("%s: %v, which does not say %q", x.what, err, x.reason)
		}
		if !errors.Is(err, certificate.ErrRefused) && !errors.Is(err, certificate.ErrUnfinished) {
			t.Errorf("%s: %v is not of a kind that is documented", x.what, err)
		}
	}
}

// What a dishonest server signs gets no certificate, and the reason says why.
func TestDishonestServersGetNoCertificate(t *testing.T) {
	for _, x := range []struct {
		what, reason string
		tamper       ledger.Tamper
	}{
		{"a promise that the plan does not keep", "weaker than was promised", ledger.Tamper{
			Configuration: func(c *wire.Configuration) { c.Terms.Epsilon /= 2 }}},
		{"a smaller delta in the terms", "the terms", ledger.Tamper{
			Configuration: func(c *wire.Configuration) { c.Terms.Delta *= 0.999999 }}},
		{"a smaller minimum than the terms ask for", "the terms ask for", ledger.Tamper{
			Configuration: func(c *wire.Configuration) { c.Terms.MinCohort = 12 }}},
		{"fewer dishonest reports than the terms ask for", "leaves out the noise", ledger.Tamper{
			Configuration: func(c *wire.Configuration) { c.Terms.DishonestReports = 2 }}},
		{"another channel than the terms", "the channel", ledger.Tamper{
			Configuration: func(c *wire.Configuration) { c.Terms.Channel = plan.Local }}},
		{"other times", "other times", ledger.Tamper{
			Configuration: func(c *wire.Configuration) { c.Timing.Grace += c.Timing.Grace }}},
		{"a release below the minimum", "the announced minimum is", ledger.Tamper{
			Manifest: func(m *wire.Manifest) { m.Reports, m.Messages = 3, 3 }}},
		{"more devices than places", "enrolled in a cohort of", ledger.Tamper{
			Manifest: func(m *wire.Manifest) { m.Enrolled++ }}},
		{"a message more", "messages left", ledger.Tamper{
			Manifest: func(m *wire.Manifest) { m.Messages *= 2 }}},
		{"counts of other reports", "the manifest says", ledger.Tamper{
			Counts: func(c *wire.Counts) { c.Reports-- }}},
		{"counts of another manifest", "of another manifest", ledger.Tamper{
			Counts: func(c *wire.Counts) { c.Manifest = bytes.Repeat([]byte{1}, 32) }}},
		{"counts of another announcement", "of another announcement", ledger.Tamper{
			Counts: func(c *wire.Counts) { c.Announcement = bytes.Repeat([]byte{1}, 32) }}},
		{"another accepted set than was added up", "did not add up the same reports", ledger.Tamper{
			Summed: func(s *wire.Summed) { s.Set = bytes.Repeat([]byte{1}, 32) }}},
		{"an accepted set of another announcement", "accepted set is of another announcement", ledger.Tamper{
			Accepted: func(s *wire.Accepted) { s.Announcement = bytes.Repeat([]byte{1}, 32) }}},
		{"other sums", "sums of release 0 are not those", ledger.Tamper{
			Learned: func(l *wire.Learned) { l.Sums[0].Values[0] += 1e-3 }}},
		{"a smaller epsilon", "what was learned states epsilon", ledger.Tamper{
			Learned: func(l *wire.Learned) { l.Epsilon *= 0.99 }}},
		{"other counts than were learned from", "follows from other counts", ledger.Tamper{
			Learned: func(l *wire.Learned) { l.Counts = bytes.Repeat([]byte{1}, 32) }}},
		{"a cohort that was not destroyed", "do not agree whether the cohort was destroyed", ledger.Tamper{
			Learned: func(l *wire.Learned) { *l = destroyed(*l) }}},
	} {
		o := ledger.Options{Configuration: ledger.Small(glm.Practical, plan.Shares, 1), Seed: 7, Tamper: x.tamper}
		l, err := ledger.Make(o)
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

// A server that signs a second statement of a round gets no certificate of it.
func TestASecondStatementGetsNoCertificate(t *testing.T) {
	l, err := ledger.Make(ledger.Options{Configuration: ledger.Small(glm.Practical, plan.Local, 1), Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	at := l.Find(bus.Analyzer, wire.KindCounts, 0)
	l.Logs[bus.Analyzer] = slices.Insert(l.Logs[bus.Analyzer], at, l.Logs[bus.Analyzer][at])
	if err := l.Seal(); err != nil {
		t.Fatal(err)
	}
	if _, why := certify(t, l, 1); !errors.Is(why, certificate.ErrRefused) ||
		!strings.Contains(why.Error(), "two statements") {
		t.Error(why)
	}
}

func destroyed(l wire.Learned) wire.Learned {
	l.Destroyed, l.Sums, l.Epsilon, l.EpsilonAlone = true, nil, 0, 0
	return l
}

// Bytes that are no certificate are told apart from one that does not hold: they prove nothing.
func TestOtherFilesAreNoCertificates(t *testing.T) {
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for reason, other := range map[string]string{
		"EOF":                    "",
		"invalid character":      "certificate",
		"its format is":          strings.Replace(text, certificate.Format, "riffle-certificate-0", 1),
		"unknown field":          strings.Replace(text, `"summary"`, `"summaries"`, 1),
		"something follows":      text + "{}",
		"in its one form":        strings.Replace(text, "  ", " ", 1),
		"no list of at most":     strings.Replace(text, `"proof": [`, `"proof": ["AA==",`, 1),
		"illegal base64":         strings.Replace(text, `"signed": "`, `"signed": "!`, 1),
		"cannot unmarshal":       strings.Replace(text, `"index": `, `"index": -`, 1),
		"a key is 43 characters": strings.Replace(text, `"shuffler": "`, `"shuffler": "A`, 1),
	} {
		if _, err := certificate.Decode([]byte(other)); !errors.Is(err, certificate.ErrForm) ||
			!strings.Contains(err.Error(), reason) {
			t.Errorf("%v does not say %q", err, reason)
		}
	}
}

// Verify comes to an end on whatever is read as a certificate, and believes none but the one that was made: every byte
// of it is signed, or follows from what is.
func FuzzCertificate(f *testing.F) {
	b, err := os.ReadFile(golden)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("{}"))
	l := deployment(f)
	golden := b
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := certificate.Decode(b)
		if err != nil {
			if file != nil || !errors.Is(err, certificate.ErrForm) {
				t.Fatalf("%+v, %v", file, err)
			}
			return
		}
		if _, err := certificate.Verify(file, l.Bundle); (err == nil) != bytes.Equal(b, golden) {
			t.Fatalf("the golden certificate: %v, %v", bytes.Equal(b, golden), err)
		}
	})
}

// A certificate says that what left the shuffler is spent though the analyzer refused it, and so does its summary for a
// cohort that was destroyed after a part of it left. Only of what was destroyed before nothing is spent.
func TestWhatLeftIsSpent(t *testing.T) {
	refuse := func(c *wire.Counts) {
		if c.Epoch == 2 {
			c.Destroyed, c.Releases = true, nil
		}
	}
	second := func(epoch uint64, _ uint32) bool { return epoch == 2 }
	for name, x := range map[string]struct {
		options ledger.Options
		outcome string
		left    bool
	}{
		"refused": {ledger.Options{Tamper: ledger.Tamper{Counts: refuse}}, "refused", true},
		"a part left": {ledger.Options{Destroyed: second, Tamper: ledger.Tamper{Manifest: func(m *wire.Manifest) {
			if m.Epoch == 2 {
				m.Reports = m.Enrolled
				m.Messages = uint64(m.Reports)
			}
		}, Counts: func(c *wire.Counts) {
			if c.Epoch == 2 {
				c.Reports = 12
			}
		}}}, "destroyed", true},
		"destroyed": {ledger.Options{Destroyed: second}, "destroyed", false},
	} {
		x.options.Configuration = ledger.Small(glm.Practical, plan.Central, 2)
		l, err := ledger.Make(x.options)
		if err != nil {
			t.Fatal(err)
		}
		b, why := certify(t, l, 2)
		if why != nil {
			t.Fatalf("%s: %v", name, why)
		}
		f, err := certificate.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		v, err := certificate.Verify(f, l.Bundle)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := v.Rounds[0]
		if r.Outcome != x.outcome || r.Left != x.left || (r.Epsilon > 0) != x.left ||
			x.left && (!(r.Epsilon <= v.Epsilon) || r.EpsilonAlone != v.EpsilonAlone) ||
			!x.left && r.EpsilonAlone != 0 {
			t.Errorf("%s: %+v, the plan has %v and %v", name, r, v.Epsilon, v.EpsilonAlone)
		}
	}
}
