//go:build cgo

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const deployment = "clinic"

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func identity(seed byte) *seal.Identity {
	return must(seal.NewIdentity(bytes.Repeat([]byte{seed}, 32)))
}

func sign[T wire.Statement](statement *T, by *seal.Identity) []byte {
	signed, _, err := wire.Sign(statement, by)
	return must(signed, err)
}

// announcement is the first one of a learner in dimension 2 whose cohort has twelve people.
func announcement(key *seal.HPKEKey) *plan.Announcement {
	learner := must(learner.New(learner.Config{
		Profile: glm.Practical, Dimension: 2, Radius: 2, Horizon: 36, Epsilon: 4, Delta: 1e-3, MinCohort: 12,
		Practical: learner.PracticalConfig{FirstCohort: 12, Growth: 1},
	}))
	step := learner.Next()
	step.Cohort = 12
	terms := plan.Terms{Epsilon: 4, Delta: 1e-3, DropOut: 0.2, MinCohort: 4, MaxShift: 2, VarianceRatio: 64}
	p := must(plan.Propose(step, terms))
	return &plan.Announcement{
		Deployment: deployment, Epoch: 1, Policy: step.Policy, Reference: make([]float64, 2),
		Plan: p.Plan, Cohort: p.Cohort, Encodings: p.Encodings, Timing: plan.Timing{RewardWindow: time.Minute},
		AnalyzerKey: key.Public(),
	}
}

// lives has a program live a device's whole life through the library, in each channel: what it sends is what the
// shuffler and the analyzer expect, its mistakes are errors, and none names a value of the record.
func lives(t *testing.T, life, panels []string) {
	for _, c := range []plan.Channel{plan.Shuffle, plan.Shares} {
		t.Run(string(c), func(t *testing.T) { live(t, c, life...) })
	}
	t.Run("panel", func(t *testing.T) { livePanel(t, panels...) })
}

// tool is a program of the machine that a test needs. Without it the test is skipped, but for CI.
func tool(t *testing.T, name string) string {
	if testing.Short() {
		t.Skip("the library and the program are built without the race detector")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI has no %s", name)
		}
		t.Skipf("no %s", name)
	}
	return path
}

func TestACProgramRunsADevice(t *testing.T) {
	gcc, folder := tool(t, "gcc"), t.TempDir()
	library := filepath.Join(folder, "libriffle.so")
	run(t, "go", "build", "-buildmode=c-shared", "-o", library, ".")
	built := func(name string) []string {
		program := filepath.Join(folder, name)
		run(t, gcc, "-Wall", "-Werror", "-I", folder, "-o", program, filepath.Join("testdata", name+".c"), library,
			"-Wl,-rpath,"+folder)
		return []string{program}
	}
	lives(t, built("life"), built("panel"))
}

// The same lives in JavaScript, with the key as a seed and with one that only WebCrypto holds.
func TestAJavaScriptProgramRunsADevice(t *testing.T) {
	node, wasm := tool(t, "node"), filepath.Join(t.TempDir(), "riffle.wasm")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", wasm, ".")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	root := strings.TrimSpace(run(t, "go", "env", "GOROOT"))
	for _, key := range []string{"seed", "signer"} {
		program := func(life string) []string {
			return []string{node, filepath.Join("testdata", "life.js"), root, wasm, life, key}
		}
		t.Run(key, func(t *testing.T) { lives(t, program("life"), program("panel")) })
	}
}

// The C form declares every call of the table, with its arguments, and no other.
func TestBothFormsHaveTheSameCalls(t *testing.T) {
	source := string(must(os.ReadFile("binding_c.go")))
	types := map[argument]string{
		aStatement: "unsafe.Pointer, size C.size_t", aText: "*C.char", aDecision: "C.uint64_t", aReward: "C.double",
		aTime: "C.int64_t",
	}
	for name, call := range calls {
		want := `func riffle_` + name + `\(handle C.int64_t`
		for _, a := range call.takes {
			want += `, \w+ ` + regexp.QuoteMeta(types[a])
		}
		want += `\) C.riffle_result \{\s+return of\(handle, "` + name + `",`
		if !regexp.MustCompile(want).MatchString(source) {
			t.Errorf("the C form has no call %s", want)
		}
	}
	const beside = 4 // open, public, close, free
	if n := strings.Count(source, "//export riffle_"); n != len(calls)+beside {
		t.Errorf("the C form has %d calls, the table %d", n, len(calls))
	}
}

