"""Rows as they come: columns, data frames, streams, partitions, formulas, groups."""
