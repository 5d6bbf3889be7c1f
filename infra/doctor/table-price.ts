/** The price of a table of results by use; test/lib/table/units.test.ts measures the units. */
import type { JobConfig } from '../../lib/config/job.ts';
import { USE_PRICES } from '../../lib/contract/prices.ts';

/**
 * Units of a record with an answer of 10 numbers that is announced, answered and read once by its uri: writes of 1 KB, of the item and
 * of its place in the index, and consistent reads of 4 KB.
 */
export const TABLE_UNITS = { writes: 3, reads: 3 } as const;

/** Dollars for a million records, without what they store. */
export function tableMillion(): number {
  const { tableWritesPerMillion, tableReadsPerMillion } = USE_PRICES;
  return TABLE_UNITS.writes * tableWritesPerMillion + TABLE_UNITS.reads * tableReadsPerMillion;
}

const GB = 1e9;
const DAY_SECONDS = 86_400;
/** Bytes that are stored of a record with an answer of 10 numbers. They stay until no message can be left that would run, taken or not. */
export const ITEM_BYTES = 1_100;

/** Dollars a month. @param perDay records of a day, whose items stay */
export function tablePriceOf(
  millions: number,
  perDay: number,
  { resultTtlSeconds, queue }: JobConfig,
): number {
  const days =
    Math.max(5 * DAY_SECONDS, queue.retentionSeconds + DAY_SECONDS, resultTtlSeconds) / DAY_SECONDS;
  return millions * tableMillion() + ((perDay * days * ITEM_BYTES) / GB) * USE_PRICES.tableGBMonth;
}
