package joint

import (
	"github.com/riffle-dp/riffle/pkg/learn"
	"github.com/riffle-dp/riffle/pkg/protocol"
)

// NewLearner is Algorithm 2 as a learner over records, one person at a time, as the paper has it. Setting.Variant is
// Sound (also ""), Proof or Literal; Setting.Noise is where its noise comes from.
func NewLearner(s learn.Setting) (*learn.Learner, error) {
	c, err := Resolve(s, 1)
	if err != nil {
		return nil, err
	}
	return learn.Start(c.program(s.Noise))
}

func (c Config) program(src protocol.Source) learn.Program {
	return func(ask func(learn.Policy, learn.Question) (learn.Answer, error)) (learn.Policy, error) {
		curator := NewCurator(c, src)
		for left := c.Horizon; left > 0; left -= c.Batch {
			p, err := c.Policy(curator.State())
			if err != nil {
				return nil, err
			}
			answer, err := ask(learn.Data{Policy: p}, learn.Question{Form: learn.Records, People: min(c.Batch, left)})
			if err != nil {
				return nil, err
			}
			if _, err := curator.Absorb(answer.Records); err != nil {
				return nil, err
			}
		}
		p, err := c.Policy(curator.State())
		return learn.Data{Policy: p}, err
	}
}
