/**
 * fast-check with one seed for all properties, so that a failing test is about the change that it fails for. Another
 * seed is tried with `FAST_CHECK_SEED=2 npm test`, and more cases with `FAST_CHECK_RUNS=3000`.
 */
import fc from 'fast-check';

const { FAST_CHECK_SEED: seed = '20261123', FAST_CHECK_RUNS: runs } = process.env;
fc.configureGlobal({ seed: Number(seed), ...(runs !== undefined && { numRuns: Number(runs) }) });

const SURROGATES = 0xd800;
const AFTER_SURROGATES = 0xe000;
const CHARACTERS = 0x110000 - (AFTER_SURROGATES - SURROGATES);

function characterAt(place: number): string {
  return String.fromCodePoint(place < SURROGATES ? place : place + AFTER_SURROGATES - SURROGATES);
}

/**
 * Any character, as `unit: 'binary'`, which keeps a table of all 1,112,064 of them: a second of processor time and 90 MB that
 * each garbage collection visits again.
 */
export const character: fc.Arbitrary<string> = fc.nat({ max: CHARACTERS - 1 }).map(characterAt, (text) => {
  const point = (typeof text === 'string' && text.codePointAt(0)) || 0;
  const place = point < SURROGATES ? point : point - (AFTER_SURROGATES - SURROGATES);
  if (characterAt(place) !== text) throw new Error('expected one character');
  return place;
});

export default fc;