// A panic is an error without its text, and each error has the word of what is innermost in it.
func TestAPanicIsAnError(t *testing.T) {
	err := guarded(func() error { panic("61728") })
	if !errors.Is(err, errFailed) || strings.Contains(err.Error(), "61728") || reasonOf(err) != "failed" {
		t.Error(err)
	}
	for want, err := range map[string]error{
		"budget":        fmt.Errorf("%w: %w", device.ErrNoPlace, privacy.ErrBudget),
		"weak":          fmt.Errorf("%w: %w", device.ErrNoPlace, new(device.WeakPlan)),
		"rolled_back":   fmt.Errorf("%w: %w", device.ErrNoReport, device.ErrRolledBack),
		"contradiction": fmt.Errorf("answer: %w", new(device.Evidence)),
		"":              errors.New("another"),
	} {
		if got := reasonOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}

func run(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	out, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

// answer seals a reply to the request that the program keeps, and sends the request's signed bytes. It ends with the
// test.
func answer(t *testing.T, folder, request, reply string, key *seal.HPKEKey, shuffler *seal.Identity,
	r *wire.EnrolReply) <-chan []byte {
	opener, done := must(seal.NewRequestOpener(deployment, key)), make(chan []byte, 1)
	go func() {
		defer close(done)
		for t.Context().Err() == nil {
			b, _ := os.ReadFile(filepath.Join(folder, request))
			o, err := wire.OpenSealedRequest(b, opener)
			if err != nil { // it is not there yet, or not all of it
				time.Sleep(time.Millisecond)
				continue
			}
			digest := wire.RequestDigest(o.Signed)
			r.Request = digest[:]
			whole := filepath.Join(folder, reply+".new")
			err = os.WriteFile(whole, must(o.SealReply(sign(r, shuffler))), 0o600)
			if err == nil {
				err = os.Rename(whole, filepath.Join(folder, reply))
			}
			if err != nil {
				t.Error(err)
			}
			done <- o.Signed
			return
		}
	}()
	return done
}

// live has the program live a device's life in a channel.
func live(t *testing.T, in plan.Channel, program ...string) {
	analyzer, shuffler, registrar, own := identity(1), identity(2), identity(3), identity(4)
	analyzerKey, shufflerKey := must(seal.GenerateHPKE()), must(seal.GenerateHPKE())
	a := announcement(analyzerKey)
	a.Plan.Channel = in
	a.Schema = []byte(`{"version":1,"arms":[{"name":"on","kind":"flag"}],"terms":[["bias"],["on"]]}`)
	c := config{
		Deployment: deployment, Number: 3, Analyzer: analyzer.Public(), Shuffler: shuffler.Public(),
		Identity:   own.Bytes(),
		Credential: sign(&wire.Credential{Deployment: deployment, HostKey: own.Public(), Devices: 4}, registrar),
		Limits:     device.DefaultLimits(),
	}
	c.Limits.Epsilon, c.Limits.Delta, c.Limits.MinCohort = 4, 1e-3, 4
	c.Limits.Trust = []plan.Channel{in}

	core := must(device.New(device.Config{
		Deployment: deployment, Analyzer: c.Analyzer, Shuffler: c.Shuffler, Identity: own, Credential: c.Credential,
		Limits: c.Limits,
	}))
	judged := must(core.Judge(sign(a, analyzer), 1, 0)).Digest
	secret := shares.NewSecret(shuffler, judged)
	yes := &wire.EnrolReply{Enrolled: true, Slot: 7, ReportAfter: time.Minute}
	if in == plan.Shares {
		yes.Commitment = secret.Commitment()
	}
	folder := t.TempDir()
	for name, b := range map[string][]byte{
		"config": must(json.Marshal(c)), "announcement": sign(a, analyzer),
		"keys": sign(&wire.KeySet{Deployment: deployment, Number: 1, Keys: [][]byte{shufflerKey.Public()}}, shuffler),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	answered := answer(t, folder, "request", "reply", shufflerKey, shuffler, yes)
	out := run(t, program[0], append(program[1:], folder)...)
	request := <-answered

	for _, want := range []string{
		`follow: {"fresh":true}`, `answer: {"enrolled":true,"epoch":1,"slot":7,"report_at":"2026-01-01T12:01:00Z"}`,
		`encode: [[0.7071067811859043,0.7071067811859043],[0.7071067811859043,0]]`,
		"encode before the announcement fails: no policy has been announced yet",
		`encode a text fails: the features do not fit the announced schema: arm 0: field "on" must be true or false`,
		`encode no object fails: line 1: "arms[0]" cannot be read: the features do not fit`,
		"encode too much fails: the features are not JSON like",
		"decide with all excluded fails: glm: the arm set is empty: all 1 arms are excluded",
		"decide with a wrong key fails: the arms are not a JSON list",
		`decide: {"arm":0,"epoch":1,"propensity":1,"sampled":true,"handle":`,
		`reward after a restart: {"accepted":true,"clipped":true,"used":1,"range":[0,1]}`, "reward of no decision is late",
		`reward: {"accepted":true}`, "a third deposit is no_report", "decide about junk fails: the arms are not",
		"deposit after junk is no_report", "reward of what is forgotten is late",
		`"state":"reserved"`, "report too early fails: no report is due before " +
			"2026-01-01T12:01:00Z", "follow is foreign", "reward again is bad_reward",
		"enrol before the announcement is no_policy",
		`"channel":"` + string(in) + `","rests_on":"` + in.RestsOn(), `"epsilon_alone":null`,
		"status of a closed handle is closed", "reward again fails: bad reward",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the program does not print %q:\n%s", want, out)
		}
	}
	file := func(name string) []byte { return must(os.ReadFile(filepath.Join(folder, name))) }
	for _, secret := range []string{"61728", "73129"} {
		if strings.Contains(out, secret) {
			t.Errorf("a value of the record is shown:\n%s", out)
		}
	}
	asked, err := wire.OpenEnrolRequest(request, wire.Party{Deployment: deployment, Key: registrar.Public()})
	if err != nil || asked.Request.Device != 3 || asked.Request.Epoch != 1 ||
		[32]byte(asked.Request.Announcement) != judged {
		t.Errorf("the request is %+v, %v", asked.Request, err)
	}
	opener := must(seal.NewReportOpener(shufflerKey))
	plain := must(wire.OpenEnvelope(file("report"), opener, seal.ReportContext{Deployment: deployment, Epoch: 1}))
	report, _, err := wire.ParseReport(plain, registry.PayloadSize(in, a.Encodings))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		plain := must(wire.OpenEnvelope(file(name), opener, seal.ReportContext{Deployment: deployment, Epoch: 1}))
		if r, _, err := wire.ParseReport(plain, registry.PayloadSize(in, a.Encodings)); err != nil || r.Slot != 7 {
			t.Errorf("the %s deposit: %v", name, err)
		}
	}
	if report.Slot != 7 || report.Device != 3 || report.Epoch != 1 || !bytes.Equal(report.HostKey[:], own.Public()) {
		t.Errorf("report of device %d in slot %d", report.Device, report.Slot)
	}
	if in == plan.Shares { // both servers accept it
		round := must(shares.NewRound(a, judged))
		row, _, err := must(round.NewLeader(secret)).Prepare(nil, report.Payload)
		if err != nil {
			t.Fatal(err)
		}
		by := channel.NewVerifier(wire.Party{Deployment: deployment, Key: registrar.Public()})
		v, err := must(round.NewHelper(secret, analyzerKey, by)).Verify(row)
		if err != nil || v.Participant.Number != 3 || !bytes.Equal(v.Participant.Host[:], own.Public()) {
			t.Errorf("%+v %v", v.Participant, err)
		}
		return
	}
	bits := seal.NewBitOpener(analyzerKey, report.Announcement)
	for at := 0; at < len(report.Payload); at += seal.BitSize {
		if _, _, _, err := bits.Open(report.Payload[at : at+seal.BitSize]); err != nil {
			t.Fatal(err)
		}
	}
}
