package examples

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// shellCommands splits a shell script into commands and their words, without variables that are set for one command. It
// knows comments, quotes, continued lines and the separators ; & && | || of the shell's language.
func shellCommands(script string) (commands [][]string) {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	endWord := func() {
		if inWord && (len(words) > 0 || !variable.MatchString(word.String())) {
			words = append(words, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		if endWord(); len(words) > 0 {
			commands = append(commands, words)
		}
		words = nil
	}
	comment := false
	for _, c := range strings.ReplaceAll(script, "\\\n", " ") {
		switch {
		case comment:
			if comment = c != '\n'; !comment {
				endCommand()
			}
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == '#' && !inWord:
			comment = true
		case c == ' ' || c == '\t':
			endWord()
		case strings.ContainsRune("\n;&|", c):
			endCommand()
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	endCommand()
	return commands
}

var variable = regexp.MustCompile(`^[A-Z_]+=`)

// program is the command tree behind a program's name or path; nil where the examiner has none.
func (e *Examiner) program(name string) *cobra.Command {
	if tree := e.programs[path.Base(name)]; tree != nil {
		return tree()
	}
	return nil
}

// elsewhere reports whether a program's name or path is one whose examples another test checks.
func (e *Examiner) elsewhere(name string) bool { return slices.Contains(e.Elsewhere, path.Base(name)) }

// command holds that a command of a script is one that a reader can run.
func (e *Examiner) command(words []string) error {
	name, args := words[0], words[1:]
	if tree := e.program(name); tree != nil {
		return parseCommand(tree, args)
	}
	switch {
	case e.elsewhere(name):
		return nil
	case name == "go":
		return e.goCommand(args)
	case name == "curl":
		return e.curl(args)
	case name == "cd" && len(args) == 1:
		return e.exists(args[0])
	case name == "kubectl" && len(args) == 3 && args[0] == "apply" && args[1] == "-k":
		return e.exists(args[2] + "/kustomization.yaml")
	case strings.Contains(name, "/"):
		return e.script(name, args)
	}
	return errors.New("this program is unknown")
}

// parseCommand holds that a command line has flags, values and arguments that its command takes. It runs nothing.
func parseCommand(tree *cobra.Command, args []string) error {
	cmd, rest, err := tree.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// goCommand holds that the packages of a go command are there, and that its -run names tests or benchmarks that are.
func (e *Examiner) goCommand(args []string) error {
	if len(args) > 0 && args[0] == "version" {
		return nil
	}
	if len(args) == 2 && args[0] == "install" {
		folder, _, _ := strings.Cut(strings.TrimPrefix(args[1], "github.com/riffle-dp/riffle/"), "@")
		return e.exists(folder + "/main.go")
	}
	if len(args) == 0 || !slices.Contains([]string{"run", "build", "test", "vet", "generate"}, args[0]) {
		return fmt.Errorf("go %v is not known here", args)
	}
	var declared []string
	for i, arg := range args {
		if tree := e.program(arg); tree != nil && args[0] == "run" {
			return parseCommand(tree, args[i+1:])
		}
		if !strings.HasPrefix(arg, "./") {
			continue
		}
		folder := strings.TrimSuffix(strings.TrimSuffix(arg, "..."), "/")
		files, err := filepath.Glob(filepath.Join(e.Root, folder, "*.go"))
		if _, missing := os.Stat(filepath.Join(e.Root, folder)); missing != nil || err != nil {
			return fmt.Errorf("%s is not there", arg)
		}
		if len(files) == 0 && !strings.HasSuffix(arg, "...") {
			return fmt.Errorf("%s holds no package", arg)
		}
		names, err := declaredIn(files, testName)
		if err != nil {
			return err
		}
		declared = append(declared, names...)
	}
	for _, flag := range []string{"-run", "-fuzz"} {
		i := slices.Index(args, flag)
		if i < 0 || i+1 >= len(args) || args[i+1] == "xxx" { // -run xxx leaves out all tests, for benchmarks
			continue
		}
		pattern, err := regexp.Compile(args[i+1])
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(declared, pattern.MatchString) {
			return fmt.Errorf("no test is called as %s %s says", flag, args[i+1])
		}
	}
	return nil
}

var (
	testName   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	symbolName = regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |var |const |\t)([A-Z]\w*)\b`)
)

// declaredIn finds the names of a pattern's first group in files.
func declaredIn(files []string, pattern *regexp.Regexp) (names []string, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range pattern.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names, nil
}

// script holds that a script of the repository exists, can be executed and has the options that it is given. The script
// deploy/compose passes its arguments to docker-compose.
func (e *Examiner) script(name string, args []string) error {
	file := filepath.Join(e.Root, name)
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is no script", name)
	}
	text, err := os.ReadFile(file)
	for _, arg := range args {
		option := regexp.MustCompile(`(--|")` + regexp.QuoteMeta(strings.TrimPrefix(arg, "--")) + `\b`)
		if strings.HasPrefix(arg, "--") && path.Base(name) != "compose" && !option.Match(text) {
			return fmt.Errorf("%s does not know %s", name, arg)
		}
	}
	return err
}

// apiRoute finds the routes of the randomizer's API in its source.
var apiRoute = regexp.MustCompile(`HandleFunc\("(GET|POST|PUT|DELETE) (/v1/[^"]+)"`)

// curl holds that a request to the randomizer's API has a path of the API, and the body that belongs to it.
func (e *Examiner) curl(args []string) error {
	method, body, url := "GET", "", ""
	for i, arg := range args {
		switch {
		case arg == "-d" && i+1 < len(args):
			method, body = "POST", args[i+1]
		case arg == "-X" && i+1 < len(args):
			method = args[i+1]
		case strings.Contains(arg, "/v1/"):
			url = arg[strings.Index(arg, "/v1/"):]
		}
	}
	files, err := filepath.Glob(filepath.Join(e.Root, "internal", "randomizer", "api", "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, m := range apiRoute.FindAllSubmatch(text, -1) {
			route := strings.Replace(string(m[2]), "{device}", "*", 1)
			if is, err := path.Match(route, url); err != nil || !is || method != string(m[1]) {
				continue
			}
			if body == "" && method != "POST" {
				return nil
			}
			return decodeJSON(strings.TrimSuffix(path.Base(route), "s")+"-request", body)
		}
	}
	return fmt.Errorf("%s %q is not part of the API", method, url)
}

func (e *Examiner) exists(name string) error {
	_, err := os.Stat(filepath.Join(e.Root, name))
	return err
}

// declares holds that a package declares a name.
func (e *Examiner) declares(folder, name string) error {
	files, err := filepath.Glob(filepath.Join(e.Root, folder, "*.go"))
	if err != nil {
		return err
	}
	names, err := declaredIn(files, symbolName)
	if err == nil && !slices.Contains(names, name) {
		err = fmt.Errorf("%s declares no %s", folder, name)
	}
	return err
}

var (
	configKey  = regexp.MustCompile(`^[a-z_]+(\.[a-z_]+)+$`)
	repository = regexp.MustCompile(`^(cmd|deploy|docs|internal|lab|messages|pkg|\.ci)(/[\w.-]+)+$`)
	madeLater  = regexp.MustCompile(`^deploy/run(/|$)`) // by deploy/up, and not in the repository
	symbol     = regexp.MustCompile(`^([\w/]+)\.([A-Z]\w*)$`)
	longFlag   = regexp.MustCompile(`^--([a-z][a-z-]*)`)
)

// span holds that the commands, flags, configuration keys and files that a text names exist. Values are often
// placeholders there, and are not examined.
func (e *Examiner) span(text string) error {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil
	}
	section, _, _ := strings.Cut(words[0], ".")
	switch tree := e.program(words[0]); {
	case tree != nil && len(words) > 1 && !strings.HasPrefix(words[0], "riffle/"): // riffle/shuffler is an image
		return spanCommand(tree, words[1:])
	case words[0] == "go" && len(words) > 2:
		return e.goCommand(shellCommands(text)[0][1:])
	case longFlag.MatchString(words[0]):
		if name := longFlag.FindStringSubmatch(words[0])[1]; !e.flags[name] {
			return errors.New("no command has this flag")
		}
	case len(words) == 1 && configKey.MatchString(text) && e.keys[section]:
		if !e.keys[text] {
			return errors.New("no role has this key")
		}
	case repository.MatchString(words[0]) && !madeLater.MatchString(words[0]):
		if m := symbol.FindStringSubmatch(words[0]); m != nil {
			return e.declares(m[1], m[2])
		}
		return e.exists(words[0])
	}
	return nil
}

// spanCommand holds that a command and its flags exist.
func spanCommand(tree *cobra.Command, args []string) error {
	cmd, _, err := tree.Find(args)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	for _, arg := range args {
		if m := longFlag.FindStringSubmatch(arg); m != nil && cmd.Flag(m[1]) == nil {
			return fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), m[1])
		}
	}
	return nil
}

// collectFlags adds the names of all flags of a command and of those below it.
func collectFlags(cmd *cobra.Command, flags map[string]bool) {
	cmd.InitDefaultHelpFlag()
	cmd.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
	for _, c := range cmd.Commands() {
		collectFlags(c, flags)
	}
}

// collectKeys adds the keys of a role's configuration and their sections.
func collectKeys(cmd *cobra.Command, keys map[string]bool) error {
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--print-config"})
	if err := cmd.Execute(); err != nil {
		return err
	}
	var tree map[string]any
	if err := yaml.Unmarshal(out.Bytes(), &tree); err != nil {
		return err
	}
	var add func(prefix string, tree map[string]any)
	add = func(prefix string, tree map[string]any) {
		for key, value := range tree {
			keys[prefix+key] = true
			if below, is := value.(map[string]any); is {
				add(prefix+key+".", below)
			}
		}
	}
	add("", tree)
	return nil
}
