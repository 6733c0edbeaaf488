"""What a user gets: coresets, draws, verdicts, predictions."""
