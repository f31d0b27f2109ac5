package wire_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	rifflev1 "github.com/riffle-dp/riffle/messages/riffle/v1"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
	"google.golang.org/protobuf/proto"
)

// bad is a change to a valid statement and the field that must be named for it.
type bad[T any] struct {
	field  string
	change func(*T)
}

// refuses applies each change to a fresh statement and demands that neither Sign nor Open lets it pass, naming the
// field.
func refuses[T any, M interface {
	*T
	proto.Message
}](t *testing.T, kind seal.Kind, fresh func() M, cases []bad[T]) {
	t.Helper()
	id := signer(t, 1)
	from := party(id)
	if _, _, err := wire.SignMessage(fresh(), id); err != nil {
		t.Fatalf("the unchanged %v is refused: %v", kind, err)
	}
	for i, c := range cases {
		t.Run(fmt.Sprintf("%v/%d_%s", kind, i, c.field), func(t *testing.T) {
			m := fresh()
			c.change(m)
			_, _, signErr := wire.SignMessage(m, id)
			got, digest, openErr := wire.OpenMessage(kind, forge(t, kind, m, id), from)
			for name, err := range map[string]error{"Sign": signErr, "Open": openErr} {
				var f *wire.FieldError
				if !errors.As(err, &f) {
					t.Fatalf("%s: %v, want a FieldError for %s", name, err, c.field)
				}
				if f.Field != c.field || f.Message != kind.String() {
					t.Errorf("%s names %s: %s (%v), want %s", name, f.Message, f.Field, err, c.field)
				}
				if wire.Reason(err) != wire.RefusalMalformed {
					t.Errorf("%s: reason %v", name, wire.Reason(err))
				}
			}
			if got != nil || digest != [32]byte{} {
				t.Error("Open returned a statement with its error")
			}
		})
	}
}

var notFinite = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}

