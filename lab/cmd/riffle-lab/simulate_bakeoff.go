package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/riffle-dp/riffle/internal/drive/progress"
	"github.com/riffle-dp/riffle/lab/experiment"
)

// runBakeoff runs an experiment of many worlds and shows what share of the gain each learner keeps.
func runBakeoff(ctx context.Context, cmd *cobra.Command, e *experiment.Experiment, f simulateFlags) error {
	if f.logs != "" {
		return errors.New("--logs is not for a bake-off")
	}
	shown := progress.New(cmd.ErrOrStderr(), progress.Options{})
	b, err := e.Bakeoff(ctx, experiment.Options{Folder: filepath.Join(f.out, "runs"), Workers: f.workers,
		Progress: func(runs, all int) {
			shown.Update(func(s *progress.State) { s.Phase, s.Work, s.AllWork = "simulating", runs, all })
		}})
	shown.Close()
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; finished runs are kept in %s; run the command again to continue", f.out)
	}
	if err != nil {
		return err
	}
	pictures, err := b.Save(f.out, e.Title)
	if err != nil {
		return err
	}
	if f.json {
		return b.WriteJSON(cmd.OutOrStdout())
	}
	if err := b.WriteTable(cmd.OutOrStdout(), f.markdown); err != nil {
		return err
	}
	for _, p := range pictures {
		fmt.Fprintln(cmd.OutOrStdout(), "Picture:", p)
	}
	return nil
}
