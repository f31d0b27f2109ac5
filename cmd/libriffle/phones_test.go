//go:build cgo

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/pkg/channel/registry"
	"github.com/riffle-dp/riffle/pkg/channel/shares"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const (
	kotlin = "../../clients/android/src/main/kotlin/riffle"
	swift  = "../../clients/ios/Sources/Riffle"
)

// declared are the calls of the library, with how many arguments each takes in C.
func declared(t *testing.T) map[string]int {
	calls := map[string]int{}
	for _, m := range regexp.MustCompile(`(?s)\nfunc (riffle_\w+)\((.*?)\)`).FindAllStringSubmatch(
		string(must(os.ReadFile("binding_c.go"))), -1) {
		calls[m[1]] = len(strings.Split(strings.TrimRight(m[2], ", \n"), ","))
	}
	if len(calls) < 15 {
		t.Fatalf("found %v", calls)
	}
	return calls
}

// argumentsIn splits what is between the parenthesis at the start of a text and its counterpart.
func argumentsIn(text string) (all []string) {
	depth, from := 0, 1
	for i, c := range text {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth == 0 || depth == 1 && c == ',' {
			all = append(all, strings.TrimSpace(text[from:i]))
			from = i + 1
		}
		if depth == 0 {
			break
		}
	}
	return all
}

// The shells for phones call what the library has, with as many arguments as it takes. Nothing here compiles Swift.
func TestShellsForPhonesCallTheLibraryAsItIs(t *testing.T) {
	calls := declared(t)
	for _, of := range []struct {
		glob, call string
		sizes      *regexp.Regexp // arguments that stand for bytes and their size
	}{
		{swift, `riffle_\w+\(`, nil},
		{kotlin, `"riffle_\w+"`, regexp.MustCompile(`^(it|seed\(\)|bytes\(.*\)|http\(.*\)|ByteArray\(.*)$`)},
	} {
		used := map[string]bool{}
		for _, path := range must(filepath.Glob(of.glob + "/Riffle.*")) {
			text := string(must(os.ReadFile(path)))
			if n := strings.Count(text, "\n"); n > 300 {
				t.Errorf("%s has %d lines; the shell is to stay at 300", path, n)
			}
			for _, at := range regexp.MustCompile(of.call).FindAllStringIndex(text, -1) {
				name := strings.Trim(text[at[0]:at[1]], `"(`)
				var given []string
				if of.sizes == nil {
					given = argumentsIn(text[at[1]-1:])
				} else if given = argumentsIn(text[strings.LastIndexByte(text[:at[0]], '('):])[1:]; strings.Contains(
					text[:at[0]][strings.LastIndexByte(text[:at[0]], '\n')+1:], "getFunction(") {
					given = []string{"handle"} // close and free take one
				}
				n := len(given)
				for _, a := range given {
					if of.sizes != nil && of.sizes.MatchString(a) {
						n++
					}
				}
				if want, known := calls[name]; !known || want != n {
					t.Errorf("%s calls %s with %d arguments %q, the library takes %d", filepath.Base(path), name, n,
						given, want)
				}
				used[name] = true
			}
		}
		for name := range calls {
			key := name == "riffle_public" && of.glob == swift // CryptoKit knows the key
			if !used[name] && !key {
				t.Errorf("%s never calls %s", of.glob, name)
			}
		}
	}
}

// town is a deployment with one device, as it looks over HTTP.
type town struct {
	t                             *testing.T
	folder                        string // of the phone's file
	analyzer, shuffler, registrar *seal.Identity
	analyzerKey, shufflerKey      *seal.HPKEKey
	a                             *plan.Announcement
	secret                        shares.Secret
	mu                            sync.Mutex
	deposits                      [][]byte
	report                        []byte
	saved, refused                bool
	login                         bool // the mailbox's server answers with a login page
}