func TestAnnouncementOutOfRangeIsRefused(t *testing.T) {
	type a = rifflev1.Announcement
	cases := []bad[a]{
		{"deployment", func(m *a) { m.Deployment = "" }},
		{"deployment", func(m *a) { m.Deployment = "Golden" }},
		{"deployment", func(m *a) { m.Deployment = "a.b" }},
		{"deployment", func(m *a) { m.Deployment = "-a" }},
		{"deployment", func(m *a) { m.Deployment = strings.Repeat("a", 64) }},
		{"epoch", func(m *a) { m.Epoch = 0 }},
		{"round", func(m *a) { m.Round = 2 }},
		{"round", func(m *a) { m.Round = wire.MaxRounds }},
		{"encodings", func(m *a) { m.Round = 1 }},
		{"previous", func(m *a) { m.Previous = nil }},
		{"previous", func(m *a) { m.Previous = m.Previous[:31] }},
		{"previous", func(m *a) { m.Epoch = 1 }},
		{"policy", func(m *a) { m.Policy = nil }},
		{"policy", func(m *a) { m.Policy.Profile = 99 }},
		{"policy", func(m *a) { m.Policy.Play = 0 }},
		{"policy", func(m *a) { m.Policy.Family = nil }},
		{"policy", func(m *a) { m.Policy.Family.Name = "gamma" }},
		{"policy", func(m *a) { m.Policy.Family.MaxReward = 2 }},
		{"policy", func(m *a) { m.Policy.Dim = 0 }},
		{"policy", func(m *a) { m.Policy.Dim = math.MaxUint32 }},
		{"policy", func(m *a) { m.Policy.Dim = 3 }},
		{"policy", func(m *a) { m.Policy.NormBound = 0 }},
		{"policy", func(m *a) { m.Policy.Theta = m.Policy.Theta[:1] }},
		{"policy", func(m *a) { m.Policy.Theta[0] = 1e101 }},
		{"policy", func(m *a) { m.Policy.Scaling.Stage.Theta[0] = 3.1 }},
		{"policy", func(m *a) { m.Policy.Scaling.Stage.Means = true }},
		{"policy", func(m *a) { m.Policy.Gamma = 1 }},
		{"policy", func(m *a) { m.Policy.Stages[1].Theta = m.Policy.Stages[1].Theta[:1] }},
		{"policy", func(m *a) { m.Policy.Stages[0].Covariance = []float64{1, 0, 0, 1} }},
		{"policy", func(m *a) { m.Policy.Stages[1].Width = -1 }},
		{"policy", func(m *a) { m.Policy.Stages[1].Covariance = []float64{1, 2, 1} }},
		{"policy", func(m *a) { m.Policy.Scaling.Stage = nil }},
		{"policy", func(m *a) { m.Policy.Scaling.SelfConcordance = 0 }},
		{"policy", func(m *a) { m.Policy.Scaling.MaxWeight = -1 }},
		{"policy", func(m *a) { m.Policy.DesignTolerance = -0.1 }},
		{"policy", func(m *a) { m.Policy.Explore = 1.5 }},
		{"policy", func(m *a) { m.Policy.Play = rifflev1.Play_PLAY_OPTIMISTIC }},
		{"policy", func(m *a) { m.Policy.Criterion = &rifflev1.Criterion{} }},
		{"policy", func(m *a) { m.Policy.Optimism = &rifflev1.Stage{} }},
		{"reference", func(m *a) { m.Reference = nil }},
		{"reference", func(m *a) { m.Reference = []float64{3, 3} }},
		{"plan.rounds", func(m *a) { m.Plan = nil }},
		{"plan.rounds", func(m *a) { m.Plan.Rounds = make([]*rifflev1.PlannedRound, wire.MaxRounds+1) }},
		{"plan.rounds[1].releases", func(m *a) { m.Plan.Rounds[1].Releases = nil }},
		{"plan.rounds[0].releases[1].statistic", func(m *a) { m.Plan.Rounds[0].Releases[1].Statistic = 0 }},
		{"plan.rounds[0].releases[1].statistic", func(m *a) { m.Plan.Rounds[0].Releases[1].Statistic = 77 }},
		{"plan.rounds[0].releases[0].noise_bits", func(m *a) { m.Plan.Rounds[0].Releases[0].NoiseBits = 0 }},
		{"plan.rounds[1].releases[0].bias", func(m *a) { m.Plan.Rounds[1].Releases[0].Bias = 0 }},
		{"plan.rounds[0].releases[0].shift", func(m *a) { m.Plan.Rounds[0].Releases[0].Shift = 0 }},
		{"plan.channel", func(m *a) { m.Plan.Channel = 4 }},
		{"plan.channel", func(m *a) { m.Plan.Channel = -1 }},
		{"plan.rounds[0].releases[0].noise_bits", func(m *a) { m.Plan.Channel = rifflev1.Channel_CHANNEL_CENTRAL }},
		{"plan.rounds[0].releases[0].analyzer_noise", func(m *a) { m.Plan.Rounds[0].Releases[0].AnalyzerNoise = 1 }},
		{"plan.rounds[0].releases[0].shuffler_noise",
			func(m *a) { m.Plan.Rounds[0].Releases[0].ShufflerNoise = plan.MaxServerNoise + 1 }},
		{"plan.epsilon", func(m *a) { m.Plan.Epsilon = 0 }},
		{"plan.delta", func(m *a) { m.Plan.Delta = 0 }},
		{"plan.delta", func(m *a) { m.Plan.Delta = 1 }},
		{"plan.tail_delta", func(m *a) { m.Plan.TailDelta = 0 }},
		{"plan.tail_delta", func(m *a) { m.Plan.TailDelta = 2e-6 }},
		{"encodings", func(m *a) { m.Encodings = m.Encodings[:1] }},
		{"encodings[0].coordinates", func(m *a) { m.Encodings[0].Coordinates = m.Encodings[0].Coordinates[:2] }},
		{"encodings[1].coordinates", func(m *a) { m.Encodings[1].Coordinates = nil }},
		{"encodings[0].coordinates",
			func(m *a) { m.Plan.Rounds[0].Releases[0].Statistic = rifflev1.Statistic_STATISTIC_GRADIENT }},
		{"encodings[1]", func(m *a) { m.Encodings[1].Scale = 0 }},
		{"encodings[1]", func(m *a) { m.Encodings[1].Scale = -1 }},
		{"encodings[0]", func(m *a) { m.Encodings[0].Coordinates[2].Levels = 0 }},
		{"encodings[0]", func(m *a) { m.Encodings[0].Coordinates[2].Levels = math.MaxUint32 }},
		{"plan.rounds[0].releases[0].noise_bits",
			func(m *a) { m.Plan.Rounds[0].Releases[0].NoiseBits = math.MaxUint32 }},
		{"encodings", func(m *a) { // each fits, together they do not
			for _, c := range m.Encodings[0].Coordinates {
				c.Levels = plan.MaxReportMessages / 3
			}
		}},
		{"cohort.size", func(m *a) { m.Cohort = nil }},
		{"cohort.minimum", func(m *a) { m.Cohort.Minimum = 0 }},
		{"cohort.minimum", func(m *a) { m.Cohort.Minimum = 121 }},
		{"cohort.max_dishonest", func(m *a) { m.Cohort.MaxDishonest = 100 }},
		{"timing.round_window_ms", func(m *a) { m.Timing.RoundWindowMs = 0 }},
		{"analyzer_key", func(m *a) { m.AnalyzerKey = nil }},
		{"analyzer_key", func(m *a) { m.AnalyzerKey = make([]byte, 32) }},
	}
	for _, x := range notFinite {
		cases = append(cases,
			bad[a]{"policy", func(m *a) { m.Policy.NormBound = x }},
			bad[a]{"policy", func(m *a) { m.Policy.Family.MaxReward = x }},
			bad[a]{"policy.theta", func(m *a) { m.Policy.Theta[1] = x }},
			bad[a]{"policy", func(m *a) { m.Policy.Stages[0].Theta[1] = x }},
			bad[a]{"policy", func(m *a) { m.Policy.Stages[0].Covariance[2] = x }},
			bad[a]{"policy", func(m *a) { m.Policy.Explore = x }},
			bad[a]{"policy", func(m *a) { m.Policy.Stages[0].Width = x }},
			bad[a]{"policy", func(m *a) { m.Policy.Scaling.SelfConcordance = x }},
			bad[a]{"policy", func(m *a) { m.Policy.Scaling.MaxWeight = x }},
			bad[a]{"policy", func(m *a) { m.Policy.DesignTolerance = x }},
			bad[a]{"reference", func(m *a) { m.Reference[0] = x }},
			bad[a]{"plan.rounds[0].releases[0].shift", func(m *a) { m.Plan.Rounds[0].Releases[0].Shift = x }},
			bad[a]{"plan.epsilon", func(m *a) { m.Plan.Epsilon = x }},
			bad[a]{"plan.delta", func(m *a) { m.Plan.Delta = x }},
			bad[a]{"plan.tail_delta", func(m *a) { m.Plan.TailDelta = x }},
			bad[a]{"encodings[0]", func(m *a) { m.Encodings[0].Scale = x }},
			bad[a]{"encodings[1]", func(m *a) { m.Encodings[1].Coordinates[1].Offset = x }},
		)
	}
	refuses(t, seal.Announcement, func() *a { return announcement(t) }, cases)

	whole := announcement(t)
	refuses(t, seal.Announcement, func() *a { return finalAnnouncement(t) }, []bad[a]{
		{"reference", func(m *a) { m.Reference = whole.Reference }},
		{"plan", func(m *a) { m.Plan = whole.Plan }},
		{"encodings", func(m *a) { m.Encodings = whole.Encodings }},
		{"cohort", func(m *a) { m.Cohort = whole.Cohort }},
		{"timing", func(m *a) { m.Timing = whole.Timing }},
		{"analyzer_key", func(m *a) { m.AnalyzerKey = whole.AnalyzerKey }},
		{"policy", func(m *a) { m.Policy = nil }},
	})
}

