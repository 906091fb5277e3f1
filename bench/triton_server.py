"""A tritonserver of PyPI's nvidia-pytriton, for bench/triton_load.py and tests/tools/triton_server_test.py: the server, its Python backend, and ours.

scripts/triton-test.sh installs what is needed in an environment of its own.
"""
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def wheel():
    """The folder of the installed wheel's server; None where there is none."""
    found = importlib.util.find_spec("pytriton")
    folder = found and os.path.join(os.path.dirname(found.origin), "tritonserver")
    return folder if folder and os.path.exists(folder + "/bin/tritonserver") else None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def lay_backends(folder, build):
    """A folder with the Python backend, for this Python, and ours."""
    shutil.copytree(wheel() + "/backends/python", folder + "/python")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    shutil.copy(f"{wheel()}/python_backend_stubs/{version}/triton_python_backend_stub", folder + "/python")
    os.symlink(os.path.join(os.path.abspath(build), "lib/hypatia/backends/hypatia"), folder + "/hypatia")


class Silent(Exception):
    """A model that has not answered in the time that it was given, or failed."""


class Server:
    """with Server(repository, scratch folder, build) as server: ...

    It serves all models of the repository, or with explicit=True those that are loaded by `load`."""

    def __init__(self, repository, folder, build, *options, explicit=False):
        self.port, self.metrics = free_port(), free_port()
        self.log = os.path.join(folder, "server.log")
        backends = os.path.join(folder, "backends")
        if not os.path.exists(backends):
            lay_backends(backends, build)
        libraries = os.path.join(os.path.dirname(os.path.dirname(wheel())), "nvidia_pytriton.libs")
        environment = {**os.environ, "LD_LIBRARY_PATH": libraries, "PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"]}  # of the Python backend's modules
        command = [wheel() + "/bin/tritonserver", "--model-repository", repository, "--backend-directory", backends, "--http-address", "127.0.0.1",
                   "--http-port", str(self.port), "--metrics-port", str(self.metrics), "--allow-grpc", "false", "--exit-timeout-secs", "10",
                   *(["--model-control-mode", "explicit"] if explicit else []), *options]
        with open(self.log, "w", encoding="utf-8") as log:  # a session of its own: what hangs is ended with all of its processes
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def url(self, path):
        return f"http://127.0.0.1:{self.port}/v2/{path}".rstrip("/")

    def get(self, path):
        with urllib.request.urlopen(self.url(path), timeout=60) as answer:
            return json.loads(answer.read() or b"{}")

    def post(self, path, document, seconds=60):
        """(status, document)"""
        request = urllib.request.Request(self.url(path), data=json.dumps(document).encode(), headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def load(self, model, seconds):
        """Has a model loaded, within so many seconds; Silent where it is not."""
        try:
            status, said = self.post(f"repository/models/{model}/load", {}, seconds)
        except OSError as error:
            raise Silent(f"{model} was not loaded within {seconds} s ({error})") from error
        if status != 200:
            raise Silent(f"{model} was not loaded: {said.get('error', status)}")

    def last_lines(self, count=20):
        return "\n".join(self.said().splitlines()[-count:])

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def __enter__(self):
        until = time.monotonic() + 120
        while time.monotonic() < until and self.process.poll() is None:
            try:
                self.get("health/ready")
                return self
            except OSError:
                time.sleep(0.1)
        self.__exit__(True)
        raise RuntimeError("the server did not start:\n" + self.said()[-10000:])

    def __exit__(self, failed, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(2 if failed else 30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        try:  # its models' processes, which do not always end with it
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
