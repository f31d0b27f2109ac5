package web

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

//go:embed page.html
var pageHTML []byte

// pages are the pages that browsers show, by an id. The test says what they do.
type pages struct {
	mu  sync.Mutex
	all map[string]*page
}

// page does one thing after the other.
type page struct {
	id   string
	todo chan string
	told chan told
}

type told struct {
	Value  json.RawMessage `json:"value"`
	Error  string          `json:"error"`
	Reason string          `json:"reason"`
}

func (p *pages) make(id string) *page {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := &page{id: id, todo: make(chan string), told: make(chan told, 1)}
	p.all[id] = one
	return one
}

// handler serves the pages and what they are told. A page that waits for long asks again.
func (p *pages) handler() http.Handler {
	mux := http.NewServeMux()
	find := func(r *http.Request) *page {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.all[r.PathValue("id")]
	}
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "account", Value: r.URL.Query().Get("account")})
		w.Header().Set("Content-Type", "text/html")
		w.Write(pageHTML)
	})
	mux.HandleFunc("POST /page/{id}/next", func(w http.ResponseWriter, r *http.Request) {
		one := find(r)
		if one == nil {
			http.Error(w, "no such page", http.StatusNotFound)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
		defer cancel()
		select {
		case script := <-one.todo:
			io.WriteString(w, script)
		case <-ctx.Done():
			w.WriteHeader(http.StatusNoContent)
		}
	})
	mux.HandleFunc("POST /page/{id}/told", func(w http.ResponseWriter, r *http.Request) {
		var said told
		if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if one := find(r); one != nil {
			one.told <- said
		}
	})
	return mux
}

// longest is how long a page may take for one thing, on a machine with other work.
const longest = 2 * time.Minute

// patience is that of the pages' devices: within a page's time for one thing.
const patience = longest / 2

// try has the page run the body of an asynchronous function, and returns what it returned or threw.
func (p *page) try(ctx context.Context, script string) (told, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("page %s did not answer in %v: %s", p.id, longest,
		script))
	defer cancel()
	select {
	case p.todo <- script:
	case <-ctx.Done():
		return told{}, context.Cause(ctx)
	}
	select {
	case said := <-p.told:
		return said, nil
	case <-ctx.Done():
		return told{}, context.Cause(ctx)
	}
}

// ask is try where the script must not throw.
func (p *page) ask(ctx context.Context, script string, into any) error {
	said, err := p.try(ctx, script)
	if err == nil && said.Error != "" {
		err = fmt.Errorf("%s: %s", script, said.Error)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(said.Value, into)
	}
	if err != nil {
		return fmt.Errorf("page %s: %w", p.id, err)
	}
	return nil
}

// noWorker checks that the page is told so where its worker cannot be loaded.
func (p *page) noWorker(t testing.TB) {
	t.Helper()
	said, err := p.try(t.Context(), `await Riffle.open({ ...options, assets: "/nowhere/" })`)
	if err != nil || said.Reason != "failed" || !strings.Contains(said.Error, "Serve worker.js beside index.js") {
		t.Errorf("without a worker: %+v, %v", said, err)
	}
}

// leave has the page close itself: it tells nothing any more.
func (p *page) leave(ctx context.Context) error {
	select {
	case p.todo <- `close()`:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run is ask in a test's own goroutine.
func (p *page) run(t testing.TB, script string, into any) {
	t.Helper()
	if err := p.ask(t.Context(), script, into); err != nil {
		t.Fatal(err)
	}
}

// address is where a page is, for a person's account.
func (p *page) address(base, account, shell string) string {
	q := url.Values{"id": {p.id}, "account": {account}}
	if shell != "" {
		q.Set("shell", shell)
	}
	return base + "/page?" + q.Encode()
}
