/** Judges docs/tasks/17-go-back.md. */
import { check, read } from './judge.mjs';

const rows = (await read('versions.txt')).split('\n').filter((line) => /^[0-9a-f]{12}\b/.test(line));
check(rows.length >= 2, 'there are two versions', rows);
const serving = rows.filter((row) => row.includes('<- serves'));
check(serving.length === 1 && serving[0].startsWith('d7d8cddf99ba'), 'the version before serves', rows);
