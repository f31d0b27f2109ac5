package randomizer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
)

var update = flag.Bool("update", false, "write the golden texts")

// message is an announcement as the wire carries it, where a malicious analyzer can write whatever it likes.
func message(t *testing.T, b *testbed.Bed, a *plan.Announcement) *rifflev1.Announcement {
	t.Helper()
	signed, _ := b.Sign(a, b.Analyzer)
	outer, m := new(rifflev1.Signed), new(rifflev1.Announcement)
	if err := errors.Join(proto.Unmarshal(signed, outer), proto.Unmarshal(outer.Body, m)); err != nil {
		t.Fatal(err)
	}
	return m
}

// forge signs anything as an announcement, unchecked: a malicious analyzer does not use wire.Sign.
func forge(t *testing.T, a *rifflev1.Announcement, by *seal.Identity) (payload []byte, digest [32]byte) {
	t.Helper()
	options := proto.MarshalOptions{Deterministic: true}
	body, err := options.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := seal.Sign(seal.Announcement, body, by)
	if err != nil {
		t.Fatal(err)
	}
	payload, err = options.Marshal(&rifflev1.Signed{Body: body, Key: by.Public(), Signature: signature})
	if err != nil {
		t.Fatal(err)
	}
	return payload, seal.Digest(seal.Announcement, body)
}

// attack is one thing that a malicious analyzer may announce.
type attack struct {
	profile glm.Profile  // default practical
	channel plan.Channel // of the honest announcement; default shuffle
	noised  bool         // the honest announcement has noise of servers
	limits  func(*device.Limits)
	// change makes the announcement malicious. honest, where it is true, has the device see the unchanged first
	// announcement before.
	change func(a *rifflev1.Announcement, first [32]byte)
	honest bool
	other  bool // signed by somebody else
	exact  bool // the device's limit is what the honest plan gives
}

