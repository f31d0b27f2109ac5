package audit

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/riffle-dp/riffle/internal/keyring"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// IssuedLog is what an issuer gave of its log: its certificate in the first line, and an entry in each further one.
type IssuedLog struct {
	Name string // in breaches: the file
	From io.Reader
}

// Issuer is an issuer whose log was read.
type Issuer struct {
	Log           string      `json:"log"`
	Key           keyring.Key `json:"key"`
	First         uint64      `json:"first_epoch"` // of its certificate
	Last          uint64      `json:"last_epoch"`
	Installations uint32      `json:"installations"` // most that its certificate allows
	Issued        int         `json:"issued"`        // entries of its log
	Withdrawn     bool        `json:"withdrawn"`     // by the bundle: nobody takes part by it any more
}

// TookPart compares devices that took part with those that were let in.
type TookPart struct {
	// Devices is the fewest different devices that the servers' logs prove: no log names one.
	Devices uint64 `json:"devices"`
	// Issued are the different keys in issuers' logs, Registrar the devices that the registrar let in itself, if it was
	// given.
	Issued    int     `json:"issued"`
	Registrar *uint64 `json:"registrar,omitempty"`
}

// ErrIssued says that a file is no issuer's log.
var ErrIssued = errors.New("an issuer's log cannot be read")

// issued holds the logs of issuers against their certificates, and their sum against the devices that took part.
type issued struct {
	*findings
	registrar *uint64
	logs      []issuedLog
	keys      [][32]byte // of all logs

	least  uint64       // different devices that the rounds so far prove
	proof  *statement   // of least
	window []enrolledIn // within one period, oldest first
}

// issuedLog is a log that was read.
type issuedLog struct {
	Issuer
	digests [][32]byte // of its entries
}

type enrolledIn struct {
	epoch    uint64
	enrolled uint64
}

// maxIssuedLine bounds a line of an issuer's log: a statement in base64.
const maxIssuedLine = (wire.MaxEnrolment + 2) / 3 * 4

// read reads an issuer's log. What nobody but the issuer can have made is a breach; what anybody can is an error.
func (c *issued) read(of IssuedLog, registrar wire.Party) error {
	lines := bufio.NewScanner(of.From)
	lines.Buffer(nil, maxIssuedLine+2)
	number := 0
	wrong := func(err error) error {
		return fmt.Errorf("%w: %s, line %d: %w; get issued.log from the issuer again", ErrIssued, of.Name, number, err)
	}
	next := func() ([]byte, error) {
		number++
		if !lines.Scan() {
			return nil, lines.Err()
		}
		return base64.StdEncoding.Strict().DecodeString(lines.Text())
	}
	signed, err := next()
	if err != nil {
		return wrong(err)
	}
	by, _, err := wire.Open[wire.IssuerCertificate](signed, registrar)
	if err != nil {
		return wrong(fmt.Errorf("it must be the issuer's certificate, by the registrar that you trust: %w", err))
	}
	l := issuedLog{Issuer: Issuer{Log: of.Name, Key: by.Key, First: by.First, Last: by.Last,
		Installations: by.Installations}}
	_, withdrawn := registrar.Hosts.First([32]byte(by.Key))
	l.Withdrawn = withdrawn != nil
	for {
		signed, err := next()
		if err != nil {
			return wrong(err)
		}
		if signed == nil {
			break
		}
		e, digest, err := wire.Open[wire.Issued](signed, wire.Party{Deployment: by.Deployment, Key: by.Key})
		if err != nil {
			return wrong(fmt.Errorf("it is no entry that the issuer signed: %w", err))
		}
		if !l.follows(e) {
			c.breach(IssuedUnchained, entryOf(of.Name, number), "", "it is entry %d and names the one before it %x; "+
				"expected is entry %d, after %x", e.Number, short(e.Previous), len(l.digests)+1, short(l.last()))
			break
		}
		if len(l.digests) == int(by.Installations) {
			c.breach(IssuedBeyond, entryOf(of.Name, number), "", "the issuer credentialed more keys than the %d of "+
				"its certificate; no further ones were read", by.Installations)
			break
		}
		l.digests = append(l.digests, digest)
		c.keys = append(c.keys, [32]byte(e.Key))
	}
	l.Issued = len(l.digests)
	c.compare(l)
	c.logs = append(c.logs, l)
	return nil
}