func TestCuratedAnnouncementOutOfRangeIsRefused(t *testing.T) {
	type a = rifflev1.Announcement
	cases := []bad[a]{
		{"plan.curator.leaves", func(m *a) { m.Plan.Curator.Leaves = 0 }},
		{"plan.curator.explorer_fits", func(m *a) { m.Plan.Curator.ExplorerFits = 0 }},
		{"plan.curator.other_fits", func(m *a) { m.Plan.Curator.OtherFits = 0 }},
		{"plan.rounds[0].releases[0].shift", func(m *a) { m.Plan.Curator = nil }},
		{"plan.curator", func(m *a) { m.Plan.Channel = rifflev1.Channel_CHANNEL_LOCAL }},
		{"plan.curator", func(m *a) { m.Plan.Rounds = append(m.Plan.Rounds, m.Plan.Rounds[0]) }},
		{"plan.curator", func(m *a) {
			m.Plan.Rounds[0].Releases[0].Statistic = rifflev1.Statistic_STATISTIC_HESSIAN
		}},
		{"plan.curator", func(m *a) { m.Plan.Rounds[0].Releases[0].AnalyzerNoise = 1 }},
		{"plan.curator", func(m *a) { m.Plan.Rounds[0].Releases[0].Shift = 1 }},
		{"plan.tail_delta", func(m *a) { m.Plan.TailDelta = 1e-9 }},
		{"encodings[0].coordinates", func(m *a) {
			m.Encodings[0].Coordinates = m.Encodings[0].Coordinates[:3]
		}},
		{"policy", func(m *a) { m.Policy.Criterion.Threshold = 0 }},
		{"policy", func(m *a) { m.Policy.Criterion.Covariance = []float64{1, 2, 1} }},
		{"policy", func(m *a) { m.Policy.Optimism = nil }},
		{"policy", func(m *a) { m.Policy.Optimism.Width = -1 }},
		{"policy", func(m *a) { m.Policy.Optimism.Means = true }},
	}
	for _, x := range append(notFinite, 0, -1) {
		cases = append(cases,
			bad[a]{"plan.curator.explorer_noise", func(m *a) { m.Plan.Curator.ExplorerNoise = x }},
			bad[a]{"plan.curator.other_noise", func(m *a) { m.Plan.Curator.OtherNoise = x }},
			bad[a]{"plan.curator.explorer_rho", func(m *a) { m.Plan.Curator.ExplorerRho = x }},
			bad[a]{"plan.curator.other_rho", func(m *a) { m.Plan.Curator.OtherRho = x }},
		)
	}
	refuses(t, seal.Announcement, func() *a { return curatedAnnouncement(t) }, cases)
	type c = rifflev1.Counts
	refuses(t, seal.Counts, curatedCounts, []bad[c]{
		{"releases[0].curated", func(x *c) { x.Releases[0].Ones = []uint64{1} }},
		{"releases[0].curated", func(x *c) { x.Releases = append(x.Releases, x.Releases[0]) }},
		{"releases[0].curated[1]", func(x *c) { x.Releases[0].Curated[1] = -1 << 53 }},
		{"releases[0].curated[2]", func(x *c) { x.Releases[0].Curated[2]++ }},
		{"releases[0].ones", func(x *c) { x.Releases[0].Curated = nil }},
	})
}

