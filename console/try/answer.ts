/** Reads an answer of POST /predict and decides how it is shown: classes as bars, everything else as a table or a text. */
import type { PortFacts } from '../api.ts';

export interface Bar {
  readonly label: string;
  readonly value: number;
}

export type Shown = { readonly name: string; readonly shape: string } & (
  | { readonly kind: 'bars'; readonly bars: readonly Bar[]; readonly more: number }
  | {
      readonly kind: 'table';
      readonly columns: readonly string[];
      readonly rows: readonly (readonly string[])[];
      readonly more: number;
    }
  | { readonly kind: 'text'; readonly text: string }
);

const MOST_BARS = 10;
const MOST_ROWS = 20;
const MOST_COLUMNS = 8;
const MOST_TEXT = 20_000;

interface TensorText {
  readonly data: readonly unknown[];
  readonly shape: readonly number[];
}

const MOST_ANSWERS = 10;

/** @param body of the answer. @throws Error when it is none */
export function shownAnswer(body: string, outputs: readonly PortFacts[]): Shown[] {
  const { predictions }: { predictions?: readonly unknown[] } = JSON.parse(body);
  if (!Array.isArray(predictions))
    throw new Error('the service answered in another form than this page knows');
  const shown = predictions.slice(0, MOST_ANSWERS).flatMap((text, i) => {
    const one = shownPrediction(String(text), outputs);
    return predictions.length === 1 ? one : one.map((part) => ({ ...part, name: `${i + 1}: ${part.name}` }));
  });
  const more = predictions.length - MOST_ANSWERS;
  return more > 0 ? [...shown, shownText('more', `and ${more} more answers`)] : shown;
}

function shownPrediction(text: string, outputs: readonly PortFacts[]): Shown[] {
  const [, inner = text] = /^\{value=(.*)\}$/s.exec(text) ?? [];
  const value = parse(inner);
  if (isTensor(value)) return [shownTensor(value, outputs[0], 'answer')];
  if (Array.isArray(value) && value.length > 0 && value.every(isTensor)) {
    return value.map((one, i) => shownTensor(one, outputs[i], `output ${i + 1}`));
  }
  const classes = barsOfFilter(value, outputs);
  if (classes) return [{ name: 'answer', shape: '', kind: 'bars', bars: classes, more: 0 }];
  return [shownText('answer', inner)];
}

/** Shows a worker's answer. */
export function shownText(name: string, text: string): Shown {
  return { name, shape: '', kind: 'text', text: clipped(text) };
}

export function clipped(text: string): string {
  const more = text.length - MOST_TEXT;
  return more > 0 ? `${text.slice(0, MOST_TEXT)}\n… and ${more} characters more` : text;
}

/** JSON with several lines, if it is some. */
export function indented(text: string): string {
  try {
    // A line break is never within a text of JSON. Lists of plain values take one line.
    return JSON.stringify(parse(text), undefined, 2).replaceAll(/\[\n[^[\]{}]*?\n\s*\]/g, (list) =>
      list.replaceAll(/\n\s*/g, ' ').replace(/^\[ /, '[').replace(/ \]$/, ']'),
    );
  } catch {
    return text;
  }
}

/** Whole numbers that a number of JavaScript cannot hold stay as the text that the service wrote. */
function parse(text: string): unknown {
  return JSON.parse(text, ((_: string, value: unknown, context?: { readonly source?: string }) =>
    typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)
      ? (context?.source ?? value)
      : value) as (key: string, value: unknown) => unknown);
}

function isTensor(value: unknown): value is TensorText {
  const { data, shape }: Partial<TensorText> = Object(value);
  return Array.isArray(data) && Array.isArray(shape);
}

function shownTensor({ data, shape }: TensorText, port: PortFacts | undefined, otherwise: string): Shown {
  const name = port?.name ?? otherwise;
  const output = port && namedFor(port, shape.at(-1));
  const head = { name, shape: `[${shape.join(', ')}]` };
  const isVector = shape.filter((size) => size !== 1).length === 1;
  if (
    isVector &&
    data.length > 1 &&
    data.every((value) => typeof value === 'number') &&
    isScore(data, output)
  ) {
    const bars = data
      .map((value, i) => ({ label: labelOf(i, output), value }))
      .toSorted((a, b) => b.value - a.value);
    return {
      ...head,
      kind: 'bars',
      bars: bars.slice(0, MOST_BARS),
      more: Math.max(0, bars.length - MOST_BARS),
    };
  }
  const width = shape.at(-1) ?? 1;
  const columns = Array.from({ length: Math.min(width, MOST_COLUMNS) }, (_, i) => labelOf(i, output));
  const count = width === 0 ? 0 : data.length / width;
  const rows = Array.from({ length: Math.min(count, MOST_ROWS) }, (_row, row) =>
    columns.map((_name, column) => cellText(data[row * width + column])),
  );
  const more = data.length - rows.length * columns.length;
  return { ...head, kind: 'table', columns, rows, more };
}

/** True if numbers are amounts: not ids, not whole numbers that name a class, and not an embedding. */
function isScore(data: readonly number[], output: PortFacts | undefined): boolean {
  if (output?.names !== undefined) return true;
  const isFraction = output?.dtype.startsWith('float') ?? data.some((one) => !Number.isInteger(one));
  return isFraction && data.every((one) => one >= 0);
}

/** `[[4, 0.9], [3, 0.1]]`, with a label as the third. */
function barsOfFilter(value: unknown, outputs: readonly PortFacts[]): Bar[] | undefined {
  if (!Array.isArray(value) || value.length === 0) return undefined;
  const isPair = (one: unknown): one is [number, number, string?] =>
    Array.isArray(one) && Number.isInteger(one[0]) && typeof one[1] === 'number' && one.length <= 3;
  if (!value.every(isPair)) return undefined;
  return value.map(([index, score, label]) => ({ label: label ?? labelOf(index, outputs[0]), value: score }));
}

/** Names are those of as many values only. */
function namedFor({ names, ...port }: PortFacts, width: number | undefined): PortFacts {
  return names?.length === width ? { ...port, ...(names && { names }) } : port;
}

function labelOf(index: number, output: PortFacts | undefined): string {
  return output?.names?.[index] ?? String(index);
}

/** JSON has no NaN and no infinity: both are null. */
function cellText(value: unknown): string {
  if (typeof value === 'number') return numberText(value);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Six digits of a fraction, and those behind them that keep it from becoming a whole number; whole numbers in full. */
export function numberText(value: number): string {
  if (Number.isInteger(value)) return String(value);
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e6) return value.toExponential(3);
  let digits = 6;
  while (Number.isInteger(Number(value.toPrecision(digits)))) digits++;
  return String(Number(value.toPrecision(digits)));
}

/** The share of a bar's track that is filled, 0 to 1. Values of 0 to 1 fill a track of 1. */
export function barShare(value: number, bars: readonly Bar[]): number {
  const largest = Math.max(1, ...bars.map((bar) => Math.abs(bar.value)));
  const isShare = bars.every((bar) => bar.value >= 0 && bar.value <= 1);
  return Math.max(0, value) / (isShare ? 1 : largest);
}
