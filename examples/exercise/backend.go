package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	bolt "go.etcd.io/bbolt"

	"github.com/riffle-dp/riffle/pkg/issuer"
	"github.com/riffle-dp/riffle/pkg/mailbox"
)

// What an organisation writes to have a page take part: this file. It knows the people by its own login, credentials
// one installation for each account, and keeps sealed reports until they are due. It sees no fact about a person and
// no answer.

//go:embed page
var page embed.FS

// settings are what the backend is told.
type settings struct {
	Folder, Client string        // where it keeps what must last; the built web client
	Ingress        string        // base URL
	Bundle         []byte        // bundle.json
	Limits         any           // that the page promises its people
	Issuer         issuer.Config // all but Account and Store
	Names          [32]byte      // secret: signs cookies, and hashes accounts in the mailbox
}

type backend struct {
	settings
	store   *bolt.DB
	mailbox *mailbox.Mailbox
	http.Handler
}

func newBackend(s settings) (*backend, error) {
	store, err := bolt.Open(filepath.Join(s.Folder, "backend.db"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	b := &backend{settings: s, store: store}
	ingress, err := url.Parse(s.Ingress)
	if err != nil {
		return nil, err
	}
	s.Issuer.Account, s.Issuer.Store = b.account, entries{store}
	admits, err := issuer.New(s.Issuer)
	if err != nil {
		return nil, err
	}
	b.mailbox, err = mailbox.New(mailbox.Config{
		Account: b.account, Key: s.Names[:], Store: deposits{store}, Ingress: ingress,
	})
	if err != nil {
		return nil, err
	}
	pages, err := fs.Sub(page, "page")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(pages))
	mux.Handle("/riffle/", http.StripPrefix("/riffle/", http.FileServerFS(os.DirFS(s.Client))))
	mux.Handle("/issuer/", http.StripPrefix("/issuer", admits))
	mux.Handle("/mailbox/", http.StripPrefix("/mailbox", b.mailbox))
	mux.HandleFunc("POST /login", b.login)
	mux.HandleFunc("GET /riffle.json", b.configuration)
	b.Handler = mux
	return b, nil
}

// run forwards what is due until the context ends.
func (b *backend) run(ctx context.Context) error {
	return errors.Join(b.mailbox.Run(ctx), b.store.Close())
}

// mac signs the name in a cookie. A real app has a login here that asks for more than a name.
func (b *backend) mac(name string) string {
	h := hmac.New(sha256.New, b.Names[:])
	h.Write([]byte(name))
	return hex.EncodeToString(h.Sum(nil))
}

func (b *backend) login(w http.ResponseWriter, r *http.Request) {
	name := url.QueryEscape(strings.TrimSpace(r.FormValue("name")))
	http.SetCookie(w, &http.Cookie{Name: "account", Value: b.mac(name) + "." + name, Path: "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, MaxAge: 365 * 24 * 3600})
	w.WriteHeader(http.StatusNoContent)
}

var errNobody = errors.New("nobody is logged in")

// account is whose request it is.
func (b *backend) account(r *http.Request) (string, error) {
	c, err := r.Cookie("account")
	if err != nil {
		return "", errNobody
	}
	mac, name, _ := strings.Cut(c.Value, ".")
	if name == "" || !hmac.Equal([]byte(mac), []byte(b.mac(name))) {
		return "", errNobody
	}
	return name, nil
}

// configuration is what the page opens its device with.
func (b *backend) configuration(w http.ResponseWriter, r *http.Request) {
	name, err := b.account(r)
	if err != nil {
		http.Error(w, "log in first", http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"ingress": b.Ingress, "issuer": "issuer", "mailbox": "mailbox", "bundle": json.RawMessage(b.Bundle),
		"limits": b.Limits, "person": name, "patience": 60_000, // ms; all runs on one machine
	})
}
