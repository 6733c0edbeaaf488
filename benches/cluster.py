"""What a build on a cluster costs: bytes and seconds of every question, on Dask or on Spark. `python benches/cluster.py dask 1000000 10 8`."""

import sys
import time

import numpy as np
import pandas as pd

import corelet


def part(rows, features, seed):
    """One partition of a logistic regression."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features))
    y = rng.random(rows) < 1 / (1 + np.exp(-x.sum(axis=1) / features**0.5))
    return pd.DataFrame({f"x{j}": x[:, j] for j in range(features)}).assign(y=y)


def measured(engine_class):
    """The same engine, which tells of each question."""

    class Measured(engine_class):
        def _timed(self, method, question, *rest):
            clock = time.perf_counter()
            answers = getattr(super(), method)(question, *rest)
            seconds, back = time.perf_counter() - clock, sum(map(len, answers))
            print(f"{method:5} {len(question):>9} bytes out, {back:>10} back, {seconds:7.3f} s", flush=True)
            return answers

        def look(self, question):
            return self._timed("look", question)

        def hold(self, plan, partitions):
            return self._timed("hold", plan, partitions)

        def ask(self, question, partitions):
            return self._timed("ask", question, partitions)

    return Measured


def on_dask(rows, features, partitions):
    import corelet.dask
    import dask.dataframe as dd
    import distributed

    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0)
    with cluster, distributed.Client(cluster) as client:
        meta = part(1, features, 0).iloc[:0]
        each = rows // partitions
        ddf = dd.from_map(part, [each] * partitions, [features] * partitions, range(partitions), meta=meta).persist()
        distributed.wait(ddf)
        with measured(corelet.dask._Dask)(ddf, client) as engine:
            yield engine, engine.schema


def on_spark(rows, features, partitions):
    import corelet.spark
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    each = rows // partitions
    columns = ", ".join(f"x{j} double" for j in range(features)) + ", y boolean"
    seeds = spark.range(partitions, numPartitions=partitions)

    def parts(batches):
        import pyarrow as pa

        for batch in batches:
            for seed in batch.to_pydict()["id"]:
                yield pa.RecordBatch.from_pandas(part(each, features, seed), preserve_index=False)

    sdf = seeds.mapInArrow(parts, columns).persist()
    sdf.count()
    with measured(corelet.spark._Spark)(sdf) as engine:
        yield engine, engine.schema.empty_table()
    spark.stop()


def main(name, rows, features, partitions):
    engines = {"dask": on_dask, "spark": on_spark}
    for engine, schema in engines[name](rows, features, partitions):
        clock = time.perf_counter()
        coreset = corelet.frames.cluster.build_on(engine, schema, dict(target="y", k=100), None, None)
        print(f"{len(coreset)} rows in {time.perf_counter() - clock:.2f} s, {coreset.quality}")
    data = pd.concat([part(rows // partitions, features, seed) for seed in range(partitions)], ignore_index=True)
    clock = time.perf_counter()
    whole = corelet.build(data, target="y", k=100)
    print(f"one machine: {time.perf_counter() - clock:.2f} s, same rows: {whole.rows.tolist() == coreset.rows.tolist()}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
