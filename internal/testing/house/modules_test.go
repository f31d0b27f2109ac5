package house

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxModules is how many modules Riffle may require directly.
const maxModules = 24

// docs/development.md says of every module that Riffle requires directly why.
func TestEveryModuleHasItsReason(t *testing.T) {
	c := exec.Command("go", "list", "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	c.Dir = root
	list, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	required := strings.Fields(string(list))
	page, err := os.ReadFile(root + "/docs/development.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Modules\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var explained []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\|$").FindAllStringSubmatch(section, -1) {
		explained = append(explained, m[1])
	}
	slices.Sort(required)
	slices.Sort(explained)
	if !slices.Equal(required, explained) || len(required) > maxModules {
		t.Errorf("go.mod requires %d modules, at most %d:\n%s\ndocs/development.md explains:\n%s", len(required),
			maxModules, strings.Join(required, "\n"), strings.Join(explained, "\n"))
	}
}