func TestFirstAnnouncementHasNoPrevious(t *testing.T) {
	a := announcement(t)
	a.Epoch, a.Previous = 1, nil
	if _, _, err := wire.SignMessage(a, signer(t, 1)); err != nil {
		t.Error(err)
	}
}

func TestKeySetOutOfRangeIsRefused(t *testing.T) {
	type k = rifflev1.KeySet
	refuses(t, seal.KeySet, func() *k { return keySet(t) }, []bad[k]{
		{"deployment", func(m *k) { m.Deployment = "a b" }},
		{"keys", func(m *k) { m.Keys = nil }},
		{"keys", func(m *k) { m.Keys = make([][]byte, wire.MaxKeys+1) }},
		{"number", func(m *k) { m.Number = 0 }},
		{"keys[0]", func(m *k) { m.Keys[0] = make([]byte, 32) }},
		{"keys[1]", func(m *k) { m.Keys[1] = m.Keys[1][:31] }},
		{"keys[1]", func(m *k) { m.Keys[1] = m.Keys[0] }},
	})
}

func TestManifestOutOfRangeIsRefused(t *testing.T) {
	type m = rifflev1.Manifest
	refuses(t, seal.Manifest, manifest, []bad[m]{
		{"deployment", func(x *m) { x.Deployment = "" }},
		{"epoch", func(x *m) { x.Epoch = 0 }},
		{"round", func(x *m) { x.Round = math.MaxUint32 }},
		{"announcement", func(x *m) { x.Announcement = nil }},
		{"outcome", func(x *m) { x.Outcome = 0 }},
		{"outcome", func(x *m) { x.Outcome = 9 }},
		{"outcome", func(x *m) { x.Outcome = rifflev1.Outcome_OUTCOME_DESTROYED }},
		{"reports", func(x *m) { x.Reports = 0 }},
		{"reports", func(x *m) { x.Reports = 121 }},
		{"messages", func(x *m) { x.Messages = 0 }},
		{"messages", func(x *m) { x.Messages++ }},
		{"messages", func(x *m) { x.Messages = 110 * (plan.MaxReportMessages + 1) }},
		{"chunks", func(x *m) { x.Chunks = 0 }},
		{"chunks", func(x *m) { x.Chunks = 110*47 + 1 }},
		{"chunks", func(x *m) { x.Messages = 110 * plan.MaxReportMessages }},
		{"chunks_digest", func(x *m) { x.ChunksDigest = nil }},
		{"reports_digest", func(x *m) { x.ReportsDigest = make([]byte, 33) }},
	})
	refuses(t, seal.Manifest, destroyedManifest, []bad[m]{
		{"messages", func(x *m) { x.Messages, x.Reports = 1, 0 }},
		{"outcome", func(x *m) { x.Chunks = 1 }},
		{"outcome", func(x *m) { x.ChunksDigest = make([]byte, 32) }},
		{"reports_digest", func(x *m) { x.ReportsDigest = make([]byte, 3) }},
	})
}

