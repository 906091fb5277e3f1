"""Cases of operators that sample images: expected results by onnx's reference implementation where numpy has none."""
import numpy as np
import onnx
from make_ops import case, d, i64
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import op_grid_sample, op_resize

rng = np.random.default_rng(73)


def in_double(f):
    """onnx takes the coefficient as a 32-bit number and computes with it."""
    return lambda ratio, scale=None, A=-0.75: f(ratio, scale, A=float(A))


op_resize._cubic_coeffs = in_double(op_resize._cubic_coeffs)
op_resize._cubic_coeffs_antialias = in_double(op_resize._cubic_coeffs_antialias)


def cubic_in_double(f):
    """Differences of what is computed in 32 bits are no slopes."""
    return lambda self, x, coeffs: f(self, float(x), coeffs)


op_grid_sample.GridSample._gs_get_cubic_coeffs = cubic_in_double(op_grid_sample.GridSample._gs_get_cubic_coeffs)


def rand(*shape):
    return (rng.integers(-32, 33, shape) / 8).astype(np.float32)


def reference(op_type, inputs, opset=20, **attrs):
    names = ["" if a is None else f"i{k}" for k, a in enumerate(inputs)]
    kind = lambda a: onnx.helper.np_dtype_to_tensor_dtype(a.dtype)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op_type, names, ["y"], **attrs)], "g",
        [onnx.helper.make_tensor_value_info(n, kind(a), a.shape) for n, a in zip(names, inputs) if n],
        [onnx.helper.make_tensor_value_info("y", kind(inputs[0]), None)])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    feeds = {n: a for n, a in zip(names, inputs) if n}
    return ReferenceEvaluator(model).run(None, feeds)[0]


def resize(name, x, sizes, attrs, scales=None, roi=None, ort=True, **onnx_attrs):
    text = ":sizes (" + " ".join(map(str, sizes)) + ") " + attrs
    inputs = [x, scales, roi]
    while inputs[-1] is None:
        inputs.pop()
    node = [x, roi, scales] if scales is not None else [x, roi, None, i64(*sizes)]
    want = reference("Resize", [x.astype(np.float64), *node[1:]], **onnx_attrs)
    case("resize", name, text, inputs, want, "Resize" if ort else None, onnx_inputs=node, **onnx_attrs)


def resizes():
    x, f32 = rand(1, 2, 3, 4), lambda *v: np.array(v, np.float32)
    double = f32(1, 1, 2, 2)
    for mode in ["nearest", "linear", "cubic"]:
        resize(f"{mode}, twice", x, (1, 2, 6, 8), f":mode {mode}", double, mode=mode)
        resize(f"{mode}, to sizes", x, (1, 2, 5, 3), f":mode {mode}", mode=mode)
        for where in ["align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric"]:
            resize(f"{mode}, {where}", x, (1, 2, 4, 6), f":mode {mode} :coordinates {where}", f32(1, 1, 1.5, 1.6),
                   ort=where != "half_pixel_symmetric" and where != "align_corners", mode=mode,
                   coordinate_transformation_mode=where)
    for rounding in ["round_prefer_ceil", "floor", "ceil"]:
        resize(rounding, x, (1, 2, 6, 6), f":mode nearest :nearest {rounding}", mode="nearest", nearest_mode=rounding)
    resize("crop", x, (1, 2, 3, 3), ":mode linear :coordinates tf_crop_and_resize :extrapolation 9.0",
           roi=f32(0, 0, 0.25, -0.5, 1, 1, 0.75, 1.25), scales=f32(1, 1, 1, 0.75), ort=False, mode="linear",
           coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=9.0)
    resize("outside excluded", x, (1, 2, 2, 6), ":mode cubic :cubic-a -0.5 :exclude-outside 1", mode="cubic",
           cubic_coeff_a=-0.5, exclude_outside=1)
    for mode in ["linear", "cubic"]:
        resize(f"{mode}, antialias", rand(1, 1, 6, 7), (1, 1, 3, 4), f":mode {mode} :antialias 1", ort=False, mode=mode,
               antialias=1)
    whole = i64(*range(12)).astype(np.uint8).reshape(1, 1, 3, 4)
    case("resize", "integers", ":sizes (1 1 6 2) :mode nearest", [whole],
         reference("Resize", [whole, None, None, i64(1, 1, 6, 2)], mode="nearest"), "Resize",
         onnx_inputs=[whole, None, None, i64(1, 1, 6, 2)], mode="nearest")
    case("resize", "nothing", ":sizes (1 0 2) :mode linear", [x[0, :, :0]], np.zeros((1, 0, 2)))


def affine(theta, size, corners):
    places = [np.linspace(-1, 1, n) if corners else (2 * np.arange(n) + 1) / n - 1 for n in size[2:]]
    mesh = np.meshgrid(*places, indexing="ij")
    return np.einsum("nij,...j->n...i", d(theta), np.stack([*mesh[::-1], np.ones(size[2:])], -1))


