package hostile_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
)

// endless is a body that comes to no end.
type endless struct{ ctx context.Context }

func (e endless) Read(b []byte) (int, error) { <-e.ctx.Done(); return 0, io.EOF }

// post sends a body to the local API as a reward.
func post(ctx context.Context, server *httptest.Server, body io.Reader) (reason string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/rewards", body)
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := server.Client().Do(request)
	if err != nil {
		return "", err
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	_, reason, _ = strings.Cut(string(text), `"reason":"`)
	reason, _, _ = strings.Cut(reason, `"`)
	return reason, answer.Body.Close()
}

func floodAPI(d *world, _ *round, n int) []string {
	server := httptest.NewServer(api.New(d.host, api.Access{}, false, api.DefaultBounds()).Handler())
	defer server.Close()
	var said outcomes
	d.must(parallel(n, func(int) error {
		reason, err := post(d.Context(), server, bytes.NewReader(make([]byte, 1<<20)))
		said.add(reason)
		return err
	}))
	return said.kinds()
}

// floodSlowAPI holds all requests open, and asks for a device's ledger meanwhile.
func floodSlowAPI(d *world, _ *round, n int) []string {
	server := httptest.NewServer(api.New(d.host, api.Access{}, false, api.DefaultBounds()).Handler())
	defer server.Close()
	ctx, cancel := context.WithCancel(d.ctx)
	var all sync.WaitGroup
	for range n {
		all.Go(func() { _, _ = post(ctx, server, endless{ctx}) })
	}
	defer all.Wait()
	defer cancel()
	answer, err := server.Client().Get(server.URL + "/v1/devices/p0/ledger")
	d.must(err)
	defer answer.Body.Close()
	return []string{fmt.Sprintf("others are answered meanwhile (%d)", answer.StatusCode)}
}
