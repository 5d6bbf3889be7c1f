/**
 * Parts: the answers to some rows that follow each other. The name of a part says which, so that a listing of names shows how far a job
 * is, and nothing has to be counted anywhere else. A message that was delivered twice may leave parts that overlap.
 */

export interface Part {
  /** The place of the file, or of the group of pictures, in the job. */
  readonly unit: number;
  /** The first row, from 0. */
  readonly row: number;
  readonly rows: number;
  /** Rows whose answer is an error. */
  readonly errors: number;
  /** The time of the function. */
  readonly ms: number;
  /** Bytes at the end that are not for the results: the errors of a batch, which have a file of their own. */
  readonly apart?: number;
}

export interface StoredPart extends Part {
  readonly name: string;
  readonly bytes: number;
}

const NAME = /^(\d{6})\/(\d{12})-(\d{1,9})-(\d{1,9})-(\d{1,9})(?:-(\d{1,12}))?$/;

export function unitName(unit: number): string {
  return String(unit).padStart(6, '0');
}

/** In the order of names, the rows of a unit follow each other. */
export function rowName(unit: number, row: number): string {
  return `${unitName(unit)}/${String(row).padStart(12, '0')}-`;
}

export function partName({ unit, row, rows, errors, ms, apart = 0 }: Part): string {
  return `${rowName(unit, row)}${rows}-${errors}-${Math.round(ms)}${apart === 0 ? '' : `-${apart}`}`;
}

export function readPart(name: string, bytes: number): StoredPart | undefined {
  const numbers = NAME.exec(name)
    ?.slice(1)
    .map((text: string | undefined) => Number(text ?? 0));
  if (!numbers) return undefined;
  const [unit = 0, row = 0, rows = 0, errors = 0, ms = 0, apart = 0] = numbers;
  return rows === 0 ? undefined : { unit, row, rows, errors, ms, apart, name, bytes };
}

/** The first row from `row` on that no part has. @param parts of the unit */
export function reached(parts: readonly Part[], row: number): number {
  const longest = new Map<number, number>();
  for (const part of parts) longest.set(part.row, Math.max(part.rows, longest.get(part.row) ?? 0));
  let at = row;
  for (let rows = longest.get(at); rows !== undefined; rows = longest.get(at)) at += rows;
  return at;
}

/**
 * Parts that have each of `rows` rows once, in order; undefined when some are missing.
 * @param parts of the unit, in the order of their names
 */
export function path(parts: readonly StoredPart[], rows: number): StoredPart[] | undefined {
  // From the end: of parts that overlap, one may lead to a row at which none begins.
  const leads = new Map<number, StoredPart>();
  for (const part of parts.toReversed()) {
    const end = part.row + part.rows;
    if (end === rows || leads.has(end)) leads.set(part.row, part);
  }
  const found: StoredPart[] = [];
  for (let at = 0; at < rows; ) {
    const part = leads.get(at);
    if (!part) return undefined;
    found.push(part);
    at += part.rows;
  }
  return found;
}

/** The sums of parts, each row counted once. @param parts of all units, in the order of their names */
export function covered(parts: readonly StoredPart[]): { rows: number; errors: number; ms: number } {
  const sum = { rows: 0, errors: 0, ms: 0 };
  let [unit, end] = [-1, 0];
  for (const part of parts) {
    if (part.unit !== unit) [unit, end] = [part.unit, 0];
    const last = part.row + part.rows;
    sum.ms += part.ms;
    if (part.row >= end) sum.errors += part.errors;
    sum.rows += Math.max(0, last - Math.max(end, part.row));
    end = Math.max(end, last);
  }
  return sum;
}
