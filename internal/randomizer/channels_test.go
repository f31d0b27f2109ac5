package randomizer

import (
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Under shares a host takes only answers with a commitment, keeps it over a restart, and then reports the null record
// so that both servers accept it. What it tells of the guarantee names the channel and whom it rests on.
func TestAHostReportsShares(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Practical, 12)
	a.Plan.Channel = plan.Shares
	for i := range a.Plan.Rounds[0].Releases {
		r := &a.Plan.Rounds[0].Releases[i]
		r.ShufflerNoise, r.AnalyzerNoise = 4000, 4000
	}
	a.Timing.RewardWindow = testbed.Long
	asked := 0
	var secret shares.Secret
	s.answer = func(e wire.Enrolment) *wire.EnrolReply {
		reply := &wire.EnrolReply{Enrolled: true, Slot: 5, Held: asked > 0, ReportAfter: a.Timing.RewardWindow}
		if asked++; asked > 2 { // before that it is a shuffler that does not know the channel
			reply.Commitment = secret.Commitment()
		}
		return reply
	}
	_, digest := s.Sign(a, s.Analyzer)
	secret = shares.NewSecret(s.Shuffler, digest)
	s.open(a)
	if d := s.decide("x", twoArms); d["sampled"] != true {
		t.Fatalf("%v", d)
	}
	if state := s.device("x"); string(state.Enrolment.Commitment) != string(secret.Commitment()) {
		t.Errorf("the state keeps the commitment %x", state.Enrolment.Commitment)
	}

	_, status := s.get("/v1/status")
	alone, _ := status["epsilon_alone"].(float64)
	if status["channel"] != "shares" || status["rests_on"] != plan.Shares.RestsOn() || !(alone > 0) ||
		!strings.Contains(status["guarantee"].(string), plan.Shares.RestsOn()) {
		t.Errorf("%v", status)
	}
	if b := s.host.Snapshot().Budget; b == nil || b.Channel != "shares" || b.RestsOn != plan.Shares.RestsOn() ||
		float64(*b.EpsilonAlone) != alone {
		t.Errorf("%+v", b)
	}
	_, ledger := s.get("/v1/devices/x/ledger")
	explanation, _ := ledger["explanation"].([]any)
	if last := explanation[len(explanation)-1]; !strings.Contains(last.(string), plan.Shares.RestsOn()) {
		t.Errorf("%v", explanation)
	}

	s.must(s.stop())
	s.start()
	s.due(a)
	envelope := s.reports(1)[0].envelope
	plain, err := wire.OpenEnvelope(envelope, mustOpener(t, s.ShufflerKey),
		seal.ReportContext{Deployment: testbed.Deployment, Epoch: 1})
	s.must(err)
	report, _, err := wire.ParseReport(plain, registry.PayloadSize(plan.Shares, a.Encodings))
	s.must(err)
	round, err := shares.NewRound(a, digest)
	s.must(err)
	leader, err := round.NewLeader(secret)
	s.must(err)
	row, _, err := leader.Prepare(nil, report.Payload)
	s.must(err)
	helper, err := round.NewHelper(secret, s.AnalyzerKey,
		channel.NewVerifier(wire.Party{Deployment: testbed.Deployment, Key: s.Registrar.Public()}))
	s.must(err)
	if _, err := helper.Verify(row); err != nil {
		t.Error(err)
	}
}

func mustOpener(t *testing.T, key *seal.HPKEKey) *seal.ReportOpener {
	t.Helper()
	opener, err := seal.NewReportOpener(key)
	if err != nil {
		t.Fatal(err)
	}
	return opener
}
