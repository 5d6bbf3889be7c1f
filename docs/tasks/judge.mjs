/** Shared by the scripts that judge tasks: the service at the first argument, the files of the current folder, and a check. */
import { readdir, readFile } from 'node:fs/promises';

export const url = (process.argv[2] ?? 'http://localhost:10020').replace(/\/+$/, '');
const ANSWER_MS = 15_000;

/** Prints what holds; ends the process with what does not, and what was found instead. */
export function check(isSo, what, found) {
  console.log(`${isSo ? 'yes' : 'NO '} ${what}`);
  if (isSo) return;
  console.error(`found: ${JSON.stringify(found)?.slice(0, 500)}`);
  process.exit(1);
}

export async function read(path) {
  return readFile(path, 'utf8').catch(() => {
    check(false, `there is a file ${path}`, 'none');
    return '';
  });
}

export async function json(path) {
  const text = await read(path);
  try {
    return JSON.parse(text);
  } catch {
    check(false, `${path} is JSON`, text.slice(0, 200));
  }
}

export async function list(folder) {
  const names = await readdir(folder).catch(() => []);
  return names.toSorted((a, b) => (a < b ? -1 : 1));
}

export async function base64(path) {
  return (await readFile(path)).toString('base64');
}

/** The body of a request with a picture of the folder `images`. */
export async function picture(name) {
  return readFile(`images/${name}`);
}

export async function get(path, headers = {}) {
  return ask(path, { headers });
}

/** @param body bytes of a PNG, or what becomes JSON */
export async function post(path, body) {
  const isPicture = body instanceof Uint8Array;
  const headers = { 'content-type': isPicture ? 'image/png' : 'application/json' };
  return ask(path, { method: 'POST', headers, body: isPicture ? body : JSON.stringify(body) });
}

async function ask(path, options) {
  try {
    const answer = await fetch(url + path, { ...options, signal: AbortSignal.timeout(ANSWER_MS) });
    return await answer.json();
  } catch (error) {
    check(false, `${url}${path} answers`, String(error.cause ?? error));
  }
}

/** The index of the highest number. */
export function best(row = []) {
  return row.indexOf(Math.max(...row));
}
