"""Cases of operators among processes, as one that runs alone computes them."""
import numpy as np
from make_ops import BF16, case

rng = np.random.default_rng(97)


def cases():
    x, y = ((rng.integers(-32, 33, shape) / 8).astype(np.float32) for shape in ((2, 3), 4))
    case("all-reduce", "mean", "", [x], x)
    case("all-reduce", "sum of two", ":reduction sum", [x, y], [x, y])
    several = [x.astype(np.float64), y.astype(BF16), np.float32(3), x[:0]]
    case("all-reduce", "f64, bf16, a scalar and nothing", "", several, several, dtype=["float64", BF16, "float32", "float32"])
