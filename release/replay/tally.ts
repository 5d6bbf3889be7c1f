/** Adds up what a replay finds, in memory that does not grow with the records. */
import { isDeepStrictEqual } from 'node:util';
import type { CapturedLine, CapturedRecord } from '../../lib/codecs/capture/read.ts';
import type { CaptureHeader } from '../../lib/contract/capture.ts';
import type { Value } from '../../lib/contract/values.ts';
import { DEFAULT_TOLERANCE } from '../golden/file.ts';
import type { Compared } from './compare.ts';
import type { Unread } from './file.ts';
import { OutputSums, type ReplayedOutput } from './output-sums.ts';

export interface Replay {
  /** Requests and records of captures that were read. */
  readonly lines: number;
  /** By the version that answered them. */
  readonly versions: Readonly<Record<string, number>>;
  /** When the first and the last of them were answered, in ms since 1970; undefined for none. */
  readonly from: number | undefined;
  readonly to: number | undefined;
  /** Records whose answers were compared. */
  readonly compared: number;
  /** Records that were compared bit for bit, and those of them that differ: the runtime has drifted then. */
  readonly bits: Counted;
  /** The others, compared within TOLERANCE of the spread. */
  readonly tolerance: Counted;
  /** Why they were not compared bit for bit. */
  readonly because: readonly string[];
  /** Settings that are others than those of the captures. */
  readonly settings: readonly string[];
  readonly outputs: readonly ReplayedOutput[];
  /** Records whose first class or label is another, in any output. */
  readonly flips: number;
  /** The largest differences first. */
  readonly worst: readonly WorstRecord[];
  /** Requests and records that failed, and those of them that end in another way now. */
  readonly failures: Counted;
  readonly otherEnds: readonly OtherEnd[];
  /** Records that lack an input, and which. */
  readonly notReplayable: number;
  readonly leftOut: readonly string[];
  readonly unreadable: number;
  readonly unread: readonly Unread[];
  /** Requests and records that were drawn and not stored. */
  readonly lost: number;
  readonly slices: readonly Slice[] | undefined;
}

export interface Counted {
  readonly records: number;
  readonly differ: number;
}

interface WorstRecord {
  readonly id: string;
  readonly at: number;
  readonly output: string;
  /** As a share of the spread; null for another form. */
  readonly distance: number | null;
}

interface OtherEnd {
  readonly id: string;
  readonly at: number;
  /** A code, or "an answer". */
  readonly was: string;
  readonly is: string;
}

/** The records with one value of an input. */
interface Slice {
  readonly value: string;
  readonly records: number;
  readonly flips: number;
  readonly differ: number;
}

interface TallyOptions {
  readonly version: string | undefined;
  readonly runtime: CaptureHeader['runtime'];
  readonly settings: Readonly<Record<string, unknown>>;
  readonly by: string | undefined;
}

export interface ComparedRecord {
  readonly header: CaptureHeader;
  readonly line: CapturedLine;
  readonly record: CapturedRecord;
  readonly compared: readonly Compared[];
  /** True: it had the same row of as many rows. */
  readonly isSamePlace: boolean;
}

export const TOLERANCE: number = DEFAULT_TOLERANCE;
const ANSWER = 'an answer';
const SHOWN = 10;
const MOST_SLICES = 1_000;
const OTHERS = '(other values)';

export class Tally {
  readonly #options: TallyOptions;
  readonly #versions = new Map<string, number>();
  readonly #because = new Set<string>();
  readonly #settings = new Set<string>();
  readonly #outputs = new Map<string, OutputSums>();
  readonly #slices = new Map<string, { records: number; flips: number; differ: number }>();
  readonly #leftOut = new Set<string>();
  readonly #unread: Unread[] = [];
  readonly #otherEnds: OtherEnd[] = [];
  readonly #lost = new Map<string, number>();
  /** Why answers below a header are not compared bit for bit; one header has many. */
  readonly #reasons = new WeakMap<CaptureHeader, readonly string[]>();
  #worst: WorstRecord[] = [];
  #bits = { records: 0, differ: 0 };
  #tolerance = { records: 0, differ: 0 };
  #failures = { records: 0, differ: 0 };
  #lines = 0;
  #flips = 0;
  #notReplayable = 0;
  #unreadable = 0;
  #from: number | undefined;
  #to: number | undefined;

  constructor(options: TallyOptions) {
    this.#options = options;
  }

