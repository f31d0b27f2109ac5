package seal

import "crypto/rand"

// SecretSize is the size in bytes of what Secret returns.
const SecretSize = 32

// Secret returns new bytes of the system's generator, for a key of one holder's own.
func Secret() []byte {
	b := make([]byte, SecretSize)
	rand.Read(b)
	return b
}
