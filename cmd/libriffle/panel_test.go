//go:build cgo

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/panel"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// livePanel has the program live an epoch of a panel of two decisions a report: of four decisions two are kept, the
// requests are those of pkg/device, and nothing that is printed names a value of a record.
func livePanel(t *testing.T, program ...string) {
	analyzer, shuffler, registrar, own := identity(1), identity(2), identity(3), identity(4)
	analyzerKey, shufflerKey := must(seal.GenerateHPKE()), must(seal.GenerateHPKE())
	contribution := sha256.Sum256([]byte("analyzer"))
	commitment := panel.Commit(contribution[:])
	a := announcement(analyzerKey)
	a.Plan.Panel, a.Plan.Decisions, a.Plan.Records = &plan.Panel{Registered: 30, Tail: 1e-9}, 2, 1
	a.Commitment = commitment[:]
	c := config{
		Deployment: deployment, Number: 3, Analyzer: analyzer.Public(), Shuffler: shuffler.Public(),
		Identity:   own.Bytes(),
		Credential: sign(&wire.Credential{Deployment: deployment, HostKey: own.Public(), Devices: 4}, registrar),
		Limits:     device.DefaultLimits(),
	}
	c.Limits.Epsilon, c.Limits.Delta, c.Limits.MinCohort = 100, 1e-3, 4
	core := must(device.New(device.Config{
		Deployment: deployment, Analyzer: c.Analyzer, Shuffler: c.Shuffler, Identity: own, Credential: c.Credential,
		Limits: c.Limits,
	}))
	judged := must(core.Judge(sign(a, analyzer), 1, 0))
	request := must(core.Request(judged, 3)) // the same bytes as the library's
	pool, draw := drawn(t, judged, 3, contribution)
	folder := t.TempDir()
	for name, b := range map[string][]byte{
		"config": must(json.Marshal(c)), "announcement": sign(a, analyzer),
		"keys": sign(&wire.KeySet{Deployment: deployment, Number: 1, Keys: [][]byte{shufflerKey.Public()}}, shuffler),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	registered := answer(t, folder, "registration", "confirmed", shufflerKey, shuffler,
		&wire.EnrolReply{Enrolled: true})
	placed := answer(t, folder, "request", "reply", shufflerKey, shuffler, &wire.EnrolReply{
		Enrolled: true, Slot: 7, ReportAfter: time.Minute, Pool: pool, Draw: draw,
	})
	out := run(t, program[0], append(program[1:], folder)...)

	file := func(name string) []byte { return must(os.ReadFile(filepath.Join(folder, name))) }
	for _, want := range []string{
		"enrol before the device is registered fails: no slot can be asked for: the device is not registered yet",
		`registered: {"again":false,"refusal":"","registered":true}`,
		`answer: {"enrolled":true,"epoch":1,"slot":7,"report_at":"2026-01-01T12:01:00Z"}`,
		"reward without a handle fails: the reward window is over, or the report was made", `reward: {"accepted":true}`,
		"reward of no decision fails: the reward window is over, or the report was made", `"registered":true`,
		"reward of no decision is late",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the program does not print %q:\n%s", want, out)
		}
	}
	if kept, all := strings.Count(out, `"sampled":true,"handle":`), strings.Count(out, "decide: "); kept != 2 ||
		all != 4 {
		t.Errorf("%d of %d decisions are kept:\n%s", kept, all, out)
	}
	registration, err := wire.OpenEnrolRequest(<-registered,
		wire.Party{Deployment: deployment, Key: registrar.Public()})
	if err != nil || registration.Request.Device != 3 || registration.Request.Epoch != 0 ||
		!bytes.Equal(<-placed, request) {
		t.Errorf("a request differs: %+v, %v", registration.Request, err)
	}
	opener := must(seal.NewReportOpener(shufflerKey))
	plain := must(wire.OpenEnvelope(file("report"), opener, seal.ReportContext{Deployment: deployment, Epoch: 1}))
	report, _, err := wire.ParseReport(plain, registry.PayloadSize(plan.Shuffle, a.Encodings))
	if err != nil || report.Slot != 7 || report.Device != 3 {
		t.Errorf("%+v %v", report, err)
	}
}

// drawn are the statements of a draw out of thirty devices in which the device with that number is in the panel.
func drawn(t *testing.T, a *device.Announced, number uint32, contribution [32]byte) (pool, draw []byte) {
	own := panel.Device{Host: [32]byte(identity(4).Public()), Number: number}
	for try := range byte(255) {
		signed, digest, err := wire.Sign(&wire.Pool{
			Deployment: deployment, Epoch: 1, Announcement: a.Digest[:], Registered: 30, Root: make([]byte, 32),
			Contribution: append(make([]byte, 31), try),
		}, identity(2))
		if err != nil {
			t.Fatal(err)
		}
		if panel.Plausible(panel.NewSeed(digest, contribution[:]).Rank(own), 30, int(a.Cohort.Size), true) {
			return signed, sign(&wire.Draw{
				Deployment: deployment, Epoch: 1, Announcement: a.Digest[:], Pool: digest[:],
				Contribution: contribution[:],
			}, identity(1))
		}
	}
	t.Fatal("no draw has the device in the panel")
	return nil, nil
}