  addUnread(unread: Unread): void {
    this.#unreadable++;
    if (this.#unread.length < SHOWN) this.#unread.push(unread);
  }

  /** @param place of the line: its object is named after the environment that wrote it */
  addHeader(header: CaptureHeader, { at }: CapturedLine, place: string): void {
    this.#lines++;
    const environment = /-([^-/]+)-\d+\.ndjson\.gz/.exec(place)?.[1] ?? '';
    this.#lost.set(environment, Math.max(header.lost, this.#lost.get(environment) ?? 0));
    this.#versions.set(header.version, (this.#versions.get(header.version) ?? 0) + 1);
    this.#from = Math.min(at, this.#from ?? at);
    this.#to = Math.max(at, this.#to ?? at);
    if (this.#reasons.has(header)) return;
    this.#reasons.set(header, this.#reasonsOf(header));
    const { settings } = this.#options;
    for (const key of new Set([...Object.keys(settings), ...Object.keys(header.settings)])) {
      const [was, is] = [header.settings[key], settings[key]];
      if (JSON.stringify(was) !== JSON.stringify(is))
        this.#settings.add(`${key} ${JSON.stringify(was)} -> ${JSON.stringify(is)}`);
    }
  }

  addLeft(records: number, names: readonly string[]): void {
    this.#notReplayable += records;
    for (const name of names) this.#leftOut.add(name);
  }

  /** @param is the code with which it fails now; undefined for an answer */
  addFailure({ id, at, error = ANSWER }: CapturedLine, is: string = ANSWER): void {
    this.#failures.records++;
    if (error === is) return;
    this.#failures.differ++;
    if (this.#otherEnds.length < SHOWN) this.#otherEnds.push({ id, at, was: error, is });
  }

  addCompared({ header, line, record, compared, isSamePlace }: ComparedRecord): void {
    const reasons = isSamePlace
      ? (this.#reasons.get(header) ?? this.#reasonsOf(header))
      : ['another number of rows shared the run'];
    const isExact = reasons.length === 0;
    for (const reason of reasons) this.#because.add(reason);
    const differs = compared.some(
      ({ isSame, distance }) => !isSame && (isExact || distance === undefined || distance > TOLERANCE),
    );
    const counted = isExact ? this.#bits : this.#tolerance;
    counted.records++;
    if (differs) counted.differ++;
    const hasFlipped = compared.some(({ flips }) => flips);
    if (hasFlipped) this.#flips++;
    for (const one of compared) this.#addOutput(one);
    if (differs) this.#addWorst(line, compared);
    if (this.#options.by !== undefined) this.#addSlice(record, this.#options.by, hasFlipped, differs);
  }

  sum(): Replay {
    const { by } = this.#options;
    return {
      lines: this.#lines,
      versions: Object.fromEntries(this.#versions),
      from: this.#from,
      to: this.#to,
      compared: this.#bits.records + this.#tolerance.records,
      bits: this.#bits,
      tolerance: this.#tolerance,
      because: [...this.#because],
      settings: [...this.#settings],
      outputs: Array.from(this.#outputs.values(), (sums) => sums.sum()),
      flips: this.#flips,
      worst: this.#worst,
      failures: this.#failures,
      otherEnds: this.#otherEnds,
      notReplayable: this.#notReplayable,
      leftOut: [...this.#leftOut],
      unreadable: this.#unreadable,
      unread: this.#unread,
      lost: [...this.#lost.values()].reduce((sum, lost) => sum + lost, 0),
      slices: by === undefined ? undefined : this.#slicesOf(),
    };
  }

  #reasonsOf({ runtime, settings, version }: CaptureHeader): readonly string[] {
    const here = this.#options;
    const reasons: string[] = [];
    if (version !== here.version) reasons.push('another version answered');
    for (const key of ['onnxruntime', 'architecture', 'threads', 'features'] as const)
      if (!isDeepStrictEqual(runtime[key], here.runtime[key]))
        reasons.push(`${key} ${textOf(runtime[key])} -> ${textOf(here.runtime[key])}`);
    if (JSON.stringify(settings) !== JSON.stringify(here.settings)) reasons.push('the settings are others');
    return reasons;
  }

  #addOutput(compared: Compared): void {
    const { output } = compared;
    const sums = this.#outputs.get(output) ?? new OutputSums(output);
    this.#outputs.set(output, sums);
    sums.add(compared);
  }

  #addWorst({ id, at }: CapturedLine, compared: readonly Compared[]): void {
    const size = ({ distance }: { readonly distance?: number | null | undefined }) => distance ?? Infinity;
    const [first] = compared.toSorted((a, b) => size(b) - size(a));
    if (!first) return;
    const record = { id, at, output: first.output, distance: first.distance ?? null };
    const last = this.#worst.at(-1);
    if (last && this.#worst.length >= SHOWN && size(record) <= size(last)) return;
    this.#worst = [...this.#worst, record].sort((a, b) => size(b) - size(a)).slice(0, SHOWN);
  }

  #addSlice({ inputs }: CapturedRecord, by: string, hasFlipped: boolean, differs: boolean): void {
    const text = sliceText(inputs.get(by));
    const isKnown = this.#slices.has(text) || this.#slices.size < MOST_SLICES;
    const name = isKnown ? text : OTHERS;
    const slice = this.#slices.get(name) ?? { records: 0, flips: 0, differ: 0 };
    slice.records++;
    slice.flips += Number(hasFlipped);
    slice.differ += Number(differs);
    this.#slices.set(name, slice);
  }

  /** Those with the most flips first. */
  #slicesOf(): Slice[] {
    const slices = Array.from(this.#slices, ([value, counts]) => ({ value, ...counts }));
    return slices.sort((a, b) => b.flips - a.flips || b.differ - a.differ || b.records - a.records);
  }
}

/** Only single values tell records apart in groups. */
function sliceText(value: Value | undefined): string {
  if (value?.kind === 'tensor' && value.tensor.data.length === 1) return String(value.tensor.data[0]);
  const content = value?.kind === 'json' ? value.value : undefined;
  return typeof content === 'object' || content === undefined ? OTHERS : JSON.stringify(content).slice(0, 80);
}

function textOf(value: unknown): string {
  return Array.isArray(value) ? value.join('+') || 'none' : String(value);
}
