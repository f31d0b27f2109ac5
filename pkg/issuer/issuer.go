// Package issuer credentials installations: an organisation puts its handler behind its own login, and each account
// gets a credential for one key in a period. It needs no broker and knows nothing of what an installation decides or
// reports.
//
// It guarantees that no more keys are credentialed than its certificate says, that an account gets one in a period, and
// that both are durable before the credential is given, also for requests at the same time and after a crash. It keeps
// accounts as keyed hashes. It cannot know whether an account is a person: that is the organisation's login to say.
package issuer

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/riffle-dp/riffle/pkg/seal"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Config is what an issuer rests on.
type Config struct {
	Registrar   wire.Party     // whose certificate it holds
	Certificate []byte         // signed wire.IssuerCertificate of Identity
	Identity    *seal.Identity // signs credentials
	// End is the last epoch in which credentials admit; 0: the certificate's last, where there is no Period. A
	// credential that ended is renewed for its key. Where there is a Period it must be the period's last epoch: if it
	// is later, an account has the keys of two periods at once, and two places.
	End uint64
	// Period is how long an account has one key; 0: for ever. Periods follow each other from 1970 on.
	Period time.Duration
	// Names is the secret under which accounts are hashed. Whoever has it and the store can find out which account has
	// which key.
	Names [32]byte
	// Account says who asks, by the organisation's login. An error is answered as 401.
	Account func(*http.Request) (string, error)
	Origins []string // of web pages that may ask, as https://app.example, beside the handler's own
	Store   Store
	Now     func() time.Time
}

// Entry is one thing that an issuer must not forget.
type Entry struct {
	Account [sha256.Size]byte // keyed hash
	Period  int64             // number of the period
	Key     [32]byte          // that the account has in it
	Issued  []byte            // signed wire.Issued, where the key was not credentialed before; else nil
}

// Store keeps entries in their order. Only one issuer may use it at a time.
type Store interface {
	// Load calls f with every entry, oldest first, and returns f's error.
	Load(f func(Entry) error) error
	// Append returns once the entry is durable. After an error the entry may be there or not.
	Append(Entry) error
}

// ErrConfig says that an issuer cannot begin as it is configured.
var ErrConfig = errors.New("issuer")

// Issuer credentials installations. Safe for concurrent use.
type Issuer struct {
	c           Config
	certificate *wire.IssuerCertificate

	mu       sync.Mutex
	broken   bool // an append failed: what is durable is not known
	accounts map[[sha256.Size]byte]holding
	keys     map[[32]byte][sha256.Size]byte // the account of each key
	last     []byte                         // digest of the last issued entry
}

// holding is what an account has in its latest period.
type holding struct {
	period int64
	key    [32]byte
}

// New reads the store. Errors wrap ErrConfig where the certificate or the store is not this issuer's, or are the
// store's.
func New(c Config) (*Issuer, error) {
	certificate, _, err := wire.Open[wire.IssuerCertificate](c.Certificate, c.Registrar)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the certificate is not the registrar's: %w", ErrConfig, err)
	case !bytes.Equal(certificate.Key, c.Identity.Public()):
		return nil, fmt.Errorf("%w: the certificate is for another key than the issuer has", ErrConfig)
	}
	if c.Period > 0 && c.End == 0 {
		return nil, fmt.Errorf("%w: accounts have another key in each period, and credentials have no end: set "+
			"the last epoch of the period, so that no account has two keys that admit", ErrConfig)
	}
	if c.End == 0 {
		c.End = certificate.Last
	}
	if c.End < certificate.First || c.End > certificate.Last {
		return nil, fmt.Errorf("%w: credentials end with epoch %d, and the certificate is for epochs %d to %d",
			ErrConfig, c.End, certificate.First, certificate.Last)
	}
	s := &Issuer{
		c: c, certificate: certificate, accounts: map[[sha256.Size]byte]holding{},
		keys: map[[32]byte][sha256.Size]byte{},
	}
	if err := c.Store.Load(s.read); err != nil {
		return nil, err
	}
	return s, nil
}

