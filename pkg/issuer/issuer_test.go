package issuer_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/testing/openapi"
	"github.com/riffle-dp/riffle/pkg/issuer"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const deployment = "clinic"

func identity(t testing.TB, n byte) *seal.Identity {
	id, err := seal.NewIdentity(bytes.Repeat([]byte{n}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// memory is a store that survives its issuer. It can fail.
type memory struct {
	mu      sync.Mutex
	entries []issuer.Entry
	fails   error
	keeps   bool // what it fails to append is there all the same
}

func (m *memory) Load(f func(issuer.Entry) error) error {
	for _, e := range m.entries {
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

func (m *memory) Append(e issuer.Entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails == nil || m.keeps {
		m.entries = append(m.entries, e)
	}
	return m.fails
}

// scene is an issuer of three installations, whose accounts are said by a header.
type scene struct {
	*testing.T
	config issuer.Config
	store  *memory
	now    time.Time
	issuer *issuer.Issuer
	http   http.Handler
	doc    *openapi.Document
}

func newScene(t *testing.T, installations uint32) *scene {
	registrar, id := identity(t, 1), identity(t, 2)
	certificate, _, err := wire.Sign(&wire.IssuerCertificate{
		Deployment: deployment, Key: id.Public(), First: 2, Last: 9, Installations: installations,
	}, registrar)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, store: &memory{}, now: time.Unix(1_700_000_000, 0), doc: openapi.Open(t, issuer.OpenAPI())}
	s.config = issuer.Config{
		Registrar: wire.Party{Deployment: deployment, Key: registrar.Public()}, Certificate: certificate, Identity: id,
		End: 8, Period: 24 * time.Hour, Names: [32]byte{7}, Origins: []string{"https://app.example"}, Store: s.store,
		Account: func(r *http.Request) (string, error) {
			if a := r.Header.Get("Account"); a != "" {
				return a, nil
			}
			return "", errors.New("nobody")
		},
		Now: func() time.Time { return s.now },
	}
	s.restart()
	return s
}

func (s *scene) restart() {
	s.Helper()
	var err error
	if s.issuer, err = issuer.New(s.config); err != nil {
		s.Fatal(err)
	}
	s.http = s.doc.Watch(s, s.issuer)
}

// ask gives the status, the reason of a refusal, and the credential.
func (s *scene) ask(account string, key byte) (status int, reason string, admission wire.Admission) {
	s.Helper()
	body := fmt.Sprintf(`{"key":%q}`, base64.RawURLEncoding.EncodeToString(identity(s, key).Public()))
	w := s.send(body, map[string]string{"Account": account, "Content-Type": "application/json"})
	var answer struct {
		Credential []byte
		Reason     string
		NotAfter   uint64 `json:"not_after"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		s.Fatal(err)
	}
	if w.Code == http.StatusOK {
		var err error
		if admission, err = wire.OpenCredential(answer.Credential, s.config.Registrar); err != nil {
			s.Fatal(err)
		}
		if admission.Key != [32]byte(identity(s, key).Public()) || admission.Covers != 1 ||
			admission.NotAfter != answer.NotAfter {
			s.Fatalf("%+v", admission)
		}
	}
	return w.Code, answer.Reason, admission
}

func (s *scene) send(body string, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "https://issuer.example/v1/credentials", strings.NewReader(body))
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.http.ServeHTTP(w, r)
	return w
}

// expect asks and holds the answer against a status and a reason.
func (s *scene) expect(account string, key byte, status int, reason string) {
	s.Helper()
	if got, why, _ := s.ask(account, key); got != status || why != reason {
		s.Errorf("%s with key %d: %d %s, want %d %s", account, key, got, why, status, reason)
	}
}

// An account gets a credential for one key in a period, as often as it asks, also after a restart; a second key waits
// for the next period, another account's key is refused, and there are no more keys than the certificate says.
func TestAnAccountHasOneKeyInAPeriod(t *testing.T) {
	s := newScene(t, 3)
	for range 2 {
		s.expect("ann", 11, 200, "")
		s.expect("ann", 11, 200, "")
		s.expect("ann", 12, 409, "issued")
		s.expect("ben", 11, 409, "taken")
		s.restart()
	}
	s.expect("ben", 12, 200, "")
	s.now = s.now.Add(24 * time.Hour)
	s.expect("ann", 13, 200, "")
	s.expect("ann", 11, 409, "issued") // its key of the period before
	s.expect("ben", 12, 200, "")       // renewed: it has used this period
	s.expect("ben", 14, 409, "issued")
	s.expect("eve", 14, 503, "full")
	s.restart()
	s.expect("eve", 14, 503, "full")
	s.expect("ann", 13, 200, "")
	s.now = s.now.Add(-48 * time.Hour) // a clock that was set back gives no second key
	s.expect("ann", 15, 409, "issued")
	if n, of := s.issuer.Issued(); n != 3 || of != 3 {
		t.Errorf("%d of %d", n, of)
	}
}

// Renewed credentials end later, and are the same installation's.
func TestACredentialIsRenewed(t *testing.T) {
	s := newScene(t, 1)
	_, _, first := s.ask("ann", 11)
	s.config.End = 9
	s.restart()
	status, _, renewed := s.ask("ann", 11)
	if status != 200 || first.NotAfter != 8 || renewed.NotAfter != 9 || renewed.HostKey != first.HostKey ||
		len(s.store.entries) != 1 {
		t.Errorf("%d: %+v after %+v, %d entries", status, renewed, first, len(s.store.entries))
	}
}

// Whoever asks at the same time: an account gets one key, and there are no more than the certificate says.
func TestNoMoreIsIssuedAtTheSameTime(t *testing.T) {
	s := newScene(t, 5)
	var all sync.WaitGroup
	var mu sync.Mutex
	given := map[string]int{}
	for i := range 60 {
		all.Go(func() {
			account := fmt.Sprint(i % 12)
			if status, _, _ := s.ask(account, byte(20+i)); status == 200 {
				mu.Lock()
				given[account]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for account, n := range given {
		if n > 1 {
			t.Errorf("account %s got %d keys", account, n)
		}
	}
	if n, _ := s.issuer.Issued(); n != 5 || len(given) != 5 || len(s.store.entries) != 5 {
		t.Errorf("%d issued, to %d accounts, %d kept", n, len(given), len(s.store.entries))
	}
}

// What cannot be kept is not given, and after a crash no account has more than one key, whether the store kept the last
// entry or not.
func TestACredentialIsDurableBeforeItIsGiven(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		s := newScene(t, 2)
		s.expect("ann", 11, 200, "")
		s.store.fails, s.store.keeps = errors.New("disk"), keeps
		s.expect("ben", 12, 503, "storage")
		s.store.fails = nil
		s.expect("ben", 13, 503, "storage") // what is durable is not known
		s.expect("ann", 11, 200, "")        // what was before is
		s.restart()
		if keeps {
			s.expect("ben", 13, 409, "issued")
			s.expect("ben", 12, 200, "")
		} else {
			s.expect("ben", 13, 200, "")
			s.expect("ben", 12, 409, "issued")
		}
		s.expect("eve", 14, 503, "full")
	}
}

// The store has accounts as keyed hashes, and its log is a chain that anybody can verify with the issuer's key.
func TestTheLogIsAChainWithoutAccounts(t *testing.T) {
	s := newScene(t, 3)
	for i, account := range []string{"ann@example.org", "ben@example.org", "cem@example.org"} {
		s.expect(account, byte(11+i), 200, "")
	}
	var last [32]byte
	for i, e := range s.store.entries {
		if text := string(e.Account[:]) + string(e.Issued); strings.Contains(text, "@example.org") {
			t.Error("an account is kept by its name")
		}
		from := wire.Party{Deployment: deployment, Key: s.config.Identity.Public()}
		m, digest, err := wire.Open[wire.Issued](e.Issued, from)
		if err != nil || m.Number != uint64(i+1) || i > 0 && !bytes.Equal(m.Previous, last[:]) {
			t.Errorf("entry %d: %+v, %v", i, m, err)
		}
		last = digest
	}
	other := s.config
	other.Names = [32]byte{8}
	store := &memory{}
	other.Store = store
	if s.issuer, _ = issuer.New(other); s.issuer != nil {
		s.http = s.doc.Watch(s, s.issuer)
		s.expect("ann@example.org", 11, 200, "")
	}
	if store.entries[0].Account == s.store.entries[0].Account {
		t.Error("another secret gives the same hash")
	}
}

// A store that this issuer cannot have written is refused, and so is a certificate of another.
func TestAForeignStoreIsRefused(t *testing.T) {
	s := newScene(t, 3)
	s.expect("ann", 11, 200, "")
	s.expect("ben", 12, 200, "")
	whole := s.store.entries
	fork := newScene(t, 3) // of an issuer whose store was lost
	fork.expect("cem", 13, 200, "")
	fork.expect("dan", 14, 200, "")
	for name, entries := range map[string][]issuer.Entry{
		"an entry is missing": whole[1:], "twice": {whole[0], whole[0]}, "another order": {whole[1], whole[0]},
		"another's key, later": {whole[0], {
			Account: whole[1].Account, Period: whole[0].Period + 1, Key: whole[0].Key,
		}},
		"two keys of an account in a period": {whole[0], {
			Account: whole[0].Account, Period: whole[0].Period, Key: whole[1].Key, Issued: whole[1].Issued,
		}},
		"another history": {whole[0], fork.store.entries[1]},
		"no statement":    {{Account: whole[0].Account, Period: whole[0].Period, Key: whole[0].Key}},
		"another key": {{
			Account: whole[0].Account, Period: whole[0].Period, Key: whole[1].Key, Issued: whole[0].Issued,
		}},
	} {
		s.config.Store = &memory{entries: entries}
		if _, err := issuer.New(s.config); !errors.Is(err, issuer.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*issuer.Config){
		"another's certificate": func(c *issuer.Config) { c.Identity = identity(t, 3) },
		"another registrar":     func(c *issuer.Config) { c.Registrar.Key = identity(t, 3).Public() },
		"an end beyond":         func(c *issuer.Config) { c.End = 10 },
		"an end before":         func(c *issuer.Config) { c.End = 1 },
		// else an account's keys of all periods admit in the certificate's last epoch
		"periods without an end": func(c *issuer.Config) { c.End = 0 },
	} {
		c := s.config
		c.Store = &memory{}
		change(&c)
		if _, err := issuer.New(c); !errors.Is(err, issuer.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Every answer is described, and everything that is described is answered. A page of another origin gets nothing.
func TestTheHandlerIsAsDescribed(t *testing.T) {
	s := newScene(t, 1)
	good := fmt.Sprintf(`{"key":%q}`, base64.RawURLEncoding.EncodeToString(identity(t, 11).Public()))
	as := func(more ...string) map[string]string {
		h := map[string]string{"Account": "ann", "Content-Type": "application/json"}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = more[i+1]
		}
		return h
	}
	for name, c := range map[string]struct {
		body    string
		headers map[string]string
		want    int
	}{
		"nobody":          {good, map[string]string{"Content-Type": "application/json"}, 401},
		"a form":          {good, as("Content-Type", "text/plain"), 400},
		"no key":          {`{}`, as(), 400},
		"more than a key": {good[:len(good)-1] + `,"x":1}`, as(), 400},
		"half a key":      {`{"key":"AAAA"}`, as(), 400},
		"too much":        {strings.Repeat(" ", 2000) + good, as(), 400},
		"a page of evil":  {good, as("Origin", "https://evil.example"), 403},
		"a page like it":  {good, as("Origin", "https://app.example.evil"), 403},
		"no origin in it": {good, as("Origin", "null"), 403},
		"the app's page":  {good, as("Origin", "https://app.example"), 200},
		"its own page":    {good, as("Origin", "https://issuer.example"), 200},
		"no browser":      {good, as(), 200},
	} {
		w := s.send(c.body, c.headers)
		if w.Code != c.want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if allowed := w.Header().Get("Access-Control-Allow-Origin"); (allowed != "") != (name == "the app's page") {
			t.Errorf("%s: allowed %q", name, allowed)
		}
	}
	s.expect("ann", 12, 409, "issued")
	s.expect("ben", 11, 409, "taken")
	s.expect("ben", 12, 503, "full")
	r := httptest.NewRequest(http.MethodOptions, "https://issuer.example/v1/credentials", nil)
	r.Header.Set("Origin", "https://app.example")
	w := httptest.NewRecorder()
	if s.http.ServeHTTP(w, r); w.Code != 204 || w.Header().Get("Access-Control-Allow-Headers") == "" {
		t.Errorf("a question before: %d %v", w.Code, w.Header())
	}
	for path, want := range map[string]int{"/v1/openapi.json": 200, "/v1/credentials": 405, "/": 404} {
		w := httptest.NewRecorder()
		if s.http.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil)); w.Code != want {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
	s = &scene{T: t, config: s.config, store: &memory{fails: errors.New("disk")}, doc: s.doc}
	s.config.Store = s.store
	s.restart()
	s.expect("ann", 11, 503, "storage")
	if unseen := s.doc.Unseen(); len(unseen) > 0 {
		t.Errorf("described and never answered: %v", unseen)
	}
}
