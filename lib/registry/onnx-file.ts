/**
 * Finds the model file of a model directory and checks that it can be one. Two models in one directory are refused,
 * because guessing would serve the wrong one. A failed download has the right name but may be a web page, or the
 * pointer that Git LFS keeps instead of a large file.
 */

import { closeSync, openSync, readSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { asError, modelUnavailable, type ServingError } from '../contract/errors.ts';
import { elementAt } from '../contract/present.ts';

const HEAD_BYTES = 512;
const SHOWN_NAMES = 10;

/**
 * The only `*.onnx` of a model directory.
 * @throws model_unavailable for none, several, no such directory, or a file that cannot be a model
 */
export async function findModelFile(directory: string): Promise<string> {
  const names = await namesIn(directory);
  const models = names.filter((name) => name.endsWith('.onnx')).sort();
  if (models.length !== 1) {
    const found = models.length === 0 ? foundInstead(names) : shownNames(models);
    throw unavailable(`model directory ${directory}: expected one *.onnx file, found ${found}`);
  }
  const path = join(directory, elementAt(models, 0, 'models'));
  const wrong = wrongContent(await headOf(path));
  if (wrong) throw unavailable(`${path}: expected an ONNX model, found ${wrong}`);
  return path;
}

async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    throw unavailable(`model directory ${directory} cannot be read: ${unreadable(error, directory)}`, error);
  }
}

/** Explains why a directory cannot be listed. */
export function unreadable(error: unknown, directory: string): string {
  const { code, message } = asError(error);
  if (code === 'ENOENT') return 'there is no such directory';
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied';
  if (code === 'ENOTDIR') return `it is a file; expected the directory that holds ${basename(directory)}`;
  return message;
}

function foundInstead(names: readonly string[]): string {
  const listed = names.length === 0 ? '' : `: ${shownNames(names.toSorted())}`;
  return `none in ${names.length} files${listed}`;
}

export function shownNames(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_NAMES).join(', ');
  return names.length > SHOWN_NAMES ? `${shown} and ${names.length - SHOWN_NAMES} more` : shown;
}

async function headOf(path: string): Promise<Uint8Array> {
  try {
    return await readHead(path);
  } catch (error) {
    throw unavailable(`${path} cannot be read: ${asError(error).message}`, error);
  }
}

/** The first bytes of a file, enough for `wrongContent`. @throws the file system's error */
export async function readHead(path: string): Promise<Uint8Array> {
  // Reading a pipe would wait forever.
  if (!(await stat(path)).isFile()) throw new Error('it is not a file');
  const file = openSync(path, 'r');
  try {
    const head = Buffer.alloc(HEAD_BYTES);
    return head.subarray(0, readSync(file, head, 0, HEAD_BYTES, 0));
  } finally {
    closeSync(file);
  }
}

/** Names what a file really is if it is not a binary model; undefined when it may be one. */
export function wrongContent(head: Uint8Array): string | undefined {
  if (head.length === 0) return 'an empty file';
  const text = Buffer.from(head).toString('latin1').trimStart();
  if (text.startsWith('version https://git-lfs.github.com/')) {
    return 'a Git LFS pointer instead of the file; `git lfs pull` fetches it';
  }
  if (/^(<!doctype html|<html|<head)/i.test(text)) {
    return 'a web page (HTML), probably of a download that failed';
  }
  if (text.startsWith('<?xml')) return 'an XML text, as storage answers with an error';
  if (/^\{\s*"/.test(text)) return 'a JSON text, as hubs answer with an error';
  if (head[0] === 0x1f && head[1] === 0x8b) return 'a gzip archive; unpack it first';
  if (text.startsWith('PK\u0003\u0004')) return 'a zip archive; unpack it first';
  return undefined;
}

function unavailable(message: string, cause?: unknown): ServingError {
  return modelUnavailable(message, { cause });
}
