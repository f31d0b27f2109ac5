//go:build !linux && !darwin

package container

import "errors"

func free(string) (uint64, error) { return 0, errors.ErrUnsupported }
