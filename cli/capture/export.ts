/** `capture export`: the lines of all captures, each with the version that answered, and the name of a further model. */
import { readHeader } from '../../lib/codecs/capture/read.ts';
import { asError } from '../../lib/contract/errors.ts';
import type { CapturedObject, CaptureFilter, CaptureReader } from '../../lib/s3/capture-reader.ts';
import { EXIT, type Output } from '../output.ts';

/** @returns exit code 1 when something could not be read; the rest is printed */
export async function exportCaptures(
  readers: readonly CaptureReader[],
  filter: CaptureFilter,
  output: Output,
): Promise<number> {
  let isWhole = true;
  for (const reader of readers) {
    for await (const page of reader.pages(filter)) {
      for (const object of page) {
        const problem = await exportObject(reader, object, output);
        if (problem === undefined) continue;
        isWhole = false;
        output.note(`${object.key}: ${problem}`);
      }
    }
  }
  return isWhole ? EXIT.ok : EXIT.failed;
}

/** @returns what ended it before its end */
async function exportObject(
  reader: CaptureReader,
  object: CapturedObject,
  output: Output,
): Promise<string | undefined> {
  let facts = '';
  for await (const line of reader.lines(object)) {
    if ('problem' in line) return `line ${line.number}: ${line.problem}`;
    try {
      if (line.number === 1) {
        const { model, version } = readHeader(line.text);
        facts = JSON.stringify({ model, version }).slice(0, -1);
      } else output.piece(`${facts},${line.text.slice(1)}\n`);
    } catch (error) {
      return asError(error).message;
    }
  }
  return undefined;
}
