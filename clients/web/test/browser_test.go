package web

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/browser"
)

// chromium is a browser whose windows each have cookies and a storage of their own. It is spoken to over two pipes, in
// the DevTools protocol.
type chromium struct {
	to io.WriteCloser

	mu      sync.Mutex
	next    int
	waiting map[int]chan reply
	over    error
}

type reply struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

var errOver = errors.New("the browser ended")

func openChromium(t testing.TB) *chromium {
	t.Helper()
	program := browser.Find(t)
	fromUs, toBrowser, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fromBrowser, toUs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(),
		// pages that nobody looks at run like others
		"--disable-background-timer-throttling", "--disable-renderer-backgrounding",
		"--disable-backgrounding-occluded-windows", "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, toUs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fromUs.Close()
	toUs.Close()
	c := &chromium{to: toBrowser, waiting: map[int]chan reply{}}
	var reading sync.WaitGroup
	reading.Go(func() { c.read(fromBrowser) })
	t.Cleanup(func() {
		c.call("Browser.close", nil, nil)
		cmd.Wait()
		toBrowser.Close()
		reading.Wait()
		fromBrowser.Close()
	})
	return c
}

func (c *chromium) read(from io.Reader) {
	r := bufio.NewReader(from)
	for {
		line, err := r.ReadBytes(0)
		var said reply
		if err == nil {
			err = json.Unmarshal(line[:len(line)-1], &said)
		}
		c.mu.Lock()
		if err != nil {
			c.over = errOver
			for _, w := range c.waiting {
				close(w)
			}
			c.waiting = nil
			c.mu.Unlock()
			return
		}
		if w := c.waiting[said.ID]; w != nil {
			w <- said
			delete(c.waiting, said.ID)
		}
		c.mu.Unlock()
	}
}

// call asks the browser for something.
func (c *chromium) call(method string, params, result any) error {
	c.mu.Lock()
	if c.over != nil {
		c.mu.Unlock()
		return c.over
	}
	c.next++
	id, answer := c.next, make(chan reply, 1)
	c.waiting[id] = answer
	b, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	if err == nil {
		_, err = c.to.Write(append(b, 0))
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	said, ok := <-answer
	switch {
	case !ok:
		return errOver
	case said.Error != nil:
		return fmt.Errorf("%s: %s", method, said.Error.Message)
	case result == nil:
		return nil
	}
	return json.Unmarshal(said.Result, result)
}

// window is a browser context: its pages share cookies and storage, and nothing with other windows.
type window struct {
	c  *chromium
	id string
}

func (c *chromium) window() (*window, error) {
	var made struct {
		ID string `json:"browserContextId"`
	}
	err := c.call("Target.createBrowserContext", map[string]any{}, &made)
	return &window{c, made.ID}, err
}

// open opens a tab and returns its name, by which closeTab ends it.
func (w *window) open(url string) (tab string, err error) {
	var made struct {
		ID string `json:"targetId"`
	}
	err = w.c.call("Target.createTarget", map[string]any{"url": url, "browserContextId": w.id}, &made)
	return made.ID, err
}

func (w *window) closeTab(tab string) error {
	return w.c.call("Target.closeTarget", map[string]any{"targetId": tab}, nil)
}

// close ends the window with its tabs and all that they stored.
func (w *window) close() error {
	return w.c.call("Target.disposeBrowserContext", map[string]any{"browserContextId": w.id}, nil)
}

// openFirefox opens Firefox with one tab for each URL.
func openFirefox(t testing.TB, urls ...string) {
	t.Helper()
	program, err := exec.LookPath("firefox-esr")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no Firefox (Debian: apt-get install firefox-esr)")
		}
		t.Skip("NOT TESTED: there is no Firefox here (Debian: apt-get install firefox-esr)")
	}
	profile := t.TempDir()
	const preferences = `user_pref("dom.allow_scripts_to_close_windows", true);
user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.update.enabled", false);
user_pref("browser.sessionstore.resume_from_crash", false);
user_pref("browser.tabs.warnOnOpen", false);
user_pref("dom.timeout.enable_budget_timer_throttling", false);
`
	if err := os.WriteFile(filepath.Join(profile, "user.js"), []byte(preferences), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	args := append([]string{"--headless", "--no-remote", "--profile", profile}, urls...)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "HOME="+profile, "MOZ_CRASHREPORTER_DISABLE=1")
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); cmd.Wait() })
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
