"""Runs a plan over all rows of a folder of Parquet files, by Ray Data, on as many workers of a cluster as are wanted.

    pip install "ray[data]" hypatia
    python3 offline.py digits.bin images/ answers/ --workers 2

Columns that are called as the plan's inputs are what it reads; the rows that are written have one more for each output. Rows of the plan have to be
independent of each other (`hypatia triton` says whether they are). Rows are read, computed and written as a stream: neither a worker nor the cluster
holds all of them.
"""
import argparse
import os

import hypatia
import numpy as np
import ray

DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "bool": np.bool_}


class Worker:
    """A process with a plan of its own, on a core of some machine."""

    def __init__(self, plan: bytes):
        self.plan = hypatia.Plan.from_bytes(plan, device="cpu", threads=1)  # device="cuda" with num_gpus=1 below

    def __call__(self, batch):
        inputs = {value.name: np.ascontiguousarray(np.stack(batch[value.name]), DTYPES[value.dtype]) for value in self.plan.inputs}
        return {**batch, **self.plan.run(inputs)}


def predict(plan, folder, workers, rows, worker=Worker):
    """A data set with the columns of outputs; nothing is computed before it is read."""
    with open(plan, "rb") as file:
        data = file.read()  # the bytes: workers elsewhere have no such file
    pool = ray.data.ActorPoolStrategy(size=workers)
    blocks = ray.data.read_parquet(folder).repartition(target_num_rows_per_block=rows)  # what is small would be one block, for one worker
    return blocks.map_batches(worker, fn_constructor_args=[data], compute=pool, batch_size=rows, num_cpus=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan")
    parser.add_argument("folder", help="of Parquet files")
    parser.add_argument("output", help="folder that Parquet files are written to")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rows", type=int, default=8192, help="of a run, and of a block that a worker is given")
    options = parser.parse_args()
    predict(options.plan, options.folder, options.workers, options.rows).write_parquet(os.path.abspath(options.output))


if __name__ == "__main__":
    main()