func attacks(t *testing.T, b *testbed.Bed) map[string]attack {
	every := func(f func(r *rifflev1.PlannedRelease)) func(*rifflev1.Announcement, [32]byte) {
		return func(a *rifflev1.Announcement, _ [32]byte) {
			for _, round := range a.Plan.Rounds {
				for _, r := range round.Releases {
					f(r)
				}
			}
		}
	}
	next := func(f func(a *rifflev1.Announcement)) func(*rifflev1.Announcement, [32]byte) {
		return func(a *rifflev1.Announcement, first [32]byte) {
			a.Epoch, a.Previous = 2, first[:]
			f(a)
		}
	}
	second := func(f func(a *rifflev1.Announcement)) func(*rifflev1.Announcement, [32]byte) {
		return func(a *rifflev1.Announcement, first [32]byte) {
			a.Round, a.Previous = 1, first[:]
			a.Plan.Rounds[1].Releases[0].Shift = a.Plan.Rounds[0].Releases[1].Shift
			a.Encodings = a.Encodings[1:]
			f(a)
		}
	}
	return map[string]attack{
		"no noise":             {change: every(func(r *rifflev1.PlannedRelease) { r.NoiseBits = 0 })},
		"noise of bias 0":      {change: every(func(r *rifflev1.PlannedRelease) { r.Bias = 0 })},
		"noise of almost none": {change: every(func(r *rifflev1.PlannedRelease) { r.Bias = 1 })},
		"little noise": {change: every(func(r *rifflev1.PlannedRelease) { r.NoiseBits = 1; r.Bias = 1 << 31 }),
			limits: func(l *device.Limits) { l.Epsilon = 0.5 }},
		"small cohort": {change: func(a *rifflev1.Announcement, _ [32]byte) { a.Cohort.Minimum = 3 }},
		"nobody honest": {change: func(a *rifflev1.Announcement,
			_ [32]byte) {
			a.Cohort.MaxDishonest = a.Cohort.Minimum
		}},
		"own bound on dishonest": {change: func(*rifflev1.Announcement, [32]byte) {},
			limits: func(l *device.Limits) { l.Dishonest = 0.8 }},
		"half dishonest": {change: func(*rifflev1.Announcement, [32]byte) {},
			limits: func(l *device.Limits) { l.Dishonest = 0.5 }},
		"wrong delta": {change: func(a *rifflev1.Announcement, _ [32]byte) {
			a.Plan.Delta, a.Plan.TailDelta = 0.4, 0.05
		}},
		"no delta": {change: func(a *rifflev1.Announcement, _ [32]byte) { a.Plan.TailDelta = 0 }},
		"lie about epsilon": {change: func(a *rifflev1.Announcement, _ [32]byte) {
			a.Plan.Epsilon = 0.01
			for _, r := range a.Plan.Rounds[0].Releases {
				r.Shift *= 3
			}
			for _, e := range a.Encodings {
				e.Scale *= 3
				for _, c := range e.Coordinates {
					c.Levels *= 3
				}
			}
		}},
		"too many releases": {profile: glm.Paper, change: func(a *rifflev1.Announcement, _ [32]byte) {
			for range 7 {
				a.Plan.Rounds = append(a.Plan.Rounds, a.Plan.Rounds[1])
			}
		}},
		"a round more": {profile: glm.Paper, exact: true, change: func(a *rifflev1.Announcement, _ [32]byte) {
			a.Plan.Rounds = append(a.Plan.Rounds, a.Plan.Rounds[1])
		}},
		"a release twice": {exact: true, change: func(a *rifflev1.Announcement, _ [32]byte) {
			r := a.Plan.Rounds[0]
			r.Releases = append(r.Releases, r.Releases[1])
			a.Encodings = append(a.Encodings, a.Encodings[1])
		}},
		"inflated norm": {change: func(a *rifflev1.Announcement, _ [32]byte) { a.Policy.NormBound = 10.5 }},
		"theta infinite": {change: func(a *rifflev1.Announcement, _ [32]byte) {
			a.Policy.Theta = []float64{math.Inf(1), 1}
		}},
		"reference outside": {change: func(a *rifflev1.Announcement, _ [32]byte) { a.Reference = []float64{2, 1} }},
		"reference NaN": {change: func(a *rifflev1.Announcement,
			_ [32]byte) {
			a.Reference = []float64{math.NaN(), 0}
		}},
		"shift NaN":         {change: every(func(r *rifflev1.PlannedRelease) { r.Shift = math.NaN() })},
		"unknown statistic": {change: every(func(r *rifflev1.PlannedRelease) { r.Statistic = 9 })},
		"round not planned": {change: func(a *rifflev1.Announcement, first [32]byte) {
			a.Round, a.Previous = 1,
				first[:]
		}, honest: true},
		"scale above shift": {change: func(a *rifflev1.Announcement, _ [32]byte) { a.Encodings[1].Scale *= 1.01 }},
		"too many messages": {change: every(func(r *rifflev1.PlannedRelease) { r.NoiseBits = 400 })},
		"key of low order":  {change: func(a *rifflev1.Announcement, _ [32]byte) { a.AnalyzerKey = make([]byte, 32) }},
		"endless jitter": {change: func(a *rifflev1.Announcement,
			_ [32]byte) {
			a.Timing.JitterMs = math.MaxUint32
		}},
		"another deployment": {change: func(a *rifflev1.Announcement, _ [32]byte) { a.Deployment = "elsewhere" }},
		"wrong signature":    {change: func(*rifflev1.Announcement, [32]byte) {}, other: true},
		"begins in the middle": {change: func(a *rifflev1.Announcement, _ [32]byte) {
			a.Epoch, a.Previous = 5, make([]byte, 32)
		}},
		"rewritten":     {honest: true, change: func(a *rifflev1.Announcement, _ [32]byte) { a.Cohort.Size++ }},
		"forked":        {honest: true, change: next(func(a *rifflev1.Announcement) { a.Previous = make([]byte, 32) })},
		"epoch skipped": {honest: true, change: next(func(a *rifflev1.Announcement) { a.Epoch = 3 })},
		"round skipped": {honest: true, profile: glm.Paper, change: second(func(a *rifflev1.Announcement) {
			a.Round = 2
			a.Plan.Rounds = append(a.Plan.Rounds, a.Plan.Rounds[1])
		})},
		"plan changed between rounds": {honest: true, profile: glm.Paper,
			change: second(func(a *rifflev1.Announcement) {
				a.Plan.Rounds[1].Releases[0].NoiseBits--
			})},
		"rounds added between rounds": {honest: true, profile: glm.Paper,
			change: second(func(a *rifflev1.Announcement) {
				a.Plan.Rounds = append(a.Plan.Rounds, a.Plan.Rounds[1])
			})},
		"cohort changed between rounds": {honest: true, profile: glm.Paper,
			change: second(func(a *rifflev1.Announcement) { a.Cohort.Minimum-- })},
		"timing changed between rounds": {honest: true, profile: glm.Paper,
			change: second(func(a *rifflev1.Announcement) { a.Timing.RoundWindowMs++ })},
		"windows of 1 ms, a budget for each 52": {change: func(a *rifflev1.Announcement, _ [32]byte) {
			perPeriod(a, 52)
			a.Timing.EveryMs = 1
		}, limits: func(l *device.Limits) { l.Period, l.Records = 52, 0 }},
		"windows that leave no time between": {change: func(a *rifflev1.Announcement, _ [32]byte) {
			perPeriod(a, 52)
			a.Timing.EveryMs, a.Timing.RewardWindowMs = 3_600_000, 3_600_000
		}, limits: func(l *device.Limits) {
			l.Period, l.Records, l.MinEpoch = 52, 0, device.Duration(time.Hour)
		}},
		"windows changed between epochs": {honest: true, change: next(func(a *rifflev1.Announcement) {
			a.Timing.RewardWindowMs++
		})},
		"time between epochs changed": {honest: true, change: next(func(a *rifflev1.Announcement) {
			a.Timing.EveryMs = 1
		})},
		"scale changed between rounds": {honest: true, profile: glm.Paper,
			change: second(func(a *rifflev1.Announcement) {
				a.Encodings[0].Scale *= 1.01
			})},
	}
}

