package issuer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/bbolt"

	"github.com/riffle-dp/riffle/internal/config"
	"github.com/riffle-dp/riffle/internal/journal/group"
	"github.com/riffle-dp/riffle/internal/journal/wal"
	"github.com/riffle-dp/riffle/internal/role"
	"github.com/riffle-dp/riffle/pkg/mailbox"
)

// MailboxSettings say whether the issuer keeps the reports of pages that may be closed.
type MailboxSettings struct {
	Ingress string `key:"ingress" doc:"Address of the deployment's ingress, as https://ingress.example, for the issuer to be a mailbox, too. A mailbox keeps the sealed reports of accounts' pages until they are due, and learns whether and when each was rewarded. Empty: no mailbox."`
}

// Validate lists what is wrong.
func (m MailboxSettings) Validate() (faults []error) {
	if m.Ingress == "" {
		return nil
	}
	if to, err := url.Parse(m.Ingress); err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" {
		faults = append(faults, config.Wrong("ingress", m.Ingress, "must begin with https:// or http://"))
	}
	return faults
}

// depositsFile is in the state folder.
const depositsFile = "deposits.db"

// deposits is a mailbox.Store in a file.
type deposits struct {
	db     *wal.DB
	writes *group.Group[[]wal.Change] // deposits at the same time share a write to the disk
}

var bucketDeposits = []byte("deposits")

func openDeposits(folder string) (*deposits, error) {
	db, err := wal.Open(filepath.Join(folder, depositsFile), wal.Options{Buckets: [][]byte{bucketDeposits}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", depositsFile, err)
	}
	return &deposits{db, group.New(func(all [][]wal.Change) error { return db.Commit(slices.Concat(all...)) })}, nil
}

// Put is mailbox.Store's.
func (d *deposits) Put(name, value []byte) error {
	return d.writes.Add([]wal.Change{{Bucket: bucketDeposits, Key: name, Value: value}})()
}

// Get is mailbox.Store's.
func (d *deposits) Get(name []byte) ([]byte, error) { return d.db.Get(bucketDeposits, name) }

// Delete is mailbox.Store's.
func (d *deposits) Delete(name []byte) error {
	return d.writes.Add([]wal.Change{{Bucket: bucketDeposits, Key: name}})()
}

// Each is mailbox.Store's.
func (d *deposits) Each(f func(name, value []byte) error) error {
	return d.db.View(func(tx *bbolt.Tx) error { return tx.Bucket(bucketDeposits).ForEach(f) })
}

func (d *deposits) close() error {
	d.writes.Close()
	return d.db.Close()
}

// withMailbox serves a mailbox beside the issuer's requests, where the settings name an ingress. forward sends what is
// due until its context ends; call end after that.
func (s Settings) withMailbox(env *role.Env, l loaded, next http.Handler) (h http.Handler,
	forward func(context.Context) error, end func() error, err error) {
	if s.Mailbox.Ingress == "" {
		return next, func(context.Context) error { return nil }, func() error { return nil }, nil
	}
	to, err := url.Parse(s.Mailbox.Ingress)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("mailbox.ingress: %w", err)
	}
	kept, err := openDeposits(s.State)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("state: %w", err)
	}
	m, err := mailbox.New(mailbox.Config{
		Account: s.account(l.tokens), Origins: s.HTTP.Origins, Key: l.Names[:], Store: kept, Ingress: to,
		Clock: env.Clock,
	})
	if err != nil {
		return nil, nil, nil, errors.Join(fmt.Errorf("state: %w", err), kept.close())
	}
	for name, of := range map[string]func(mailbox.Counts) int{
		"waiting":   func(c mailbox.Counts) int { return c.Waiting },
		"forwarded": func(c mailbox.Counts) int { return c.Forwarded },
		"refused":   func(c mailbox.Counts) int { return c.Refused },
		"given_up":  func(c mailbox.Counts) int { return c.GivenUp },
	} {
		err = errors.Join(err, env.Metrics.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "riffle_mailbox_" + name, Help: "Deposited reports, " + name + ", since the start.",
		}, func() float64 { return float64(of(m.Counts())) })))
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, kept.close())
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/deposits/", m)
	mux.Handle("/", next)
	return mux, func(ctx context.Context) error {
		_ = m.Run(ctx) // it says no more than that ctx ended
		return nil
	}, kept.close, nil
}
