package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/feature"
)

// newTestBackend is a backend with keys of its own, and no deployment behind it.
func newTestBackend(t *testing.T) *backend {
	keys := t.TempDir() + "/keys"
	if err := keyring.Generate(keys, keyring.Options{Name: name}); err != nil {
		t.Fatal(err)
	}
	key, err := keyring.MakeIssuer(keys)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := keyring.CertifyIssuer(keys, keyring.IssuerOptions{Name: "app", Key: key, First: 1, Last: 9,
		Installations: 2})
	if err != nil {
		t.Fatal(err)
	}
	s, err := known(keys, certificate)
	if err != nil {
		t.Fatal(err)
	}
	s.Folder, s.Client, s.Ingress = t.TempDir(), t.TempDir(), "http://127.0.0.1:1"
	s.Limits = options{people: 200, epsilon: 2, window: time.Second}.limits()
	b, err := newBackend(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.store.Close() })
	return b
}

func ask(b *backend, method, path, body string, cookies ...*http.Cookie) *http.Response {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w.Result()
}

// Only who logged in gets the configuration, a credential or a place for a deposit, and nobody under another name.
func TestTheBackendKnowsPeopleByItsLogin(t *testing.T) {
	b := newTestBackend(t)
	if status := ask(b, "GET", "/", "").StatusCode; status != http.StatusOK {
		t.Errorf("the page: %d", status)
	}
	in := ask(b, "POST", "/login", url.Values{"name": {"Ann Ö."}}.Encode()).Cookies()
	if len(in) != 1 || !in[0].HttpOnly || in[0].SameSite != http.SameSiteStrictMode {
		t.Fatalf("%v", in)
	}
	if status := ask(b, "GET", "/riffle.json", "", in...).StatusCode; status != http.StatusOK {
		t.Errorf("logged in: %d", status)
	}
	mac, _, _ := strings.Cut(in[0].Value, ".")
	for _, value := range []string{"", "x", ".", mac + ".Bob", "." + "Ann"} {
		forged := &http.Cookie{Name: "account", Value: value}
		for method, path := range map[string]string{"GET": "/riffle.json", "POST": "/issuer/v1/credentials",
			"PUT": "/mailbox/v1/deposits/1.0/1"} {
			status := ask(b, method, path, "", forged).StatusCode
			if status < 400 || status != http.StatusUnauthorized && method == "GET" {
				t.Errorf("%s %s with %q: %d", method, path, value, status)
			}
		}
	}
}

// What an organisation writes stays short.
func TestTheBackendHas150LinesAtMost(t *testing.T) {
	text, err := os.ReadFile("backend.go")
	if n := strings.Count(string(text), "\n"); err != nil || n > 150 {
		t.Errorf("%d lines, %v", n, err)
	}
}

// The page, the schema and the dashboard speak of the same exercises and facts.
func TestTheSchemaFitsThePage(t *testing.T) {
	fields, err := feature.Parse(schema)
	if err != nil {
		t.Fatal(err)
	}
	arms, err := fields.Encode(situations[1].values(), exercises)
	if err != nil || len(arms) != len(exercises) || len(arms[0]) != 12 {
		t.Errorf("%v %v", arms, err)
	}
	script, err := os.ReadFile("page/page.js")
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, e := range exercises { // in this order
		next := strings.Index(string(script), `id: "`+e.ID+`"`)
		if next <= at {
			t.Errorf("the page lacks %s, or has it elsewhere", e.ID)
		}
		at = next
	}
}
