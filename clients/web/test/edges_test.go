package web

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// said is what a page was told of a decision, or of its device.
type said struct {
	Arm     int
	Sampled bool
	State   string
	Reason  string
	Detail  string
}

const (
	opens   = `globalThis.riffle = await Riffle.open(options); return riffle.status()`
	decided = `for (let i = 0; i < 20; i++) {
		globalThis.decision = await riffle.decide({ arms: [[1, 0], [0, 1]] });
		if (!/wrong_epoch/.test(decision.detail)) break; // the shuffler may not be in the epoch yet
	}
	return decision`
	alone  = `globalThis.SharedWorker = undefined; delete globalThis.SharedWorker; `
	closes = `await riffle.close()`
	waits  = `while ((await riffle.status()).state === "waiting") await sleep(50);`
	// backup copies what the browser stores of the device, restore puts it back, forget clears the site's data.
	stored = `const db = await new Promise((done) => {
		const r = indexedDB.open("riffle/clinic/");
		r.onsuccess = () => done(r.result);
	});
	const all = (store, f) => new Promise((done) => {
		const t = db.transaction(store, "readwrite");
		const r = f(t.objectStore(store));
		t.oncomplete = () => done(r.result);
	});
	`
	backup = stored + `globalThis.copy = [];
	const keys = await all("device", (s) => s.getAllKeys());
	for (const key of keys) copy.push([key, await all("device", (s) => s.get(key))]);
	db.close()`
	restore = stored + `for (const [key, value] of copy) await all("device", (s) => s.put(value, key));
	db.close()`
	forget = `await new Promise((done) => (indexedDB.deleteDatabase("riffle/clinic/").onsuccess = done))`
	newer  = `await new Promise((done) => {
		const r = indexedDB.open("riffle/clinic/", 2);
		r.onsuccess = () => (r.result.close(), done());
	})`
)

