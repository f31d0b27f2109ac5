// Module vet vets for a platform that nothing is compiled for. It is a module of its own, so that builds and imports of
// Riffle do not download the checks of go vet for it.
module github.com/riffle-dp/riffle/internal/testing/vet

go 1.26.0

require golang.org/x/tools v0.51.0

require (
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
)
