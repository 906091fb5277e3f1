"""Many callers, on an idle machine and beside busy loops: hypatia and onnxruntime in turns.

    python3 bench/load.py [MODEL.onnx] [--size 2048] [--bin build/release/bin] [--callers 1,2,4,8,16] [--threads 1,2]
                          [--busy 0,2] [--rounds 3] [--seconds 1]

One engine (session) for all callers, each of which is a thread that runs it as fast as it can, on a context (binding) of its
own; --threads is what one run may use. --busy: loops in other processes that keep a processor each busy. Printed for
both are medians over rounds of runs a second, p50 and p99 of a run in milliseconds, and the threads of the process.
Symbolic dims are --size. onnxruntime is called by Python threads, which costs a run some microseconds more.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

PEER = """
import sys, threading, time
import numpy as np, onnxruntime
model, callers, threads, seconds, size = sys.argv[1], *map(float, sys.argv[2:])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = int(threads), 1, 4
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
barrier, samples = threading.Barrier(int(callers) + 1), []
def call():
    binding, mine, clock = session.io_binding(), [], time.perf_counter
    feeds = {}
    for info in session.get_inputs():
        dims = [d if isinstance(d, int) else int(size) for d in info.shape]
        values = (np.arange(np.prod(dims, dtype=int)) % 17 / 17 - 0.5).reshape(dims)
        feeds[info.name] = values.astype(np.float32) if "float" in info.type else np.zeros(dims, np.int64)
        binding.bind_ortvalue_input(info.name, onnxruntime.OrtValue.ortvalue_from_numpy(feeds[info.name]))
    for info, value in zip(session.get_outputs(), session.run(None, feeds)):
        binding.bind_ortvalue_output(info.name, onnxruntime.OrtValue.ortvalue_from_numpy(value.copy()))
    for _ in range(3):
        session.run_with_iobinding(binding)
    barrier.wait()
    begin = clock()
    end = begin + seconds
    while begin < end:
        session.run_with_iobinding(binding)
        after = clock()
        mine.append(after - begin)
        begin = after
    samples.extend(mine)
workers = [threading.Thread(target=call) for _ in range(int(callers))]
for w in workers: w.start()
barrier.wait()
import os
count = len(os.listdir("/proc/self/task")) - 1
for w in workers: w.join()
samples.sort()
print(len(samples) / seconds, samples[len(samples) // 2] * 1e6, samples[len(samples) * 99 // 100] * 1e6, count)
"""


def numbers(args):
    out = subprocess.run(args, check=True, capture_output=True, text=True).stdout
    return [float(x) for x in out.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default=os.path.join(HERE, "../examples/digits/digits.onnx"))
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--callers", default="1,2,4,8,16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--busy", default="0,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1)
    args = parser.parse_args()
    callers, threads, busy = ([int(n) for n in text.split(",")] for text in (args.callers, args.threads, args.busy))
    cases = [(c, t) for t in threads for c in callers]
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "plan.bin")
        subprocess.run([os.path.join(args.bin, "hypatiac"), args.model, "-o", plan, "-q"], check=True)
        print(f"{'':>26}{'hypatia':>31}{'onnxruntime':>31}\n{'busy':>6}{'callers':>10}{'threads':>10}" +
              f"{'runs/s':>10}{'p50':>7}{'p99':>7}{'thr.':>7}" * 2)
        for loops in busy:
            found = {case: ([], []) for case in cases}
            others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
            try:
                for _ in range(args.rounds):
                    for c, t in cases:
                        rest = [str(c), str(t), str(args.seconds), str(args.size)]
                        found[c, t][0].append(numbers([os.path.join(args.bin, "bench-load"), plan, *rest]))
                        found[c, t][1].append(numbers([sys.executable, "-c", PEER, args.model, *rest]))
            finally:
                for other in others:
                    other.kill()
            for c, t in cases:
                line = f"{loops:>6}{c:>10}{t:>10}"
                for side in found[c, t]:
                    rate, p50, p99, count = (statistics.median(values) for values in zip(*side))
                    line += f"{rate:>10.0f}{p50 / 1000:>7.2f}{p99 / 1000:>7.2f}{count:>7.0f}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
