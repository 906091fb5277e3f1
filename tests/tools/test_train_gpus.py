"""hypatia train on several GPUs, which the emulator (tests/runtime/cuda) has, with an NCCL among processes: what they compute
together, how they stop, and what is left where one of them dies.

    test_train_gpus.py [CHECK ...]"""
import os
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]
from test_train import MASK, ROWS, Place, expected_losses, first_dropped_loss, hyp, np, read_safetensors, splitmix, write_model  # noqa: E402

ENDLESS = ["--epochs", 1000000, "--schedule", "constant", "--every", 5]


def close(a, b, **within):
    return set(a) == set(b) and all(np.allclose(a[n], b[n], **within) for n in a)


def processes(p):
    """Of trainings in this folder: the numbers of those that run, from the first that was started on."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as line, open(f"/proc/{number}/stat") as stat:
                if f"{p.folder}/".encode() in line.read() and stat.read().rsplit(")")[-1].split()[0] != "Z":
                    found.append(int(number))
        except OSError:  # it has ended
            pass
    return sorted(found)


def nothing_runs(p):
    for _ in range(500):
        if not processes(p):
            return
        time.sleep(0.01)
    raise AssertionError(processes(p))


def start(p, run, *options, **more):
    """Returns when it has written a checkpoint."""
    process = subprocess.Popen(p.command(run, *options, plan="dp.bin", **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    while not os.path.exists(p.path(run)) or not any(n.startswith("step-") for n in os.listdir(p.path(run))):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


# ---- what is computed -------------------------------------------------------------------------------------------------

def check_two_are_one(p):
    """Losses, validation and variables of two GPUs are those of one with the same batches; files and lines come once."""
    options = ["--epochs", 4, "--keep", 9, "--validate", f"image={p.path('x.npy')}", "--validate", f"labels={p.path('y.npy')}"]
    told = {}
    for gpus in (1, 2):
        told[gpus] = p.train(f"of{gpus}", *options, "--gpus", gpus, "--metrics", p.path(f"of{gpus}.jsonl"), plan="dp.bin")
    assert told[2].count("epoch ") == 4 and told[2].count("\n") == told[1].count("\n"), told
    one, two = p.metrics("of1.jsonl"), p.metrics("of2.jsonl")
    assert [line["event"] for line in one] == [line["event"] for line in two] and len(one) == 20
    for a, b in zip(one, two):
        assert all(a[k] == b[k] or np.isclose(a[k], b[k], rtol=1e-5) for k in a), (a, b)
    for step in (4, 8, 12, 16):
        (a, _), (b, meta) = (read_safetensors(p.path(f"of{n}/step-{step:08d}.safetensors")) for n in (1, 2))
        assert close(a, b, rtol=1e-5, atol=1e-6) and meta["gpus"] == "2" and meta["batch"] == "32", meta
    p.train("again", *options, "--gpus", 2, plan="dp.bin")
    p.same("again", "of2")


def check_one_is_plain(p):
    """--gpus 1 is no group, and the sums of such a plan are what it has. Its steps may be others than those of a plain plan, which
    may add in another order."""
    p.train("plain", "--epochs", 2)
    p.train("alone", "--epochs", 2, "--gpus", 1, plan="dp.bin")
    p.train("none", "--epochs", 2, plan="dp.bin")
    p.same("alone", "none")
    for name in sorted(os.listdir(p.path("plain"))):
        (a, of_plain), (b, of_alone) = (read_safetensors(p.path(f"{run}/{name}")) for run in ("plain", "alone"))
        within = {"loss-sum", "best-loss"}
        assert close(a, b, rtol=1e-5, atol=1e-6) and set(of_plain) == set(of_alone), name
        assert all(of_plain[k] == of_alone[k] or k in within for k in of_plain), (of_plain, of_alone)


def check_rows(p):
    """Three take equally many rows: batches of 32 are 30, an epoch of 100 is 99. Judged by numpy."""
    out = p.train("three", "--epochs", 3, "--gpus", 3, "--learning-rate", 0.3, "--schedule", "constant", "--warmup", 0,
                  "--metrics", p.path("three.jsonl"), plan="dp-sgd.bin")
    assert "batches have 30 rows" in out and "1 of 100 rows are left out" in out and out.count("left out") == 1, out
    losses, weights = expected_losses(p.weights, p.images, p.labels, lambda step: 0.3, 3, 30, 0, 99)
    steps = [line["loss"] for line in p.metrics("three.jsonl") if line["event"] == "step"]
    assert len(steps) == 12 and np.allclose(steps, losses, rtol=1e-5), (steps, losses)
    got, _ = read_safetensors(p.path("three/step-00000012.safetensors"))
    assert all(np.allclose(got[n], weights[n], rtol=1e-4, atol=1e-5) for n in got)
    # a plan for batches of one size is for that of each GPU
    out = p.train("fixed", "--epochs", 2, "--gpus", 2, plan="fixed.bin")
    assert "for batches of 32" in out and "4 of 100 rows are left out" in out and "after step 6 of 6" in out, out
    assert "the plan is for batches of 48" in p.train("fixed2", "--epochs", 1, "--gpus", 3, plan="fixed.bin", code=2)
    assert "too few" in p.train("fixed2", "--epochs", 1, "--gpus", 3, "--batch", 2, plan="dp.bin", code=2)


def check_large_batches(p):
    """Batches of a megabyte and more are made by threads beside the steps: the same rows, judged by numpy, the last ones of an
    epoch, too, and such as are converted; and what was trained goes on to the same bits."""
    draw = np.random.default_rng(5)
    images = draw.integers(0, 17, (9000, 64), np.uint8)
    labels = draw.integers(0, 10, 9000)
    np.save(p.path("many.npy"), images)
    np.save(p.path("many-y.npy"), labels)
    options = ["--batch", 8400, "--epochs", 3, "--learning-rate", 0.03, "--schedule", "constant", "--warmup", 0]
    losses, weights = expected_losses(p.weights, images.astype(np.float32), labels, lambda step: 0.03, 3, 8400, 0, 9000)
    for gpus in (1, 2):
        p.train(f"many{gpus}", *options, "--gpus", gpus, "--metrics", p.path("many.jsonl"), plan="dp-sgd.bin", data=("many.npy", "many-y.npy"))
        steps = [line["loss"] for line in p.metrics("many.jsonl") if line["event"] == "step"]
        assert len(steps) == 6 and np.allclose(steps, losses, rtol=1e-4), (steps, losses)
        got, _ = read_safetensors(p.path(f"many{gpus}/step-00000006.safetensors"))
        assert all(np.allclose(got[n], weights[n], rtol=1e-3, atol=1e-4) for n in got)
    for stop in (1, 2):
        p.train("many-stop", *options, "--gpus", 2, "--resume", "--stop-after", stop, plan="dp-sgd.bin", data=("many.npy", "many-y.npy"))
    p.train("many-stop", *options, "--gpus", 2, "--resume", plan="dp-sgd.bin", data=("many.npy", "many-y.npy"))
    p.same("many-stop", "many2", "step-00000006.safetensors")


def check_dropout(p):
    """Each rank drops by a seed of its own; the count of steps is one, and a training that stopped drops what it would have."""
    write_model(p.path("dropping.onnx"), p.weights, 0.5)
    p.compile("dropping.bin", "--optimizer", "sgd", "--data-parallel", "--dropout", model="dropping.onnx")
    options = ["--epochs", 2, "--gpus", 2, "--every", 1]
    p.train("dropping", *options, "--metrics", p.path("dropping.jsonl"), plan="dropping.bin")
    wanted = np.mean([first_dropped_loss(p, splitmix(MASK, rank), slice(16 * rank, 16 * rank + 16)) for rank in range(2)])
    assert abs(p.metrics("dropping.jsonl")[0]["loss"] - wanted) < 1e-5, wanted
    p.train("dropping-stop", *options, "--stop-after", 3, plan="dropping.bin")
    p.train("dropping-stop", *options, "--resume", plan="dropping.bin")
    p.same("dropping-stop", "dropping")
    last = sorted(n for n in os.listdir(p.path("dropping")) if n.startswith("step-"))[-1]
    assert read_safetensors(p.path(f"dropping/{last}"))[0][":draws"] == int(last[5:13])


def check_resuming(p):
    """To the same bits with as many GPUs; with others it goes on, and says so."""
    options = ["--epochs", 5, "--every", 3]
    p.train("once", *options, "--gpus", 2, "--metrics", p.path("once.jsonl"), plan="dp.bin")
    p.train("twice", *options, "--gpus", 2, "--stop-after", 7, "--metrics", p.path("twice.jsonl"), plan="dp.bin")
    out = p.train("twice", *options, "--gpus", 2, "--resume", "--metrics", p.path("twice.jsonl"), plan="dp.bin")
    assert out.count("resumed after step 7") == 1, out
    p.same("twice", "once")
    assert p.metrics("once.jsonl") == p.metrics("twice.jsonl")
    p.train("other", *options, "--gpus", 2, "--stop-after", 3, plan="dp.bin")
    out = p.train("other", *options, "--gpus", 3, "--resume", plan="dp.bin")
    assert "shared by 3 GPUs from here on, before by 2" in out and "ended after step" in out, out
    assert "shared by 1 GPUs" in p.train("other", "--epochs", 6, "--resume", plan="dp.bin")


# ---- how it ends ------------------------------------------------------------------------------------------------------

def check_stopping(p):
    """A signal to the command, or, as a terminal sends it, to all processes: all stop after the same step."""
    for k, (number, send) in enumerate([(signal.SIGINT, os.kill), (signal.SIGTERM, os.kill), (signal.SIGINT, os.killpg)]):
        process = start(p, f"stop{k}", *ENDLESS, "--gpus", 2)
        send(process.pid, number)
        out, told = process.communicate(timeout=600)
        assert process.returncode == 130 and told == "" and out.count("interrupted after step ") == 1, out + told
        nothing_runs(p)
        steps = int(out.split("interrupted after step ")[1].split()[0])
        p.train(f"stop{k}", *ENDLESS, "--gpus", 2, "--stop-after", 6, "--resume", plan="dp.bin")
        p.train(f"whole{k}", *ENDLESS, "--gpus", 2, "--stop-after", steps + 6, plan="dp.bin")
        p.same(f"stop{k}", f"whole{k}", f"step-{steps + 6:08d}.safetensors", "best.safetensors")


def check_deaths(p):
    """A rank, or the process that has started them, that is killed ends all; what was saved is whole, and goes on."""
    for who in (0, 1, 2):
        run = f"dead{who}"
        process = start(p, run, *ENDLESS, "--gpus", 2)
        running = processes(p)
        assert len(running) == 3 and process.pid in running, running
        victim = ([n for n in running if n != process.pid] + [process.pid])[who]
        os.kill(victim, signal.SIGKILL)
        _, told = process.communicate(timeout=600)
        if who < 2:
            assert process.returncode == 1 and told.count("of 2 was ended by signal 9 (Killed)") == 1, told
        else:
            assert process.returncode == -signal.SIGKILL, process.returncode
        nothing_runs(p)
        for name in os.listdir(p.path(run)):
            if name.endswith(".safetensors"):
                read_safetensors(p.path(f"{run}/{name}"))
        last = max(n for n in os.listdir(p.path(run)) if n.startswith("step-"))
        steps = int(last[5:13])
        p.train(run, *ENDLESS, "--gpus", 2, "--stop-after", 4, "--resume", plan="dp.bin")
        p.train(run + "whole", *ENDLESS, "--gpus", 2, "--stop-after", steps + 4, plan="dp.bin")
        p.same(run, run + "whole", f"step-{steps + 4:08d}.safetensors", "best.safetensors")


def check_failures(p):
    """What is wrong is told once, with the code of the rank that it befell."""
    def fails(run, *options, code=1, **more):
        out = p.train(run, "--epochs", 3, *options, code=code, **{"plan": "dp.bin", **more})
        nothing_runs(p)
        return out
    out = fails("plain-plan", "--gpus", 2, code=2, plan="adamw.bin")
    assert out.count("compile it with hypatiac --train ... --data-parallel") == 1 and "rank 0 of 2 ended with exit code 2" in out, out
    assert not os.path.exists(p.path("plain-plan"))
    assert "no number from 1 to 64" in fails("refused", "--gpus", 0, code=2)
    assert "on GPUs alone" in fails("refused", "--gpus", 2, "--device", "cpu", code=2)
    assert fails("refused", "--gpus", 2, data=("x.npy", "absent.npy")).count("absent.npy: cannot open") == 1
    assert fails("refused", "--gpus", 2, "--data", f"imag={p.path('x.npy')}", code=2).count("no such input") == 1
    out = fails("refused", "--gpus", 2, plan="absent.bin")
    assert out.count("cannot open") == 1, out
    os.environ["HYPATIA_NCCL"], nccl = "/absent/libnccl.so", os.environ["HYPATIA_NCCL"]
    out = fails("refused", "--gpus", 2)
    os.environ["HYPATIA_NCCL"] = nccl
    assert out.count("NCCL cannot be loaded") == 1, out
    out = fails("lost", "--gpus", 2, "--learning-rate", "1e25", "--warmup", 0, plan="dp-sgd.bin")
    assert out.count("the training has come apart") == 1, out
    # sums that are not the same on all ranks
    os.environ["HYPATIA_EMULATOR"] = "uneven nccl"
    out = fails("uneven", "--gpus", 2)
    del os.environ["HYPATIA_EMULATOR"]
    assert out.count("step 4: the variables of rank 1 are not those of rank 0") == 1 and not os.listdir(p.path("uneven")), out
    # files of rank 0 that cannot be written
    out = fails("dev-full", "--gpus", 2, "--metrics", "/dev/full")
    assert "/dev/full: cannot write" in out and os.path.exists(p.path("dev-full/step-00000001.safetensors")), out
    # one that has no GPU
    out = fails("refused", "--gpus", 2, "--device", "cuda:2")
    assert "rank 1: there is no GPU 3" in out and "rank 1 of 2 ended with exit code 1" in out, out
    assert not os.path.exists(p.path("refused")) or not os.listdir(p.path("refused"))


# ---- ranks of a launcher ------------------------------------------------------------------------------------------------

def launched(p, run, names, *options, count=2, local=None, job="a/job@1"):
    """Starts them as mpirun does: (code, output) by rank."""
    processes = []
    for rank in reversed(range(count)):
        env = {**os.environ, names[0]: str(rank), names[1]: str(count), names[2]: str(rank), names[3]: str(local or count),
               names[4]: job, "TMPDIR": p.folder}
        processes.insert(0, subprocess.Popen(p.command(run, *options, plan="dp.bin"), stdout=subprocess.PIPE,
                                             stderr=subprocess.STDOUT, text=True, env=env))
        time.sleep(0.05)  # the last one comes first, and waits
    told = [process.communicate(timeout=600)[0] for process in processes]
    return [process.returncode for process in processes], told


def check_launchers(p):
    """Ranks by the environment: the same files, from rank 0."""
    mpi = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
           "PMIX_NAMESPACE")
    others = {"pmi": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "UNUSED"),
              "slurm": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "UNUSED", "SLURM_JOB_ID")}
    p.train("started", "--epochs", 3, "--gpus", 2, plan="dp.bin")
    board = p.path(f"hypatia-{os.geteuid()}-a-job-1-0.ranks")
    lone = subprocess.Popen(p.command("lone", "--epochs", 3, plan="dp.bin"), stderr=subprocess.PIPE,
                            env={**os.environ, **dict(zip(mpi, ("0", "2", "0", "2", "a/job@1"))), "TMPDIR": p.folder})
    while not os.path.exists(board):
        assert lone.poll() is None, lone.communicate()
        time.sleep(0.01)
    lone.kill()  # the other one never came, and the next job of this name finds its file
    lone.communicate()
    assert os.path.exists(board)
    for name, names in {"mpi": mpi, **others}.items():
        codes, told = launched(p, name, names, "--epochs", 3)
        assert codes == [0, 0] and told[0].count("epoch ") == 3 and told[1] == "", (codes, told)
        p.same(name, "started")
        assert not [n for n in os.listdir(p.folder) if ".ranks" in n], os.listdir(p.folder)
    codes, told = launched(p, "spread", mpi, "--epochs", 3, local=1)
    assert codes == [2, 2] and "not all of them are on this machine" in told[0], (codes, told)
    codes, told = launched(p, "single", mpi, "--epochs", 3, count=1)
    assert codes == [0], told
    # where rank 0 fails the others stop
    codes, told = launched(p, "bad", mpi, "--epochs", 3, "--metrics", "/dev/full")
    assert codes == [1, 130] and told[1] == "", (codes, told)


def main():
    wanted = sys.argv[1:]
    os.environ["HYPATIA_EMULATOR_DEVICES"] = "3"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder  # where ranks that are killed leave files
        p = Place(folder, "cuda")
        p.compile("dp.bin", "--optimizer", "adamw", "--data-parallel")
        p.compile("dp-sgd.bin", "--optimizer", "sgd", "--data-parallel")
        p.compile("fixed.bin", "--data-parallel", "--dim", "batch=16")
        assert ROWS == len(p.images) and hyp.BIN
        for check in (check_two_are_one, check_one_is_plain, check_rows, check_large_batches, check_dropout, check_resuming,
                      check_stopping, check_deaths, check_failures, check_launchers):
            if not wanted or check.__name__ in wanted:
                begun = time.monotonic()
                check(p)
                print(f"{check.__name__}: {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()