def grids():
    x, grid = rand(2, 2, 3, 4), (rng.integers(-20, 21, (2, 2, 3, 2)) / 16).astype(np.float32)
    for mode in ["nearest", "linear", "cubic"]:
        for padding in ["zeros", "border", "reflection"]:
            for corners in [0, 1]:
                attrs = {"mode": mode, "padding_mode": padding, "align_corners": corners}
                if mode == "cubic": # the reference moves a place beyond the border, not its neighbours
                    grid = np.clip(grid, -0.75, 0.75)
                case("grid-sample", f"{mode}, {padding}{', corners' * corners}",
                     f":mode {mode} :padding {padding}" + f" :align-corners {corners}" * corners, [x, grid],
                     reference("GridSample", [d(x), d(grid)], **attrs), "GridSample", **attrs)
    x, grid = rand(1, 1, 2, 3, 2), (rng.integers(-20, 21, (1, 2, 1, 2, 3)) / 16).astype(np.float32)
    case("grid-sample", "space", "", [x, grid], reference("GridSample", [d(x), d(grid)]), "GridSample")
    for size, theta in [((2, 1, 2, 3), rand(2, 2, 3)), ((1, 2, 2, 3, 2), rand(1, 3, 4))]:
        for corners in [0, 1]:
            text = f":size ({' '.join(map(str, size))})" + f" :align-corners {corners}" * corners
            case("affine-grid", f"{len(size) - 2} axes{', corners' * corners}", text, [theta],
                 affine(theta, size, corners), "AffineGrid", extra=[i64(*size)],
                 align_corners=corners)


def regions():
    x, images = rand(2, 2, 5, 6), i64(1, 0, 1)
    rois = np.array([[0, 0, 4, 3], [1.5, 1, 5, 4.5], [-2, -2, 1, 9]], np.float32)
    for mode in ["avg", "max"]:
        for where in ["half_pixel", "output_half_pixel"]:
            for sampling in [0, 2]:
                attrs = {"mode": mode, "coordinate_transformation_mode": where, "output_height": 2, "output_width": 3,
                         "sampling_ratio": sampling, "spatial_scale": 0.5}
                case("roi-align", f"{mode}, {where}, {sampling} samples",
                     f":mode {mode} :coordinates {where} :bins (2 3) :sampling {sampling} :scale 0.5", [x, rois, images],
                     reference("RoiAlign", [d(x), d(rois), images], **attrs), "RoiAlign" if mode == "avg" else None, **attrs)


def slopes(f, x, g, h):
    """What the sum of g f(x) gains as each element of x grows, by differences that are exact for polynomials up to degree 4."""
    out = np.zeros(x.shape)
    for at in np.ndindex(*x.shape):
        step = np.zeros(x.shape)
        step[at] = h
        near, far = (f(d(x) + k * step) - f(d(x) - k * step) for k in (1, 2))
        out[at] = (d(g) * (8 * near - far)).sum() / (12 * h)
    return out


def grid_gradients():
    """No place is one where a weight bends."""
    x, g = rand(1, 2, 3, 4), rand(1, 2, 2, 2)
    grid = ((2 * rng.integers(-20, 20, (1, 2, 2, 2)) + 1) / 32).astype(np.float32)
    space = rand(1, 1, 2, 3, 2), ((2 * rng.integers(-20, 20, (1, 1, 1, 2, 3)) + 1) / 32).astype(np.float32), rand(1, 1, 1, 1, 2)
    line = rand(2, 1, 5), ((2 * rng.integers(-20, 20, (2, 3, 1)) + 1) / 32).astype(np.float32), rand(2, 1, 3)

    def put(name, x, grid, g, mode="linear", padding="zeros", corners=0):
        attrs = {"mode": mode, "padding_mode": padding, "align_corners": corners}
        text = f":mode {mode} :padding {padding}" + f" :align-corners {corners}" * corners
        by_x = slopes(lambda x: reference("GridSample", [x, d(grid)], **attrs), x, g, 1)
        by_grid = slopes(lambda grid: reference("GridSample", [d(x), grid], **attrs), grid, g, 1 / 128)
        case("grid-sample-gradient", name, text, [x, grid, g], by_x)
        case("grid-sample-gradient", name + ", by the grid", text + " :by grid", [x, grid, g], by_grid)

    for mode in ["nearest", "linear", "cubic"]:
        for padding in ["zeros", "border", "reflection"]:
            for corners in [0, 1]:
                if mode == "cubic":
                    grid = np.clip(grid, -23 / 32, 23 / 32)
                put(f"{mode}, {padding}{', corners' * corners}", x, grid, g, mode, padding, corners)
    put("space", *space)
    put("a line", *line, padding="reflection")


def region_gradients():
    x, images, g = rand(2, 1, 4, 5), i64(1, 0, 1), rand(3, 1, 2, 2)
    x += (rng.permutation(x.size).reshape(x.shape) / 1024 + 1 / 4096).astype(np.float32)  # no two neighbours are equally large
    rois = np.array([[0, 0, 4, 3], [1.5, 1, 5, 4.5], [-2, -2, 1, 9]], np.float32)
    for mode in ["avg", "max"]:
        for where in ["half_pixel", "output_half_pixel"]:
            for sampling in [0, 2]:
                attrs = {"mode": mode, "coordinate_transformation_mode": where, "output_height": 2, "output_width": 2,
                         "sampling_ratio": sampling, "spatial_scale": 0.5}
                by_x = slopes(lambda x: reference("RoiAlign", [x, d(rois), images], **attrs), x, g, 1 / 1024)
                case("roi-align-gradient", f"{mode}, {where}, {sampling} samples",
                     f":mode {mode} :coordinates {where} :bins (2 2) :sampling {sampling} :scale 0.5", [x, rois, images, g], by_x)


def cases():
    resizes()
    grids()
    regions()
    grid_gradients()
    region_gradients()
