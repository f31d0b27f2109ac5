package analyzer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/pkg/deployment"
	"github.com/riffle-dp/riffle/pkg/glm/statistic"
)

// question puts one into a folder.
func (s *scene) question(folder, file string, kind statistic.Kind, name string, of ...statistic.Quantity) {
	s.t.Helper()
	text, err := deployment.QuestionFile(kind, &statistic.Question{Name: name, Of: of})
	s.must(err)
	s.must(os.WriteFile(filepath.Join(folder, file), text, 0o600))
}

// Questions are asked in the order of their files, each once, and what cannot be asked is passed over. A restart asks
// what it asked before, from the log, whatever lies in the folder by then, and the epochs after it teach the learner.
func TestQuestionsAreAskedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	s := newPanelScene(t)
	folder := t.TempDir()
	first := statistic.Quantity{Entries: []int{0}, Low: -1, High: 1}
	s.must(os.WriteFile(filepath.Join(folder, "1-junk.json"), []byte("{}"), 0o600))
	s.must(os.WriteFile(filepath.Join(folder, "1-huge.json"), make([]byte, deployment.MaxQuestionFile+1), 0o600))
	s.must(os.WriteFile(filepath.Join(folder, "0.part"), []byte("not whole yet"), 0o600))
	s.question(folder, "2-far.json", statistic.Mean, "far", statistic.Quantity{Entries: []int{9}, High: 1})
	s.question(folder, "3-first.json", statistic.Mean, "first", first)
	s.question(folder, "4-first.json", statistic.Histogram, "first", first)
	s.question(folder, "5-second.json", statistic.Histogram, "second", first)
	s.config.Questions = QuestionsIn(folder)
	s.start()
	for epoch, want := range []struct {
		name string
		kind statistic.Kind
	}{{"first", statistic.Mean}, {"second", statistic.Histogram}, {}} {
		a, digest := s.announcement(uint64(epoch+1), 0)
		if kind := a.Plan.AskedKind(); kind != want.kind || (a.Question == nil) != (want.name == "") ||
			want.name != "" && a.Question.Name != want.name {
			t.Fatalf("epoch %d asks %+v for %q", epoch+1, a.Question, kind)
		}
		if epoch == 0 {
			s.must(s.stop())
			s.must(os.RemoveAll(folder))
			s.start() // before it was counted
		}
		if epoch == 1 {
			s.must(s.stop())
			s.start()
		}
		s.draw(a, digest, s.logPool(a, digest))
		r, ones := s.honest(a, digest, cohort)
		if epoch == 0 { // in time for the next epoch
			s.must(os.Mkdir(folder, 0o700))
			s.question(folder, "0-second.json", statistic.Histogram, "second", first)
		}
		s.publish(r)
		if c := s.counts(a.Epoch, 0); !sameOnes(c, ones) {
			t.Errorf("epoch %d: counted %+v", a.Epoch, c)
		}
	}
	s.announcement(4, 0)
	s.must(s.stop())
	if p := s.analyzer.Progress(); len(p.Learned) != 1 || p.Learned[0].Epoch != 3 || len(p.Releases) != 3 {
		t.Errorf("learned %+v of %d releases", p.Learned, len(p.Releases))
	}
	answers := s.analyzer.Snapshot().Answers // of before the restarts, too
	if len(answers) != 2 || answers[0].Name != "first" || answers[1].Name != "second" || answers[1].Epoch != 2 ||
		answers[0].Reports != cohort || len(answers[1].Values) != 2 {
		t.Errorf("shown answers: %+v", answers)
	}
}

// A question whose reports the broker would not store is not asked.
func TestAQuestionOfLargeReportsIsNotAsked(t *testing.T) {
	s := newPanelScene(t)
	s.config.MaxReport = 10
	z, err := New(s.config)
	s.must(err)
	text, err := deployment.QuestionFile(statistic.Mean, &statistic.Question{Name: "a",
		Of: []statistic.Quantity{{Low: 0, High: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.hand(Waiting{Text: text}); err == nil || !strings.Contains(err.Error(), "max_report_size") {
		t.Error(err)
	}
}