// read enters what the store has, and refuses what this issuer cannot have written.
func (s *Issuer) read(e Entry) error {
	wrong := func(format string, a ...any) error {
		return fmt.Errorf("%w: entry %d of the store: %s", ErrConfig, len(s.keys)+1, fmt.Sprintf(format, a...))
	}
	owner, known := s.keys[e.Key]
	if known != (e.Issued == nil) || known && owner != e.Account {
		return wrong("its key is another entry's")
	}
	if h, ok := s.accounts[e.Account]; ok && h.period >= e.Period {
		return wrong("its account has a key in this period")
	}
	if e.Issued != nil {
		from := s.party()
		issued, digest, err := wire.Open[wire.Issued](e.Issued, from)
		if err != nil {
			return wrong("%v", err)
		}
		if issued.Number != uint64(len(s.keys))+1 || !bytes.Equal(issued.Previous, s.last) ||
			!bytes.Equal(issued.Key, e.Key[:]) {
			return wrong("it does not follow the one before")
		}
		s.last = digest[:]
	}
	s.enter(e)
	return nil
}

// party is this issuer as the signer of its log.
func (s *Issuer) party() wire.Party {
	return wire.Party{Deployment: s.certificate.Deployment, Key: s.certificate.Key}
}

func (s *Issuer) enter(e Entry) {
	s.accounts[e.Account] = holding{e.Period, e.Key}
	s.keys[e.Key] = e.Account
}

// Issued is how many keys were credentialed, of how many.
func (s *Issuer) Issued() (n int, of uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys), s.certificate.Installations
}

// Reasons for which an account gets no credential.
var (
	errIssued = errors.New("this account has a credential for another key in this period: one installation takes " +
		"part for an account, so use that one, or wait for the next period")
	errTaken = errors.New("another account has a credential for this key: make a new key for each account")
	errFull  = errors.New("as many installations are credentialed as the issuer's certificate allows: the " +
		"organisation must ask the registrar for a certificate for more")
	errBroken = errors.New("the issuer cannot keep what it issues: its operator finds out more in its log")
)

// credential gives an account a credential for a key. What it rests on is durable then.
func (s *Issuer) credential(account string, key [32]byte) (signed []byte, err error) {
	mac := hmac.New(sha256.New, s.c.Names[:])
	mac.Write([]byte("riffle account\x00" + account))
	e := Entry{Account: [sha256.Size]byte(mac.Sum(nil)), Key: key}
	if s.c.Period > 0 {
		e.Period = s.c.Now().UnixNano() / int64(s.c.Period)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(e); err != nil {
		return nil, err
	}
	signed, _, err = wire.Sign(&wire.Credential{
		Deployment: s.certificate.Deployment, HostKey: key[:], Devices: 1, NotAfter: s.c.End, Issuer: s.c.Certificate,
	}, s.c.Identity)
	return signed, err
}

// admit makes durable that an account has a key in a period, if it may. The lock is held.
func (s *Issuer) admit(e Entry) error {
	owner, known := s.keys[e.Key]
	held, has := s.accounts[e.Account]
	switch {
	case known && owner != e.Account:
		return errTaken
	case has && held.period >= e.Period && held.key == e.Key: // also if the clock was set back
		return nil
	case has && held.period >= e.Period:
		return errIssued
	case s.broken:
		return errBroken
	case !known && len(s.keys) >= int(s.certificate.Installations):
		return errFull
	}
	var digest [32]byte
	if !known {
		var err error
		e.Issued, digest, err = wire.Sign(&wire.Issued{
			Deployment: s.certificate.Deployment, Number: uint64(len(s.keys)) + 1, Previous: s.last, Key: e.Key[:],
		}, s.c.Identity)
		if err != nil {
			return err
		}
	}
	if err := s.c.Store.Append(e); err != nil {
		s.broken = true
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	if !known {
		s.last = digest[:]
	}
	s.enter(e)
	return nil
}
