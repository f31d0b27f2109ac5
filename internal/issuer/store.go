package issuer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/riffle-dp/riffle/internal/journal"
	"github.com/riffle-dp/riffle/internal/keyring/keyfile"
	"github.com/riffle-dp/riffle/pkg/issuer"
	"github.com/riffle-dp/riffle/pkg/strict"
)

// Files of the state folder.
const (
	journalFile = "issued.journal" // who got what; authoritative
	logFile     = "issued.log"     // certificate and signed statements alone, for auditors: made anew at every start
)

// store keeps entries in a journal, and what they issued in a file for auditors.
type store struct {
	journal *journal.Journal
	path    string
	log     *os.File
}

// entry is an issuer.Entry in the journal.
type entry struct {
	Account []byte `json:"account"`
	Period  int64  `json:"period"`
	Key     []byte `json:"key"`
	Issued  []byte `json:"issued,omitempty"`
}

// openStore opens a state folder; certificate is the issuer's, for auditors.
func openStore(folder string, certificate []byte) (*store, error) {
	if err := keyfile.Folder(folder); err != nil {
		return nil, err
	}
	j, err := journal.Open(filepath.Join(folder, journalFile))
	if err != nil {
		return nil, err
	}
	s := &store{journal: j, path: filepath.Join(folder, logFile)}
	if s.log, err = os.OpenFile(s.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	if err := s.line(certificate); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// Load is issuer.Store's.
func (s *store) Load(f func(issuer.Entry) error) error {
	return s.journal.Replay(func(b []byte) error {
		var e entry
		if err := strict.Unmarshal(b, &e, strict.Options{}); err != nil {
			return err
		}
		one := issuer.Entry{Period: e.Period, Issued: e.Issued}
		if copy(one.Account[:], e.Account) != len(one.Account) || copy(one.Key[:], e.Key) != len(one.Key) {
			return errors.New("an account or a key of another length")
		}
		if err := f(one); err != nil {
			return err
		}
		return s.tell(one)
	})
}

// Append is issuer.Store's.
func (s *store) Append(e issuer.Entry) error {
	b, err := json.Marshal(entry{e.Account[:], e.Period, e.Key[:], e.Issued})
	if err != nil {
		return err
	}
	if err := s.journal.Append(b)(); err != nil {
		return err
	}
	return s.tell(e)
}

// tell appends an entry to the file for auditors.
func (s *store) tell(e issuer.Entry) error {
	if e.Issued == nil {
		return nil
	}
	return s.line(e.Issued)
}

// line appends a signed statement to the file for auditors.
func (s *store) line(signed []byte) error {
	if _, err := fmt.Fprintln(s.log, base64.StdEncoding.EncodeToString(signed)); err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	return nil
}

func (s *store) close() error { return errors.Join(s.log.Close(), s.journal.Close()) }
