/* nn.c - hypatia/nn.h over arrays of Python: hypatia.nn makes functions of autograd of it. */
#include <string.h>

#include "engine.h"
#include "hypatia/nn.h"

typedef struct nn_object {
    PyObject_HEAD hyp_nn *nn;
    bool cuda;
} nn_object;
static PyTypeObject *nn_type;

/* A pass under way: its layers, their gradients, and the views that keep the arrays. */
typedef struct pass {
    nn_object *self;
    size_t count;
    hyp_nn_layer *layers;
    hyp_nn_gradient *gradients;
    array_view *views;
    size_t used;
    PyObject *stream; /* of CUDA, a number; None: the handle's */
} pass;

enum { LAYER_ARRAYS = 4, PASS_ARRAYS = 4 }; /* weight, bias and their gradients; x, saved, dy, dx or y */

static void pass_end(pass *p)
{
    for (size_t i = 0; i < p->used; i++) arrays_drop(&p->views[i]);
    PyMem_Free(p->views);
    PyMem_Free(p->gradients);
    PyMem_Free(p->layers);
}

/* An array as a tensor, which the pass keeps; of None nothing, and *out stays as it is. -1 with an exception set. */
static int pass_view(pass *p, PyObject *array, const char *what, hyp_tensor *out)
{
    const array_kind *kind;
    if (array == Py_None) return 0;
    if (arrays_kind(array, &kind) < 0) return -1;
    if (!kind) {
        PyErr_Format(PyExc_TypeError, "%s is to be an array", what);
        return -1;
    }
    PyObject *told = p->self->cuda && !kind->exchange && p->stream != Py_None ? p->stream : NULL;
    array_view *view = &p->views[p->used];
    if (arrays_view(array, kind, told, what, view) < 0) return -1;
    p->used++;
    *out = view->tensor;
    return 0;
}

/* Layers are tuples (weight, bias or None, activation). -1 with an exception set; the pass is to be ended either way.
 */
static int pass_begin(pass *p, PyObject *layers)
{
    p->count = (size_t)PyTuple_Size(layers);
    p->layers = PyMem_Calloc(p->count + 1, sizeof *p->layers);
    p->gradients = PyMem_Calloc(p->count + 1, sizeof *p->gradients);
    p->views = PyMem_Calloc(LAYER_ARRAYS * p->count + PASS_ARRAYS, sizeof *p->views);
    if (!p->layers || !p->gradients || !p->views) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < p->count; i++) {
        PyObject *layer = PyTuple_GetItem(layers, (Py_ssize_t)i), *weight, *bias;
        int act;
        if (!PyTuple_Check(layer) || !PyArg_ParseTuple(layer, "OOi", &weight, &bias, &act)) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a layer is a tuple (weight, bias, activation)");
            return -1;
        }
        p->layers[i].act = (hyp_nn_act)act;
        if (pass_view(p, weight, "weight", &p->layers[i].weight) < 0 ||
            pass_view(p, bias, "bias", &p->layers[i].bias) < 0)
            return -1;
    }
    return 0;
}

/* Where gradients go: a tuple (of the weight or None, of the bias or None) for each layer. */
static int pass_gradients(pass *p, PyObject *gradients)
{
    if ((size_t)PyTuple_Size(gradients) != p->count) {
        PyErr_Format(PyExc_ValueError, "%zu layers, and gradients of %zd", p->count, PyTuple_Size(gradients));
        return -1;
    }
    for (size_t i = 0; i < p->count; i++) {
        PyObject *pair = PyTuple_GetItem(gradients, (Py_ssize_t)i), *weight, *bias;
        if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "OO", &weight, &bias)) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "gradients are tuples (weight, bias)");
            return -1;
        }
        if (pass_view(p, weight, "gradient of a weight", &p->gradients[i].weight) < 0 ||
            pass_view(p, bias, "gradient of a bias", &p->gradients[i].bias) < 0)
            return -1;
    }
    return 0;
}

static int run_options(const pass *p, int tf32, hyp_nn_run_options *out)
{
    *out = (hyp_nn_run_options){.size = sizeof *out, .tf32 = tf32};
    if (p->stream != Py_None) out->stream = PyLong_AsVoidPtr(p->stream);
    return PyErr_Occurred() ? -1 : 0;
}

/* Nn(device, index, threads) */
static PyObject *nn_new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    (void)named;
    int device;
    hyp_engine_options options = {.size = sizeof options};
    if (!PyArg_ParseTuple(args, "iii:Nn", &device, &options.device_index, &options.threads)) return NULL;
    options.device = (hyp_device_kind)device;
    hyp_nn *nn = NULL;
    hyp_diag diag = {0};
    hyp_status status;
    Py_BEGIN_ALLOW_THREADS
        status = hyp_nn_create(&options, NULL, &nn, &diag);
    Py_END_ALLOW_THREADS
    if (status != HYP_OK) return native_raise(status, diag.message);
    nn_object *self = PyObject_New(nn_object, type);
    if (!self) {
        hyp_nn_destroy(nn);
        return NULL;
    }
    self->nn = nn;
    self->cuda = hyp_nn_device(nn) == HYP_DEVICE_CUDA;
    return (PyObject *)self;
}