func entryOf(log string, line int) string { return fmt.Sprintf("%s/%d", log, line) }

// last is the digest of the last entry; nil before the first.
func (l *issuedLog) last() []byte {
	if len(l.digests) == 0 {
		return nil
	}
	return l.digests[len(l.digests)-1][:]
}

// follows reports whether an entry is the next one.
func (l *issuedLog) follows(e *wire.Issued) bool {
	return e.Number == uint64(len(l.digests))+1 && bytes.Equal(e.Previous, l.last())
}

// compare holds a log to those of the same issuer that were read before: the shorter one must be the beginning of the
// longer one. Each entry names the one before it, so that one comparison is enough.
func (c *issued) compare(l issuedLog) {
	for _, known := range c.logs {
		n := min(len(known.digests), len(l.digests))
		if bytes.Equal(known.Key, l.Key) && n > 0 && known.digests[n-1] != l.digests[n-1] {
			c.breach(IssuedSplit, l.Log, "", "its entry %d is not the one in %s, and the issuer signed both", n,
				known.Log)
		}
	}
}

// over takes in a round that is over. A device enrols in as many epochs as its plan says, out of a period, and once in
// each.
func (c *issued) over(r *round) {
	if len(c.logs) == 0 || r.a.Round > 0 || r.mixed == nil {
		return
	}
	p := &r.a.Plan
	c.window = append(c.window, enrolledIn{r.a.Epoch, uint64(r.row.Enrolled)})
	if p.Period > 0 {
		c.window = slices.DeleteFunc(c.window, func(e enrolledIn) bool { return e.epoch+uint64(p.Period) <= r.a.Epoch })
	} else if len(c.window) > 1 { // out of all epochs: their sum is enough
		c.window[0].enrolled += c.window[1].enrolled
		c.window = c.window[:1]
	}
	sum, records := uint64(0), uint64(p.PerPerson())
	for _, e := range c.window {
		sum += e.enrolled
	}
	if least := max((sum+records-1)/records, uint64(r.row.Registered)); least > c.least {
		c.least, c.proof = least, r.mixed.statement
	}
}

// conclude compares the logs' sum with the devices that took part.
func (c *issued) conclude() {
	if len(c.logs) == 0 {
		return
	}
	slices.SortFunc(c.keys, func(a, b [32]byte) int { return bytes.Compare(a[:], b[:]) })
	known := len(slices.Compact(c.keys))
	r := c.report
	r.TookPart = &TookPart{Devices: c.least, Issued: known, Registrar: c.registrar}
	for _, l := range c.logs {
		r.Issuers = append(r.Issuers, l.Issuer)
	}
	r.note("An issuer's log is the issuer's word: it can leave out keys, or cut entries off the log's end, which " +
		"shows where more devices took part than were let in, or where an earlier copy is given, too. It says " +
		"nothing of whether a key is a person's, of when it was issued and until when it admits. The servers' logs " +
		"count devices, and do not say by which issuer they came.")
	switch {
	case c.registrar == nil && c.least > uint64(known):
		r.note("At least %d devices took part, and issuers' logs have %d keys: %d or more were let in by the "+
			"registrar itself, or are in no log that was given. Say with --registrar-devices how many the "+
			"registrar let in.",
			c.least, known, c.least-uint64(known))
	case c.registrar != nil && c.least > uint64(known) && c.least-uint64(known) > *c.registrar:
		c.wrong(DevicesUnaccounted, c.proof, "at least %d devices took part up to it; issuers' logs have %d keys, and "+
			"the registrar let in %d devices", c.least, known, *c.registrar)
	}
}
