package issuer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/issuer"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

const token = "0123456789abcdef0123456789abcdef"

// keys are an issuer's, certified for so many installations by a deployment's registrar.
func keys(t *testing.T, installations uint32) string {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	registrar, own := filepath.Join(t.TempDir(), "keys"), t.TempDir()
	must(keyring.Generate(registrar, keyring.Options{Name: "clinic"}))
	key, err := keyring.MakeIssuer(own)
	must(err)
	path, err := keyring.CertifyIssuer(registrar, keyring.IssuerOptions{
		Name: "app", Key: key, First: 1, Last: 9, Installations: installations,
	})
	must(err)
	for from, to := range map[string]string{
		path:                                    filepath.Join(own, "issuer", "certificate"),
		filepath.Join(registrar, "bundle.json"): filepath.Join(own, "bundle.json"),
	} {
		b, err := os.ReadFile(from)
		must(err)
		must(os.WriteFile(to, b, 0o600))
	}
	return own
}

// running is an issuer on a port, until the test or stop ends.
type running struct {
	*testing.T
	settings Settings
	url      string
	stop     func()
}

func start(t *testing.T, s Settings) *running {
	t.Helper()
	l, err := s.load(nil)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := openStore(s.State, l.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := issuer.New(issuer.Config{
		Registrar: l.Bundle.RegistrarParty(), Certificate: l.Certificate, Identity: l.Identity, Names: l.Names,
		Account: s.account(l.tokens), Store: kept, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, socket, handler) }()
	stopped := false
	r := &running{t, s, "http://" + socket.Addr().String() + "/v1/credentials", nil}
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := kept.close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

// ask is the status for an account with a token and the key of a seed.
func (r *running) ask(bearer, account string, seed byte) (status int, body []byte) {
	r.Helper()
	id, err := seal.NewIdentity(bytes.Repeat([]byte{seed}, 32))
	if err != nil {
		r.Fatal(err)
	}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, r.url, strings.NewReader(
		fmt.Sprintf(`{"key":%q}`, base64.RawURLEncoding.EncodeToString(id.Public()))))
	if err != nil {
		r.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+bearer)
	if account != "" {
		request.Header.Set("Riffle-Account", account)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err = io.ReadAll(answer.Body); err != nil {
		r.Fatal(err)
	}
	return answer.StatusCode, body
}

func settings(t *testing.T, installations uint32) Settings {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("proxy "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Role().Defaults
	s.Keys, s.State, s.Login.Tokens = keys(t, installations), filepath.Join(t.TempDir(), "state"), tokens
	return s
}

// Only the proxy, which bears a token, says who asks; what was issued outlives the process, and the file for auditors
// has each key once and nothing of an account.
func TestWhatIsIssuedOutlivesTheProcess(t *testing.T) {
	s := settings(t, 2)
	r := start(t, s)
	for name, c := range map[string]struct {
		token, account string
		seed           byte
		want           int
	}{
		"no proxy": {strings.Repeat("x", 32), "ann", 1, 401}, "nobody": {token, "", 1, 401},
		"ann": {token, "ann@example.org", 1, 200},
	} {
		if status, body := r.ask(c.token, c.account, c.seed); status != c.want {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	for range 2 {
		r.stop()
		r = start(t, s)
		if status, body := r.ask(token, "ann@example.org", 2); status != 409 {
			t.Errorf("a second key: %d %s", status, body)
		}
		status, body := r.ask(token, "ann@example.org", 1)
		var answer struct{ Credential []byte }
		if err := json.Unmarshal(body, &answer); err != nil || status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		l, err := s.load(nil)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := wire.OpenCredential(answer.Credential, l.Bundle.RegistrarParty()); err != nil || a.NotAfter != 9 {
			t.Errorf("%+v, %v", a, err)
		}
	}
	r.ask(token, "ben@example.org", 2)
	r.stop()
	file, err := os.ReadFile(filepath.Join(s.State, logFile))
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for scan := bufio.NewScanner(bytes.NewReader(file)); scan.Scan(); lines++ {
		b, err := base64.StdEncoding.DecodeString(scan.Text())
		if err != nil || bytes.Contains(b, []byte("example.org")) {
			t.Errorf("%q, %v", scan.Text(), err)
		}
	}
	if lines != 3 {
		t.Errorf("a certificate and two entries have %d lines", lines)
	}
	journal, err := os.ReadDir(s.State)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range journal {
		if b, _ := os.ReadFile(filepath.Join(s.State, f.Name())); bytes.Contains(b, []byte("ann@example")) {
			t.Errorf("%s names an account", f.Name())
		}
	}
}

// Two processes cannot issue from one folder.
func TestAStateFolderIsOneProcess(t *testing.T) {
	s := settings(t, 2)
	start(t, s)
	if second, err := openStore(s.State, nil); err == nil {
		_ = second.close()
		t.Error("a second process opens the folder")
	}
}

// A proxy that adds its header to the client's, in place of replacing it, names nobody.
func TestTwoAccountsAreNobody(t *testing.T) {
	s := settings(t, 2)
	l, err := s.load(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/v1/credentials", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header["Riffle-Account"] = []string{"said by the client", "ann"}
	if who, err := s.account(l.tokens)(r); err == nil {
		t.Errorf("%q is let in", who)
	}
}

// Settings that cannot work are refused before anything listens.
func TestSettingsThatCannotWork(t *testing.T) {
	s := settings(t, 2)
	for name, change := range map[string]func(*Settings){
		"no certificate": func(s *Settings) { s.Keys = t.TempDir() },
		"no tokens":      func(s *Settings) { s.Login.Tokens = filepath.Join(t.TempDir(), "none") },
		"end":            func(s *Settings) { s.Credentials.End = 1000 },
		"no such file":   func(s *Settings) { s.HTTP.Cert, s.HTTP.CertKey = "none.pem", "none.key" },
	} {
		one := s
		change(&one)
		if _, err := one.load(nil); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for name, faults := range map[string][]error{
		"listen": HTTPSettings{Listen: "8406"}.Validate(),
		"cert":   HTTPSettings{Listen: "a:1", Cert: "x"}.Validate(),
		"origin": HTTPSettings{Listen: "a:1", Origins: []string{"app.example"}}.Validate(),
		"header": LoginSettings{Header: "authorization"}.Validate(),
		"period": CredentialSettings{Period: time.Minute, End: 9}.Validate(),
		"end":    CredentialSettings{Period: 24 * time.Hour}.Validate(),
	} {
		if len(faults) != 1 {
			t.Errorf("%s: %v", name, faults)
		}
	}
}
