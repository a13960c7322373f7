#!/usr/bin/env python3
"""A training job in miniature, for the demo trace, the README's walkthrough and the tests.

    training.py [SECONDS]      (as root, so that logship can raise its priority and markers can be written)

What happens, and what a look at the recording should find:

* two loader processes (pt_loader:0 on CPU 0, pt_loader:1 on the last CPU) prepare a batch each: about 6 ms of CPU;
* launch_thread takes one batch after the other and "launches a kernel": about 1 ms of CPU, then sleeps 2 ms.
  It marks `step N` and, inside it, `wait_batch`, in the kernel's trace_marker;
* logship, a log shipper at nice -15 on CPU 0, works 12 ms out of every 20: it pushes pt_loader:0 off its CPU,
  so batches come late and launch_thread waits for data. This is the culprit;
* ckpt_writer writes 16 MiB and calls fsync every second: it blocks in D in the file system meanwhile.

Standard library only. Names are set with prctl(PR_SET_NAME), as PyTorch and CUDA do.
"""

import ctypes
import mmap
import os
import sys
import tempfile
import threading
import time

PR_SET_NAME = 15
MARKER_PATHS = ("/sys/kernel/tracing/trace_marker", "/sys/kernel/debug/tracing/trace_marker")
_libc = ctypes.CDLL(None, use_errno=True)


def name_thread(name: str) -> None:
    _libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def burn(cpu_seconds: float) -> None:
    """Uses this much CPU time of the calling thread, however long that takes."""
    end = time.thread_time() + cpu_seconds
    while time.thread_time() < end:
        pass


def open_marker() -> int | None:
    for path in MARKER_PATHS:
        try:
            return os.open(path, os.O_WRONLY)
        except OSError:
            continue
    return None


def mark(fd: int | None, text: str) -> None:
    if fd is None:
        return
    try:
        os.write(fd, text.encode())
    except OSError:
        pass  # recording is not on: the workload must run all the same


def loader(index: int, cpu: int, batches: int) -> None:
    name_thread(f"pt_loader:{index}")
    os.sched_setaffinity(0, {cpu})
    while True:
        burn(0.006)
        os.write(batches, b"b")


def logship(cpu: int) -> None:
    name_thread("logship")
    os.sched_setaffinity(0, {cpu})
    try:
        os.nice(-15)
    except PermissionError:
        pass
    while True:
        burn(0.012)
        time.sleep(0.008)


def ckpt_writer(folder: str, stop: threading.Event) -> None:
    name_thread("ckpt_writer")
    block = mmap.mmap(-1, 16 << 20)
    block.write(os.urandom(1 << 20) * 16)
    path = os.path.join(folder, "checkpoint")
    while not stop.wait(1.0):
        fd = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        os.write(fd, block)
        os.fsync(fd)
        os.close(fd)


def launch(batches: int, marker: int | None, until: float) -> int:
    name_thread("launch_thread")
    pid = os.getpid()
    step = 0
    while time.monotonic() < until:
        mark(marker, f"B|{pid}|step {step}")
        mark(marker, f"B|{pid}|wait_batch")
        os.read(batches, 1)
        mark(marker, f"E|{pid}")
        burn(0.001)
        time.sleep(0.002)
        mark(marker, f"E|{pid}")
        mark(marker, f"C|{pid}|steps|{step}")
        step += 1
    return step


def fork(target, *args) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            target(*args)
        finally:
            os._exit(1)
    return pid


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    name_thread("train.py")
    cpus = sorted(os.sched_getaffinity(0))
    taken, given = os.pipe()
    # A queue of two batches, as a loader with prefetch_factor=1 would have: F_SETPIPE_SZ is at least a page, so
    # the bound is kept by the readers' pace alone here; what matters is that the launch thread outruns CPU 0.
    children = [
        fork(loader, 0, cpus[0], given),
        fork(loader, 1, cpus[-1], given),
        fork(logship, cpus[0]),
    ]
    marker = open_marker()
    stop = threading.Event()
    steps = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TRAINING_DIR", "/var/tmp")) as folder:
        writer = threading.Thread(target=ckpt_writer, args=(folder, stop))
        launcher = threading.Thread(
            target=lambda: steps.append(launch(taken, marker, time.monotonic() + seconds))
        )
        writer.start()
        launcher.start()
        launcher.join()
        stop.set()
        writer.join()
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    print(f"{steps[0]} steps in {seconds:.0f} s: {steps[0] / seconds:.0f} a second")


if __name__ == "__main__":
    main()
