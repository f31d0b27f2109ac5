package audit

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/internal/bus"
	"github.com/riffle-dp/riffle/internal/keyring"
)

// roundID names a round.
type roundID struct {
	epoch uint64
	round uint32
}

// checkCertificates verifies an export's certificates, and hands the view of each that verifies to f: its checkpoints
// must be of the same logs. Errors: the disk's.
func checkCertificates(ctx context.Context, found *findings, d *Folder, trust keyring.Bundle, f func(*View)) error {
	err := d.Certificates(ctx, func(name string, b []byte) error {
		file, err := certificate.Decode(b)
		if err != nil {
			found.breach(CertificateWrong, name, "", "%v", err)
			return nil
		}
		s, err := certificate.Verify(file, trust)
		if err != nil {
			found.breach(CertificateWrong, name, "", "%v", err)
			return nil
		}
		if of := CertificateFile(s.Epoch); of != name {
			found.breach(CertificateWrong, name, "", "it is the certificate of epoch %d, whose name is %s", s.Epoch, of)
			return nil
		}
		f(&View{Name: name, Checkpoints: map[bus.Role][]byte{
			bus.Analyzer: []byte(file.Analyzer.Checkpoint), bus.Shuffler: []byte(file.Shuffler.Checkpoint),
		}})
		return nil
	})
	if errors.Is(err, ErrFolder) {
		found.breach(CertificateWrong, certificates, "", "one cannot be read, so that those after it were not looked "+
			"at: %v", err)
		return nil
	}
	return err
}

// checkFiles names the files of an export that nothing signed covers: known reports of which rounds the retained chunks
// were held to a manifest. Errors: the disk's.
func checkFiles(found *findings, d *Folder, trust keyring.Bundle, known func(roundID) bool) error {
	checkBundle(found, d, trust)
	names, err := d.Stray()
	if err != nil {
		return err
	}
	for _, name := range names {
		found.breach(Uncovered, name, "", "an export has no file of this name: no signature and no digest covers it")
	}
	return d.RetainedRounds(func(epoch uint64, round uint32) error {
		if !known(roundID{epoch, round}) {
			found.breach(Uncovered, "retained", place(epoch, round), "chunks are retained of a round of which there "+
				"is no manifest")
		}
		return nil
	})
}

// checkBundle holds the keys in an export to those that are trusted: whoever reads the export next may trust the ones
// in it.
func checkBundle(found *findings, d *Folder, trust keyring.Bundle) {
	switch own, err := d.Bundle(); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		found.breach(Uncovered, keyring.BundleFile, "", "the keys cannot be read: %v", err)
	case own.Deployment != trust.Deployment || !bytes.Equal(own.Analyzer, trust.Analyzer) ||
		!bytes.Equal(own.Shuffler, trust.Shuffler) || !bytes.Equal(own.Registrar, trust.Registrar):
		found.breach(Uncovered, keyring.BundleFile, "", "its deployment and keys are not those that are trusted")
	}
}
