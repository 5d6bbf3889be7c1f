/** Reads the messages of a frame. What comes from a worker is checked, because its process runs a user's code. */
import { type Frame, type Header, isCount, ProtocolError } from '../codecs/values/frame.ts';
import { isObject, ValueReader } from '../codecs/values/read-value.ts';
import type { WorkerValue } from '../contract/worker-values.ts';
import {
  type FromWorker,
  IMAGE_FORMS,
  KINDS,
  LANGUAGES,
  type Open,
  PHASES,
  type RunFailed,
  type RunResult,
  type Statistics,
  type ToWorker,
  TRANSFERS,
  type WorkerFault,
  type WorkerOutcome,
} from './messages.ts';

/**
 * @param image makes a value of the bytes of an encoded image
 * @throws ProtocolError for an invalid message of the service
 */
export function readToWorker(
  { header, blocks }: Frame,
  image?: (bytes: Uint8Array) => WorkerValue,
): ToWorker {
  if (header['type'] === 'run') {
    const items = listOf(header, 'items');
    return { type: 'run', id: countOf(header, 'id'), items: readValues(items, blocks, image) };
  }
  assertNoBlocks(blocks);
  switch (header['type']) {
    case 'open':
      return readOpen(header);
    case 'retire':
      return { type: 'retire' };
    default:
      throw unknownType(header);
  }
}

/** @throws ProtocolError for an invalid message of a worker */
export function readFromWorker({ header, blocks }: Frame): FromWorker {
  if (header['type'] === 'result') return readResult(header, blocks);
  assertNoBlocks(blocks);
  switch (header['type']) {
    case 'hello':
      return {
        type: 'hello',
        protocol: countOf(header, 'protocol'),
        language: oneOf(header, 'language', LANGUAGES),
        runtime: textOf(header, 'runtime'),
        version: textOf(header, 'version'),
      };
    case 'ready':
      return {
        type: 'ready',
        retryAlone: flagOf(header, 'retryAlone'),
        imageAs: oneOf(header, 'imageAs', IMAGE_FORMS),
      };
    case 'failed': {
      const error = objectOf(header, 'error');
      const fault = { ...readFault(error), traceback: textOf(error, 'traceback') };
      return { type: 'failed', phase: oneOf(header, 'phase', PHASES), error: fault };
    }
    case 'retired':
      return { type: 'retired' };
    default:
      throw unknownType(header);
  }
}

function readOpen(header: Header): Open {
  const protocol = countOf(header, 'protocol');
  return {
    type: 'open',
    protocol,
    worker: textOf(header, 'worker'),
    directory: textOf(header, 'directory'),
    workerId: numberOf(header, 'workerId'),
    deviceId: numberOf(header, 'deviceId'),
    transferProto: oneOf(header, 'transferProto', TRANSFERS),
    tmpFolder: textOf(header, 'tmpFolder'),
    modelDir: textOf(header, 'modelDir'),
    modelName: textOf(header, 'modelName'),
    batchSize: countOf(header, 'batchSize'),
    gpuMemoryFraction: numberOf(header, 'gpuMemoryFraction'),
    verbose: flagOf(header, 'verbose'),
    logName: textOf(header, 'logName'),
  };
}

function readResult(header: Header, blocks: readonly Uint8Array[]): RunResult | RunFailed {
  const id = countOf(header, 'id');
  const statistics = readStatistics(objectOf(header, 'statistics'));
  if ('failed' in header) {
    assertNoBlocks(blocks);
    const failed = objectOf(header, 'failed');
    return {
      type: 'result',
      id,
      failed: { kind: oneOf(failed, 'kind', KINDS), ...readFault(failed) },
      statistics,
    };
  }
  const values = new ValueReader(blocks);
  const outcomes = listOf(header, 'outcomes').map((outcome): WorkerOutcome => {
    if (!isObject(outcome)) throw malformed('an outcome is not an object');
    if ('error' in outcome) return { error: readFault(objectOf(outcome, 'error')) };
    if (!('value' in outcome)) throw malformed('an outcome has neither value nor error');
    return { value: values.read(outcome['value']) };
  });
  values.end();
  return { type: 'result', id, outcomes, statistics };
}

function readValues(
  items: readonly unknown[],
  blocks: readonly Uint8Array[],
  image?: (bytes: Uint8Array) => WorkerValue,
): WorkerValue[] {
  const values = new ValueReader(blocks, image);
  const read = items.map((item) => values.read(item));
  values.end();
  return read;
}

function readFault(fault: Header): WorkerFault {
  return { type: textOf(fault, 'type'), message: textOf(fault, 'message') };
}

function readStatistics(statistics: Header): Statistics {
  const entries = Object.keys(statistics).map((name): [string, number[]] => {
    const samples = listOf(statistics, name);
    if (!samples.every((sample) => typeof sample === 'number')) throw malformed('a sample is not a number');
    return [name, samples];
  });
  return Object.fromEntries(entries);
}

function assertNoBlocks(blocks: readonly Uint8Array[]): void {
  if (blocks.length > 0) throw malformed('it has blocks and no values');
}

function textOf(header: Header, name: string): string {
  const value = header[name];
  if (typeof value !== 'string') throw malformed(`${name} is not a text`);
  return value;
}

function numberOf(header: Header, name: string): number {
  const value = header[name];
  if (typeof value !== 'number') throw malformed(`${name} is not a number`);
  return value;
}

function countOf(header: Header, name: string): number {
  const value = header[name];
  if (!isCount(value)) throw malformed(`${name} is not a whole number >= 0`);
  return value;
}

function flagOf(header: Header, name: string): boolean {
  const value = header[name];
  if (typeof value !== 'boolean') throw malformed(`${name} is neither true nor false`);
  return value;
}

function listOf(header: Header, name: string): unknown[] {
  const value = header[name];
  if (!Array.isArray(value)) throw malformed(`${name} is not a list`);
  return value;
}

function objectOf(header: Header, name: string): Header {
  const value = header[name];
  if (!isObject(value)) throw malformed(`${name} is not an object`);
  return value;
}

function oneOf<T extends string>(header: Header, name: string, allowed: readonly T[]): T {
  const value = allowed.find((one) => one === header[name]);
  if (value === undefined) throw malformed(`${name} is none of ${allowed.join(', ')}`);
  return value;
}

function unknownType(header: Header): ProtocolError {
  return malformed(`unknown type ${JSON.stringify(header['type'])?.slice(0, 40)}`);
}

function malformed(problem: string): ProtocolError {
  return new ProtocolError(`malformed message: ${problem}`);
}
