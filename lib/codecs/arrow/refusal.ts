/**
 * A text for readers that take every result for an Arrow stream of numbers, as the Python client of Analytics Zoo Cluster
 * Serving does: where a result is too large for Redis, it must raise an error that says so, and never return numbers. It
 * asks for the values of the column `shape`, and this stream says that they are times in a time zone, for which pyarrow
 * looks by its name: that name is the text, and the error quotes it.
 */

// Written by pyarrow: a batch of one row, NaN and a time; the name of the zone was cut out between the two.

const BEFORE = Buffer.from(
  '/////6ABAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAEAAAAyP///wQAAAACAAAARAEAAAQAAADU/v//AAABChAAAAAgAAAABAAAAAAAAAAF' +
    'AAAAc2hhcGUAAAAIAAgAAAAEAAgAAAAEAAAA8AAAAA==',
  'base64',
);
const AFTER = Buffer.from(
  'AAAAABAAFAAIAAYABwAMAAAAEAAQAAAAAAABAxAAAAAcAAAABAAAAAAAAAAEAAAAZGF0YQAABgAIAAYABgAAAAAAAQAAAAAA/////7gAAAAU' +
    'AAAAAAAAAAwAFgAGAAUACAAMAAwAAAAAAwQAGAAAABAAAAAAAAAAAAAKABgADAAEAAgACgAAAFwAAAAQAAAAAQAAAAAAAAAAAAAABAAAAAAA' +
    'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQAAAAAAAAACAAAAAAAAAAAAAAAAAAAAAgAAAAAAAAACAAAAAAAAAAAAAAAAgAAAAEAAAAAAAAAAAAA' +
    'AAAAAAABAAAAAAAAAAAAAAAAAAAAAADAfwAAAAAAAAAAAAAAAP////8AAAAA',
  'base64',
);
/** The length of the name. */
const TEXT_BYTES = 240;

/** @param text ASCII; what is over 240 characters is cut off */
export function encodeRefusal(text: string): Uint8Array {
  const name = Buffer.from(text.slice(0, TEXT_BYTES).padEnd(TEXT_BYTES), 'latin1');
  return Buffer.concat([BEFORE, name, AFTER]);
}
