package randomizer

import (
	"net/http"
	"strings"
	"testing"

	"github.com/riffle-dp/riffle/internal/testing/testbed"
	"github.com/riffle-dp/riffle/pkg/glm"
	"github.com/riffle-dp/riffle/pkg/glm/learner"
	"github.com/riffle-dp/riffle/pkg/glm/structure"
)

// An app whose arms do not fit the announced structure is told so, without a value of them; the person has taken part,
// and the device reports all the same.
func TestArmsThatDoNotFitTheAnnouncedStructure(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.start()
	config := testbed.Learner(glm.Practical, 12)
	config.Structure = structure.Options(2, 1)
	l, err := learner.New(config)
	if err != nil {
		t.Fatal(err)
	}
	step := l.Next()
	step.Cohort = 12
	s.open(s.Draw(step, testbed.Terms(), 1, nil))
	status, answer := s.post("/v1/devices/a/decisions", `{"arms": [[0.5, 0], [0.123456, 0.123456]]}`)
	detail, _ := answer["detail"].(string)
	if status != http.StatusUnprocessableEntity || answer["reason"] != "bad_arms" ||
		!strings.Contains(detail, "arm 1 does not fit the announced structure") || strings.Contains(detail, "123456") {
		t.Errorf("%d %v", status, answer)
	}
	if status, answer := s.post("/v1/devices/b/decisions", `{"arms": [[0.5, 0], [0, 0.123456]]}`); status != 200 ||
		answer["sampled"] != true {
		t.Errorf("arms that fit: %d %v", status, answer)
	}
	s.reports(2)
}
