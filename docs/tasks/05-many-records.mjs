/** Judges docs/tasks/05-many-records.md. */
import { best, check, get, json } from './judge.mjs';

const { accepted, refused } = await json('accepted.json');
check(accepted === 2 && refused === 0, 'two records were accepted', { accepted, refused });
for (const n of [3, 7]) {
  const { outputs } = await get(`/predictions/digit-${n}`, { prefer: 'wait=10' });
  check(best(outputs?.[0]?.data) === n, `digit-${n} is a ${n}`, outputs);
}
