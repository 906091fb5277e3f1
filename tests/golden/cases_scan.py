"""Cases of running sums."""
import numpy as np
from make_ops import case, d, i64

rng = np.random.default_rng(71)


def cases():
    x = (rng.integers(-32, 33, (2, 3, 4)) / 8).astype(np.float32)
    one = np.array(1, np.int64)
    case("cumsum", "middle axis", ":axis 1", [x], np.cumsum(d(x), 1), "CumSum", extra=[one])
    case("cumsum", "exclusive", ":axis -1 :exclusive 1", [x], np.cumsum(d(x), 2) - x, "CumSum",
         extra=[np.array(2, np.int64)], exclusive=1)
    backward = np.cumsum(d(x)[:, ::-1], 1)[:, ::-1]
    case("cumsum", "from the end", ":axis 1 :reverse 1", [x], backward, "CumSum", extra=[one], reverse=1)
    case("cumsum", "both", ":axis 1 :exclusive 1 :reverse 1", [x], backward - x, "CumSum", extra=[one], exclusive=1,
         reverse=1)
    whole = i64(1, -2, 2**62, 2**62, 2**62)
    case("cumsum", "integers wrap", ":axis 0", [whole], np.cumsum(whole), dtype="int64")
    case("cumsum", "empty", ":axis 0", [x[:0]], x[:0])
