/** Runs a script of a user of the Python client in a process of its own. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { ENVIRONMENT } from '../lib/workers/child.ts';
import { PYTHON } from '../support/python.ts';

const run = promisify(execFile);

const PRELUDE = `
import json, sys, threading, time, warnings
import numpy as np
from wkr_serving.client import ConcurrentWKRClient, WKRClient, WKRError

PORT = int(sys.argv[1])
CALL = {"timeout": 20000, "port": PORT, "ignore_all_checks": True}

def show(value):
    print(json.dumps(value), flush=True)

def error_of(call):
    "The class of the error, its code, and its text."
    try:
        return ["nothing", None, repr(call())]
    except Exception as error:
        return [type(error).__name__, getattr(error, "code", None), str(error)]
`;

/** @param script calls `show` @returns what it showed */
export async function python(
  port: number,
  script: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<unknown[]> {
  const options = { env: { ...ENVIRONMENT, ...environment }, timeout: 60_000, maxBuffer: 2 ** 26 };
  const { stdout } = await run(PYTHON, ['-c', PRELUDE + script, String(port)], options);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);
}
