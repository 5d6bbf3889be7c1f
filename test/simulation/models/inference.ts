/**
 * The model of onnxruntime: a file names its model and version, and the answer to a record is the record's number, the version and
 * the model, so that an answer of another record, version or model is seen. A run keeps the thread busy; some records end the
 * process in which they run, and some never end.
 */
import { elementAt } from '../../../lib/contract/present.ts';
import { memoryOf } from '../../../lib/registry/memory.ts';
import type { SimulatedProcess } from '../machine/process.ts';

/** The effects of a record on the model that runs it. */
export const KINDS = ['good', 'fails', 'crashes', 'endless', 'slow'] as const;
export type Kind = (typeof KINDS)[number];

/**
 * Faults of a version: `broken` does not open; `refused` does not open beside another one; `ends` and `tight` end their process
 * instead; `fails` opens, and fails each record.
 */
export const FLAWS = ['broken', 'refused', 'ends', 'tight', 'fails'] as const;
export type Flaw = (typeof FLAWS)[number];

/** The further models that a history may have. An answer names one by its place here, from 1 on; 0 is the job's own. */
export const FURTHER = ['fraud', 'search', 'rank', 'price', 'tags'] as const;

export interface InferenceHooks {
  /** Ms that the thread is busy with it. */
  readonly openMs: (process: SimulatedProcess) => number;
  readonly runMs: (process: SimulatedProcess) => number;
  readonly slowMs: number;
  /** A session begins to open. @param open those of the process, with this one */
  readonly onOpen: (process: SimulatedProcess, open: readonly FileFacts[]) => void;
  readonly onRun: (process: SimulatedProcess, records: readonly number[], facts: FileFacts) => void;
  /** A session that was released is asked to run. */
  readonly onClosedRun: (process: SimulatedProcess, facts: FileFacts) => void;
}

interface FileOptions {
  readonly flaw?: Flaw | undefined;
  /** The further model. Default: the job's own. */
  readonly model?: string | undefined;
  /** Its memory when it is open. Default: it was not measured. */
  readonly memoryMB?: number | undefined;
}

const FILE_BYTES = 4_000;

/** The file of a version. It begins as an ONNX file does. */
export function modelFile(version: number, { flaw, model, memoryMB }: FileOptions = {}): Buffer {
  const name = model === undefined ? '' : ` of ${model}`;
  const size = memoryMB === undefined ? '' : ` It takes ${memoryMB} MB.`;
  const text = `version ${version}${name}.${flaw ? ` It ${flaw}.` : ''}${size}`;
  return Buffer.concat([Buffer.from([0x08, 0x0a]), Buffer.from(text.padEnd(FILE_BYTES, '.'))]);
}

export interface FileFacts {
  /** Undefined: the job's own. */
  readonly model: string | undefined;
  readonly version: number;
  readonly flaw: Flaw | undefined;
  /** By what an environment counts for it. */
  readonly memoryBytes: number;
}

export function readModelFile(file: Buffer): FileFacts {
  const [, version, model, said, megabytes] =
    /^..version (\d+)(?: of (\w+))?\.(?: It (\w+)\.)?(?: It takes (\d+) MB\.)?/s.exec(
      file.toString('latin1'),
    ) ?? [];
  if (version === undefined) throw new Error('protobuf parsing failed');
  const measured = megabytes === undefined ? {} : { memoryBytes: Number(megabytes) * 1024 * 1024 };
  return {
    model,
    version: Number(version),
    flaw: FLAWS.find((flaw) => flaw === said),
    memoryBytes: memoryOf({ files: [{ bytes: file.length }], ...measured }),
  };
}

/** The place of a model in an answer. */
export function placeOf(model: string | undefined): number {
  return 1 + FURTHER.findIndex((name) => name === model);
}

class FakeTensor {
  readonly type: string;
  readonly data: unknown;
  readonly dims: readonly number[];

  constructor(type: string, data: unknown, dims: readonly number[]) {
    this.type = type;
    this.data = data;
    this.dims = dims;
  }
}

interface Feed {
  readonly data: Float32Array;
}

/** The module `onnxruntime-node`. */
export function onnxModule(process: SimulatedProcess, hooks: InferenceHooks) {
  const open = new Set<FileFacts>();
  /** The thread is busy; what was asked for is there as soon as it is free. */
  const busy = (ms: number) =>
    new Promise<void>((resolve) => {
      process.block(ms);
      process.machine.scheduler.after(
        process.busyUntil - process.machine.scheduler.nowMs,
        process,
        resolve,
        true,
      );
    });

  class Session {
    readonly facts: FileFacts;
    readonly inputNames = ['x'];
    readonly outputNames = ['y'];
    readonly inputMetadata = [{ name: 'x', isTensor: true, type: 'float32', shape: ['N', 2] }];
    readonly outputMetadata = [{ name: 'y', isTensor: true, type: 'float32', shape: ['N', 3] }];

    constructor(facts: FileFacts) {
      this.facts = facts;
    }

    async run({ x }: Readonly<Record<'x', Feed>>) {
      const rows = x.data.length / 2;
      const numbers = Array.from({ length: rows }, (_, i) => elementAt(x.data, 2 * i, 'x'));
      const kinds = new Set(numbers.map((_, i) => KINDS[elementAt(x.data, 2 * i + 1, 'x')]));
      const { facts } = this;
      if (!open.has(facts)) hooks.onClosedRun(process, facts);
      hooks.onRun(process, numbers, facts);
      if (kinds.has('crashes')) {
        process.after(0, () => process.end('SIGSEGV'));
        process.block(1);
        return new Promise<never>(() => undefined);
      }
      if (kinds.has('endless')) {
        process.block(Number.POSITIVE_INFINITY);
        return new Promise<never>(() => undefined);
      }
      await busy(hooks.runMs(process) + (kinds.has('slow') ? hooks.slowMs : 0));
      const isFlawed = facts.flaw === 'fails' && numbers.some((number) => number > 0);
      if (isFlawed || kinds.has('fails'))
        throw new Error('Non-zero status code returned while running Gather node');
      const y = Float32Array.from(numbers.flatMap((number) => [number, facts.version, placeOf(facts.model)]));
      return { y: new FakeTensor('float32', y, [rows, 3]) };
    }

    async release(): Promise<void> {
      open.delete(this.facts);
    }
  }

  return {
    env: { versions: { common: '1.30.0' }, logLevel: 'fatal' },
    Tensor: FakeTensor,
    InferenceSession: {
      async create(file: string | Uint8Array) {
        if (typeof file !== 'string') return { release: async () => undefined };
        const facts = readModelFile(process.disk.fs.readFileSync(file) as Buffer);
        const isFirst = open.size === 0;
        open.add(facts);
        hooks.onOpen(process, [...open]);
        await busy(hooks.openMs(process));
        const { flaw } = facts;
        if (flaw === 'ends' || (flaw === 'tight' && !isFirst)) {
          process.after(0, () => process.end('out of memory'));
          return new Promise<never>(() => undefined);
        }
        if (flaw === 'broken' || (flaw === 'refused' && !isFirst)) {
          open.delete(facts);
          throw new Error('Failed to allocate memory');
        }
        return new Session(facts);
      },
    },
  };
}
