package simulation

import (
	"errors"
	"fmt"
	"os"
	"testing/synctest"
	"time"

	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/pkg/seal"
)

type hpke = seal.HPKEKey

// newKey draws from the simulation's source of cryptographic randomness.
func newKey() *hpke {
	k, err := seal.GenerateHPKE()
	if err != nil {
		panic(err) // the source has no errors
	}
	return k
}

// decision is what an app asked for and was told.
type decision struct {
	i        *incarnation
	person   int
	asked    time.Duration
	answered time.Duration
	api.Decision
	err      error
	done     bool
	rewarded bool
}

// markArm is a number that is nowhere but in people's records.
const markArm = 0.7312948301

// decideOn has a new person's device decide.
func (w *World) decideOn(p *process) {
	w.people++
	person := w.people
	i := p.run
	if i == nil || i.host == nil {
		return
	}
	d := &decision{i: i, person: person, asked: w.since()}
	w.decisions = append(w.decisions, d)
	name := fmt.Sprintf("person-%d", person)
	arms := [][]float64{{markArm}, {-0.5}}
	if w.others {
		arms = [][]float64{{0.25}, {markArm}, {-0.125}}
	}
	if w.list.Panel { // of those who registered
		name = fmt.Sprintf("%s-member-%d", p.name, person%((pool+hosts)/hosts))
	}
	go func() {
		made, err := i.host.Decide(i.ctx, name, func(int) ([][]float64, error) { return arms, nil })
		w.mu.Lock()
		defer w.mu.Unlock()
		d.Decision, d.err, d.done, d.answered = made, err, true, w.since()
	}()
}

// register names devices to a host.
func (w *World) register(p *process, n int) {
	i := p.run
	if i == nil || i.host == nil {
		return
	}
	for k := range n {
		name := fmt.Sprintf("%s-member-%d", p.name, k)
		if _, _, err := i.host.Register(name); err != nil && !errors.Is(err, errKilled) {
			w.noted("%s: %s: %v", p.name, name, err)
		}
		synctest.Wait() // one after the other, as people come
	}
}

// reward tells the host the rewards of those who have none.
func (w *World) reward(p *process) {
	w.mu.Lock()
	var due []*decision
	for _, d := range w.decisions {
		if d.i == p.run && d.done && d.err == nil && !d.rewarded {
			d.rewarded = true
			due = append(due, d)
		}
	}
	w.mu.Unlock()
	for _, d := range due {
		reward := float64(d.person % 2)
		if w.others {
			reward = 1 - reward
		}
		_, err := d.i.host.Reward(d.Token, reward)
		if err != nil && !errors.Is(err, api.ErrToken) {
			w.violated("reward", "%s: %v", p.name, err)
		}
	}
}

// recruit has a person decide on each host while the epoch has room.
func (w *World) recruit() {
	for n := range hosts {
		p := w.parties[hostName(n)]
		if p.run == nil || p.run.host == nil {
			continue
		}
		if w.list.Panel {
			w.register(p, (pool+hosts)/hosts+w.people/20)
		}
		if s := p.run.host.Status(); s.Enrolling && s.Devices < capacity {
			w.decideOn(p)
			w.decideOn(p)
		}
	}
}

// talkative reports whether the environment asks for notes as they come.
func talkative() bool { return os.Getenv("RIFFLE_LOG") != "" }

// loud reports whether it asks for every step, too.
func loud() bool { return os.Getenv("RIFFLE_LOG") == "all" }
