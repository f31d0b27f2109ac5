package composetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/client/ingress"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/plan"
	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// phones are devices that take part over the deployment's ingress, each once and in an epoch of its own choice. They
// have credentials of the registrar.
type phones struct {
	*crowd
	registrar *keyring.RegistrarKeys
	ingress   *ingress.Client
	limits    device.Limits
	running   sync.WaitGroup
}

// phones are of people who agree to the deployment's terms.
func (s *stack) phones(c *crowd, channel plan.Channel) *phones {
	s.t.Helper()
	limits := device.DefaultLimits()
	limits.Trust, limits.Epsilon, limits.Delta, limits.MinCohort = []plan.Channel{channel}, 1, 1e-6, 50
	registrar, err := keyring.LoadRegistrar(s.keys())
	if err != nil {
		s.t.Fatal(err)
	}
	in, err := ingress.New(s.ingress, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &phones{crowd: c, registrar: registrar, ingress: in, limits: limits}
}

// join has so many phones take a slot and decide, and report when they must. wait returns when all have.
func (p *phones) join(ctx context.Context, n int) {
	p.t.Helper()
	for range n {
		d, answer, err := p.enrol(ctx)
		if err != nil {
			p.t.Fatal(err)
		}
		if _, err := p.act(d); err != nil {
			p.t.Fatal(err)
		}
		p.mu.Lock()
		p.sampled[answer.Epoch]++
		p.mu.Unlock()
		p.running.Go(func() {
			if err := p.report(ctx, d, answer); err != nil {
				p.t.Errorf("a phone's report of epoch %d: %v", answer.Epoch, err)
			}
		})
	}
}

func (p *phones) wait() { p.running.Wait() }

// enrol makes a device and asks for a slot until it has one.
func (p *phones) enrol(ctx context.Context) (*device.Device, device.Answer, error) {
	id, err := seal.GenerateIdentity()
	if err != nil {
		return nil, device.Answer{}, err
	}
	b := p.registrar.Bundle
	credential, _, err := wire.Sign(&wire.Credential{Deployment: b.Deployment, HostKey: id.Public(), Devices: 1},
		p.registrar.Identity)
	if err != nil {
		return nil, device.Answer{}, err
	}
	d, err := device.Open(device.Config{Deployment: b.Deployment, Analyzer: b.AnalyzerParty().Key,
		Shuffler: b.ShufflerParty().Key, Identity: id, Credential: credential, Limits: p.limits}, 0, nil)
	for err == nil {
		var answer device.Answer
		if answer, err = p.ask(ctx, d); err == nil && answer.Enrolled {
			return d, answer, nil
		}
		if err == nil && !answer.Again {
			return nil, answer, fmt.Errorf("a phone is not enrolled: %+v", answer)
		}
		var no *ingress.Refusal
		if errors.As(err, &no) && !no.Final() || answer.Again || errors.Is(err, ingress.ErrUnreachable) {
			err = pause(ctx)
		}
	}
	return nil, device.Answer{}, err
}

// ask follows the chain and asks for a slot once.
func (p *phones) ask(ctx context.Context, d *device.Device) (device.Answer, error) {
	chain, err := p.ingress.Announcements(ctx, d.Status().Epoch, d.Status().Round, 0)
	if err != nil {
		return device.Answer{}, err
	}
	for _, signed := range chain {
		if _, err := d.Follow(signed, time.Now()); err != nil {
			return device.Answer{}, err
		}
	}
	keys, err := p.ingress.Keys(ctx)
	if err != nil {
		return device.Answer{}, err
	}
	if err := d.Keys(keys); err != nil {
		return device.Answer{}, err
	}
	request, err := d.Enrol(time.Now())
	if err != nil {
		return device.Answer{}, err
	}
	reply, err := p.ingress.Enrol(ctx, request)
	if err != nil {
		return device.Answer{}, err
	}
	return d.Answer(reply, time.Now())
}

// act decides between two arms, and is rewarded.
func (p *phones) act(d *device.Device) (device.Decision, error) {
	p.mu.Lock()
	person := p.people
	p.people++
	p.mu.Unlock()
	arms, _ := p.arms(person)
	made, err := d.Decide(arms, source(person))
	if err == nil {
		_, err = d.Reward(made.Handle, 1, time.Now())
	}
	return made, err
}

func source(person int) *rand.ChaCha8 {
	return rand.NewChaCha8([32]byte{byte(person), byte(person >> 8), 1})
}

// report sends a phone's report when it is due, again until it is taken.
func (p *phones) report(ctx context.Context, d *device.Device, answer device.Answer) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(answer.ReportAt)):
	}
	body, err := d.Report(time.Now())
	if err != nil {
		return err
	}
	sent := ingress.Report{Epoch: answer.Epoch, Slot: answer.Slot, Ticket: wire.Ticket(answer.Ticket), Body: body}
	for {
		err := p.ingress.Report(ctx, sent)
		var no *ingress.Refusal
		if err == nil || errors.As(err, &no) && no.Final() {
			return err
		}
		if bad := pause(ctx); bad != nil {
			return errors.Join(bad, err)
		}
	}
}

// pause is between two tries of a request.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(100 * time.Millisecond):
		return nil
	}
}
