package page_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/audit"
	"github.com/riffle-dp/riffle/internal/audit/page"
	"github.com/riffle-dp/riffle/internal/testing/browser"
	"github.com/riffle-dp/riffle/internal/testing/ledger"
	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/privacy"
	"github.com/riffle-dp/riffle/pkg/wire"
)

func write(t testing.TB, r *audit.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := page.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The reports of a small deployment with a destroyed cohort and refusals: as it is, and with wrong sums in epoch 2.
var (
	honest = sync.OnceValues(func() (*audit.Report, error) { return made(nil) })
	broken = sync.OnceValues(func() (*audit.Report, error) {
		return made(func(v *wire.Learned) {
			if v.Epoch == 2 {
				v.Sums[0].Values[0]++
			}
		})
	})
)

// audited is a copy of one of these reports.
func audited(t testing.TB, of func() (*audit.Report, error)) *audit.Report {
	t.Helper()
	r, err := of()
	if err != nil {
		t.Fatal(err)
	}
	out := *r
	out.Notes, out.Rounds = slices.Clone(r.Notes), slices.Clone(r.Rounds)
	return &out
}

func made(tamper func(*wire.Learned)) (*audit.Report, error) {
	l, err := ledger.Make(ledger.Options{
		Configuration: ledger.Small(glm.Practical, plan.Shuffle, 3),
		Destroyed:     func(epoch uint64, _ uint32) bool { return epoch == 3 },
		Tamper: ledger.Tamper{Learned: tamper, Manifest: func(m *wire.Manifest) {
			m.Refused = []wire.Refused{{Reason: wire.RefusalBadSignature, Reports: m.Epoch},
				{Reason: wire.RefusalRepeatedMessage, Reports: 2}}
		}},
	})
	if err != nil {
		return nil, err
	}
	var rows []audit.Row
	r, err := audit.Check(context.Background(), l, audit.Options{
		Trust: l.Bundle, Row: func(x audit.Row) { rows = append(rows, x) },
	})
	if err != nil {
		return nil, err
	}
	r.Rounds = rows
	return r, nil
}

// many is a report of so many rounds, of which a few have something to say.
func many(rounds int) *audit.Report {
	r := &audit.Report{
		OK:           true,
		Deployment:   "many",
		Channel:      plan.Shares,
		Releases:     rounds,
		Epsilon:      1.2,
		Promise:      1.25,
		EpsilonAlone: privacy.Epsilon(math.Inf(1)),
		Delta:        1e-6,
	}
	for i := range rounds {
		x := audit.Row{Epoch: uint64(i + 1), Outcome: "released", Left: true, Size: 500, Minimum: 400, Enrolled: 500,
			Reports: 450 + uint32(i%37), Messages: 450, Epsilon: privacy.Epsilon(1.1 + 0.1*math.Sin(float64(i)/50)),
			Promised: 1.2, Alone: privacy.Epsilon(math.Inf(1)), Interval: "95 %.",
			Announced: fmt.Sprintf("analyzer/%d announcement", 3*i+1)}
		for k := range 14 {
			x.Coefficients = append(x.Coefficients, math.Sin(float64(k))+math.Exp(-float64(i)/200))
			x.HalfWidth = append(x.HalfWidth, 2/math.Sqrt(float64(i+1)))
		}
		if i%97 == 96 {
			x.Outcome, x.Reports, x.Left = "destroyed", 300, false
		}
		r.Rounds = append(r.Rounds, x)
	}
	return r
}

// The page says first whether something is wrong, names each breach with the entry that proves it, whom one must trust,
// what was not checked, and every reason for a refusal with its meaning.
func TestPageSaysWhatTheAuditFound(t *testing.T) {
	t.Parallel()
	r := audited(t, broken)
	if r.OK {
		t.Fatal("the fixture has no breach")
	}
	doc := write(t, r)
	verdict, summary := strings.Index(doc, `data-field="verdict"`), strings.Index(doc, `id="summary"`)
	if verdict < 0 || verdict > summary || !strings.Contains(doc, "Do not rely on what this deployment says") {
		t.Error("the verdict does not come first")
	}
	released := slices.IndexFunc(r.Rounds, func(one audit.Row) bool { return one.Moved > 0 })
	if released < 0 || !strings.Contains(doc, fmt.Sprintf(`data-head="One device">%.2f<`, r.Rounds[released].Moved)) ||
		!strings.Contains(doc, "by which a dishonest device can have moved a released number") {
		t.Error("the page does not say how far one device can have moved a number")
	}
	plain := strings.NewReplacer("&#39;", "'", "&#34;", `"`, "&#43;", "+").Replace(doc)
	for _, want := range append([]string{
		"sums_wrong", r.Breaches[0].Entry, plan.Shuffle.RestsOn(), "repeated message", wire.RefusalBadSignature.Means(),
		"fewer than 10 reports", r.Rounds[0].Interval,
	}, r.Notes...) {
		if !strings.Contains(plain, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, id := range []string{"cohorts", "refused", "budget", "coefficient-1", "coefficient-2"} {
		if !strings.Contains(doc, `aria-labelledby="`+id+`-title `+id+`-alt"`) {
			t.Errorf("there is no picture %s with words", id)
		}
	}
}

// loads finds what a browser would load or run.
var loads = regexp.MustCompile(
	`(?i)<script|<link [^>]*href="[^d]|<img|<iframe|\bsrc=|@import|url\(|\son[a-z]+=|javascript:`,
)

// The page is one file: nothing is loaded, nothing runs, whatever the logs say.
func TestUntrustedTextIsText(t *testing.T) {
	t.Parallel()
	const hostile = `</title></style><script>alert(1)</script><img src=x onerror=alert(2)>" onload="alert(3)`
	r := audited(t, honest)
	r.Deployment, r.OK = hostile, false
	r.Notes = append(r.Notes, hostile)
	r.Witnessed = []audit.Witnessed{{Witness: hostile, Role: hostile}}
	r.Breaches = []audit.Breach{{What: hostile, Entry: hostile, Release: hostile, Detail: hostile}}
	r.Rounds[0].Outcome, r.Rounds[0].Announced, r.Rounds[0].Interval = hostile, hostile, hostile
	r.Rounds[1].Refused = []audit.Refused{{Reason: hostile, Reports: 1}}
	doc := write(t, r)
	if n := strings.Count(doc, "<script"); n > 0 || strings.Contains(doc, "<img") ||
		strings.Count(doc, "</style>") != 1 {
		t.Errorf("%d scripts: text of the logs became markup", n)
	}
	r.Channel = hostile
	if write(t, r) == "" {
		t.Error("an unknown channel gives no page")
	}
	if found := loads.FindString(write(t, audited(t, honest))); found != "" {
		t.Errorf("the page loads or runs something: %s", found)
	}
}

// Any name of a deployment is text on the page.
func FuzzDeploymentName(f *testing.F) {
	f.Add("ledger")
	f.Add(`"><script>alert(1)</script>`)
	f.Add("\x00</style><svg/onload=x>\u2028{{.}}")
	bare, err := parts(&audit.Report{Deployment: "x", Notes: []string{"x"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := parts(&audit.Report{Deployment: name, Notes: []string{name}})
		if err != nil {
			t.Fatal(err)
		}
		if got != bare {
			t.Errorf("%q changes the page's markup: %d tags, want %d", name, got, bare)
		}
	})
}

// parts counts the tags of a page.
func parts(r *audit.Report) (int, error) {
	var b bytes.Buffer
	err := page.Write(&b, r)
	return strings.Count(b.String(), "<"), err
}

// A thousand rounds stay readable: all are drawn, and listed are the last ones, those of which there is something to
// say, and those with a breach.
func TestThousandRoundsStayUsable(t *testing.T) {
	t.Parallel()
	r := many(1000)
	r.Breaches = []audit.Breach{{What: audit.SumsWrong, Entry: "analyzer/7 learned", Release: "2.0"}}
	doc := write(t, r)
	// Of the ten destroyed rounds one is among the last.
	if rows := strings.Count(doc, `<td data-head="Outcome">`); rows != 50+9+1 {
		t.Errorf("%d rows are listed", rows)
	}
	for _, want := range []string{"The last 50 of 1000 rounds", ">2.0<", "2 further coefficients",
		"which nothing bounds in 1000 of 1000"} {
		if !strings.Contains(doc, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if len(doc) > 1<<20 {
		t.Errorf("the page has %d bytes", len(doc))
	}
}

// Coefficients have the names of the schema, of which a value can be any text; those beyond the names have numbers.
func TestCoefficientsHaveTheirNames(t *testing.T) {
	t.Parallel()
	r := many(3)
	r.Terms = []string{"bias", "id = <script>alert(1)</script>"}
	doc := write(t, r)
	for _, want := range []string{">bias<", "id = &lt;script&gt;alert(1)&lt;/script&gt; over 3 epochs",
		">Coefficient 3<"} {
		if !strings.Contains(doc, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(doc, "<script>alert") {
		t.Error("a name is markup")
	}
}

var policy = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`)

// measure holds the page to a width, because the browser's window cannot be as narrow as a telephone, and says how wide
// what is in it becomes.
const measure = `<script>document.documentElement.style.width = "%dpx"; document.body.insertAdjacentHTML("beforeend",
	'<i data-field="width" data-value="' + document.body.scrollWidth + '"> </i><i data-field="caption" data-value="' +
	Math.min(...[...document.querySelectorAll("caption")].map(c => c.offsetWidth)) + '"> </i>')</script>`

// Pictures of pages, which people look at: RIFFLE_PICTURES names the folder. In a real browser the page is not wider
// than a narrow screen.
func TestPageInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("the browser is another process: nothing of it runs at the same time as anything else")
	}
	t.Parallel()
	browser.Find(t)
	pictures := os.Getenv("RIFFLE_PICTURES")
	for _, x := range []struct {
		name   string
		report *audit.Report
		view   browser.View
	}{
		{"good", audited(t, honest), browser.View{Width: 1000, Height: 3600}},
		{"good-dark", audited(t, honest), browser.View{Width: 1000, Height: 3600, Dark: true}},
		{"narrow", audited(t, honest), browser.View{Width: 400, Height: 5200}},
		{"breach", audited(t, broken), browser.View{Width: 1000, Height: 3600}},
		{"many", many(1000), browser.View{Width: 1000, Height: 5200}},
	} {
		file := filepath.Join(t.TempDir(), x.name+".html")
		// The page itself runs no scripts; this one measures it.
		doc := strings.Replace(policy.ReplaceAllString(write(t, x.report), ""), "</body>",
			fmt.Sprintf(measure, x.view.Width)+"</body>", 1)
		if err := os.WriteFile(file, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
		if pictures != "" {
			x.view.Picture = filepath.Join(pictures, x.name+".png")
		}
		shown := browser.Fields(browser.Look(t, "file://"+file, x.view))
		if got := shown["releases"].Value; got != fmt.Sprint(x.report.Releases) {
			t.Errorf("%s: %s rounds are shown as released, there are %d", x.name, got, x.report.Releases)
		}
		wide, err := strconv.Atoi(shown["width"].Value)
		if err != nil || wide > x.view.Width {
			t.Errorf("%s: the page is %d wide (%v), the screen %d", x.name, wide, err, x.view.Width)
		}
		caption, err := strconv.Atoi(shown["caption"].Value)
		if err != nil || caption < x.view.Width/2 {
			t.Errorf("%s: a table's caption is squeezed to %d (%v)", x.name, caption, err)
		}
	}
}

// The page shows what panels answered, with names as text, and no number where noise leaves no interval.
func TestPageShowsAnswers(t *testing.T) {
	r := audited(t, honest)
	if strings.Contains(write(t, r), "What panels answered") {
		t.Error("a deployment that asked nothing shows answers")
	}
	r.Rounds[0].Answer = &deployment.Answer{Name: "ages", Kind: statistic.Fit, Epoch: 1, Reports: 391,
		Count: deployment.Estimated{Of: "decisions with a reward", Value: 12345.6, Low: 12000.2, High: 12690},
		Values: []deployment.Estimated{{Of: "reward per <age>", Value: 0.123456, Low: -0.5, High: 0.75},
			{Of: "reward at 0", Value: 9, Unbounded: true}}}
	got := write(t, r)
	for _, want := range []string{"The fit ages, asked in epoch 1; 391 reports.", ">12346<", ">12000<", ">0.1235<",
		"reward per &lt;age&gt;", `data-head="Estimate">-<`} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
