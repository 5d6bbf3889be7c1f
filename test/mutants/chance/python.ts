/** Finds places in Python by the syntax tree of Python's own `ast`. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { PYTHON } from '../../support/python.ts';
import type { Place } from './place.ts';

const SCRIPT = fileURLToPath(new URL('places.py', import.meta.url));

/**
 * @returns for each text its places, in the order of the text
 * @throws if one is not Python, or there is no Python
 */
export function placesInPython(texts: readonly string[]): Place[][] {
  const { status, stdout, stderr } = spawnSync(PYTHON, [SCRIPT], {
    input: JSON.stringify(texts),
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (status !== 0) throw new Error(`${SCRIPT}: ${stderr}`);
  return JSON.parse(stdout);
}