// perPeriod makes an announcement one of panels whose budget, for one report, begins anew after so many epochs.
func perPeriod(a *rifflev1.Announcement, period uint32) {
	a.Plan.Panel = &rifflev1.Panel{Registered: 100, Tail: 1e-9}
	a.Plan.Decisions, a.Plan.Records, a.Plan.Period = 1, 1, period
	a.Commitment = make([]byte, 32)
}

var shortDigest = regexp.MustCompile(`\b(names|digest|has) [0-9a-f]{16}\b`)

// normal leaves out what differs from run to run or in the last digits.
func normal(text string) string {
	text = shortDigest.ReplaceAllString(text, "$1 <digest>")
	return longNumber.ReplaceAllStringFunc(text, func(s string) string {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return s
		}
		return strconv.FormatFloat(v, 'g', 3, 64)
	})
}

var longNumber = regexp.MustCompile(`\d+\.\d{4,}(e[-+]\d+)?`)

// A device refuses each kind of malicious announcement with a sentence for its app's developer (testdata/refusals.txt;
// written with -update), enrols nobody under it and sends nothing.
func TestMaliciousAnalyzer(t *testing.T) {
	b := testbed.New(t)
	all := attacks(t, b)
	maps.Copy(all, channelAttacks())
	said := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		k := all[name]
		if k.profile == "" {
			k.profile = glm.Practical
		}
		limits := device.Limits{Epsilon: 4, Delta: 1e-3, MinCohort: 4, MaxReleases: 8, MaxNorm: 10, MaxMessages: 1000,
			Records: 1}
		if k.limits != nil {
			k.limits(&limits)
		}
		honest := moved(b.Announcement(k.profile, 12), k)
		if k.exact { // the device grants what the honest plan needs, and nothing more
			g, err := plan.Guarantee(honest, 0)
			if err != nil {
				t.Fatal(err)
			}
			limits.Epsilon = math.Ceil(100*g.Epsilon(limits.Delta)) / 100
		}
		h, err := New(Config{
			Deployment: testbed.Deployment, Analyzer: b.Analyzer.Public(), Shuffler: b.Shuffler.Public(), Devices: 10,
			Limits: limits, Identity: host(t, 1),
			// no Bus: asking the shuffler would end the test
			StateDir: t.TempDir(), Source: testbed.Source, Log: zerolog.Nop(), Reports: testbed.Account(t, "report",
				nil, Reasons()),
		})
		if err != nil {
			t.Fatal(err)
		}
		h.shuffler = b.ShufflerKey.Public()
		a := message(t, b, honest)
		payload, digest := forge(t, a, b.Analyzer)
		if k.honest {
			if _, err := h.following.follow(bus.Announcement{Epoch: 1, Payload: payload}); err != nil ||
				h.Status().Refused != "" {
				t.Fatalf("%s: the honest announcement: %v %q", name, err, h.Status().Refused)
			}
		}
		before := h.current
		k.change(a, digest)
		by := b.Analyzer
		if k.other {
			by = b.Shuffler
		}
		payload, _ = forge(t, a, by)
		if _, err := h.following.follow(bus.Announcement{Epoch: a.Epoch, Round: a.Round,
			Payload: payload}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := h.Status().Refused
		if w := h.Snapshot().Warnings; len(w) != 1 || w[0] != text {
			t.Errorf("%s: the status page warns of %q, refused is %q", name, w, text)
		}
		if text == "" {
			t.Errorf("%s: accepted", name)
			continue
		}
		if now := h.current; now != before && now.Weak() == nil {
			t.Errorf("%s: in force", name)
		}
		if !k.honest { // else the app is served under the honest announcement
			d, err := h.Decide(context.Background(), "x",
				func(int) ([][]float64, error) { return [][]float64{{1, 0}}, nil })
			switch {
			case d.Sampled:
				t.Errorf("%s: a person is sampled", name)
			case err == nil && d.Reason != PlanRefused, err == nil && !strings.Contains(d.Detail, text):
				t.Errorf("%s: the app is told %q: %s", name, d.Reason, d.Detail)
			case err != nil && !strings.Contains(err.Error(), text):
				t.Errorf("%s: the app is told %v", name, err)
			}
		}
		said[name] = normal(text)
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	var golden strings.Builder
	for _, name := range slices.Sorted(maps.Keys(said)) {
		fmt.Fprintf(&golden, "%s:\n  %s\n", name, said[name])
	}
	path := filepath.Join("testdata", "refusals.txt")
	if *update {
		if err := os.WriteFile(path, []byte(golden.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if golden.String() != string(want) {
		t.Errorf("refusals differ from %s (write it with -update):\n%s", path, golden.String())
	}
}