func TestCountsOutOfRangeAreRefused(t *testing.T) {
	type c = rifflev1.Counts
	refuses(t, seal.Counts, counts, []bad[c]{
		{"epoch", func(x *c) { x.Epoch = 0 }},
		{"announcement", func(x *c) { x.Announcement = x.Announcement[1:] }},
		{"manifest", func(x *c) { x.Manifest = nil }},
		{"reports", func(x *c) { x.Reports = 0 }},
		{"releases", func(x *c) { x.Releases = nil }},
		{"releases", func(x *c) { x.Releases = make([]*rifflev1.ReleaseCounts, wire.MaxReleases+1) }},
		{"releases", func(x *c) { x.Destroyed = true }},
		{"releases[1].ones", func(x *c) { x.Releases[1].Ones = nil }},
		{"releases[1].ones", func(x *c) { x.Releases[1].Ones = make([]uint64, wire.MaxCoordinates+1) }},
		{"releases[0].ones[2]", func(x *c) { x.Releases[0].Ones[2] = math.MaxUint64 }},
	})
}

func TestCredentialOutOfRangeIsRefused(t *testing.T) {
	type c = rifflev1.Credential
	refuses(t, seal.Credential, func() *c { return credential(t, signer(t, 2)) }, []bad[c]{
		{"deployment", func(x *c) { x.Deployment = "*" }},
		{"host_key", func(x *c) { x.HostKey = nil }},
		{"devices", func(x *c) { x.Devices = 0 }},
		{"not_after", func(x *c) { x.NotAfter = 1 << 63 }},
	})
	registrar := signer(t, goldenSigner)
	other := certificate(registrar)
	other.Deployment = "other"
	refuses(t, seal.Credential, func() *c { return issued(t, signer(t, 2), registrar, registrar) }, []bad[c]{
		{"devices", func(x *c) { x.Devices = 2 }},
		{"not_after", func(x *c) { x.NotAfter = 0 }},
		{"not_after", func(x *c) { x.NotAfter = 1 }},
		{"not_after", func(x *c) { x.NotAfter = 10 }},
		{"first_key", func(x *c) { x.FirstKey = digestOf(4) }},
		{"issuer", func(x *c) { x.Issuer = forgeSigned(t, seal.IssuerCertificate, other, registrar) }},
	})
}

func TestIssuedOutOfRangeIsRefused(t *testing.T) {
	type c = rifflev1.Issued
	refuses(t, seal.Issued, func() *c { return issuedEntry(2) }, []bad[c]{
		{"deployment", func(x *c) { x.Deployment = "*" }},
		{"number", func(x *c) { x.Number = 0 }},
		{"previous", func(x *c) { x.Number = 1 }},
		{"previous", func(x *c) { x.Previous = nil }},
		{"key", func(x *c) { x.Key = x.Key[1:] }},
	})
}

func TestIssuerCertificateOutOfRangeIsRefused(t *testing.T) {
	type c = rifflev1.IssuerCertificate
	refuses(t, seal.IssuerCertificate, func() *c { return certificate(signer(t, 2)) }, []bad[c]{
		{"deployment", func(x *c) { x.Deployment = "*" }},
		{"key", func(x *c) { x.Key = x.Key[1:] }},
		{"first", func(x *c) { x.First = 0 }},
		{"first", func(x *c) { x.First = 10 }},
		{"first", func(x *c) { x.Last = 1 << 63 }},
		{"installations", func(x *c) { x.Installations = 0 }},
	})
}
