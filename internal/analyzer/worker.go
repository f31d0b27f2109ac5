package analyzer

import (
	"github.com/riffle-dp/riffle/internal/channel/chunks"
	"github.com/riffle-dp/riffle/internal/channel/envelope"
	"github.com/riffle-dp/riffle/internal/channel/shares"
	"github.com/riffle-dp/riffle/internal/channel/shuffle"
	"github.com/riffle-dp/riffle/internal/worker"
	devices "github.com/riffle-dp/riffle/pkg/channel"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// WorkerConfig is what a counting worker holds: the analyzer's keys for messages and public keys, and neither its
// identity nor any state.
type WorkerConfig struct {
	Deployment string
	Keys       []*seal.HPKEKey // as Config.Keys
	Registrar  []byte          // Ed25519 public key that credentials of hosts must be signed with
	Hosts      *wire.Hosts     // whose keys were replaced or withdrawn; nil: none
	Bus        chunks.Reader
}

// WorkerHandlers are what a counting worker can do, in every channel: open and count chunks, and verify shares. The
// lead does the same with them where it does tasks itself. All that is decided or kept stays with the lead; and where a
// curator reads records, no worker opens them.
func WorkerHandlers(c WorkerConfig) worker.Handlers {
	verifier := devices.NewVerifier(wire.Party{Deployment: c.Deployment, Key: c.Registrar, Hosts: c.Hosts})
	return worker.Handlers{
		shuffle.TaskCount:  shuffle.CountHandler(c.Bus, c.Keys),
		envelope.TaskCount: envelope.CountHandler(c.Bus, c.Keys, verifier),
		shares.TaskVerify:  shares.VerifyHandler(c.Keys, verifier),
	}
}
