"""Classifies the rows of a CSV file of any size through the queue. After a stop it continues where it was.

    python3 rows.py digits/rows.csv classes.csv

Each row is a record. The output has a line for each row, in their order: row (from 0), class, probability, error. A row
that fails is a line with its error. When the service is away, the program ends, and the same command continues later.

Beside the output is a checkpoint: how many rows are in it, and its length in bytes. After each chunk both are synced to the
disk, the output first, so any end of the program (Ctrl-C, kill -9, a power cut) costs at most the work on two chunks: a
start cuts the output to that length and enqueues the rows after it again. Results are deleted once their lines are safe,
and only those of this run. Memory does not grow with the file. For Linux and macOS.
"""
import argparse
import csv
import fcntl
import hashlib
import io
import json
import os
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
from cluster_serving import Client, ServingError, connect

HEADER = "row,class,probability,error\n"


def inputs_of(row):
    """The inputs of the model for one row, which is a dict of texts by column. Change this for your model.

    Here p0 to p63 are the grey values of 8x8 pixels, from 0 to 255, for three equal channels. Raises ValueError.
    """
    grey = np.array([row[f"p{i}"] for i in range(64)]).astype(np.float32)
    if not np.isfinite(grey).all():
        raise ValueError("expected numbers")
    return {"image": np.tile(grey.reshape(1, 8, 8), (3, 1, 1))}


def cells_of(result):
    """The cells of the output for one result. Change this, and HEADER, for your model. Raises ValueError."""
    if not np.isfinite(result.output).all():
        raise ValueError("the model answered NaN")
    return [int(result.output.argmax()), f"{result.output.max():.6f}"]


class Output:
    """The output and its checkpoint: `state` has the rows and bytes that are safe."""

    def __init__(self, path, digest):
        self._checkpoint = f"{path}.checkpoint"
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"another program writes {path}")
        size = os.fstat(self._file.fileno()).st_size
        try:
            with open(self._checkpoint, encoding="utf-8") as file:
                self.state = json.load(file)
        except FileNotFoundError:
            if size:
                sys.exit(f"{path} has no checkpoint, so it is not of this program: name another output")
            self.state = {"input": digest, "run": uuid.uuid4().hex[:8], "rows": 0, "failed": 0, "bytes": 0}
            self._save()
        if self.state["input"] != digest:
            sys.exit(f"{self._checkpoint} is of another input: name another output, or remove both to begin again")
        if size < self.state["bytes"]:
            sys.exit(f"{path} is shorter than its checkpoint says: remove both to begin again")
        self._file.truncate(self.state["bytes"])
        self._file.seek(self.state["bytes"])

    def add(self, rows):
        """Writes the lines of some rows, which are safe when this returns."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._file.write(((HEADER if self.state["rows"] == 0 else "") + text.getvalue()).encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.state["rows"] += len(rows)
        self.state["failed"] += sum(1 for row in rows if row[-1])
        self.state["bytes"] = self._file.tell()
        self._save()

    def _save(self):
        with open(f"{self._checkpoint}.new", "w", encoding="utf-8") as file:
            json.dump(self.state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, self._checkpoint)
        # For the names of both files.
        folder = os.open(os.path.dirname(os.path.abspath(self._checkpoint)), os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def rows_of(path):
    """The rows as dicts of texts, one at a time."""
    with open(path, newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def digest_of(path):
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def enqueue(client, prefix, chunk):
    """Sends the rows of a chunk. Returns for each what the queue has, or the error of a row that is not sent."""
    made = []
    for number, row in chunk:
        try:
            if None in row or None in row.values():
                raise ValueError("it has more or fewer cells than the header")
            made.append((f"{prefix}/{number}", inputs_of(row)))
        except ValueError as error:
            made.append(ServingError("bad_input", str(error)))
    sent = iter(client.enqueue_many(one for one in made if isinstance(one, tuple)))
    return [next(sent) if isinstance(one, tuple) else one for one in made]


def answers(client, chunk, sent, timeout):
    """Waits for the results of a chunk. Returns its lines as lists of cells."""
    outcomes = client.results((one for one in sent if not isinstance(one, ServingError)), timeout=timeout)
    lines = []
    for (number, _), one in zip(chunk, sent):
        error, cells = one, ["", ""]
        if not isinstance(one, ServingError):
            outcome = next(outcomes)
            error = outcome.error
            # The error of a record that failed is its result. Any other says that there is none yet.
            if error is not None and client.status(one) not in ("failed", "expired", "cancelled"):
                raise error
            if error is None:
                try:
                    cells = cells_of(outcome.result)
                except ValueError as wrong:
                    error = wrong
        lines.append([number, *cells, error or ""])
    return lines


def delete(client, one):
    """Deletes one result. Where this fails, the result expires."""
    try:
        if not isinstance(one, ServingError):
            client.query_and_delete(one)
    except ServingError:
        pass


def run(client, options, output, total):
    """Enqueues one chunk ahead of the one whose results are waited for."""
    begun, first = time.monotonic(), output.state["rows"]
    prefix = f"{output.state['input'][:12]}-{output.state['run']}"
    rows = islice(enumerate(rows_of(options.input)), first, None)
    with ThreadPoolExecutor(16) as pool:

        def send():
            chunk = list(islice(rows, options.chunk))
            return chunk, pool.submit(enqueue, client, prefix, chunk)

        deleted = iter(())
        ahead = send()
        while ahead[0]:
            (chunk, sending), ahead = ahead, send()
            sent = sending.result()
            output.add(answers(client, chunk, sent, options.timeout))
            # Those of the chunk before.
            list(deleted)
            deleted = pool.map(lambda one: delete(client, one), sent)
            done = output.state["rows"]
            rate = (done - first) / (time.monotonic() - begun)
            print(f"{done} of {total} rows, {output.state['failed']} failed, {rate:.0f} rows/s, "
                  f"{(total - done) / rate:.0f} s left", file=sys.stderr, flush=True,
                  end="  \r" if sys.stderr.isatty() and done < total else "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input", help="a CSV file with a header")
    parser.add_argument("output", help="the CSV file to write, or to go on with")
    parser.add_argument("--chunk", type=int, default=1000, help="rows between two checkpoints (1000)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for the results of a chunk (600)")
    options = parser.parse_args()
    if options.chunk < 1:
        parser.error("--chunk: expected at least 1")
    try:
        output = Output(options.output, digest_of(options.input))
        total = sum(1 for _ in rows_of(options.input))
        stack, url = os.environ.get("CLUSTER_SERVING_STACK"), os.environ.get("CLUSTER_SERVING_URL")
        with connect(stack) if stack else Client(url or "http://localhost:10020") as client:
            run(client, options, output, total)
    except ServingError as error:
        sys.exit(f"\nstopped: {error}\nThe same command goes on where this stopped.")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        sys.exit(f"stopped: {error}")
    except KeyError as error:
        sys.exit(f"{options.input} has no column {error}")
    except KeyboardInterrupt:
        sys.exit("\nstopped. The same command goes on where this stopped.")
    print(f"{output.state['rows']} rows in {options.output}, {output.state['failed']} failed")
    return 1 if output.state["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
