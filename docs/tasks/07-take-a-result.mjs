/** Judges docs/tasks/07-take-a-result.md. */
import { best, check, get, json } from './judge.mjs';

const { status, outputs } = await json('once.json');
check(status === 'succeeded' && best(outputs?.[0]?.data) === 5, 'once.json is the result of a 5', {
  status,
  outputs,
});
const { code } = await get('/predictions/once');
check(code === 'not_found', 'the result is gone', { code });
