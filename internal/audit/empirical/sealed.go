package empirical

import "context"

func (g *game) compare(ctx context.Context, runs int) error { return nil }
