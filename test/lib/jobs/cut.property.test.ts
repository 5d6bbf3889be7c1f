/** Rows that are cut out of bytes in pieces, compared with what a parser finds in the whole text. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readCsv } from '../../../lib/codecs/csv.ts';
import { RowCutter, type TableFormat } from '../../../lib/jobs/cut.ts';
import { readCsvRow } from '../../../lib/jobs/rows.ts';
import fc from '../../support/fast-check.ts';

/** @param cuts places at which a piece ends */
function cut(text: string, format: TableFormat, cuts: readonly number[] = []): string[] {
  const bytes = Buffer.from(text);
  const places = [...new Set(cuts.map((place) => place % (bytes.length + 1)))].toSorted((a, b) => a - b);
  const rows: string[] = [];
  const cutter = new RowCutter(format);
  let begin = 0;
  let isBlank = true;
  for (const [from, to] of [0, ...places].map((place, i) => [place, places[i] ?? bytes.length] as const)) {
    const piece = bytes.subarray(from, to);
    for (let at = cutter.end(piece, 0); at !== -1; at = cutter.end(piece, at)) {
      rows.push(bytes.subarray(begin, from + at).toString());
      begin = from + at;
      cutter.begin();
    }
    isBlank = cutter.isBlank;
  }
  if (begin < bytes.length) rows.push(bytes.subarray(begin).toString());
  assert.equal(typeof isBlank, 'boolean');
  return rows;
}

const cuts = fc.array(fc.nat(400), { maxLength: 6 });
const anything = fc.string({
  unit: fc.constantFrom('a', 'é', '"', ',', ' ', '\n', '\r', '\t', '7'),
  maxLength: 60,
});
const cell = fc.string({ unit: fc.constantFrom('a', '1', '"', ',', '\n', '\r', 'ü'), maxLength: 5 });
const lineEnd = fc.constantFrom('\n', '\r\n', '\r');

function csvText(rows: readonly (readonly string[])[], end: string, isEnded: boolean): string {
  const quoted = (one: string) =>
    /[",\r\n]/.test(one) || one === '' ? `"${one.replaceAll('"', '""')}"` : one;
  return rows.map((row) => row.map(quoted).join()).join(end) + (isEnded ? end : '');
}

describe('rows', () => {
  test('of any text are the same in any pieces, and are all of it', () => {
    fc.assert(
      fc.property(anything, cuts, fc.constantFrom('csv', 'ndjson'), (text, places, format) => {
        const rows = cut(text, format, places);
        assert.deepEqual(rows, cut(text, format));
        assert.equal(rows.join(''), text);
      }),
      { numRuns: 3_000 },
    );
  });

  test('of NDJSON are its lines', () => {
    fc.assert(
      fc.property(anything, cuts, (text, places) => {
        const lines = text.split(/(?<=\n)/).filter((line) => line !== '');
        assert.deepEqual(cut(text, 'ndjson', places), lines);
      }),
    );
  });

  test('of a CSV have the cells that reading the whole of it gives', () => {
    const table = fc
      .integer({ min: 2, max: 4 })
      .chain((columns) =>
        fc.array(fc.array(cell, { minLength: columns, maxLength: columns }), { minLength: 1, maxLength: 6 }),
      );
    fc.assert(
      fc.property(table, lineEnd, fc.boolean(), cuts, (rows, end, isEnded, places) => {
        const columns = (rows[0] ?? []).map((_, i) => `c${i}`);
        const text = csvText([columns, ...rows], end, isEnded);
        const [, ...found] = cut(text, 'csv', places);
        const whole = readCsv(text).rows.map(({ cells }) => cells);
        const cells = found.map((row) => {
          const slot = readCsvRow(Buffer.from(row), columns);
          assert.ok(!(slot instanceof Error), JSON.stringify(row));
          return [...slot.values()].map((value) => (value.kind === 'json' ? value.value : undefined));
        });
        assert.deepEqual(cells, whole);
      }),
      { numRuns: 2_000 },
    );
  });

  test('of a CSV that cannot be read end at a line break outside of quotes, so that the next row is whole', () => {
    assert.deepEqual(cut('1,a"b\n2,c\n', 'csv'), ['1,a"b\n', '2,c\n']);
    assert.deepEqual(cut('"1" x,"a\n2",c\n3,d', 'csv'), ['"1" x,"a\n2",c\n', '3,d']);
    assert.deepEqual(cut('"1"x"\n2,c\n', 'csv'), ['"1"x"\n', '2,c\n']);
  });
});
