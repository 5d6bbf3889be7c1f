/** Reads the captures of a deployment: each line with the numbers by which its record and its answer are known. */
import { gunzipSync, gzipSync } from 'node:zlib';
import { readHeader, readLine } from '../../lib/codecs/capture/read.ts';
import { capturesPrefix } from '../../lib/contract/names.ts';
import type { CaptureFact } from './history.ts';
import type { SimulatedProcess } from './machine/process.ts';
import type { S3Model } from './models/s3.ts';
import { JOB } from './stage.ts';

/** `capture` in config.yaml. */
export const CAPTURE = { share: 1 };

/** The module `zlib` of a process: what runs beside it takes a moment of the scheduler. */
export function zlibModule(process: SimulatedProcess, real: object) {
  return {
    ...real,
    gzip: (bytes: string, callback: (error: null, zipped: Uint8Array) => void) =>
      void process.after(1, () => callback(null, gzipSync(bytes))),
  };
}

export function readCaptures({ objects }: S3Model): CaptureFact[] {
  const facts: CaptureFact[] = [];
  for (const [key, { body }] of objects) {
    if (!key.startsWith(capturesPrefix(JOB))) continue;
    const [first = '', ...lines] = gunzipSync(body).toString().trimEnd().split('\n');
    const { version: model, model: named } = readHeader(first);
    for (const line of lines) {
      const { id, records } = readLine(line);
      for (const { inputs, outputs } of records) {
        const x = inputs.get('x');
        const [number, version, place] = outputs?.[0]?.data ?? [];
        if (typeof number !== 'number' || typeof version !== 'number') continue;
        const answer = { number, version, place: Number(place) };
        facts.push({ id, named, model, number: numberOf(x), answer });
      }
    }
  }
  return facts;
}

function numberOf(value: unknown): number | undefined {
  const {
    kind,
    tensor,
    value: content,
  }: { kind?: string; tensor?: { data: ArrayLike<number> }; value?: unknown } = Object(value);
  if (kind === 'tensor') return tensor?.data[0];
  return Array.isArray(content) ? Number(content.flat()[0]) : undefined;
}
