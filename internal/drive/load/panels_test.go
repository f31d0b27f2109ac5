package load_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/riffle-dp/riffle/internal/drive/load"
	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/internal/population"
	"github.com/riffle-dp/riffle/internal/testing/testbed"
)

// A deployment of panels is refused before anybody comes: nobody would be in a cohort by coming.
func TestPanelsAreRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("somebody came: %s %s", r.Method, r.URL)
		}
		_, _ = io.WriteString(w, `{"epoch":1,"cohort":60,"panel":{"registered":90,"decisions":3,"records":2}}`)
	}))
	defer server.Close()
	p, err := population.Synthetic(population.SyntheticOptions{Users: 20, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	shown := progress.New(io.Discard, progress.Options{Mode: progress.Quiet})
	defer shown.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testbed.Patience)
	defer cancel()
	_, err = load.Run(ctx, load.Options{Population: p, APIs: []string{server.URL}, Progress: shown})
	if !errors.Is(err, load.ErrPanels) {
		t.Errorf("%v", err)
	}
}
