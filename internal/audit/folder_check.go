package audit

import (
	"bytes"
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

// certified verifies an export's certificates. Their checkpoints must be of the same logs.
func (c *checker) certified(d *Folder) error {
	err := d.Certificates(c.ctx, func(name string, b []byte) error {
		f, err := certificate.Decode(b)
		if err != nil {
			c.breach(CertificateWrong, name, "", "%v", err)
			return nil
		}
		s, err := certificate.Verify(f, c.o.Trust)
		if err != nil {
			c.breach(CertificateWrong, name, "", "%v", err)
			return nil
		}
		if of := CertificateFile(s.Epoch); of != name {
			c.breach(CertificateWrong, name, "", "it is the certificate of epoch %d, whose name is %s", s.Epoch, of)
			return nil
		}
		v := &View{Name: name, Checkpoints: map[bus.Role][]byte{
			bus.Analyzer: []byte(f.Analyzer.Checkpoint), bus.Shuffler: []byte(f.Shuffler.Checkpoint),
		}}
		c.analyzer.checkpoint(v.Checkpoints[bus.Analyzer], name, v)
		c.shuffler.checkpoint(v.Checkpoints[bus.Shuffler], name, v)
		return nil
	})
	if errors.Is(err, ErrFolder) {
		c.breach(CertificateWrong, certificates, "", "one cannot be read, so that those after it were not looked at: "+
			"%v", err)
		return nil
	}
	return err
}

// bundled holds the keys that lie in an export against those that are trusted: whoever reads the export next may trust
// the ones that lie there.
func (c *checker) bundled(d *Folder) {
	switch own, err := d.Bundle(); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		c.breach(Uncovered, keyring.BundleFile, "", "the keys cannot be read: %v", err)
	case own.Deployment != c.o.Trust.Deployment || !bytes.Equal(own.Analyzer, c.o.Trust.Analyzer) ||
		!bytes.Equal(own.Shuffler, c.o.Trust.Shuffler) || !bytes.Equal(own.Registrar, c.o.Trust.Registrar):
		c.breach(Uncovered, keyring.BundleFile, "", "its deployment and keys are not those that are trusted")
	}
}

// stray names the files of an export that nothing signed covers.
func (c *checker) stray(d *Folder) error {
	c.bundled(d)
	names, err := d.Stray()
	if err != nil {
		return err
	}
	for _, name := range names {
		c.breach(Uncovered, name, "", "an export has no file of this name: no signature and no digest covers it")
	}
	return d.RetainedRounds(func(epoch uint64, round uint32) error {
		if !c.opened[roundID{epoch, round}] {
			c.breach(Uncovered, "retained", place(epoch, round), "chunks are retained of a round of which there is "+
				"no manifest")
		}
		return nil
	})
}
