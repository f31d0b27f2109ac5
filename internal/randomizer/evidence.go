package randomizer

import (
	"encoding/json"
	"fmt"

	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/role/outcome"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/panel"
)

// accusations holds what the shuffler tells one device against what it tells another.
type accusations struct {
	*core
	first *device.Evidence // against the shuffler; the core's lock guards it
}

// compare notes that the panel is drawn, and holds what one device is told of it against what another one was told.
func (e *accusations) compare(a *device.Announced, number uint32, seed panel.Seed, request, signed []byte) error {
	if seed == (panel.Seed{}) {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.news
	switch {
	case e.current != a:
	case n.seed == panel.Seed{}:
		n.seed, n.reply = seed, signed
	case n.seed != seed:
		return &device.Evidence{
			Epoch: a.Epoch, Device: number, Request: request, Reply: signed, Other: n.reply,
			What: "another device of this host was shown another draw of the epoch's panel: shuffler and analyzer " +
				"signed two of them",
		}
	}
	return nil
}

// readEvidence is the evidence that an earlier process kept; nil where there is none.
func readEvidence(st store.Store) (*device.Evidence, error) {
	text, err := st.Note(store.Evidence)
	if err != nil || len(text) == 0 {
		return nil, err
	}
	e := new(device.Evidence)
	if err := json.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("randomizer: the evidence that was kept cannot be read: %w", err)
	}
	return e, nil
}

// accuse keeps the first evidence against the shuffler, and says once that there is one.
func (e *accusations) accuse(proof *device.Evidence) error {
	e.mu.Lock()
	first := e.first == nil
	if first {
		e.first = proof
	}
	e.mu.Unlock()
	if !first {
		return nil
	}
	e.c.Log.Error().Err(proof).Str(outcome.Field, string(NotAdmitted)).Uint64("epoch", proof.Epoch).
		Uint32("device", proof.Device).
		Str("do", "show GET /v1/status of this host, which has the signed reply, to the registrar and to auditors: "+
			"the shuffler lies, or has lost its state").
		Msg("the shuffler's signed reply cannot be true")
	text, err := json.Marshal(proof)
	if err == nil {
		err = e.store.PutNote(store.Evidence, text)
	}
	if err != nil {
		return fmt.Errorf("randomizer: the evidence against the shuffler cannot be kept: %w", err)
	}
	return nil
}
