// Package inside runs randomizer hosts inside the process that plays their people. A crowd of a million would spend
// more on HTTP between two processes of one machine than on everything that Riffle does; these hosts are called
// directly. All else is the randomizer's own: its code, its store, its connection to the broker, its keys and its
// clock.
//
// People come in order, and each host has the devices of as many of them as its credential covers. A host that is full
// and has sent all its reports is closed, so that memory does not grow with the crowd; where panels are drawn it stays.
package inside

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/internal/randomizer"
	"github.com/riffle-dp/riffle/internal/randomizer/api"
	"github.com/riffle-dp/riffle/internal/randomizer/store"
	"github.com/riffle-dp/riffle/internal/role/entropy"
	"github.com/riffle-dp/riffle/pkg/client"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// Options say whose devices run here.
type Options struct {
	Keys   string      // folder of the deployment's keys
	Hosts  []string    // whose devices run here, in the order in which people come to them; no other process runs them
	State  string      // folder of their stores
	Broker bus.Options // URL and TLS; role, name and seed are filled in
	Limits device.Limits
}

// Hosts are randomizers inside this process. Safe for concurrent use.
type Hosts struct {
	o     Options
	keys  []*keyring.HostKeys
	first []int // number of each host's first person
	total int

	ctx  context.Context
	stop context.CancelFunc

	mu   sync.Mutex
	open map[int]*running
	err  error // why one of them ended by itself
}

// running is a host that is open.
type running struct {
	host   *randomizer.Host
	over   chan struct{}
	cancel context.CancelFunc
	used   time.Time // when a person came to it last
}

// ErrNoHost says that more people come than the hosts' credentials cover.
var ErrNoHost = errors.New("inside: the hosts' credentials cover no more devices")

