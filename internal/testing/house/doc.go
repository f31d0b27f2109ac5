// Package house holds tests of the shape of the repository: which package may import which, that the map in
// docs/architecture.md names every room, and how long files and lines are. It has no code of its own.
package house
