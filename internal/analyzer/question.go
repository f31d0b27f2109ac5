package analyzer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
	"github.com/riffle-dp/riffle/pkg/wire"
)

// Waiting is a question that waits to be asked, as it was handed in.
type Waiting struct {
	From string // where it lies
	Text []byte // deployment.QuestionFile
}

// Questions lists the questions that wait to be asked, in their order. Those that were asked may still be among them.
type Questions func() ([]Waiting, error)

// questionFile is the end of a question's file name.
const questionFile = ".json"

// QuestionsIn are the files of a folder, by name. None has to be removed once it was asked: the log says which were.
func QuestionsIn(folder string) Questions {
	return func() (all []Waiting, err error) {
		files, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if f.IsDir() || !strings.HasSuffix(f.Name(), questionFile) {
				continue
			}
			path := filepath.Join(folder, f.Name())
			if info, err := f.Info(); err != nil || info.Size() > deployment.MaxQuestionFile {
				all = append(all, Waiting{From: path}) // which no question is
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			all = append(all, Waiting{path, text})
		}
		return all, nil
	}
}

// ask gives the machine the question of the epoch that is announced next, if it asks one. An epoch that was announced
// before, to the log or to devices, asks what it asked then. Any other asks the first question that waits and was not
// asked, once the epoch's turn has come.
func (z *Analyzer) ask(ctx context.Context, past *past) error {
	if !z.machine.Begins() {
		return nil
	}
	epoch, _ := z.machine.Position()
	at := roundID{epoch, 0}
	before, known := past.history.announced[at]
	if !known {
		before, known = past.announced[at]
	}
	if known {
		if before.asks == nil {
			return nil
		}
		if err := z.machine.Ask(before.kind, before.asks); err != nil {
			return fmt.Errorf("%w: the question of epoch %d: %w", ErrConfigChanged, epoch, err)
		}
		return nil
	}
	if z.c.Questions == nil {
		return nil
	}
	if err := z.awaitTurn(ctx, &past.history, epoch); err != nil {
		return err
	}
	waiting, err := z.c.Questions()
	if err != nil {
		z.c.Log.Warn().Err(err).Msg("the folder of questions cannot be read: none is asked in this epoch")
		return nil
	}
	for _, w := range waiting {
		q, err := z.hand(w)
		switch {
		case errors.Is(err, deployment.ErrAsked):
		case errors.Is(err, deployment.ErrQuestion):
			if !z.refused[w.From] {
				z.refused[w.From] = true
				z.c.Log.Error().Err(err).Str("file", w.From).Msg("a question is not asked: correct or remove its file")
			}
		case err != nil:
			return err
		default:
			z.c.Log.Info().Uint64("epoch", epoch).Str("question", q.Name).Msg("a question is asked")
			return nil
		}
	}
	return nil
}

// hand gives a question to the machine, unless its reports are larger than the broker stores.
func (z *Analyzer) hand(w Waiting) (*statistic.Question, error) {
	kind, q, err := deployment.ReadQuestion(w.Text)
	if err != nil {
		return nil, err
	}
	_, payload, err := z.machine.Asking(kind, q)
	if err != nil {
		return nil, err
	}
	if size := wire.EnvelopeSize(payload); z.c.MaxReport > 0 && size > z.c.MaxReport {
		return nil, fmt.Errorf("%w: a report would have %d bytes, and the broker stores at most %d "+
			"(max_report_size): ask for fewer numbers", deployment.ErrQuestion, size, z.c.MaxReport)
	}
	return q, z.machine.Ask(kind, q)
}
