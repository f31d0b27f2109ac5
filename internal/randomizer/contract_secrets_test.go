package randomizer

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Recognisable numbers for a record.
const (
	markArm    = 0.6172839451
	markArm2   = 0.2839506173
	markReward = 0.7312948301
)

// Nothing of a record is in the log, on disk, in the metrics or in an error, not even while records are in memory, and
// whatever is wrong with them (condition 8). The scan itself is tested in testbed.
func TestNothingOfARecordIsWrittenAnywhere(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	registry := prometheus.NewRegistry()
	account, err := outcome.New(registry, "randomizer", "report", s.host.Pending, Reasons()...)
	s.must(err)
	s.host.c.Reports = account
	a := s.unhurried(12)
	s.open(a)
	marks := testbed.Marks(markArm, markArm2, markReward, -0.3172839451, 0.5839506173)
	arms := fmt.Sprintf(`[%v, %v], [-0.3172839451, 0.5839506173]`, markArm, markArm2)
	var errors []string
	for device, body := range map[string]string{
		"usual": `{"arms": [` + arms + `]}`, "uneven": `{"arms": [` + arms + `, [1]]}`, "cut": `{"arms": [` + arms,
		"extra": `{"arms": [` + arms + `], "x": 0.6172839451}`, "number": `{"arms": [[0.6172839451, "x"]]}`,
		"nested": `{"arms": [0.6172839451]}`,
		"long":   `{"arms": [[6172839451, 2839506173]]}`, "infinite": `{"arms": [[0.6172839451e999, 0]]}`,
	} {
		_, answer := s.post("/v1/devices/"+device+"/decisions", body)
		errors = append(errors, fmt.Sprint(answer["reason"], answer["detail"]))
		for _, reward := range []string{"0.7312948301", "1.7312948301", `"0.7312948301"`, "0.7312948301e999"} {
			_, answer := s.post("/v1/rewards",
				fmt.Sprintf(`{"token": %q, "reward": %s}`, fmt.Sprint(answer["token"]), reward))
			errors = append(errors, fmt.Sprint(answer["reason"], answer["detail"]))
		}
	}
	look := func(when string) {
		t.Helper()
		for what, text := range map[string]string{"log": s.logged.String(), "answers": strings.Join(errors, "\n"),
			"metrics": scrape(t, registry), "status": fmt.Sprint(s.host.Status())} {
			if found := testbed.Find([]byte(text), marks); len(found) > 0 {
				t.Errorf("%s, %s: %v", when, what, found)
			}
		}
		found, files := testbed.FindInFolder(t, s.config.StateDir, marks)
		if len(found) > 0 || files == 0 {
			t.Errorf("%s, on disk: %v in %d files", when, found, files)
		}
	}
	look("while records are held")
	s.due(a)
	s.reports(8)
	look("after the reports")
	for _, d := range s.arrived {
		if found := testbed.Find(d.envelope, marks); len(found) > 0 {
			t.Errorf("in a report: %v", found)
		}
	}
	s.must(s.stop())
	look("after the process")
	// After the last report nothing of any record is in memory that the host reaches.
	if n := len(s.host.promises.open) + len(s.host.promises.tokens); n != 0 {
		t.Errorf("%d sessions are kept", n)
	}
}

func scrape(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatal(w.Body)
	}
	return w.Body.String()
}

// No two bit messages share anything but their length: each has an ephemeral key of its own, in one report and over all
// reports, also where the records are the same (condition 1). The broker's message id is a digest of the sealed report,
// nothing of the device.
func TestBitMessagesShareNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Practical, 12)
	s.open(a)
	for i := range 6 {
		s.decide(fmt.Sprint("p", i), twoArms)
	}
	keys, ciphertexts, outer := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, r := range s.reports(6) {
		report := s.Open(r.envelope, a)
		for at := 0; at < len(report.Payload); at += seal.BitSize {
			keys[string(report.Payload[at:at+seal.EncapsulatedSize])] = true
			ciphertexts[string(report.Payload[at+seal.EncapsulatedSize:at+seal.BitSize])] = true
		}
		outer[string(r.envelope[:2+seal.HPKEKeySize+2+seal.EncapsulatedSize])] = true
	}
	if want := 6 * a.ReportMessages(); len(keys) != want || len(ciphertexts) != want {
		t.Errorf("%d bit messages have %d ephemeral keys and %d ciphertexts", want, len(keys), len(ciphertexts))
	}
	if len(outer) != 6 {
		t.Errorf("6 envelopes have %d ephemeral keys", len(outer))
	}
}

// A bit message opens under its own announcement only: it cannot be carried into another round or plan (condition 10).
func TestReportsAreBoundToTheAnnouncement(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	a := s.Announcement(glm.Practical, 12)
	digest := s.open(a)
	s.decide("x", twoArms)
	r := s.reports(1)[0]
	report := s.Open(r.envelope, a)
	if report.Announcement != digest {
		t.Errorf("the report names %x", report.Announcement[:4])
	}
	s.bits(r.envelope, a, digest) // all of them open under it
	another := digest
	another[0] ^= 1
	for at := 0; at < len(report.Payload); at += seal.BitSize {
		if _, _, _, err := seal.NewBitOpener(s.AnalyzerKey,
			another).Open(report.Payload[at : at+seal.BitSize]); err == nil {
			t.Fatal("a bit message opens under another announcement")
		}
	}
	opener, err := seal.NewReportOpener(s.ShufflerKey)
	s.must(err)
	for _, c := range []seal.ReportContext{{Deployment: "elsewhere", Epoch: 1},
		{Deployment: testbed.Deployment, Epoch: 2}, {Deployment: testbed.Deployment, Epoch: 1, Round: 1}} {
		if _, err := wire.OpenEnvelope(r.envelope, opener, c); err == nil {
			t.Errorf("the envelope opens in %+v", c)
		}
	}
}
