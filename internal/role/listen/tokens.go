package listen

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// Errors of Tokens.Check.
var (
	// ErrNoToken says that a request bears none of the tokens.
	ErrNoToken = errors.New("the request bears no token of this process: send the header Authorization: Bearer TOKEN")
	// ErrTokens says that the file of tokens cannot be used now, so that no request is served.
	ErrTokens = errors.New("the file of tokens cannot be used now; the log of this process says why")
)

// Tokens are the bearer tokens of one file (RFC 6750), each with a name. The file is read again when it changes; while
// it cannot be used nobody is let in. Safe for concurrent use.
//
//	# the backend in front, from the vault
//	backend 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
type Tokens struct {
	file *watched[map[string][sha256.Size]byte]
}

// OpenTokens reads a file of tokens, and refuses one with faults. heard is told of later changes: nil where the file
// can be used again, else why it cannot, without anything of a token.
func OpenTokens(path string, heard func(error)) (*Tokens, error) {
	t := &Tokens{&watched[map[string][sha256.Size]byte]{
		files: []file{{path, true}}, heard: heard,
		parse: func(contents [][]byte) (map[string][sha256.Size]byte, error) {
			all, err := ParseTokens(contents[0])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			return all, nil
		},
	}}
	_, err := t.file.get()
	return t, err
}

var (
	tokenName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	// token is RFC 6750's b64token, long enough that none can be guessed.
	token = regexp.MustCompile(`^[A-Za-z0-9._~+/-]{32,512}=*$`)
)

// ParseTokens reads a file of tokens: lines of a name and a token, empty ones, and comments behind #. It returns the
// hash of each token by its name. Errors say the line, and nothing of a token.
func ParseTokens(text []byte) (map[string][sha256.Size]byte, error) {
	all, seen := map[string][sha256.Size]byte{}, map[[sha256.Size]byte]bool{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		wrong := func(what string) error { return fmt.Errorf("line %d: %s", n, what) }
		switch {
		case len(fields) != 2:
			return nil, wrong("want a name and a token")
		case !tokenName.MatchString(fields[0]):
			return nil, wrong("a name has up to 64 letters, digits, dots, dashes and underscores")
		case !token.MatchString(fields[1]):
			return nil, wrong("a token has 32 to 512 of the characters A-Z a-z 0-9 - . _ ~ + /: make one with " +
				"openssl rand -hex 32")
		}
		hash := sha256.Sum256([]byte(fields[1]))
		if _, twice := all[fields[0]]; twice || seen[hash] {
			return nil, wrong("the name or the token is in the file twice")
		}
		all[fields[0]], seen[hash] = hash, true
	}
	if err := lines.Err(); err != nil {
		return nil, errors.New("a line is too long")
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no token")
	}
	return all, nil
}

// Check lets a request in that bears one of the tokens, in one Authorization header. It takes as long for every token
// that is presented.
func (t *Tokens) Check(r *http.Request) error {
	all, err := t.file.get()
	if err != nil {
		return ErrTokens
	}
	said := r.Header.Values("Authorization")
	if len(said) != 1 {
		return ErrNoToken
	}
	scheme, presented, _ := strings.Cut(said[0], " ")
	hash, known := sha256.Sum256([]byte(presented)), 0
	for _, one := range all {
		known |= subtle.ConstantTimeCompare(hash[:], one[:])
	}
	if known == 0 || !strings.EqualFold(scheme, "Bearer") {
		return ErrNoToken
	}
	return nil
}
