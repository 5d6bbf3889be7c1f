/**
 * The model of onnxruntime: a file names its version, and the answer to a record is the record's number and the version,
 * so that an answer of another record or version is seen. A run keeps the thread busy; some records end the process in
 * which they run, and some never end.
 */
import { elementAt } from '../../../lib/contract/present.ts';
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

export interface InferenceHooks {
  /** Ms that the thread is busy with it. */
  readonly openMs: (process: SimulatedProcess) => number;
  readonly runMs: (process: SimulatedProcess) => number;
  readonly slowMs: number;
  readonly onOpen: (process: SimulatedProcess, version: number, open: number) => void;
  readonly onRun: (process: SimulatedProcess, records: readonly number[], version: number) => void;
}

/** The file of a version. It begins as an ONNX file does. */
export function modelFile(version: number, flaw?: Flaw, bytes = 4_000): Buffer {
  const text = `version ${version}.${flaw ? ` It ${flaw}.` : ''}`;
  return Buffer.concat([Buffer.from([0x08, 0x0a]), Buffer.from(text.padEnd(bytes, '.'))]);
}

interface FileFacts {
  readonly version: number;
  readonly flaw: Flaw | undefined;
}

export function readModelFile(file: Buffer): FileFacts {
  const [, version, said] = /^..version (\d+)\.(?: It (\w+)\.)?/s.exec(file.toString('latin1')) ?? [];
  if (version === undefined) throw new Error('protobuf parsing failed');
  return { version: Number(version), flaw: FLAWS.find((flaw) => flaw === said) };
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
  let open = 0;
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
    readonly version: number;
    readonly flaw: Flaw | undefined;
    readonly inputNames = ['x'];
    readonly outputNames = ['y'];
    readonly inputMetadata = [{ name: 'x', isTensor: true, type: 'float32', shape: ['N', 2] }];
    readonly outputMetadata = [{ name: 'y', isTensor: true, type: 'float32', shape: ['N', 2] }];

    constructor({ version, flaw }: FileFacts) {
      this.version = version;
      this.flaw = flaw;
    }

    async run({ x }: Readonly<Record<'x', Feed>>) {
      const rows = x.data.length / 2;
      const numbers = Array.from({ length: rows }, (_, i) => elementAt(x.data, 2 * i, 'x'));
      const kinds = new Set(numbers.map((_, i) => KINDS[elementAt(x.data, 2 * i + 1, 'x')]));
      hooks.onRun(process, numbers, this.version);
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
      const isFlawed = this.flaw === 'fails' && numbers.some((number) => number > 0);
      if (isFlawed || kinds.has('fails'))
        throw new Error('Non-zero status code returned while running Gather node');
      const y = Float32Array.from(numbers.flatMap((number) => [number, this.version]));
      return { y: new FakeTensor('float32', y, [rows, 2]) };
    }

    async release(): Promise<void> {
      open--;
    }
  }

  return {
    env: { versions: { common: '1.30.0' }, logLevel: 'fatal' },
    Tensor: FakeTensor,
    InferenceSession: {
      async create(file: string | Uint8Array) {
        if (typeof file !== 'string') return { release: async () => undefined };
        const facts = readModelFile(process.disk.fs.readFileSync(file) as Buffer);
        await busy(hooks.openMs(process));
        const { flaw } = facts;
        if (flaw === 'ends' || (flaw === 'tight' && open > 0)) {
          process.after(0, () => process.end('out of memory'));
          return new Promise<never>(() => undefined);
        }
        if (flaw === 'broken' || (flaw === 'refused' && open > 0))
          throw new Error('Failed to allocate memory');
        hooks.onOpen(process, facts.version, ++open);
        return new Session(facts);
      },
    },
  };
}
