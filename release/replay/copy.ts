/** Copies captures to this machine, in the form that a replay reads (file.ts). */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { finished } from 'node:stream/promises';
import { readHeader } from '../../lib/codecs/capture/read.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { CaptureFilter, CaptureReader } from '../../lib/s3/capture-reader.ts';
import { objectLine, problemLine } from './file.ts';

/** Characters that are copied. */
const MOST_COPIED = 8 * 1024 ** 3;

export interface CopyOptions {
  readonly captures: CaptureReader;
  readonly signal?: AbortSignal | undefined;
  /** Told how many objects were copied. */
  readonly onCopied?: ((objects: number) => void) | undefined;
}

export interface Copied {
  /** Those of the last capture that can be read. */
  readonly settings: Readonly<Record<string, unknown>>;
  readonly digest: string;
}

/** @returns undefined where there is none */
export async function copyCaptures(
  file: string,
  filter: CaptureFilter,
  { captures, signal, onCopied }: CopyOptions,
): Promise<Copied | undefined> {
  const hash = createHash('sha256');
  const out = createWriteStream(file);
  let settings: Readonly<Record<string, unknown>> = {};
  let objects = 0;
  let characters = 0;
  const write = async (line: string) => {
    characters += line.length;
    if (characters > MOST_COPIED)
      throw new ServingError(
        'too_large',
        `more than ${MOST_COPIED} characters of captures; pass a later --since`,
      );
    hash.update(`${line}\n`);
    if (!out.write(`${line}\n`)) await once(out, 'drain');
  };
  try {
    for await (const page of captures.pages(filter)) {
      for (const object of page) {
        signal?.throwIfAborted();
        await write(objectLine(object.key));
        for await (const line of captures.lines(object)) {
          await write('text' in line ? line.text : problemLine(line.problem));
          if ('text' in line && line.number === 1) settings = settingsOf(line.text) ?? settings;
        }
        objects++;
        onCopied?.(objects);
      }
    }
  } finally {
    out.end();
    await finished(out);
  }
  return objects === 0 ? undefined : { settings, digest: hash.digest('hex') };
}

function settingsOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return readHeader(line).settings;
  } catch {
    return undefined;
  }
}
