// Package browser lets tests look at a page with a real browser: Chromium without a window. Only tests use it. It shows
// that a page works in that browser, and not in others.
package browser

import (
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Names under which Chromium is looked for.
var names = []string{"chromium", "chromium-browser", "google-chrome"}

// Find returns the browser's program. Where there is none the test fails in CI (the variable CI is set) and is skipped,
// loudly, elsewhere.
func Find(t testing.TB) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	const missing = "NOT TESTED: there is no Chromium here, so the page was not looked at. " +
		"Install it (Debian: apt-get install chromium) and run this test again."
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	fmt.Fprintln(os.Stderr, "\n*** "+t.Name()+": "+missing+"\n")
	t.Skip(missing)
	return ""
}

// View is how a page is looked at.
type View struct {
	Width, Height int
	Dark          bool
	Picture       string // file for a screenshot; empty: none
}

const (
	// pageTime is how long a page may run by its own clock before it is looked at.
	pageTime = 3 * time.Second
	// lookTime bounds one look.
	lookTime = time.Minute
)

// Look loads a page, lets its scripts run and returns its document as it then is.
func Look(t testing.TB, url string, v View) string {
	t.Helper()
	program := Find(t)
	args := []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
		"--user-data-dir=" + t.TempDir(), fmt.Sprintf("--window-size=%d,%d", v.Width, max(v.Height, 800)),
		fmt.Sprintf("--virtual-time-budget=%d", pageTime.Milliseconds()),
	}
	if v.Dark {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	args = append(args, "--dump-dom")
	if v.Picture == "" {
		return run(t, program, append(args, url)...)
	}
	err := os.MkdirAll(filepath.Dir(v.Picture), 0o755)
	if err == nil {
		err = os.RemoveAll(v.Picture) // of an earlier run
	}
	if err != nil {
		t.Fatal(err)
	}
	document := run(t, program, append(args, "--screenshot="+v.Picture, url)...)
	if info, err := os.Stat(v.Picture); err != nil || info.Size() == 0 {
		t.Fatalf("no screenshot: %v", err)
	}
	return document
}

func run(t testing.TB, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lookTime)
	defer cancel()
	var said strings.Builder
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(program), err, said.String())
	}
	return string(out)
}

var field = regexp.MustCompile(`<[a-z0-9]+ [^>]*data-field="([^"]*)"(?:[^>]*data-value="([^"]*)")?[^>]*>([^<]*)<`)

// Field is one marked element of a page.
type Field struct {
	Value string // of the attribute data-value
	Text  string // that people read
}

// Fields returns the elements that are marked with data-field, by its value.
func Fields(document string) map[string]Field {
	out := map[string]Field{}
	for _, m := range field.FindAllStringSubmatch(document, -1) {
		out[html.UnescapeString(m[1])] = Field{html.UnescapeString(m[2]), html.UnescapeString(m[3])}
	}
	return out
}
