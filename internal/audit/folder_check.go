package audit

import (
	"github.com/riffle-dp/riffle/internal/audit/certificate"
	"github.com/riffle-dp/riffle/internal/bus"
)

// roundID names a round.
type roundID struct {
	epoch uint64
	round uint32
}

// certified verifies an export's certificates. Their checkpoints must be of the same logs.
func (c *checker) certified(d *Folder) error {
	return d.Certificates(c.ctx, func(name string, b []byte) error {
		f, err := certificate.Decode(b)
		if err != nil {
			c.breach(CertificateWrong, name, "", "%v", err)
			return nil
		}
		if _, err := certificate.Verify(f, c.o.Trust); err != nil {
			c.breach(CertificateWrong, name, "", "%v", err)
			return nil
		}
		v := &View{Name: name, Checkpoints: map[bus.Role][]byte{
			bus.Analyzer: []byte(f.Analyzer.Checkpoint), bus.Shuffler: []byte(f.Shuffler.Checkpoint),
		}}
		c.analyzer.checkpoint(v.Checkpoints[bus.Analyzer], name, v)
		c.shuffler.checkpoint(v.Checkpoints[bus.Shuffler], name, v)
		return nil
	})
}

// stray names the files of an export that nothing signed covers.
func (c *checker) stray(d *Folder) error {
	names, err := d.Stray()
	if err != nil {
		return err
	}
	for _, name := range names {
		c.breach(Uncovered, name, "", "an export has no file of this name: no signature and no digest covers it")
	}
	return d.RetainedRounds(func(epoch uint64, round uint32) error {
		if !c.opened[roundID{epoch, round}] {
			c.breach(Uncovered, "retained", place(epoch, round), "chunks are retained of a round of which there is no manifest")
		}
		return nil
	})
}
