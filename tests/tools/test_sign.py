"""Signed plans on the command line: keygen, sign, --sign, and --require-signature of every command that reads a plan. openssl, where
it is there, is the judge of keys and signatures."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
import hyp  # noqa: E402

MODEL = os.path.join(hyp.ROOT, "examples/digits/digits.onnx")
TRAILER = 120


def run(*command, code=0, says=""):
    done = hyp.tool(*command)
    assert done.returncode == code, f"{command}: exit code {done.returncode}\n{done.stderr}{done.stdout}"
    assert says in done.stderr, f"{command}: {done.stderr}"
    return done.stdout


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)
    return path


def check_commands(plan, step, checkpoint, key, unsigned, other):
    """All that read plans take the one that is signed, and no other."""
    commands = [["run", "--input", "image=zeros"], ["bench", "--duration", "0.01", "--input", "image=zeros"],
                ["tune", "--device", "cpu", "--seconds", "0.01", "-q", "-o", "tuned.bin"], ["verify"], ["inspect"],
                ["bench", "--duration", "0.01", "--input", "image=zeros", "--compare", plan]]
    for name, *options in commands:
        run("hypatia", name, plan, *options, "--require-signature", key)
        run("hypatia", name, unsigned, *options, "--require-signature", key, code=1, says="is not signed")
        run("hypatia", name, plan, *options, "--require-signature", other, code=1, says="signed by another key")
        run("hypatia", name, plan, *options, "--require-signature", MODEL, code=1, says="is no key")
        run("hypatia", name, unsigned, *options)
    run("hypatia", "bench", plan, "--duration", "0.01", "--input", "image=zeros", "--compare", unsigned, "--require-signature", key,
        code=1, says="is not signed")
    run("hypatiac", MODEL, "-o", "fixed.bin", "-q", "--dim", "batch=1")
    run("hypatia", "export-c", "fixed.bin", "-o", "fixed.c", "--require-signature", key, code=1, says="is not signed")
    run("hypatia", "sign", "fixed.bin", "--key", "key")
    run("hypatia", "export-c", "fixed.bin", "-o", "fixed.c", "--require-signature", key)
    run("hypatia", "triton", unsigned, "-o", "repository", "--require-signature", key, code=1, says="is not signed")
    run("hypatia", "triton", plan, "-o", "repository", "--require-signature", key)
    assert run("hypatia", "diff", plan, plan, "--require-signature", key) == "the same\n"
    run("hypatia", "diff", plan, unsigned, "--require-signature", key, code=2, says="unsigned.bin: the file is not signed")
    train = ["hypatia", "train", step, "--data", "image=" + os.path.join(hyp.ROOT, "examples/digits/images.npy"), "--data",
             "labels=" + os.path.join(hyp.ROOT, "examples/digits/labels.npy"), "--steps", "1", "-q", "--checkpoints", checkpoint]
    export = ["hypatia", "export", step, checkpoint, "-o", "trained.onnx"]
    for command in train, export:
        run(*command, "--require-signature", key, code=1, says="is not signed")
        run("hypatia", "sign", step, "--key", "key")
        run(*command, "--require-signature", key)
        write(step, read(step)[:-TRAILER])


def check_rewriting(plan, key):
    """What is written anew has no signature, which is said, unless it is signed again."""
    tune = ["hypatia", "tune", plan, "--device", "cpu", "--seconds", "0.01", "-q"]
    run(*tune, "-o", "tuned.bin", says="tuned.bin: is written without the signature that the plan had")
    assert run("hypatia", "inspect", "tuned.bin", "--json").count('"signed_by": ""') == 1
    run(*tune, "-o", "tuned.bin", "--sign", "key")
    run("hypatia", "inspect", "tuned.bin", "--require-signature", key)
    run(*tune, "-o", "tuned.bin", "--sign", "absent", code=1, says="was written without a signature")
    run("hypatiac", MODEL, "-o", "tuned.bin", "-q", "--tune", "--seconds", "0.01", "--sign", "key")
    run("hypatia", "run", "tuned.bin", "--input", "image=zeros", "--require-signature", key)


def check_usage(plan):
    run("hypatia", "sign", plan, code=2, says="no key was given")
    run("hypatia", "sign", "--key", "key", code=2, says="no plan was given")
    run("hypatia", "sign", plan, "--key", "key.pub", code=1, says="wanted a private key")
    run("hypatia", "sign", plan, "--key", "key", "-o", "key", code=2, says="would be lost")
    run("hypatia", "sign", MODEL, "--key", "key", "-o", "x.bin", code=1, says="not a plan")
    run("hypatia", "keygen", code=2, says="no file was given")
    run("hypatia", "keygen", "a", "b", code=2, says="one key at a time")
    run("hypatia", "keygen", "key", code=1, says="File exists")
    run("hypatiac", MODEL, "-o", "-", "--sign", "key", code=2, says="--sign needs a file to write")
    run("hypatiac", MODEL, "--dry-run", "--sign", "key", code=2, says="--sign needs a file to write")
    run("hypatiac", MODEL, "-o", "key", "--sign", "key", code=2, says="would be lost")
    assert not os.path.exists("x.bin") and not os.path.exists("a")


def openssl(*command):
    return subprocess.run(["openssl", *command], check=True, capture_output=True).stdout


def check_openssl(plan):
    if not shutil.which("openssl"):
        print("openssl is not there: keys and signatures are not judged by it")
        return
    data = read(plan)
    write("message", data[:-TRAILER])
    write("signature", data[-72:-8])
    assert b"Verified Successfully" in openssl("pkeyutl", "-verify", "-pubin", "-inkey", "key.pub", "-rawin", "-in", "message",
                                               "-sigfile", "signature")
    assert openssl("pkey", "-in", "key", "-pubout") == read("key.pub")
    openssl("genpkey", "-algorithm", "ed25519", "-out", "theirs")
    openssl("pkey", "-in", "theirs", "-pubout", "-out", "theirs.pub")
    run("hypatia", "sign", plan, "--key", "theirs", "-o", "by_theirs.bin")
    run("hypatia", "verify", "by_theirs.bin", "--require-signature", "theirs.pub")
    der = openssl("pkey", "-pubin", "-in", "theirs.pub", "-outform", "DER")
    assert json.loads(run("hypatia", "inspect", "by_theirs.bin", "--json"))["signed_by"] == der[-32:].hex()
    openssl("genpkey", "-algorithm", "x25519", "-out", "x25519")
    run("hypatia", "sign", plan, "--key", "x25519", "-o", "x.bin", code=1, says="is no private key of Ed25519")
    openssl("pkey", "-in", "theirs", "-aes256", "-passout", "pass:x", "-out", "locked")
    run("hypatia", "sign", plan, "--key", "locked", "-o", "x.bin", code=1, says="is a PEM file of a ENCRYPTED PRIVATE KEY")


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        made = hyp.tool("hypatia", "keygen", "key")
        if made.returncode == 3:
            hyp.skip(made.stderr.strip())
        assert made.returncode == 0, made.stderr
        run("hypatia", "keygen", "other")
        run("hypatiac", MODEL, "-o", "unsigned.bin", "-q")
        run("hypatiac", MODEL, "-o", "plan.bin", "-q", "--sign", "key")
        assert read("plan.bin")[:-TRAILER] == read("unsigned.bin")
        run("hypatia", "sign", "unsigned.bin", "--key", "key", "-o", "by_sign.bin")
        assert read("plan.bin") == read("by_sign.bin")
        run("hypatiac", MODEL, "--train", "cross-entropy", "-o", "step.bin", "-q")
        check_commands("plan.bin", "step.bin", "run", "key.pub", "unsigned.bin", "other.pub")
        check_rewriting("plan.bin", "key.pub")
        check_usage("plan.bin")
        check_openssl("plan.bin")
    print("signed plans are taken, and no others")


main()
