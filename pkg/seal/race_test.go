//go:build race

package seal_test

const raceDetector = true
