"""A Parquet file for a logistic regression of many parameters: python wide_logistic.py ROWS PARAMETERS FILE."""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BLOCK = 10_000


def main(rows: int, parameters: int, path: str) -> None:
    """Standard normal features in f32 and labels whose predictor has a standard deviation of one; the intercept is the design's."""
    random, features = np.random.default_rng(1), parameters - 1
    theta = np.where(np.arange(features) % 2 == 0, 1.0, -1.0) / np.sqrt(features)
    names = [*(f"x{j + 1}" for j in range(features)), "y"]
    schema = pa.schema([(name, pa.float32()) for name in names[:-1]] + [("y", pa.int8())])
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for start in range(0, rows, BLOCK):
            x = random.standard_normal((min(BLOCK, rows - start), features), dtype=np.float32)
            y = (random.random(len(x)) < 1 / (1 + np.exp(-(x @ theta)))).astype(np.int8)
            columns = [pa.array(column) for column in x.T.copy()] + [pa.array(y)]
            writer.write_table(pa.table(columns, schema=schema))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