// Open reads the hosts' keys. A host starts when the first of its people comes, the first one at once.
func Open(ctx context.Context, o Options) (*Hosts, error) {
	h := &Hosts{o: o, open: map[int]*running{}}
	for _, name := range o.Hosts {
		keys, err := keyring.LoadRandomizer(o.Keys, name)
		if err != nil {
			return nil, fmt.Errorf("inside: %w", err)
		}
		h.keys, h.first, h.total = append(h.keys, keys), append(h.first, h.total), h.total+int(keys.Devices)
	}
	h.ctx, h.stop = context.WithCancel(context.WithoutCancel(ctx))
	if _, err := h.at(0); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// Capacity is how many people the hosts have devices for.
func (h *Hosts) Capacity() int { return h.total }

// idle is how long no person has come to a host that may be closed.
const idle = 5 * time.Second

// at is the host of person i, which is started unless it runs.
func (h *Hosts) at(i int) (*randomizer.Host, error) {
	if i >= h.total {
		return nil, fmt.Errorf("%w: %d, and person %d comes", ErrNoHost, h.total, i+1)
	}
	n, found := slices.BinarySearch(h.first, i)
	if !found {
		n--
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	if r := h.open[n]; r != nil {
		r.used = time.Now()
		return r.host, nil
	}
	for k, r := range h.open {
		// Where panels are drawn, devices ask by themselves, and people come back.
		if time.Since(r.used) > idle && r.host.Pending() == 0 && r.host.Status().Panel == nil {
			r.cancel()
			<-r.over
			delete(h.open, k)
		}
	}
	r, err := h.start(n)
	if err != nil {
		return nil, fmt.Errorf("inside: host %s: %w", h.o.Hosts[n], err)
	}
	h.open[n] = r
	return r.host, nil
}

func (h *Hosts) start(n int) (*running, error) {
	k, broker := h.keys[n], h.o.Broker
	broker.Role, broker.Seed, broker.Name = bus.Randomizer, k.Seed, "riffle-inside"
	conn, err := bus.Connect(h.ctx, broker)
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(h.o.State, h.o.Hosts[n])
	if err := keyfile.Folder(folder); err != nil {
		conn.Close()
		return nil, err
	}
	kept, err := store.OpenUnsynced(filepath.Join(folder, "devices"))
	if err != nil {
		conn.Close()
		return nil, err
	}
	host, err := randomizer.New(randomizer.Config{
		Deployment: k.Bundle.Deployment, Analyzer: k.Bundle.Analyzer, Shuffler: k.Bundle.Shuffler,
		Identity: k.Identity, Credential: k.Credential, Devices: int(k.Devices), Limits: h.o.Limits,
		Store: kept, Source: func() protocol.Source { return entropy.New() }, Bus: randomizer.Over(conn.Streams),
		Log: zerolog.Nop(),
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(h.ctx)
	r := &running{host: host, over: make(chan struct{}), cancel: cancel, used: time.Now()}
	go func() {
		defer close(r.over)
		defer conn.Close()
		if err := host.Run(ctx); err != nil && ctx.Err() == nil {
			h.mu.Lock()
			h.err = errors.Join(h.err, fmt.Errorf("inside: host %s ended: %w", h.o.Hosts[n], err))
			h.mu.Unlock()
		}
	}()
	return r, nil
}

// Close ends all hosts. Reports that have not left are lost.
func (h *Hosts) Close() {
	h.stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.open {
		<-r.over
	}
}

// Pending counts the promised reports that have not left.
func (h *Hosts) Pending() (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.open {
		n += r.host.Pending()
	}
	return n
}

// Status is that of the host to which people came last.
func (h *Hosts) Status(context.Context) ([]client.Status, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	var latest *running
	for _, r := range h.open {
		if latest == nil || r.used.After(latest.used) {
			latest = r
		}
	}
	if latest == nil {
		return nil, ErrNoHost
	}
	s := latest.host.Status()
	return []client.Status{{
		Deployment: s.Deployment, Epoch: s.Epoch, Round: s.Round, Cohort: s.Cohort, Enrolling: s.Enrolling,
		Final: s.Final, Epsilon: s.Epsilon, Delta: s.Delta, Refused: s.Refused, Devices: s.Devices,
		Capacity: s.Capacity, Pending: s.Pending, Messages: s.Messages, Panel: (*client.Panel)(s.Panel),
		Evidence: (*client.Evidence)(s.Evidence),
	}}, nil
}

// Register names a person's device to its host, so that panels can be drawn of it. registered reports whether the
// shuffler has confirmed that already.
func (h *Hosts) Register(person int, name string) (registered bool, err error) {
	host, err := h.at(person)
	if err != nil {
		return false, err
	}
	registered, _, err = host.Register(name)
	return registered, err
}

// Decide asks for a decision for a person's device. The device enrols before its arms are looked at.
func (h *Hosts) Decide(ctx context.Context, person int, name string, arms [][]float64) (
	*client.Decision, client.Calls, error,
) {
	begin := time.Now()
	calls := client.Calls{Attempts: 1}
	host, err := h.at(person)
	if err != nil {
		return nil, calls, err
	}
	for {
		d, err := host.Decide(ctx, name, func(int) ([][]float64, error) { return arms, nil })
		calls.Last = time.Since(begin)
		switch {
		case errors.Is(err, api.ErrNoPolicy), errors.Is(err, api.ErrBusy):
			if err := pause(ctx); err != nil {
				return nil, calls, err
			}
			calls.Attempts++
			continue
		case err != nil:
			return nil, calls, refusal(err)
		}
		return &client.Decision{
			Arm: d.Arm, ID: d.ID, Token: d.Token, Epoch: d.Epoch, Propensity: d.Propensity, Sampled: d.Sampled,
			Reason: client.Reason(d.Reason), Detail: d.Detail, RewardBy: d.RewardBy,
		}, calls, nil
	}
}

// Reward tells the reward of a person's decision.
func (h *Hosts) Reward(_ context.Context, person int, token string, reward float64) (client.Calls, error) {
	begin := time.Now()
	calls := client.Calls{Attempts: 1}
	host, err := h.at(person)
	if err == nil {
		if _, err = host.Reward(token, reward); err != nil {
			err = refusal(err)
		}
	}
	calls.Last = time.Since(begin)
	return calls, err
}

// again is the pause before a host that cannot decide yet is asked again.
const again = 20 * time.Millisecond

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(again):
		return nil
	}
}

// refusal is an error as the API tells it to an app.
func refusal(err error) error {
	switch {
	case errors.Is(err, api.ErrToken):
		return &client.Refusal{Status: http.StatusGone, Reason: client.ExpiredToken, Detail: err.Error()}
	case errors.Is(err, api.ErrArms):
		return &client.Refusal{Status: http.StatusBadRequest, Reason: client.BadArms, Detail: err.Error()}
	}
	return err
}
