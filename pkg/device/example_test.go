package device_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// The whole life of a device: it follows an announcement, enrols before it knows what it will decide about, decides,
// learns the reward, and reports when its time has come. The caller carries the bytes, keeps what Save returns, and
// passes the time and the randomness.
func Example() {
	analyzer, shuffler, registrar, identity := key(1), key(2), key(3), key(4)
	analyzerKey, shufflerKey := hpke(5), hpke(6)

	// What a deployment gives a device, and what its people agree to.
	config := device.Config{
		Deployment: "clinic", Analyzer: analyzer.Public(), Shuffler: shuffler.Public(), Identity: identity,
		Credential: signed(&wire.Credential{Deployment: "clinic", HostKey: identity.Public(), Devices: 1}, registrar),
		Limits:     device.DefaultLimits(),
	}
	config.Limits.Epsilon, config.Limits.Delta, config.Limits.MinCohort = 4, 1e-3, 10 // so that the example is small
	d, err := device.Open(config, 0, nil)
	check(err)

	// The analyzer announces, the shuffler publishes its key.
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	announcement := announce(analyzerKey.Public())
	_, err = d.Follow(signed(announcement, analyzer), now)
	check(err)
	keys := &wire.KeySet{Deployment: "clinic", Number: 1, Keys: [][]byte{shufflerKey.Public()}}
	check(d.Keys(signed(keys, shuffler)))
	fmt.Printf("epsilon of the epoch, computed by the device: %.1f\n", d.Status().Epsilon)

	// A place in the cohort, asked for before there is anything to decide about.
	request, err := d.Enrol(now)
	check(err)
	opener, err := seal.NewRequestOpener("clinic", shufflerKey)
	check(err)
	asked, err := wire.OpenSealedRequest(request, opener)
	check(err)
	digest := wire.RequestDigest(asked.Signed)
	reply := &wire.EnrolReply{Request: digest[:], Enrolled: true, Slot: 7, ReportAfter: time.Minute}
	sealed, err := asked.SealReply(signed(reply, shuffler))
	check(err)
	answer, err := d.Answer(sealed, now)
	check(err)
	fmt.Println("enrolled:", answer.Enrolled, "report at:", answer.ReportAt.Format(time.TimeOnly))

	// The decision, and its reward.
	source := rand.NewChaCha8([32]byte{}) // a real device passes a cryptographic generator
	decision, err := d.Decide([][]float64{{0.6, 0.2}, {-0.3, 0.5}}, source)
	check(err)
	fmt.Println("sampled:", decision.Sampled)
	accepted, err := d.Reward(decision.Handle, 1.5, now.Add(20*time.Second))
	check(err)
	fmt.Println("reward clipped to:", *accepted.Used)

	// The report, when it is due.
	_, err = d.Report(now.Add(59 * time.Second))
	fmt.Println(err)
	envelope, err := d.Report(answer.ReportAt)
	check(err)
	fmt.Println("as long as every report of the round:",
		len(envelope) == wire.EnvelopeSize(announcement.ReportMessages()*seal.BitSize))
	fmt.Println("ledger:", d.Status().Ledger.Entries[0].State)
	// Output:
	// epsilon of the epoch, computed by the device: 2.6
	// enrolled: true report at: 12:01:00
	// sampled: true
	// reward clipped to: 1
	// no report is due before 2026-01-01T12:01:00Z
	// as long as every report of the round: true
	// ledger: spent
}

// announce is the first announcement of a learner of logistic rewards in dimension 2, whose cohort has twelve people.
func announce(analyzerKey []byte) *plan.Announcement {
	learner, err := learner.New(learner.Config{
		Profile: glm.Practical, Dimension: 2, Radius: 2, Horizon: 36, Epsilon: 4, Delta: 1e-3, MinCohort: 12,
		Practical: learner.PracticalConfig{FirstCohort: 12, Growth: 1},
	})
	check(err)
	step := learner.Next()
	step.Cohort = 12
	p, err := plan.Propose(step, plan.Terms{Epsilon: 4, Delta: 1e-3, MinCohort: 10, MaxShift: 2, VarianceRatio: 64})
	check(err)
	return &plan.Announcement{
		Deployment: "clinic", Epoch: 1, Policy: step.Policy, Reference: make([]float64,
			2), Plan: p.Plan, Cohort: p.Cohort,
		Encodings: p.Encodings, Timing: plan.Timing{RewardWindow: time.Minute}, AnalyzerKey: analyzerKey,
	}
}

func key(seed byte) *seal.Identity {
	id, err := seal.NewIdentity(bytes.Repeat([]byte{seed}, 32))
	check(err)
	return id
}

func hpke(seed byte) *seal.HPKEKey {
	k, err := seal.NewHPKEKey(bytes.Repeat([]byte{seed}, 32))
	check(err)
	return k
}

func signed[T wire.Statement](statement *T, by *seal.Identity) []byte {
	b, _, err := wire.Sign(statement, by)
	check(err)
	return b
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
