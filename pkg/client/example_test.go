package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/riffle-dp/riffle/pkg/client"
)

// An app asks for a decision, plays the arm, and tells the reward. The server stands for a randomizer at
// http://127.0.0.1:8400.
func Example() {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/devices/self/decisions", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"arm": 1, "token": "f7Zk", "epoch": 3, "sampled": true, "reason": "sampled"}`)
	})
	mux.HandleFunc("POST /v1/rewards", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"accepted": true, "clipped": true, "used": 1, "range": [0, 1]}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	c, ctx, randomizer := client.New(client.Options{}), context.Background(), client.At(server.URL)
	defer c.Close()
	decision, _, err := c.Decide(ctx, randomizer, "self", [][]float64{{0.6, 0.1}, {0, 0.5}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("play arm", decision.Arm, "of epoch", decision.Epoch)
	accepted, _, err := c.Reward(ctx, randomizer, decision.Token, 1.5)
	switch {
	case errors.Is(err, client.ExpiredToken):
		fmt.Println("too late: the device reports without the reward")
	case err != nil:
		log.Fatal(err)
	case accepted.Clipped:
		fmt.Println("the reward counts as", *accepted.Used)
	}
	// Output:
	// play arm 1 of epoch 3
	// the reward counts as 1
}
