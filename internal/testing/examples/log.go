package examples

import (
	"errors"
	"strings"

	"github.com/riffle-dp/riffle/internal/population/decisions"
)

// log holds that a log of decisions is read.
func (e *Examiner) log(b block) (err error) {
	var o decisions.Options
	if b.about != "" {
		if o.Columns, err = decisions.ParseColumns(strings.Split(b.about, ",")); err != nil {
			return err
		}
	}
	if !strings.Contains(b.text, "[[") {
		o.Schema = e.schema
	}
	log, err := decisions.Read(strings.NewReader(b.text), o)
	if err == nil && len(log.Decisions) == 0 {
		err = errors.New("it has no decision")
	}
	return err
}
