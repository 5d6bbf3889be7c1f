/** Runs a script of a user of the Python client, cluster_serving, in a process of its own. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { textsOf } from '../support/documents.ts';
import { childEnvironment } from '../support/environment.ts';
import { PYTHON, PYTHON_PACKAGE } from '../support/python.ts';

const PRELUDE = `
import asyncio, json, sys
import numpy as np
from cluster_serving import AsyncClient, Client, ServingError, connect

URL = sys.argv[1]

def show(value):
    print(json.dumps(value), flush=True)

def error_of(call):
    "What is raised: its code, uri and text."
    try:
        return repr(call())
    except ServingError as error:
        return [error.code, error.uri, error.message]
`;

/**
 * The program of docs/how-to/migrate.md.
 * @param where what its two lines say, for each of the queues
 */
export async function migratedProgram(where: string, image: string): Promise<string> {
  const [program = ''] = await textsOf('py', 'docs/how-to/migrate.md');
  const there = program.replaceAll('url="http://localhost:10020"', where);
  assert.equal(there.split(where).length, 3);
  return there.replace('"digit-3.png"', JSON.stringify(image));
}

/** Its output. */
export const MIGRATED = 'the class of digit: 3\nblack has the shape (10,)\ndigit has the shape (10,)\n';

/** @param script calls `show` @returns what it showed */
export async function python(
  url: string,
  script: string,
  variables: Readonly<Record<string, string>> = {},
): Promise<unknown[]> {
  const env = childEnvironment({ PYTHONPATH: PYTHON_PACKAGE, PYTHONDONTWRITEBYTECODE: '1', ...variables });
  const options = { env, timeout: 600_000, maxBuffer: 2 ** 26 };
  const { stdout } = await promisify(execFile)(PYTHON, ['-c', PRELUDE + script, url], options);
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as unknown);
}
