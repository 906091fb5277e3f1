"""A plan behind HTTP on a Ray cluster, by Ray Serve: requests are joined to batches, and replicas come and go with the load.

    pip install "ray[serve]" hypatia
    serve run online:app plan=digits.bin
    curl localhost:8000 -d '{"image": [0, 0, 5, ...]}'

A request is a JSON object with one row of every input of the plan, by its name; the answer has the row of every output. Rows of the plan have
to be independent of each other (`hypatia triton` says whether they are), and their sizes fixed.
"""
import asyncio

import hypatia
import numpy as np
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

MOST_ROWS = 64
DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "bool": np.bool_}


@serve.deployment(
    ray_actor_options={"num_cpus": 1},  # for GPUs "num_gpus": 1, and device="cuda" below
    max_ongoing_requests=4 * MOST_ROWS,
    max_queued_requests=1000,  # what is beyond is answered with 503
    autoscaling_config={"min_replicas": 1, "max_replicas": 4, "target_ongoing_requests": MOST_ROWS // 2, "upscale_delay_s": 2, "downscale_delay_s": 60},
)
class Model:
    def __init__(self, plan: bytes):
        self.plan = hypatia.Plan.from_bytes(plan, device="cpu", threads=1)
        self.inputs = {value.name: (DTYPES[value.dtype], value.shape[1:]) for value in self.plan.inputs}

    def read_row(self, values):
        """The row of a request, checked before it meets others, which it is not to spoil."""
        if not isinstance(values, dict) or set(values) != set(self.inputs):
            raise ValueError(f"wanted an object with {', '.join(self.inputs)}")
        row = {name: np.asarray(values[name], dtype) for name, (dtype, _) in self.inputs.items()}
        for name, (_, shape) in self.inputs.items():
            if row[name].shape != shape:
                raise ValueError(f"'{name}' is {row[name].shape}, wanted {shape}")
        return row

    @serve.batch(max_batch_size=MOST_ROWS, batch_wait_timeout_s=0.002)
    async def run(self, rows):
        arrays = {name: np.stack([row[name] for row in rows]) for name in self.inputs}
        # In a thread, so that the replica goes on taking requests: a run does not hold Python's lock.
        results = await asyncio.to_thread(self.plan.run, arrays)
        return [{name: array[k].tolist() for name, array in results.items()} for k in range(len(rows))]

    async def __call__(self, request: Request):
        try:
            row = self.read_row(await request.json())
        except (ValueError, TypeError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)
        return JSONResponse(await self.run(row))


def app(args):
    with open(args["plan"], "rb") as file:
        return Model.bind(file.read())  # the bytes: replicas elsewhere have no such file
