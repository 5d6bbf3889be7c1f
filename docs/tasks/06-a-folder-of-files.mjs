/** Judges docs/tasks/06-a-folder-of-files.md. */
import { best, check, read } from './judge.mjs';

const lines = (await read('answers.ndjson'))
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line));
check(lines.length === 10, 'there are ten lines', lines.length);
for (const [n, { file, outputs }] of lines.entries()) {
  check(file.endsWith(`digit-${n}.png`), `line ${n + 1} is of digit-${n}.png`, file);
  check(best(outputs.probabilities.flat()) === n, `digit-${n}.png is a ${n}`, outputs);
}
