/** The local copy of captures that a replay reads: the lines of their objects, each object after a line with its name. */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { type CapturedLine, readHeader, readLine } from '../../lib/codecs/capture/read.ts';
import type { CaptureHeader } from '../../lib/contract/capture.ts';
import { asError } from '../../lib/contract/errors.ts';
import type { JobModel } from '../../lib/contract/names.ts';

/** A line that is not of a capture, and where it is. */
export interface Unread {
  /** `captures/…/1.ndjson.gz:3` */
  readonly place: string;
  readonly text: string;
}

export type Entry =
  | { readonly header: CaptureHeader; readonly line: CapturedLine; readonly place: string }
  | { readonly unread: Unread };

const OBJECT = '{"object":';
const PROBLEM = '{"problem":';

export function objectLine(key: string): string {
  return JSON.stringify({ object: key });
}

export function problemLine(problem: string): string {
  return JSON.stringify({ problem });
}

/** Every line of the file, in order. @param captured whose captures they are: those of another model or job are not read */
export async function* entriesOf(file: string, captured: JobModel): AsyncGenerator<Entry> {
  let key = '';
  let number = 0;
  let header: CaptureHeader | undefined;
  for await (const text of createInterface({ input: createReadStream(file, 'utf8') })) {
    if (text.startsWith(OBJECT)) {
      key = String(Object(JSON.parse(text)).object);
      [number, header] = [0, undefined];
      continue;
    }
    const place = `${key}:${++number}`;
    const unread = (why: string): Entry => ({ unread: { place, text: why } });
    if (text.startsWith(PROBLEM)) {
      yield unread(String(Object(JSON.parse(text)).problem));
      continue;
    }
    try {
      if (number === 1) {
        const first = readHeader(text);
        if (first.job !== captured.job) yield unread(`a capture of the job ${first.job}`);
        else if (first.model !== captured.model)
          yield unread(`a capture of ${modelText(first)}, not of ${modelText(captured)}`);
        else header = first;
      } else if (header) yield { header, line: readLine(text), place };
    } catch (error) {
      yield unread(asError(error).message);
    }
  }
}

function modelText({ job, model }: JobModel): string {
  return model === undefined ? `the own model of the job ${job}` : `the model ${model} of the job ${job}`;
}