// kept is what the phone has on its disk.
func (d *town) kept() (of struct {
	Saved  []byte
	Report struct{ Body []byte }
}) {
	b := must(os.ReadFile(filepath.Join(d.folder, "riffle.state")))
	for i := range b { // as Life.kt wraps it
		b[i] ^= 7
	}
	if err := json.Unmarshal(b, &of); err != nil {
		d.t.Error(err)
	}
	return of
}

func (d *town) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	body := must(io.ReadAll(r.Body))
	ticket := wire.TicketHeader(wire.Ticket{1}, 7)
	switch what, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), "/"); what {
	case "credentials":
		var asked struct{ Key string }
		if err := json.Unmarshal(body, &asked); err != nil || r.Header.Get("Authorization") != "Bearer person" {
			d.t.Errorf("%s %v", body, err)
		}
		signed := sign(&wire.Credential{Deployment: deployment, Devices: 1,
			HostKey: must(base64.RawURLEncoding.DecodeString(asked.Key))}, d.registrar)
		_ = json.NewEncoder(w).Encode(map[string]any{"credential": signed, "not_after": 9})
	case "announcements":
		if r.URL.Query().Get("after") == "0.0" {
			_, _ = w.Write(wire.AppendFrame(nil, sign(d.a, d.analyzer)))
		}
	case "keys":
		_, _ = w.Write(sign(&wire.KeySet{Deployment: deployment, Number: 1, Keys: [][]byte{d.shufflerKey.Public()}},
			d.shuffler))
	case "enrolments":
		d.saved = bytes.Contains(d.kept().Saved, []byte(`"asked"`))
		o := must(wire.OpenSealedRequest(body, must(seal.NewRequestOpener(deployment, d.shufflerKey))))
		digest := wire.RequestDigest(o.Signed)
		_, _ = w.Write(must(o.SealReply(sign(&wire.EnrolReply{
			Request: digest[:], Enrolled: true, Slot: 7, ReportAfter: time.Minute, Commitment: d.secret.Commitment(),
			Ticket: append([]byte{1}, make([]byte, wire.TicketSize-1)...),
		}, d.shuffler))))
	case "deposits":
		if r.Header.Get("Riffle-Due") != "1767268860000" || r.Header.Get("Riffle-Ticket") != ticket ||
			r.URL.Path != "/v1/deposits/1.0/7" || !bytes.Equal(d.kept().Report.Body, body) {
			d.t.Errorf("%s %v", r.URL, r.Header)
		}
		if d.login {
			return
		}
		d.deposits = append(d.deposits, body)
		w.WriteHeader(http.StatusNoContent)
	case "reports":
		sum := sha256.Sum256(body)
		if r.Header.Get("Riffle-Ticket") != ticket || r.URL.Path != "/v1/reports/1.0/"+hex.EncodeToString(sum[:]) ||
			!bytes.Equal(d.kept().Report.Body, body) {
			d.t.Errorf("%s %v", r.URL, r.Header)
		}
		if d.report = body; !d.refused {
			d.refused = true
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// The Kotlin shell lives a phone's life on a JVM: whatever leaves is on the disk before, the record's report leaves at
// its time though the process ended, or is the mailbox's from the reward on; after an opt-out the null record's leaves.
func TestTheKotlinShellRunsADevice(t *testing.T) {
	kotlinc, java, folder := tool(t, "kotlinc"), tool(t, "java"), t.TempDir()
	const jars = "/usr/share/java/jna.jar:/usr/share/java/com.android.json.jar:/usr/share/java/kotlin-stdlib.jar"
	run(t, "go", "build", "-buildmode=c-shared", "-o", filepath.Join(folder, "libriffle.so"), ".")
	program := filepath.Join(folder, "life.jar")
	run(t, kotlinc, "-no-reflect", "-cp", jars, filepath.Join(kotlin, "Riffle.kt"), "testdata/Life.kt", "-d", program)
	livesThrough(t, java, "-Djna.library.path="+folder, "-cp", program+":"+jars, "LifeKt")
}

// So does the Python package.
func TestThePythonPackageRunsADevice(t *testing.T) {
	python, library := tool(t, "python3"), filepath.Join(t.TempDir(), "libriffle.so")
	run(t, "go", "build", "-buildmode=c-shared", "-o", library, ".")
	t.Setenv("RIFFLE_LIBRARY", library)
	t.Setenv("PYTHONPATH", "../../clients/python")
	livesThrough(t, python, "-B", "testdata/life.py")
}

// livesThrough runs a program that lives a phone's life, in each way.
func livesThrough(t *testing.T, program string, arguments ...string) {
	for _, way := range []string{"phone", "mailbox", "login page", "opted out"} {
		t.Run(way, func(t *testing.T) {
			d := &town{t: t, folder: t.TempDir(), analyzer: identity(1), shuffler: identity(2), registrar: identity(3),
				analyzerKey: must(seal.GenerateHPKE()), shufflerKey: must(seal.GenerateHPKE())}
			d.a = announcement(d.analyzerKey)
			d.a.Plan.Channel = plan.Shares
			d.a.Schema = []byte(`{"version":1,"arms":[{"name":"on","kind":"flag"}],"terms":[["bias"],["on"]]}`)
			_, digest, err := wire.Sign(d.a, d.analyzer)
			d.secret = must(shares.NewSecret(d.shuffler, digest), err)
			server := httptest.NewServer(d)
			defer server.Close()
			limits := device.DefaultLimits()
			limits.Epsilon, limits.Delta, limits.MinCohort, limits.Trust = 4, 1e-3, 4, []plan.Channel{plan.Shares}
			plain := base64.RawStdEncoding.EncodeToString // as bundle.json has keys
			c := map[string]any{"ingress": server.URL, "issuer": server.URL, "limits": limits, "bundle": map[string]any{
				"deployment": deployment, "analyzer": plain(d.analyzer.Public()),
				"shuffler": plain(d.shuffler.Public())}}
			if d.login = way == "login page"; d.login || way == "mailbox" {
				c["mailbox"] = server.URL
			}
			path := filepath.Join(d.folder, "configuration")
			if err := os.WriteFile(path, must(json.Marshal(c)), 0o600); err != nil {
				t.Fatal(err)
			}
			args := append(slices.Clone(arguments), d.folder, path)
			if way == "opted out" {
				args = append(args, "out")
			}
			out := run(t, program, args...)
			if d.login { // which is not taken for the mailbox's answer
				if !strings.Contains(out, "asked for the arms\ndecided: 0 false") {
					t.Errorf("the program prints\n%s", out)
				}
				return
			}
			for _, want := range []string{
				`before a policy: {"arm":0,"sampled":false}`, "followed: arrival 1 wakes in 3600000",
				"asked for the arms\ndecided: 0 true", `reward: {"accepted":true}`, `again: {"accepted":false}`,
				"twice: ", "restarted\n", `late: {"accepted":false}`, "before the report: wakes in 60000", "after the report: false",
				"ledger: spent", `out: {"arm":0,"sampled":false} true`,
			} {
				if !strings.Contains(out, want) {
					t.Errorf("the program does not print %q:\n%s", want, out)
				}
			}
			if !d.saved {
				t.Error("a request left before it was on the disk")
			}
			sent := [][]byte{d.report}
			if way == "mailbox" {
				if sent = d.deposits; len(sent) != 2 || d.report != nil || bytes.Equal(sent[0], sent[1]) {
					t.Fatalf("%d deposits, and a report of %d bytes", len(sent), len(d.report))
				}
			}
			for i, b := range sent {
				opener := must(seal.NewReportOpener(d.shufflerKey))
				plain := must(wire.OpenEnvelope(b, opener, seal.ReportContext{Deployment: deployment, Epoch: 1}))
				r, _, err := wire.ParseReport(plain, registry.PayloadSize(plan.Shares, d.a.Encodings))
				if err != nil || r.Slot != 7 || r.Device != 0 {
					t.Errorf("report %d: %+v %v", i, r, err)
				}
			}
		})
	}
}