static void nn_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    hyp_nn *nn = ((nn_object *)object)->nn;
    Py_BEGIN_ALLOW_THREADS /* work under way is waited for */
        hyp_nn_destroy(nn);
    Py_END_ALLOW_THREADS
    PyObject_Free(object);
    Py_DECREF(type);
}

/* saved_bytes(layers, x, stream or None) */
static PyObject *nn_saved_bytes(PyObject *self, PyObject *args)
{
    PyObject *layers, *x, *said = NULL;
    pass p = {.self = (nn_object *)self, .stream = Py_None};
    if (!PyArg_ParseTuple(args, "O!OO:saved_bytes", &PyTuple_Type, &layers, &x, &p.stream)) return NULL;
    hyp_tensor tx = {0};
    if (pass_begin(&p, layers) == 0 && pass_view(&p, x, "x", &tx) == 0) {
        size_t bytes = 0;
        hyp_diag diag = {0};
        hyp_status status = hyp_mlp_saved_bytes(p.self->nn, p.layers, p.count, &tx, &bytes, &diag);
        said = status == HYP_OK ? PyLong_FromSize_t(bytes) : native_raise(status, diag.message);
    }
    pass_end(&p);
    return said;
}

static PyObject *said_of(hyp_status status, const hyp_diag *diag)
{
    if (status != HYP_OK) return native_raise(status, diag->message);
    Py_RETURN_NONE;
}

/* forward(layers, x, y, saved or None, stream or None, tf32) */
static PyObject *nn_forward(PyObject *self, PyObject *args)
{
    PyObject *layers, *x, *y, *saved, *said = NULL;
    int tf32;
    pass p = {.self = (nn_object *)self};
    if (!PyArg_ParseTuple(args, "O!OOOOp:forward", &PyTuple_Type, &layers, &x, &y, &saved, &p.stream, &tf32))
        return NULL;
    hyp_tensor tx = {0}, ty = {0}, ts = {0};
    hyp_nn_run_options options;
    if (pass_begin(&p, layers) == 0 && pass_view(&p, x, "x", &tx) == 0 && pass_view(&p, y, "y", &ty) == 0 &&
        pass_view(&p, saved, "saved", &ts) == 0 && run_options(&p, tf32, &options) == 0) {
        hyp_tensor *keep = saved == Py_None ? NULL : &ts;
        hyp_diag diag = {0};
        hyp_status status;
        Py_BEGIN_ALLOW_THREADS
            status = hyp_mlp_forward(p.self->nn, p.layers, p.count, &tx, &ty, keep, &options, &diag);
        Py_END_ALLOW_THREADS
        said = said_of(status, &diag);
    }
    pass_end(&p);
    return said;
}

/* backward(layers, x, saved, dy, dx or None, gradients, stream or None, tf32) */
static PyObject *nn_backward(PyObject *self, PyObject *args)
{
    PyObject *layers, *x, *saved, *dy, *dx, *gradients, *said = NULL;
    int tf32;
    pass p = {.self = (nn_object *)self};
    if (!PyArg_ParseTuple(args, "O!OOOOO!Op:backward", &PyTuple_Type, &layers, &x, &saved, &dy, &dx, &PyTuple_Type,
                          &gradients, &p.stream, &tf32))
        return NULL;
    hyp_tensor tx = {0}, ts = {0}, tdy = {0}, tdx = {0};
    hyp_nn_run_options options;
    if (pass_begin(&p, layers) == 0 && pass_gradients(&p, gradients) == 0 && pass_view(&p, x, "x", &tx) == 0 &&
        pass_view(&p, saved, "saved", &ts) == 0 && pass_view(&p, dy, "dy", &tdy) == 0 &&
        pass_view(&p, dx, "dx", &tdx) == 0 && run_options(&p, tf32, &options) == 0) {
        hyp_tensor *input = dx == Py_None ? NULL : &tdx;
        hyp_diag diag = {0};
        hyp_status status;
        Py_BEGIN_ALLOW_THREADS
            status =
                hyp_mlp_backward(p.self->nn, p.layers, p.count, &tx, &ts, &tdy, input, p.gradients, &options, &diag);
        Py_END_ALLOW_THREADS
        said = said_of(status, &diag);
    }
    pass_end(&p);
    return said;
}

static PyMethodDef methods[] = {
    {"saved_bytes", nn_saved_bytes, METH_VARARGS, "saved_bytes(layers, x, stream)"},
    {"forward", nn_forward, METH_VARARGS, "forward(layers, x, y, saved, stream, tf32)"},
    {"backward", nn_backward, METH_VARARGS, "backward(layers, x, saved, dy, dx, gradients, stream, tf32)"},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)"A handle of hypatia/nn.h, which one thread uses at a time; the caller sees to that."},
    {Py_tp_new, nn_new},
    {Py_tp_dealloc, nn_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};
static PyType_Spec spec = {"hypatia._native.Nn", sizeof(nn_object), 0, Py_TPFLAGS_DEFAULT, slots};

int nn_init(PyObject *module) { return native_add_type(module, &spec, &nn_type); }
