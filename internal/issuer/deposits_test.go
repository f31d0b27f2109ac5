package issuer

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// What is deposited with the issuer survives its process, and no file of the state folder names an account.
func TestDepositsSurviveTheProcess(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("proxy "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Settings{
		Keys: keys(t, 5), State: t.TempDir(), Login: LoginSettings{Header: "Riffle-Account", Tokens: tokens},
		Mailbox: MailboxSettings{Ingress: "https://ingress.example"},
	}
	l, err := s.load(nil)
	if err != nil {
		t.Fatal(err)
	}
	due := time.Now().Add(time.Hour).UnixMilli()
	for process := range 2 {
		env, err := role.NewEnv("issuer", role.Settings{Log: role.LogSettings{Level: "error"}}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		h, _, end, err := s.withMailbox(env, l, http.NotFoundHandler())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			bearer string
			slot   uint32
			status int
		}{{"", 7, 401}, {token, 7, 204}, {token, 8, 409}} {
			path := fmt.Sprintf("/v1/deposits/3.0/%d", c.slot)
			r := httptest.NewRequest(http.MethodPut, path, strings.NewReader("sealed"))
			r.Header.Set("Authorization", "Bearer "+c.bearer)
			r.Header.Set("Riffle-Account", "ada.lovelace")
			r.Header.Set("Riffle-Ticket", wire.TicketHeader(wire.Ticket{1}, c.slot))
			r.Header.Set("Riffle-Due", strconv.FormatInt(due, 10))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != c.status {
				t.Errorf("process %d, slot %d: %d %s, want %d", process, c.slot, w.Code, w.Body, c.status)
			}
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/other", nil)); w.Code != http.StatusNotFound {
			t.Errorf("other paths: %d", w.Code)
		}
		families, err := env.Metrics.Gather()
		waiting := -1.0
		for _, f := range families {
			if f.GetName() == "riffle_mailbox_waiting" {
				waiting = f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		if err != nil || waiting != 1 {
			t.Errorf("%v waiting, %v", waiting, err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(s.State, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err != nil || strings.Contains(string(b), "lovelace") {
			t.Errorf("%s: it names an account, or %v", file, err)
		}
	}
}

// A store forgets what it was told to.
func TestDepositsAreForgotten(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for process := range 2 {
		d, err := openDeposits(folder)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := d.Each(func(_, _ []byte) error { n++; return nil }); err != nil || n != process {
			t.Errorf("%d entries, want %d: %v", n, process, err)
		}
		for _, name := range []string{"a", "b"} {
			if err := d.Put([]byte(name), []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Delete([]byte("a")); err != nil {
			t.Fatal(err)
		}
		if a, err := d.Get([]byte("a")); err != nil || len(a) > 0 {
			t.Errorf("deleted, and still there: %q %v", a, err)
		}
		if b, err := d.Get([]byte("b")); err != nil || string(b) != "x" {
			t.Errorf("%q %v", b, err)
		}
		if err := d.close(); err != nil {
			t.Fatal(err)
		}
	}
}