// Nobody is counted twice and nobody is stuck without a word, whatever happens to tabs and storage.
func TestTabsAndStorage(t *testing.T) {
	d := startDeployment(t, people{cohort: 40, window: 10 * time.Second, mailbox: true})
	c := openChromium(t)
	tab := func(t *testing.T, w *window, name, account, shell string) (*page, string) {
		t.Helper()
		p := d.make(name)
		return p, must(w.open(p.address(d.app, account, shell)))
	}
	does := func(t *testing.T, p *page, script string) (s said) {
		t.Helper()
		p.run(t, script, &s)
		return s
	}
	enrolled := 0

	t.Run("two tabs share one device", func(t *testing.T) {
		w := must(c.window())
		one, first := tab(t, w, "a1", "a", "")
		two, _ := tab(t, w, "a2", "a", "")
		does(t, one, opens)
		does(t, two, opens)
		told := make(chan told, 2)
		for _, p := range []*page{one, two} {
			go func() {
				s, err := p.try(t.Context(), decided)
				if err != nil {
					t.Error(err)
				}
				told <- s
			}()
		}
		sampled := 0
		for range 2 {
			switch s := string((<-told).Value); {
			case strings.Contains(s, `"sampled":true`):
				sampled++
			case !strings.Contains(s, `"reason":"already"`):
				t.Errorf("the other tab is told %s", s)
			}
		}
		if sampled != 1 {
			t.Errorf("%d of two tabs are sampled", sampled)
		}
		enrolled++
		if err := w.closeTab(first); err != nil {
			t.Fatal(err)
		}
		if s := does(t, two, decided); s.Reason != "already" {
			t.Errorf("after the other tab was closed: %+v", s)
		}
	})

	t.Run("without shared workers one tab waits for the other", func(t *testing.T) {
		w := must(c.window())
		one, _ := tab(t, w, "b1", "b", "")
		two, _ := tab(t, w, "b2", "b", "")
		if s := does(t, one, alone+opens); s.State != "active" {
			t.Errorf("the first tab is %+v", s)
		}
		if s := does(t, two, alone+opens); s.State != "waiting" {
			t.Errorf("the second tab is %+v", s)
		}
		if s := does(t, two, decided); s.Sampled || s.Reason != "another_tab" {
			t.Errorf("the second tab is told %+v", s)
		}
		does(t, one, closes)
		if s := does(t, two, waits+decided); !s.Sampled {
			t.Errorf("once the first tab let go, the second is told %+v", s)
		}
		enrolled++
	})

	t.Run("storage cleared", func(t *testing.T) {
		p, _ := tab(t, must(c.window()), "c", "c", "")
		does(t, p, opens)
		if s := does(t, p, decided); !s.Sampled {
			t.Errorf("%+v", s)
		}
		enrolled++
		does(t, p, closes)
		does(t, p, forget)
		does(t, p, opens)
		s := does(t, p, decided)
		if s.Sampled || s.Reason != "second_credential" || !strings.Contains(s.Detail, "storage was cleared") {
			t.Errorf("%+v", s)
		}
	})

	t.Run("older backup restored", func(t *testing.T) {
		p, _ := tab(t, must(c.window()), "e", "e", "")
		does(t, p, opens)
		does(t, p, backup)
		if s := does(t, p, decided); !s.Sampled {
			t.Errorf("%+v", s)
		}
		enrolled++
		does(t, p, closes)
		does(t, p, restore)
		does(t, p, opens)
		if s := does(t, p, decided); s.Sampled || s.Reason != "rolled_back" {
			t.Errorf("%+v", s)
		}
		s := does(t, p, `return riffle.status()`)
		if s.State != "stopped" || s.Reason != "rolled_back" || s.Detail == "" {
			t.Errorf("%+v", s)
		}
	})

	t.Run("storage of a newer client", func(t *testing.T) {
		p, _ := tab(t, must(c.window()), "f", "f", "")
		does(t, p, newer)
		if s := does(t, p, opens); s.State != "stopped" || s.Reason != "version" {
			t.Errorf("%+v", s)
		}
		if s := does(t, p, decided); s.Sampled || s.Reason != "version" {
			t.Errorf("%+v", s)
		}
	})

	t.Run("storage that cannot be read", func(t *testing.T) {
		p, _ := tab(t, must(c.window()), "j", "j", "")
		does(t, p, opens)
		does(t, p, closes)
		const read = stored + `const state = await all("device", (s) => s.get("state"));`
		does(t, p, read+`await all("device", (s) => s.put(state.subarray(1), "state")); db.close();
			globalThis.was = state.length`)
		if s := does(t, p, opens); s.State != "stopped" || s.Reason != "version" {
			t.Errorf("%+v", s)
		}
		does(t, p, `await riffle.optOut()`)
		if s := does(t, p, decided); s.Sampled {
			t.Errorf("%+v", s)
		}
		if s := does(t, p, read+`db.close(); return { sampled: state.length !== was - 1 }`); s.Sampled {
			t.Error("what could not be read was replaced by the state of a new device")
		}
	})

	t.Run("mailbox down", func(t *testing.T) {
		d.down.Store(true)
		p, _ := tab(t, must(c.window()), "g", "g", "")
		does(t, p, opens)
		if s := does(t, p, decided); s.Sampled || s.Reason != "mailbox" {
			t.Errorf("%+v", s)
		}
		d.down.Store(false)
		if s := does(t, p, decided); s.Sampled {
			t.Errorf("the arms were known before the mailbox had a report: %+v", s)
		}
	})

	t.Run("opted out", func(t *testing.T) {
		p, _ := tab(t, must(c.window()), "h", "h", "")
		does(t, p, opens)
		does(t, p, `await riffle.optOut()`)
		if s := does(t, p, decided); s.Sampled || s.Reason != "opted_out" {
			t.Errorf("%+v", s)
		}
		does(t, p, `await riffle.optOut(false)`)
		if s := does(t, p, decided); !s.Sampled {
			t.Errorf("%+v", s)
		}
		enrolled++
	})

	t.Run("the commit before beside today's", func(t *testing.T) {
		d.serveOld(t)
		w := must(c.window())
		old, _ := tab(t, w, "i1", "i", "/old/index.js")
		now, _ := tab(t, w, "i2", "i", "")
		if s := does(t, old, opens); s.State != "active" {
			t.Errorf("%+v", s)
		}
		if s := does(t, now, opens); s.State != "waiting" {
			t.Errorf("%+v", s)
		}
		if s := does(t, now, decided); s.Reason != "another_tab" {
			t.Errorf("%+v", s)
		}
		if s := does(t, old, decided); !s.Sampled {
			t.Errorf("%+v", s)
		}
		enrolled++
		does(t, old, closes)
		s := does(t, now, waits+decided)
		if s.Sampled || s.Reason != "already" && s.Reason != "version" { // it goes on, or says that it cannot
			t.Errorf("today's goes on with %+v", s)
		}
	})

	d.arrive(t, enrolled)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.arrivals) != enrolled {
		t.Errorf("%d people enrolled, and %d reports came", enrolled, len(d.arrivals))
	}
}

// serveOld serves the client around the core of the commit before, as a browser has it whose page was not reloaded.
func (d *deployment) serveOld(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	shell := func(dir, script string) {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "OLD="+folder)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("NOT TESTED: the commit before cannot be built here (a shallow clone?): %v\n%s", err, said)
		}
	}
	shell("../../..", `git archive HEAD^ go.mod go.sum cmd internal messages pkg | tar -x -C "$OLD"`)
	shell(folder, `GOOS=js GOARCH=wasm CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w" \
		-o riffle.wasm ./cmd/libriffle`)
	shell("..", `go run ./build -core "$OLD/riffle.wasm" -out "$OLD/web"`)
	d.old.Store(filepath.Join(folder, "web", "dist"))
}
