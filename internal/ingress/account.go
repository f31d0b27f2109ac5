package ingress

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/riffle-dp/riffle/internal/role/outcome"
)

// Account keeps account of one kind of request, from its header to its answer.
type Account struct {
	*outcome.Outcomes
	pending atomic.Int64
}

// newAccount registers an account. No label of it is of a client.
func newAccount(reg prometheus.Registerer, role, item string, reasons []outcome.Reason) (*Account, error) {
	a := new(Account)
	var err error
	a.Outcomes, err = outcome.New(reg, role, item, a.pending.Load, reasons...)
	return a, err
}

// of counts a request and what becomes of it.
func (a *Account) of(serve func() error) error {
	if a == nil {
		return serve()
	}
	a.pending.Add(1)
	a.Received(1)
	err := serve()
	if err != nil {
		a.Refused(err, 1)
	} else {
		a.Released(1)
	}
	a.pending.Add(-1)
	return err
}
