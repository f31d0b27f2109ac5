package ingress_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/riffle-dp/riffle/pkg/client/ingress"
	"github.com/riffle-dp/riffle/pkg/device"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// system is the operating system's randomness.
type system struct{}

func (system) Uint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])
}

// An app takes part once: it enrols before it reads the arms, decides, and reports when the report is due. What Save
// returns is durable before anything is sent.
func Example() {
	takePart := func(ctx context.Context, d *device.Device, durable func(saved []byte) error, arms [][]float64) error {
		in, err := ingress.New("https://riffle.example", nil)
		if err != nil {
			return err
		}
		keep := func() error {
			saved, err := d.Save()
			if err != nil {
				return err
			}
			return durable(saved)
		}
		chain, err := in.Announcements(ctx, d.Status().Epoch, d.Status().Round, 0)
		if err != nil {
			return err
		}
		for _, signed := range chain {
			if _, err := d.Follow(signed, time.Now()); err != nil {
				return err
			}
		}
		keys, err := in.Keys(ctx)
		if err != nil {
			return err
		}
		if err := d.Keys(keys); err != nil {
			return err
		}
		request, err := d.Enrol(time.Now())
		if err != nil {
			return err
		}
		if err := keep(); err != nil {
			return err
		}
		reply, err := in.Enrol(ctx, request)
		if err != nil {
			return err // call Enrol of the device again: it has the same wish
		}
		place, err := d.Answer(reply, time.Now())
		if err != nil || !place.Enrolled {
			return err
		}

		decision, err := d.Decide(arms, system{})
		if err != nil {
			return err
		}
		fmt.Println("play arm", decision.Arm)
		if _, err := d.Reward(decision.Handle, 1, time.Now()); err != nil {
			return err
		}

		time.Sleep(time.Until(place.ReportAt))
		body, err := d.Report(time.Now())
		if err != nil {
			return err
		}
		if err := keep(); err != nil {
			return err
		}
		for {
			err := in.Report(ctx, ingress.Report{Epoch: place.Epoch, Slot: place.Slot,
				Ticket: wire.Ticket(place.Ticket), Body: body})
			var no *ingress.Refusal
			if err == nil || errors.As(err, &no) && no.Final() || ctx.Err() != nil {
				return err
			}
			time.Sleep(time.Second)
		}
	}
	_ = takePart
}
