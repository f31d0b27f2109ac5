package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// browser is Chromium without a window, spoken to over two pipes in the DevTools protocol.
type browser struct {
	cmd    *exec.Cmd
	folder string
	to     io.WriteCloser

	mu      sync.Mutex
	next    int
	waiting map[int]chan reply // nil once the browser ended
	reading sync.WaitGroup
}

type reply struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func openBrowser(ctx context.Context) (*browser, error) {
	program, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("the crowd needs Chromium (Debian: apt-get install chromium): %w", err)
	}
	folder, err := os.MkdirTemp("", "riffle-crowd")
	if err != nil {
		return nil, err
	}
	fromUs, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, toUs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &browser{folder: folder, to: to, waiting: map[int]chan reply{}}
	b.cmd = exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--remote-debugging-pipe", "--user-data-dir="+folder, "about:blank")
	b.cmd.ExtraFiles = []*os.File{fromUs, toUs}
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	_, _ = fromUs.Close(), toUs.Close()
	b.reading.Go(func() { b.read(from) })
	return b, nil
}

func (b *browser) read(from io.ReadCloser) {
	defer from.Close()
	for r := bufio.NewReader(from); ; {
		line, err := r.ReadBytes(0)
		var said reply
		if err == nil {
			err = json.Unmarshal(line[:len(line)-1], &said)
		}
		b.mu.Lock()
		if err != nil {
			for _, w := range b.waiting {
				close(w)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		if w := b.waiting[said.ID]; w != nil {
			w <- said
			delete(b.waiting, said.ID)
		}
		b.mu.Unlock()
	}
}

// call asks the browser, in a session with one page or in none.
func (b *browser) call(session, method string, params, result any) error {
	answer := make(chan reply, 1)
	b.mu.Lock()
	if b.waiting == nil {
		b.mu.Unlock()
		return errors.New("the browser ended")
	}
	b.next++
	b.waiting[b.next] = answer
	asked := map[string]any{"id": b.next, "method": method, "params": params}
	if session != "" {
		asked["sessionId"] = session
	}
	line, err := json.Marshal(asked)
	if err == nil {
		_, err = b.to.Write(append(line, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	said, ok := <-answer
	switch {
	case !ok:
		return errors.New("the browser ended")
	case said.Error != nil:
		return fmt.Errorf("%s: %s", method, said.Error.Message)
	case result == nil:
		return nil
	}
	return json.Unmarshal(said.Result, result)
}

// run opens a page in a window with cookies and storage of its own, runs a script in it, closes the window at once, and
// returns the text that the script gave.
func (b *browser) run(_ context.Context, url, script string) (text string, err error) {
	var window struct {
		ID string `json:"browserContextId"`
	}
	var tab struct {
		ID string `json:"targetId"`
	}
	var session struct {
		ID string `json:"sessionId"`
	}
	var said struct {
		Result struct {
			Value string `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	if err := b.call("", "Target.createBrowserContext", map[string]any{}, &window); err != nil {
		return "", err
	}
	of := map[string]any{"browserContextId": window.ID}
	defer func() { err = errors.Join(err, b.call("", "Target.disposeBrowserContext", of, nil)) }()
	made := map[string]any{"url": url, "browserContextId": window.ID}
	if err := b.call("", "Target.createTarget", made, &tab); err != nil {
		return "", err
	}
	attach := map[string]any{"targetId": tab.ID, "flatten": true}
	if err := b.call("", "Target.attachToTarget", attach, &session); err != nil {
		return "", err
	}
	for said.Result.Value != "complete" { // before that the script would be another document's
		loaded := map[string]any{"expression": `document.getElementById("login") ? document.readyState : ""`}
		if err := b.call(session.ID, "Runtime.evaluate", loaded, &said); err != nil {
			return "", err
		}
	}
	evaluate := map[string]any{"expression": script, "awaitPromise": true}
	if err := b.call(session.ID, "Runtime.evaluate", evaluate, &said); err != nil {
		return "", err
	}
	if e := said.Exception; e != nil {
		return "", fmt.Errorf("the page: %s %s", e.Text, e.Exception.Description)
	}
	return said.Result.Value, nil
}

func (b *browser) close() {
	_ = b.call("", "Browser.close", map[string]any{}, nil)
	_ = b.cmd.Wait()
	_ = b.to.Close()
	b.reading.Wait()
	_ = os.RemoveAll(b.folder)
}
